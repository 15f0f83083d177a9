//! One file of the journal, and how it is read after a crash.

use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};

use super::frame::{self, Found, Frame, Kind};

const EXTENSION: &str = ".journal";
/// What is added while it holds nothing that anybody was answered for.
const UNNAMED: &str = ".new";
/// The numbers that records have: what is added to one of them stays a number.
const NUMBERS: RangeInclusive<u64> = 1..=u64::MAX / 2;

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
    /// Whether something in it is not whole, and that was told when the journal was opened.
    pub(super) has_holes: bool,
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

    /// The first number of a segment, from the name of its file. A number that no journal gives is nobody's.
    pub(super) fn number_of(name: &str) -> Option<u64> {
        let digits = name.strip_suffix(EXTENSION).filter(|digits| digits.len() == 20)?;
        digits.parse().ok().filter(|number| NUMBERS.contains(number))
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
    /// From here on the last write goes. The first frame is durable before a segment has its name, so without
    /// it nothing is known.
    last_write: Option<usize>,
}

impl Scan {
    /// Whether an interrupted write explains that something at this place is not whole.
    pub(super) fn is_torn(&self, place: usize) -> bool {
        self.last_write.is_some_and(|start| place >= start)
    }
}

/// Reads a segment. Damage in the middle is stepped over; after the last whole frame nothing counts.
pub(super) fn scan(bytes: &[u8]) -> Scan {
    let mut scan = Scan::default();
    let (mut at, mut highest) = (0, 0);
    while let Some((frame, start)) = next_whole(bytes, at, highest) {
        if start > at {
            scan.damaged.push(at..start);
        }
        if frame.kind == Kind::Record {
            highest = frame.number;
        }
        at = frame.payload.end;
        scan.end = at;
        if frame.index == 0 {
            scan.last_write = Some(at);
        }
        scan.frames.push(frame);
    }
    scan
}

/// The first whole frame at this place or after it, and where it starts. A record whose number is not above
/// that of the last one is a copy, and none.
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
