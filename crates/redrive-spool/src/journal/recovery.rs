//! Opening a folder: what is whole is kept, what is torn is cut, what is damaged is set aside.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::frame::Kind;
use super::mark::Mark;
use super::segment::{self, Scan, Segment};
use super::state::State;
use super::{Position, Span};
use crate::error::Error;
use crate::filesystem::{Filesystem, write_anew};

/// Where damaged bytes are kept.
const DAMAGED: &str = "damaged";

/// What opening a journal found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Records that wait to be acknowledged.
    pub records: u64,
    /// The highest number in use: what comes later was appended since.
    pub last: Position,
    /// What was not as it should be.
    pub damaged: Vec<Damaged>,
}

/// Something that was not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damaged {
    /// What it is.
    pub kind: Damage,
    /// How many bytes.
    pub bytes: u64,
    /// Where they are kept, byte for byte; nowhere, if there are none but zeros.
    pub kept: Option<PathBuf>,
}

/// What was not as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// Something in the last write of a segment is no whole record. That is what a write looks like that a crash
    /// interrupted, and nobody was answered for; damage to the last write looks the same.
    Unfinished,
    /// Bytes that were records once are none any more, or a whole segment is empty.
    Damaged,
    /// Records from one place to another are gone, and nobody acknowledged them.
    Missing(Span),
}

impl Damaged {
    /// Whether no crash explains it.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        self.kind != Damage::Unfinished
    }

    /// How many records are lost, as far as anybody can tell.
    #[must_use]
    pub fn records(&self) -> u64 {
        match self.kind {
            Damage::Unfinished | Damage::Damaged => 0,
            Damage::Missing(span) => span.last.0 - span.first.0 + 1,
        }
    }
}

impl fmt::Display for Damaged {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.bytes;
        match self.kind {
            Damage::Unfinished => write!(
                formatter,
                "{bytes} bytes in the last write of a file of the journal are no whole record: a write that was \
                 interrupted, and nobody was answered for, or damage"
            ),
            Damage::Damaged if self.kept.is_none() => {
                write!(formatter, "{bytes} bytes of the journal are zeros, or a file of it is empty")
            }
            Damage::Damaged => write!(formatter, "{bytes} bytes of the journal are damaged"),
            Damage::Missing(Span { first, last }) => {
                let (first, last) = (first.0, last.0);
                write!(
                    formatter,
                    "records {first} to {last} of the journal are gone, and nobody had them yet"
                )
            }
        }?;
        match &self.kept {
            Some(kept) => write!(formatter, "; the bytes are kept as {}", kept.display()),
            None => Ok(()),
        }
    }
}

/// Reads the folder.
pub(super) fn recover(filesystem: &dyn Filesystem, dir: &Path) -> Result<(State, Recovery), Error> {
    let state = State { next: 1, ..State::default() };
    let firsts = firsts(filesystem, dir)?;
    let newest = firsts.last().copied().unwrap_or_default();
    let mut opening =
        Opening { filesystem, dir, newest, state, numbers: Numbers::default(), damaged: Vec::new() };
    for first in firsts {
        opening.segment(first)?;
    }
    if let Some(mark) = Mark::read(filesystem, dir) {
        opening.compare(mark);
    }
    filesystem.sync_dir(dir).map_err(Error::io("sync", dir))?;
    let Opening { mut state, numbers, mut damaged, .. } = opening;
    damaged.extend(numbers.settle(&mut state));
    let recovery = Recovery { records: state.stats().records, last: Position(state.next - 1), damaged };
    Ok((state, recovery))
}

/// The first numbers of the segments, in order. Those that were only begun go.
fn firsts(filesystem: &dyn Filesystem, dir: &Path) -> Result<Vec<u64>, Error> {
    let mut firsts = Vec::new();
    for name in filesystem.names(dir).map_err(Error::io("list", dir))? {
        let name = name.map_err(Error::io("list", dir))?;
        let Some(name) = name.as_file() else { continue };
        firsts.extend(Segment::number_of(name));
        if Segment::is_unnamed(name) {
            let path = dir.join(name);
            filesystem.remove(&path).map_err(Error::io("remove", &path))?;
        }
    }
    firsts.sort_unstable();
    Ok(firsts)
}

/// A folder of which some segments are read.
struct Opening<'a> {
    filesystem: &'a dyn Filesystem,
    dir: &'a Path,
    /// The last segment: what was written last is in it.
    newest: u64,
    state: State,
    numbers: Numbers,
    damaged: Vec<Damaged>,
}

