//! The spool: batches that could not be uploaded wait here until the store is back.
//!
//! # Promise
//! - When [`Spool::save`] returns, the batch is durable under its name: written to a hidden name, synced,
//!   renamed, and the folder synced.
//! - [`Spool::process_one`] takes the oldest file, whoever put it there, reads it from end to end, uploads
//!   it, and only then deletes it. The name of the object is the name of the file: a repetition overwrites
//!   itself.
//! - One step costs the same whether a thousand or a million files wait: the order is kept in memory, and
//!   at most [`SpoolOptions::scan`] entries of the folder are looked at.
//! - Nothing is deleted that was not uploaded, except by age and size as the options say. Both are returned to
//!   the caller, who counts them: each file once, also where several processes share the folder.
//! - By age a file goes only after the store was asked in vain: with this file since it was last away, or just now
//!   with others, one after another.
//!
//! # On disk
//! Two files for each batch, in one folder:
//! ```text
//! 1700000001_i-abc123_000001.jsonl.gz              gzip of one JSON event per line
//! 1700000001_i-abc123_000001.jsonl.gz.meta.json    {"num_events":5000,"checksums":{"lines":10,"crc32":[…]}}
//! .1700000001_i-abc123_000001.jsonl.gz.tmp         being written
//! .resolved/                                       what a person is done with, kept until a person deletes it
//! ```
//! The number in front is the second of the batch, the last one counts the batches of an instance. A
//! missing or damaged meta file counts as 1 event; one without its data is removed at the start. Any other
//! file that is not hidden was put here by hand, and is treated as a batch once it has not changed for a
//! minute: it may still be being written.
//!
//! # What is damaged
//! A file that is not gzip, or not JSON in every line, is uploaded byte for byte to the prefix of damaged
//! files. The lines that are intact go to that of good ones: by the checksums where there are any,
//! otherwise those before the place where the file was cut.
//!
//! # What it does not do
//! It does not upload by itself: somebody calls [`Spool::process_one`]. A file of more than 1 GiB is never one
//! of its batches, and is left to people. So is whatever is no file: a link is not followed, a pipe is not opened.
//! [`Spool::findings`] names them.

mod batch;
mod findings;
mod index;
mod inspect;
mod name;
mod step;
mod tending;
mod turns;
mod waiting;

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

pub use batch::{Batch, Checksums, Meta};
pub use findings::Finding;
pub use inspect::{Inspection, inspect, lines};
pub use name::instance;
pub(crate) use name::time_of;
pub use step::{Outcome, Step};
pub use turns::Culprit;
pub use waiting::Waiting;

use crate::error::Error;
use crate::filesystem::{Disk, Filesystem, Name, Names, make_folder, remove_if_there, write_anew};
use findings::Findings;
use index::{Index, Key};
use name::{BatchName, Entry, META, UNFINISHED, second, time};
use tending::LOOK_EVERY;
use turns::Turns;

/// How long a file that is being written is left alone: another instance may be at it.
const UNFINISHED_FOR: Duration = Duration::from_secs(600);
/// The largest file that is read: all of it is in memory meanwhile.
const LARGEST: u64 = 1 << 30;

/// The folder within the spool for files that a person is done with. Hidden, so it is no batch.
const SET_ASIDE: &str = ".resolved";

/// How a spool is kept.
#[derive(Debug, Clone)]
pub struct SpoolOptions {
    /// Who writes: a part of the name of each file. No two processes may have the same.
    pub instance: String,
    /// Files older than this are deleted.
    pub max_age: Duration,
    /// How large the folder may get.
    pub max_size: u64,
    /// What happens when it is full.
    pub on_full: OnFull,
    /// How many entries of the folder one step may look at.
    pub scan: usize,
}

/// What happens when a spool is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFull {
    /// The oldest files are deleted.
    EvictOldest,
    /// The batch is refused.
    Refuse,
}

impl SpoolOptions {
    /// The founding settings: 72 hours, 1 GiB, the oldest go first, 1,000 entries.
    #[must_use]
    pub fn new(instance: impl Into<String>) -> Self {
        Self {
            instance: instance.into(),
            max_age: Duration::from_secs(72 * 3600),
            max_size: 1 << 30,
            on_full: OnFull::EvictOldest,
            scan: 1_000,
        }
    }
}

/// A folder of batches.
#[derive(Debug)]
pub struct Spool {
    filesystem: Arc<dyn Filesystem>,
    dir: PathBuf,
    options: SpoolOptions,
    counter: AtomicU32,
    state: Mutex<State>,
    /// Whether somebody looks at the folder, beside the steps.
    is_tended: AtomicBool,
}

