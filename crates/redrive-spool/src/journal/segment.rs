//! One file of the journal, and how it is read after a crash.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::frame::{self, Found, Frame, Kind};

const EXTENSION: &str = ".journal";
/// What is added while it holds nothing that anybody was answered for.
const UNNAMED: &str = ".new";

/// A segment as the journal knows it.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    /// The number that its first record has, or would have.
    pub(super) first: u64,
    /// The highest number in use when it was last written.
    pub(super) last: u64,
    /// How much of it is whole and durable.
    pub(super) length: u64,
    pub(super) path: PathBuf,
}

impl Segment {
    pub(super) fn path(dir: &Path, first: u64) -> PathBuf {
        dir.join(format!("{first:020}{EXTENSION}"))
    }

    /// Where it is begun. It gets its name when its first frames are durable: one that has its name and holds
    /// nothing was damaged.
    pub(super) fn unnamed(path: &Path) -> PathBuf {
        let mut name = path.as_os_str().to_owned();
        name.push(UNNAMED);
        name.into()
    }

    /// Whether this is the name of a segment that was only begun.
    pub(super) fn is_unnamed(name: &str) -> bool {
        name.strip_suffix(UNNAMED).and_then(Self::number_of).is_some()
    }

    /// The first number of a segment, from the name of its file.
    pub(super) fn number_of(name: &str) -> Option<u64> {
        let digits = name.strip_suffix(EXTENSION)?;
        if digits.len() == 20 { digits.parse().ok() } else { None }
    }
}

/// What a segment holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Scan {
    /// Whole frames, in order.
    pub(super) frames: Vec<Frame>,
    /// Stretches between whole frames that are none.
    pub(super) damaged: Vec<Range<usize>>,
    /// Where the last whole frame ends.
    pub(super) end: usize,
}

/// Reads a segment. Damage in the middle is stepped over; after the last whole frame nothing counts.
pub(super) fn scan(bytes: &[u8]) -> Scan {
    let mut scan = Scan::default();
    let mut at = 0;
    while let Some((frame, start)) = next_whole(bytes, at, highest(&scan)) {
        if start > at {
            scan.damaged.push(at..start);
        }
        at = frame.payload.end;
        scan.end = at;
        scan.frames.push(frame);
    }
    scan
}

/// The first whole frame at this place or after it, and where it starts.
fn next_whole(bytes: &[u8], mut at: usize, above: u64) -> Option<(Frame, usize)> {
    loop {
        at = match frame::decode(bytes, at) {
            Found::Whole(frame) if frame.kind != Kind::Record || frame.number > above => {
                return Some((frame, at));
            }
            // The header is trusted: what looks like a frame inside the payload is not one.
            Found::DamagedPayload(end) => end,
            Found::Whole(frame) => frame.payload.end,
            Found::Cut => return None,
            Found::Nothing => frame::next_marker(bytes, at)?,
        };
    }
}

fn highest(scan: &Scan) -> u64 {
    let records = scan.frames.iter().rev().filter(|frame| frame.kind == Kind::Record);
    records.map(|frame| frame.number).next().unwrap_or_default()
}
