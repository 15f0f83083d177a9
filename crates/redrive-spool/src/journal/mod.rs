//! A journal: what it has answered for survives the process and the power, in order, until it is
//! acknowledged.
//!
//! # Promise
//! - When [`Journal::append`] returns a [`Span`], the records are durable: written, synced, and the name of
//!   their file too. An error means that they are not to be counted on.
//! - A [`Reader`] delivers every durable record that is not acknowledged, in the order of its number, in
//!   this process and after a restart. A record may be delivered again after a crash: acknowledgements are
//!   written down with the next append, or after 200 ms, or at the end.
//! - A record whose append failed, or was never answered, may be delivered after a crash.
//! - An append that would take the folder beyond [`JournalOptions::max_size`] is refused, and nothing is ever
//!   deleted that is not acknowledged. What it writes down of acknowledgements may go a little beyond; what
//!   is set aside under `damaged/` does not count.
//! - Whatever is found in the folder, the journal opens. Bytes that are no whole record are kept, byte for
//!   byte, under `damaged/`, reported in [`Recovery`], and stepped over. So are segments that are empty, and
//!   records that are gone, also when the last segment was cut or is gone: what was answered for is never lost in
//!   silence.
//!
//! # Use
//! ```
//! use redrive_spool::{Journal, JournalOptions};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), redrive_spool::Error> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let dir = folder.path();
//! let journal = Journal::open(dir, JournalOptions::default())?;
//! // Before the caller is answered:
//! let span = journal.append(vec!["first".into(), "second".into()]).await?;
//! // When the next room has them:
//! journal.acknowledge(span);
//! // After a restart, or as a queue that drains in order:
//! let mut reader = journal.reader();
//! for record in reader.next(100, 1 << 20).await? {
//!     journal.acknowledge(record.position.into());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # On disk
//! A folder of segments, each named after the number of its first record, and a file that is locked:
//! ```text
//! 00000000000000000001.journal   lock   damaged/00000000000000000001-4711.bin
//! 00000000000000000001.journal.new       begun, with nothing in it that anybody was answered for
//! mark                                   how far the last segment was durable
//! ```
//! A segment is frames, one after another. Numbers are little-endian, checksums CRC-32 (IEEE).
//! ```text
//!   0  4  marker  A5 72 64 6A
//!   4  1  kind    1 start, 2 record, 3 acknowledged
//!   5  3  how many frames before it were written together with it
//!   8  4  length of the payload
//!  12  8  number
//!  20  4  checksum of the payload
//!  24  4  checksum of bytes 0 to 24
//!  28  …  payload
//! ```
//! - **start** is the first of a segment, and at a proper end the last of the last one. Its number is that of the
//!   next record, its payload the text `redrive journal 1`.
//! - **record** carries what was appended. Numbers grow by one; one that is missing belongs to an append
//!   that failed.
//! - **acknowledged**: every record up to its number is; its payload is pairs of 8-byte numbers, first and
//!   last, of ranges above that are, too.
//!
//! What is written together is synced together, and a disk may keep any part of it when the power fails: its
//! end, and not its middle. Nobody was answered for any of it. So damage is told from an interrupted write by
//! what comes after: a frame that begins another write, or belongs to one that begins later.
//!
//! # Invariants
//! - One writer, one open segment, the last. A segment is not written again after a restart, nor after any
//!   error: a file whose sync failed is never synced again, since the system may have dropped the bytes.
//! - A segment gets its name when its first frames are durable.
//! - A segment is removed when all its records are acknowledged and a later one exists, oldest first, each
//!   durably before the next.
//!
//! # What it does not do
//! It does not replicate, compress or encrypt.

mod acknowledged;
mod frame;
mod log;
mod mark;
mod reader;
mod recovery;
mod segment;
mod state;
mod writer;

use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::sync::{oneshot, watch};

pub use reader::Reader;
pub use recovery::{Damage, Damaged, Recovery};

use crate::error::Error;
use crate::filesystem::{Disk, Filesystem, make_folder};
use state::Shared;
use writer::{Append, Command, Writer};

/// How a journal is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalOptions {
    /// A new file is begun after so many bytes. At most a quarter of `max_size` is used.
    pub segment_size: u64,
    /// How large the folder may get.
    pub max_size: u64,
    /// How large one record may be.
    pub max_record: usize,
}

impl Default for JournalOptions {
    fn default() -> Self {
        Self { segment_size: 16 << 20, max_size: 1 << 30, max_record: 64 << 20 }
    }
}

impl JournalOptions {
    fn segment_size(&self) -> u64 {
        self.segment_size.min(self.max_size / 4)
    }

    /// The length in a frame has four bytes.
    fn max_record(&self) -> usize {
        self.max_record.min(u32::MAX as usize)
    }
}

/// The place of a record: a number that grows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