#[derive(Default)]
struct State {
    index: Index,
    /// How far the look at the folder has come.
    looking: Option<Names>,
    next_look: Timestamp,
    /// Where to go on measuring.
    measured: Option<Key>,
    turns: Turns,
    /// Deleted to make room, and nobody was told yet.
    evicted: Vec<Lost>,
    /// The size of a batch for which there was no room, until there is.
    wanted: u64,
    findings: Findings,
}

impl State {
    fn add(&mut self, name: &str, now: Timestamp) -> Key {
        let key = self.index.add(name, second(now));
        self.turns.add(key);
        key
    }

    fn remove(&mut self, key: Key) {
        self.turns.forget(key);
        self.index.remove(key);
    }

    fn note_other(&mut self, name: &Name) {
        if let Some(what) = name.other {
            self.findings.note_other(&name.name.to_string_lossy(), what);
        }
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("State").field("files", &self.index.len()).finish_non_exhaustive()
    }
}

/// Which files may be deleted for want of room, if the options allow it at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evict {
    /// Any of them, the oldest first: for a store that is away.
    Any,
    /// Those that the store did not take though it answers: the others make room by being uploaded.
    Refused,
}

/// A file that was deleted without being uploaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// Its name.
    pub file: String,
    /// How many events it had.
    pub events: u64,
}

/// How much a spool holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpoolStats {
    /// Files that wait.
    pub files: u64,
    /// Their bytes, as far as they were measured.
    pub bytes: u64,
    /// The second of the oldest.
    pub oldest: Option<Timestamp>,
}

impl Spool {
    /// Opens the spool in this folder, which is made if it is not there. Reads the names in it, and nothing
    /// else; removes what an interrupted process left.
    ///
    /// # Errors
    /// When the folder cannot be made or read.
    pub fn open(dir: &Path, options: SpoolOptions, now: Timestamp) -> Result<Self, Error> {
        Self::open_on(Arc::new(Disk), dir, options, now)
    }