impl Opening<'_> {
    /// Reads the segment that comes next.
    fn segment(&mut self, first: u64) -> Result<(), Error> {
        let path = Segment::path(self.dir, first);
        let bytes = self.filesystem.read(&path).map_err(Error::io("read", &path))?;
        let scan = segment::scan(&bytes);
        for range in &scan.damaged {
            let kind = if scan.is_torn(range.start) { Damage::Unfinished } else { Damage::Damaged };
            self.set_aside(first, &bytes, range.clone(), kind)?;
        }
        if scan.frames.is_empty() {
            // It had its name, so it held something.
            self.set_aside(first, &bytes, 0..bytes.len(), Damage::Damaged)?;
            self.numbers.emptied = first;
            return self.filesystem.remove(&path).map_err(Error::io("remove", &path));
        }
        if scan.end < bytes.len() {
            self.set_aside(first, &bytes, scan.end..bytes.len(), Damage::Unfinished)?;
        }
        self.cut(&path, scan.end, bytes.len())?;
        let last = self.learn(first, &bytes, &scan);
        let has_holes = !scan.damaged.is_empty();
        self.state.segments.push_back(Segment { first, last, length: scan.end as u64, path, has_holes });
        Ok(())
    }

    /// What the mark says was durable, and no segment has: the end of the last one was cut, or all of it is gone.
    fn compare(&mut self, mark: Mark) {
        // An earlier version, which knows of no mark, may have gone on in a newer segment.
        if self.newest > mark.segment || self.state.next >= mark.next {
            return;
        }
        self.numbers.gap(self.state.next.max(mark.up_to + 1), mark.next);
        self.numbers.nobodys.push((self.state.next, mark.next - 1));
        self.state.next = mark.next;
    }

    /// Keeps bytes that are no records, under a name that says where they were. Zeros are not worth keeping.
    fn set_aside(
        &mut self,
        segment: u64,
        bytes: &[u8],
        range: Range<usize>,
        kind: Damage,
    ) -> Result<(), Error> {
        let damaged = &bytes[range.clone()];
        let is_kept = damaged.iter().any(|byte| *byte != 0);
        let kept = is_kept.then(|| self.dir.join(DAMAGED).join(format!("{segment:020}-{}.bin", range.start)));
        if let Some(kept) = &kept {
            self.keep(kept, damaged)?;
        }
        self.damaged.push(Damaged { kind, bytes: damaged.len() as u64, kept });
        Ok(())
    }

    fn keep(&self, kept: &Path, bytes: &[u8]) -> Result<(), Error> {
        let folder = self.dir.join(DAMAGED);
        self.filesystem.create_dir_all(&folder).map_err(Error::io("create", &folder))?;
        write_anew(self.filesystem, kept, bytes)?;
        for dir in [folder.as_path(), self.dir] {
            self.filesystem.sync_dir(dir).map_err(Error::io("sync", dir))?;
        }
        Ok(())
    }

    /// Cuts what follows the last whole frame, and makes what is left durable: a killed process may have left
    /// it in memory only.
    fn cut(&self, path: &Path, end: usize, length: usize) -> Result<(), Error> {
        let mut file = self.filesystem.open(path).map_err(Error::io("open", path))?;
        if end < length {
            file.truncate(end as u64).map_err(Error::io("truncate", path))?;
        }
        file.sync().map_err(Error::io("sync", path))
    }

    /// Takes a segment's frames into account; returns the highest number that it may hold.
    fn learn(&mut self, first: u64, bytes: &[u8], scan: &Scan) -> u64 {
        let (state, numbers) = (&mut self.state, &mut self.numbers);
        // Which numbers are nobody's in an older one, newer ones say.
        let is_newest = first == self.newest;
        // What was before the first segment is acknowledged: that is why it is gone.
        let mut expected = if state.segments.is_empty() { first } else { state.next };
        numbers.nobodys.push((state.next, expected - 1));
        state.next = state.next.max(first);
        for frame in &scan.frames {
            match frame.kind {
                Kind::Start => {
                    numbers.gap(expected, frame.number);
                    expected = expected.max(frame.number);
                    state.next = state.next.max(expected);
                }
                Kind::Record => {
                    // Of the write that it belongs to itself, if that is the last one.
                    let own = frame.number.saturating_sub(frame.index.into()).max(expected);
                    if is_newest && scan.is_torn(frame.payload.start) {
                        numbers.torn.extend(between(own, frame.number));
                    }
                    numbers.gap(expected, frame.number);
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
        numbers.nobodys.push((expected, state.next - 1));
        state.next - 1
    }
}

/// Numbers that no whole record has.
#[derive(Default)]
struct Numbers {
    /// Between records, or between segments: an append that failed, which the next frame says is acknowledged;
    /// or records that are gone.
    gaps: Vec<(u64, u64)>,
    /// Used up without a record.
    nobodys: Vec<(u64, u64)>,
    /// Of a write that was interrupted, with whole records after them.
    torn: Vec<(u64, u64)>,
    /// The name of the last segment that held nothing.
    emptied: u64,
}

impl Numbers {
    /// One number was expected, and a later one found.
    fn gap(&mut self, expected: u64, found: u64) {
        self.gaps.extend(between(expected, found));
    }

    /// None of them is waited for. Returns those that are gone, which is written down: it is told once.
    fn settle(mut self, state: &mut State) -> Vec<Damaged> {
        self.step_over_emptied(state);
        for (first, last) in std::mem::take(&mut self.torn) {
            state.untold |= !state.acknowledged.lacking(first, last).is_empty();
            state.acknowledged.add(first, last);
        }
        let lacking = self.gaps.iter().flat_map(|(first, last)| state.acknowledged.lacking(*first, *last));
        let gone: Vec<(u64, u64)> = lacking.collect();
        state.untold |= !gone.is_empty();
        for (first, last) in self.gaps.into_iter().chain(self.nobodys) {
            state.acknowledged.add(first, last);
        }
        let missing = |(first, last)| {
            let span = Span { first: Position(first), last: Position(last) };
            Damaged { kind: Damage::Missing(span), bytes: 0, kept: None }
        };
        gone.into_iter().map(missing).collect()
    }

    /// A new segment must have another name; and what comes before that name was used.
    fn step_over_emptied(&mut self, state: &mut State) {
        if self.emptied < state.next {
            return;
        }
        if !state.segments.is_empty() {
            self.gap(state.next, self.emptied);
        }
        self.nobodys.push((state.next, self.emptied));
        state.next = self.emptied + 1;
    }
}

/// The numbers from the one that was expected to the one that was found.
fn between(expected: u64, found: u64) -> Option<(u64, u64)> {
    (expected < found).then(|| (expected, found - 1))
}
