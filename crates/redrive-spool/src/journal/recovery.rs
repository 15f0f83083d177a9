//! Opening a folder: what is whole is kept, what is torn is cut, what is damaged is set aside.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::frame::Kind;
use super::segment::{self, Scan, Segment};
use super::state::State;
use crate::error::Error;
use crate::filesystem::Filesystem;

/// Where damaged bytes are kept.
const DAMAGED: &str = "damaged";

/// What opening a journal found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Records that wait to be acknowledged.
    pub records: u64,
    /// Bytes that were no whole record, and the files that now keep them.
    pub damaged: Vec<Damaged>,
}

/// Bytes that could not be read as records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damaged {
    /// Whether they were the end of a segment. That is what a write looks like that a crash interrupted,
    /// and nobody was told of; in the middle it is damage.
    pub at_end: bool,
    /// How many.
    pub bytes: u64,
    /// Where they are kept, byte for byte.
    pub kept: PathBuf,
}

/// Reads the folder.
pub(super) fn recover(filesystem: &dyn Filesystem, dir: &Path) -> Result<(State, Recovery), Error> {
    let mut state = State { next: 1, ..State::default() };
    let mut recovery = Recovery::default();
    for first in firsts(filesystem, dir)? {
        recover_segment(filesystem, dir, first, &mut state, &mut recovery)?;
    }
    filesystem.sync_dir(dir).map_err(Error::io("sync", dir))?;
    recovery.records = state.stats().records;
    Ok((state, recovery))
}

/// The first numbers of the segments, in order.
fn firsts(filesystem: &dyn Filesystem, dir: &Path) -> Result<Vec<u64>, Error> {
    let mut firsts = Vec::new();
    for name in filesystem.names(dir).map_err(Error::io("list", dir))? {
        let name = name.map_err(Error::io("list", dir))?;
        firsts.extend(name.to_str().and_then(Segment::number_of));
    }
    firsts.sort_unstable();
    Ok(firsts)
}

fn recover_segment(
    filesystem: &dyn Filesystem,
    dir: &Path,
    first: u64,
    state: &mut State,
    recovery: &mut Recovery,
) -> Result<(), Error> {
    let path = Segment::path(dir, first);
    let bytes = filesystem.read(&path).map_err(Error::io("read", &path))?;
    let scan = segment::scan(&bytes);
    for range in &scan.damaged {
        recovery.damaged.extend(set_aside(filesystem, dir, first, &bytes, range.clone(), false)?);
    }
    recovery.damaged.extend(set_aside(filesystem, dir, first, &bytes, scan.end..bytes.len(), true)?);
    cut(filesystem, &path, scan.end, bytes.len())?;
    let last = learn(state, first, &bytes, &scan);
    if scan.frames.is_empty() {
        return filesystem.remove(&path).map_err(Error::io("remove", &path));
    }
    state.segments.push_back(Segment { first, last, length: scan.end as u64, path });
    Ok(())
}

/// Takes a segment's frames into account; returns the highest number that it may hold.
///
/// A number that no whole record has is nobody's: its write failed, or it is among the damaged.
fn learn(state: &mut State, first: u64, bytes: &[u8], scan: &Scan) -> u64 {
    let mut expected = state.next;
    state.next = state.next.max(first);
    for frame in &scan.frames {
        match frame.kind {
            Kind::Start => {}
            Kind::Record => {
                state.acknowledged.add(expected, frame.number - 1);
                expected = frame.number + 1;
                state.next = state.next.max(expected);
            }
            Kind::Acknowledged => {
                state.acknowledged.learn(frame.number, &bytes[frame.payload.clone()]);
                state.next = state.next.max(state.acknowledged.highest() + 1);
            }
        }
    }
    // The number in its name is used up, whatever became of it: a new segment must have another name.
    state.next = state.next.max(first + 1);
    state.acknowledged.add(expected, state.next - 1);
    state.next - 1
}

/// Keeps bytes that are no records, under a name that says where they were. Zeros say nothing.
fn set_aside(
    filesystem: &dyn Filesystem,
    dir: &Path,
    segment: u64,
    bytes: &[u8],
    range: Range<usize>,
    at_end: bool,
) -> Result<Option<Damaged>, Error> {
    let damaged = &bytes[range.clone()];
    if damaged.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let folder = dir.join(DAMAGED);
    let kept = folder.join(format!("{segment:020}-{}.bin", range.start));
    keep(filesystem, dir, &folder, &kept, damaged)?;
    tracing::warn!(kept = %kept.display(), bytes = damaged.len(), at_end, "bytes of the journal that are no whole record are set aside");
    Ok(Some(Damaged { at_end, bytes: damaged.len() as u64, kept }))
}

fn keep(
    filesystem: &dyn Filesystem,
    dir: &Path,
    folder: &Path,
    kept: &Path,
    bytes: &[u8],
) -> Result<(), Error> {
    filesystem.create_dir_all(folder).map_err(Error::io("create", folder))?;
    // An earlier start may have been interrupted here.
    let _ = filesystem.remove(kept);
    let mut file = filesystem.create(kept).map_err(Error::io("create", kept))?;
    file.append(bytes).map_err(Error::io("write", kept))?;
    file.sync().map_err(Error::io("sync", kept))?;
    filesystem.sync_dir(folder).map_err(Error::io("sync", folder))?;
    filesystem.sync_dir(dir).map_err(Error::io("sync", dir))
}

/// Cuts what follows the last whole frame, and makes what is left durable: a killed process may have left
/// it in memory only.
fn cut(filesystem: &dyn Filesystem, path: &Path, end: usize, length: usize) -> Result<(), Error> {
    let mut file = filesystem.open(path).map_err(Error::io("open", path))?;
    if end < length {
        file.truncate(end as u64).map_err(Error::io("truncate", path))?;
    }
    file.sync().map_err(Error::io("sync", path))
}