    /// Opens the spool in a folder of this filesystem.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_on(
        filesystem: Arc<dyn Filesystem>,
        dir: &Path,
        options: SpoolOptions,
        now: Timestamp,
    ) -> Result<Self, Error> {
        make_folder(filesystem.as_ref(), dir).map_err(Error::io("create", dir))?;
        let spool = Self {
            filesystem,
            dir: dir.to_owned(),
            options,
            counter: AtomicU32::new(1),
            state: Mutex::default(),
            is_tended: AtomicBool::new(false),
        };
        spool.read_folder(now)?;
        spool.measure_some();
        Ok(spool)
    }

    /// A name for a batch of now. Each is given once.
    #[must_use]
    pub fn name(&self, now: Timestamp) -> String {
        let counter = self.counter.fetch_add(1, Ordering::Relaxed);
        BatchName { unix: second(now), instance: &self.options.instance, counter }.to_string()
    }

    /// Keeps a batch, whatever has to go for it. Returns that, and what went for earlier ones that then were not
    /// kept.
    ///
    /// # Errors
    /// As [`Self::save_evicting`].
    pub fn save(&self, name: &str, batch: &Batch, now: Timestamp) -> Result<Vec<Lost>, Error> {
        self.save_evicting(name, batch, Evict::Any, now)
    }

    /// Keeps a batch. Returns what had to go for it, and for earlier ones that then were not kept.
    ///
    /// # Errors
    /// [`Error::Full`] when there is no room to be had, [`Error::Io`] when the disk fails. The batch is not
    /// there then, and the caller still has it.
    pub fn save_evicting(
        &self,
        name: &str,
        batch: &Batch,
        evict: Evict,
        now: Timestamp,
    ) -> Result<Vec<Lost>, Error> {
        let meta = batch.meta.encode();
        let size = (batch.data.len() + meta.len()) as u64;
        self.make_room(size, evict)?;
        let mut written = self.write(name, &batch.data, &meta);
        if written.is_err() && self.make_folder_again() {
            written = self.write(name, &batch.data, &meta);
        }
        written?;
        let mut state = self.state();
        let key = state.add(name, now);
        state.index.measure(key, size);
        Ok(std::mem::take(&mut state.evicted))
    }

    /// Whether a batch found no room, and there still is none, though there are files that the store may take.
    #[must_use]
    pub fn is_short_of_room(&self) -> bool {
        let mut state = self.state();
        if state.wanted > 0 && state.index.bytes().saturating_add(state.wanted) <= self.options.max_size {
            state.wanted = 0;
        }
        state.wanted > 0 && state.turns.refused() < state.index.len()
    }

    /// Whether a batch of so many bytes would be refused now.
    #[must_use]
    pub fn is_full_for(&self, size: u64) -> bool {
        self.options.on_full == OnFull::Refuse && self.is_beyond(size)
    }

    /// The store took something that was never here: then whatever fails alone is to blame for it.
    pub fn store_took(&self) {
        self.state().turns.store_took();
    }

    /// The store was away and is back: no file is deleted by its age before it was tried again.
    pub fn store_came_back(&self) {
        self.state().turns.store_came_back();
    }

    /// Whether others would be deleted for this batch now.
    #[must_use]
    pub fn evicts_for(&self, batch: &Batch) -> bool {
        let size = (batch.data.len() + batch.meta.encode().len()) as u64;
        self.options.on_full == OnFull::EvictOldest && self.is_beyond(size)
    }

    /// How much it holds.
    #[must_use]
    pub fn stats(&self) -> SpoolStats {
        let state = self.state();
        let oldest = state.index.oldest().map(|key| time(key.unix));
        SpoolStats { files: state.index.len() as u64, bytes: state.index.bytes(), oldest }
    }

    /// The contents of a file that waits; [`inspect`] says what is in it. `None` if no such file does.
    ///
    /// # Errors
    /// When it cannot be read, or has more than 1 GiB.
    pub fn read(&self, name: &str) -> Result<Option<Batch>, Error> {
        // Only names from the index: no path out of the folder.
        if self.state().index.find(name).is_none() {
            return Ok(None);
        }
        let path = self.dir.join(name);
        match self.filesystem.size(&path).and_then(|size| self.read_all(&path, size)) {
            Ok(data) => Ok(Some(Batch { data: data.into(), meta: self.meta(name) })),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("read", &path)(error)),
        }
    }

    /// Moves a file that waits, and what is beside it, to the folder `.resolved`, where nobody looks for
    /// batches: it is not uploaded any more, and not deleted either. Whether it waited: somebody else may have
    /// been quicker.
    ///
    /// # Errors
    /// When the disk refuses; the file waits on then.
    pub fn set_aside(&self, name: &str) -> Result<bool, Error> {
        let found = self.state().index.find(name);
        let Some((key, _)) = found else { return Ok(false) };
        let aside = self.dir.join(SET_ASIDE);
        self.filesystem.create_dir_all(&aside).map_err(Error::io("create", &aside))?;
        let kept = self.free_name(&aside, name);
        // The data goes first: what it is without its meta file is known, the other way round it is not.
        let was_there = self.rename(name, &aside.join(&kept))?;
        self.rename(&format!("{name}{META}"), &aside.join(format!("{kept}{META}")))?;
        self.filesystem.sync_dir(&aside).map_err(Error::io("sync", &aside))?;
        self.filesystem.sync_dir(&self.dir).map_err(Error::io("sync", &self.dir))?;
        self.state().remove(key);
        Ok(was_there)
    }

    /// When the batch of this name was cut, and whether its file was set aside; nothing for what is no name of a batch.
    #[must_use]
    pub fn past(&self, name: &str) -> Option<(Timestamp, bool)> {
        let parsed = BatchName::parse(name).filter(|_| !name.contains(['/', '\\']))?;
        let is_aside = self.filesystem.size(&self.dir.join(SET_ASIDE).join(name)).is_ok();
        Some((time(parsed.unix), is_aside))
    }

    /// What people should know of the folder, and were not told yet.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        self.state().findings.take()
    }

    /// Where it is.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_folder(&self, now: Timestamp) -> Result<(), Error> {
        let names = self.filesystem.names(&self.dir).map_err(Error::io("list", &self.dir))?;
        let mut beside = Vec::new();
        let mut state = self.state();
        for name in names {
            let name = name.map_err(Error::io("list", &self.dir))?;
            state.note_other(&name);
            // A name that is no text is nobody's batch.
            let Some(name) = name.as_file() else { continue };
            match Entry::of(name) {
                Entry::Data(name) => drop(state.add(name, now)),
                Entry::MetaOf(data) => beside.push(data.to_owned()),
                Entry::Unfinished(data) => self.remove_unfinished(data, now),
                Entry::Other => {}
            }
        }
        for data in beside.iter().filter(|data| state.index.find(data).is_none()) {
            let _ = self.filesystem.remove(&self.meta_path(data));
        }
        state.next_look = now + LOOK_EVERY;
        Ok(())
    }

    /// Makes the folder again, if somebody has deleted it. Whether that was so. What was in it is gone.
    fn make_folder_again(&self) -> bool {
        if self.filesystem.is_dir(&self.dir) || make_folder(self.filesystem.as_ref(), &self.dir).is_err() {
            return false;
        }
        let mut state = self.state();
        let keys: Vec<Key> = state.index.after(None).map(|(key, _)| key).collect();
        keys.iter().for_each(|key| state.remove(*key));
        state.looking = None;
        state.findings.note_folder_gone(keys.len() as u64);
        true
    }

    fn remove_unfinished(&self, name: &str, now: Timestamp) {
        let begun = BatchName::parse_loosely(name).map_or(0, |name| name.unix);
        if u64::from(begun) + UNFINISHED_FOR.as_secs() < u64::from(second(now)) {
            let _ = self.filesystem.remove(&self.unfinished(name));
        }
    }

    fn read_all(&self, path: &Path, size: u64) -> io::Result<Vec<u8>> {
        if size > LARGEST {
            let why = format!("it has {size} bytes, and at most {LARGEST} are read: upload it by hand");
            return Err(io::Error::new(ErrorKind::FileTooLarge, why));
        }
        self.filesystem.read(path)
    }

    /// A name in this folder that nobody has: somebody may have put a file here again by hand.
    fn free_name(&self, folder: &Path, name: &str) -> String {
        let mut free = name.to_owned();
        while self.filesystem.size(&folder.join(&free)).is_ok() {
            free.push_str(".again");
        }
        free
    }

    /// Whether it was there.
    fn rename(&self, name: &str, to: &Path) -> Result<bool, Error> {
        let from = self.dir.join(name);
        match self.filesystem.rename(&from, to) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::io("rename", &from)(error)),
        }
    }

    /// Sees to it that so many bytes more are allowed.
    fn make_room(&self, size: u64, evict: Evict) -> Result<(), Error> {
        while self.is_beyond(size) {
            if size <= self.options.max_size {
                self.state().wanted = size;
            }
            let Some(oldest) = self.evictable(size, evict) else { return Err(self.full(size)) };
            let lost = self.lose(oldest)?;
            self.state().evicted.extend(lost);
        }
        Ok(())
    }

    /// Whether so many bytes more are too many.
    fn is_beyond(&self, size: u64) -> bool {
        self.state().index.bytes().saturating_add(size) > self.options.max_size
    }

    /// What may go for so many bytes: nothing goes for what will not fit anyway.
    fn evictable(&self, size: u64, evict: Evict) -> Option<Key> {
        if self.options.on_full == OnFull::Refuse || size > self.options.max_size {
            return None;
        }
        let state = self.state();
        match evict {
            Evict::Any => state.index.oldest(),
            Evict::Refused => state.turns.oldest_refused(),
        }
    }

    fn full(&self, more: u64) -> Error {
        let size = self.state().index.bytes();
        Error::Full { dir: self.dir.clone(), more, size, limit: self.options.max_size }
    }

    /// Deletes a file that was not uploaded; nothing is lost if somebody else was quicker.
    fn lose(&self, key: Key) -> Result<Option<Lost>, Error> {
        let name = self.state().index.name(key);
        let events = self.meta(&name).num_events;
        let was_there = self.delete(&name)?;
        self.state().remove(key);
        Ok(was_there.then_some(Lost { file: name, events }))
    }

    /// Whether the data was there: of several who are done with a file, the one that takes it away is told so.
    fn delete(&self, name: &str) -> Result<bool, Error> {
        let was_there = remove_if_there(self.filesystem.as_ref(), &self.dir.join(name))?;
        // A meta file that is left alone counts for nothing, and goes at the next start.
        if let Err(error) = remove_if_there(self.filesystem.as_ref(), &self.meta_path(name)) {
            tracing::warn!(%error, "a meta file is left behind");
        }
        Ok(was_there)
    }

    fn meta(&self, name: &str) -> Meta {
        let read = self.filesystem.read(&self.meta_path(name));
        read.map_or_else(|_| Meta::unknown(), |bytes| Meta::read(&bytes))
    }

    /// All of it, or nothing: whoever is not answered still has the batch, and may drop and count it.
    fn write(&self, name: &str, data: &[u8], meta: &[u8]) -> Result<(), Error> {
        let unfinished = self.unfinished(name);
        let written = write_anew(self.filesystem.as_ref(), &unfinished, data);
        let named = written.and_then(|()| {
            self.write_meta(name, meta);
            self.give_name(&unfinished, &self.dir.join(name))
        });
        if named.is_err() {
            let _ = self.filesystem.remove(&unfinished);
            let _ = self.delete(name);
        }
        named
    }

    fn give_name(&self, unfinished: &Path, path: &Path) -> Result<(), Error> {
        self.filesystem.rename(unfinished, path).map_err(Error::io("rename", unfinished))?;
        self.filesystem.sync_dir(&self.dir).map_err(Error::io("sync", &self.dir))
    }

    /// Before the data has its name, so that no batch is without. Not synced by itself: what is lost of it
    /// costs a count, not an event.
    fn write_meta(&self, name: &str, meta: &[u8]) {
        let path = self.meta_path(name);
        let _ = self.filesystem.remove(&path);
        let written = self.filesystem.create(&path).and_then(|mut file| file.append(meta));
        if let Err(error) = written {
            tracing::warn!(file = %path.display(), %error, "a batch is kept without its count of events");
        }
    }

    fn meta_path(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}{META}"))
    }

    fn unfinished(&self, name: &str) -> PathBuf {
        self.dir.join(format!(".{name}{UNFINISHED}"))
    }
}
