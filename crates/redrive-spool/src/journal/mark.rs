//! The mark: how far the journal was durable, kept beside the segments.
//!
//! A segment that is cut at the end of a write, or is gone, looks like one that was never written: nobody would learn
//! that what was answered for is lost. So after each write the mark says how far it came. It is not synced by itself:
//! after a loss of power it may say less than there is, and never more.
//!
//! # On disk
//! A file `mark` of entries, the last whole one counts. Numbers are little-endian, the checksum is CRC-32 (IEEE).
//! ```text
//!  0  8  the first number of the segment
//!  8  8  the number that comes next
//! 16  8  up to which number everything is acknowledged
//! 24  4  checksum of bytes 0 to 24
//! ```
//! A journal of an earlier version has none, and nothing is known of it.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::state::State;
use crate::filesystem::{File, Filesystem};

/// The name of the file.
const NAME: &str = "mark";
const ENTRY: usize = 28;
/// After so many bytes it is begun anew.
const LONGEST: usize = 64 << 10;

/// How far a journal was durable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// The first number of its last segment.
    pub(super) segment: u64,
    /// The number that comes next.
    pub(super) next: u64,
    /// Everything up to this number is acknowledged.
    pub(super) up_to: u64,
}

impl Mark {
    /// Of a journal in this state; nothing while it has no segment.
    pub(super) fn of(state: &State) -> Option<Self> {
        let segment = state.segments.back().filter(|segment| segment.length > 0)?;
        Some(Self { segment: segment.first, next: state.next, up_to: state.acknowledged.up_to() })
    }

    /// The mark of the journal in this folder, if it has one.
    pub(super) fn read(filesystem: &dyn Filesystem, dir: &Path) -> Option<Self> {
        let bytes = filesystem.read(&dir.join(NAME)).ok()?;
        bytes.chunks_exact(ENTRY).rev().find_map(Self::decode)
    }

    fn decode(entry: &[u8]) -> Option<Self> {
        let number = |at: usize| Some(u64::from_le_bytes(entry.get(at..at + 8)?.try_into().ok()?));
        let checksum = u32::from_le_bytes(entry.get(24..ENTRY)?.try_into().ok()?);
        let mark = Self { segment: number(0)?, next: number(8)?, up_to: number(16)? };
        let is_sane = mark.segment < mark.next && mark.up_to < mark.next && mark.next <= u64::MAX / 2;
        (crc32fast::hash(&entry[..24]) == checksum && is_sane).then_some(mark)
    }

    fn encode(self) -> Vec<u8> {
        let mut entry: Vec<u8> =
            [self.segment, self.next, self.up_to].iter().flat_map(|number| number.to_le_bytes()).collect();
        entry.extend(crc32fast::hash(&entry).to_le_bytes());
        entry
    }
}

/// The file of the mark, as the writer of the journal has it.
pub(super) struct MarkFile {
    path: PathBuf,
    file: Option<Box<dyn File>>,
    length: usize,
}

impl MarkFile {
    pub(super) fn new(dir: &Path) -> Self {
        Self { path: dir.join(NAME), file: None, length: 0 }
    }

    /// Writes down how far the journal is. A disk that does not take it costs the mark, and no record.
    pub(super) fn write(&mut self, filesystem: &dyn Filesystem, mark: Mark) {
        if let Err(error) = self.try_write(filesystem, mark) {
            self.file = None;
            tracing::debug!(mark = %self.path.display(), %error, "the journal goes on without a mark");
        }
    }

    /// Forgets it, durably: the last segment goes, and that is no loss.
    pub(super) fn clear(&mut self, filesystem: &dyn Filesystem) -> io::Result<()> {
        let file = self.open(filesystem)?;
        file.truncate(0)?;
        file.sync()?;
        self.length = 0;
        Ok(())
    }

    fn try_write(&mut self, filesystem: &dyn Filesystem, mark: Mark) -> io::Result<()> {
        let is_full = self.length + ENTRY > LONGEST;
        let file = self.open(filesystem)?;
        if is_full {
            file.truncate(0)?;
        }
        file.append(&mark.encode())?;
        self.length = if is_full { ENTRY } else { self.length + ENTRY };
        Ok(())
    }

    /// Begins anew with the first use: what a process before this one left is as good as its last entry, and may end
    /// within one.
    fn open(&mut self, filesystem: &dyn Filesystem) -> io::Result<&mut Box<dyn File>> {
        if self.file.is_none() {
            let mut file = match filesystem.open(&self.path) {
                Ok(file) => file,
                Err(error) if error.kind() == ErrorKind::NotFound => filesystem.create(&self.path)?,
                Err(error) => return Err(error),
            };
            file.truncate(0)?;
            self.length = 0;
            self.file = Some(file);
        }
        self.file.as_mut().ok_or_else(|| ErrorKind::NotFound.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ModelDisk;

    #[test]
    fn the_last_whole_entry_counts() {
        let (disk, dir) = (ModelDisk::default(), Path::new("/journal"));
        let mut file = MarkFile::new(dir);
        assert_eq!(Mark::read(&disk, dir), None);
        let mark = |next| Mark { segment: 1, next, up_to: 0 };
        for next in 2..=5_000 {
            file.write(&disk, mark(next));
            assert_eq!(Mark::read(&disk, dir), Some(mark(next)));
        }
        let path = dir.join(NAME);
        let length = disk.size(&path).unwrap();
        assert!(length <= LONGEST as u64);
        disk.open(&path).unwrap().truncate(length - 1).unwrap();
        assert_eq!(Mark::read(&disk, dir), Some(mark(4_999)), "what is cut is not there");
        disk.open(&path).unwrap().truncate(length - 29).unwrap();
        disk.open(&path).unwrap().append(&[0; 57]).unwrap();
        assert_eq!(Mark::read(&disk, dir), Some(mark(4_998)), "zeros are none");
        file.clear(&disk).unwrap();
        assert_eq!(Mark::read(&disk, dir), None);
    }
}