/// The places of records that were appended together, one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Span {
    /// The place of the first.
    pub first: Position,
    /// The place of the last.
    pub last: Position,
}

impl From<Position> for Span {
    fn from(position: Position) -> Self {
        Self { first: position, last: position }
    }
}

/// A record that waits to be acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its place.
    pub position: Position,
    /// What was appended.
    pub payload: Bytes,
}

/// How much a journal holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// Records that are not acknowledged.
    pub records: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Files on disk.
    pub segments: usize,
}

/// A journal in a folder. Clones are one journal; it is closed with the last of them.
#[derive(Debug, Clone)]
pub struct Journal {
    writer: Arc<Writer>,
    shared: Arc<Shared>,
    recovery: Arc<Recovery>,
    _lock: Arc<Lock>,
}

struct Lock(#[expect(dead_code, reason = "held, not read")] Box<dyn Send + Sync>);

impl std::fmt::Debug for Lock {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Lock")
    }
}

impl Journal {
    /// Opens the journal in this folder, which is made if it is not there.
    ///
    /// # Errors
    /// When the folder cannot be read, written or locked. Damaged contents are no error.
    pub fn open(dir: &Path, options: JournalOptions) -> Result<Self, Error> {
        Self::open_on(Arc::new(Disk), dir, options)
    }

    /// Opens the journal in a folder of this filesystem.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_on(
        filesystem: Arc<dyn Filesystem>,
        dir: &Path,
        options: JournalOptions,
    ) -> Result<Self, Error> {
        make_folder(filesystem.as_ref(), dir).map_err(Error::io("create", dir))?;
        let lock = lock(filesystem.as_ref(), dir)?;
        let (state, recovery) = recovery::recover(filesystem.as_ref(), dir)?;
        let durable = watch::Sender::new(state.next - 1);
        let dir = dir.to_owned();
        let shared = Arc::new(Shared { filesystem, dir, options, state: Mutex::new(state), durable });
        let writer = Writer::start(Arc::clone(&shared))?;
        writer.send(Command::Tidy);
        Ok(Self { writer: Arc::new(writer), shared, recovery: Arc::new(recovery), _lock: Arc::new(lock) })
    }

    /// Makes records durable, together with those of everybody else who asks at the same time.
    ///
    /// # Errors
    /// When the journal is full or the disk fails; nothing is acknowledged then. If the caller goes away
    /// before the answer, the records may be there.
    pub async fn append(&self, records: Vec<Bytes>) -> Result<Span, Error> {
        self.hand_in(records)?.await.unwrap_or_else(|_| Err(self.closed()))
    }

    /// The same for a thread that may block.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn append_blocking(&self, records: Vec<Bytes>) -> Result<Span, Error> {
        self.hand_in(records)?.blocking_recv().unwrap_or_else(|_| Err(self.closed()))
    }

    /// The next room has these: they are not delivered again. In any order.
    pub fn acknowledge(&self, span: Span) {
        self.acknowledge_all(&[span]);
    }

    /// The next room has all of these: a crash forgets all of it, or nothing.
    pub fn acknowledge_all(&self, spans: &[Span]) {
        let (spent, news) = {
            let mut state = self.shared.state();
            let was_untold = state.untold;
            spans.iter().for_each(|span| state.acknowledge(span.first.0, span.last.0));
            (state.spent().is_some(), state.untold && !was_untold)
        };
        if spent {
            self.writer.send(Command::Tidy);
        } else if news {
            self.writer.send(Command::Tell);
        }
    }

    /// Reads from the oldest record that is not acknowledged.
    #[must_use]
    pub fn reader(&self) -> Reader {
        Reader::new(Arc::clone(&self.shared))
    }

    /// How much it holds.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.state().stats()
    }

    /// What was found when it was opened.
    #[must_use]
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Where it is.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.shared.dir
    }

    fn hand_in(&self, records: Vec<Bytes>) -> Result<oneshot::Receiver<Result<Span, Error>>, Error> {
        self.check_sizes(&records)?;
        let (answer, answered) = oneshot::channel();
        self.writer.send(Command::Append(Append { records, answer }));
        Ok(answered)
    }

    fn check_sizes(&self, records: &[Bytes]) -> Result<(), Error> {
        let limit = self.shared.options.max_record();
        match records.iter().position(|record| record.len() > limit) {
            Some(item) => Err(Error::TooLarge { item, size: records[item].len(), limit }),
            None => Ok(()),
        }
    }

    fn closed(&self) -> Error {
        Error::Closed { dir: self.shared.dir.clone() }
    }
}

fn lock(filesystem: &dyn Filesystem, dir: &Path) -> Result<Lock, Error> {
    let path = dir.join("lock");
    filesystem.lock(&path).map(Lock).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => Error::InUse { dir: dir.to_owned() },
        _ => Error::io("lock", &path)(error),
    })
}
