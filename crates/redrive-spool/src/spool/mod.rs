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
//! - Nothing is deleted that was not uploaded, except by age and size as the options say; both are returned
//!   to the caller, who counts them.
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

mod batch;
mod index;
mod inspect;
mod name;
mod step;
mod turns;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

pub use batch::{Batch, Checksums, Meta};
pub use inspect::{Inspection, inspect, lines};
pub use step::{Outcome, Step};
pub use turns::Culprit;

use crate::error::Error;
use crate::filesystem::{Disk, Filesystem, Names, make_folder};
use index::{Index, Key};
use name::{BatchName, Entry, META, UNFINISHED};
use turns::Turns;

/// How long a file that is being written is left alone: another instance may be at it.
const UNFINISHED_FOR: Duration = Duration::from_secs(600);
/// How long after the end of a look at the whole folder the next one begins.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The folder within the spool for files that a person is done with. Hidden, so it is no batch.
pub const SET_ASIDE: &str = ".resolved";

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

/// A name for this process that no other one has: an earlier one on the same host may have used the same
/// seconds and counters, and objects are named after them.
#[must_use]
pub fn instance(host: &str) -> String {
    let is_plain = |letter: &char| letter.is_ascii_alphanumeric() || *letter == '-' || *letter == '.';
    let host: String = host.chars().filter(is_plain).take(60).collect();
    let unique = uuid::Uuid::now_v7().simple().to_string();
    format!("{host}-{}", &unique[unique.len() - 8..])
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
}

impl State {
    fn wants_tending(&self, now: Timestamp) -> bool {
        self.looking.is_some() || now >= self.next_look || self.index.unmeasured() > 0
    }

    fn add(&mut self, name: &str, now: Timestamp) -> Key {
        let key = self.index.add(name, second(now));
        self.turns.add(key);
        key
    }

    /// Whether it was there: of several who are done with a file, one is told so.
    fn remove(&mut self, key: Key) -> bool {
        self.turns.forget(key);
        self.index.remove(key)
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("State").field("files", &self.index.len()).finish_non_exhaustive()
    }
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

/// A file that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Its name.
    pub file: String,
    /// Since when.
    pub since: Timestamp,
    /// Its size, once it was measured.
    pub bytes: Option<u64>,
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

    /// Keeps a batch. What had to go for it, is returned.
    ///
    /// # Errors
    /// [`Error::Full`] when there is no room to be had, [`Error::Io`] when the disk fails. The batch is not
    /// there then, and the caller still has it.
    pub fn save(&self, name: &str, batch: &Batch, now: Timestamp) -> Result<Vec<Lost>, Error> {
        let meta = batch.meta.encode();
        let size = (batch.data.len() + meta.len()) as u64;
        let lost = self.make_room(size)?;
        self.write(name, &batch.data, &meta)?;
        let mut state = self.state();
        let key = state.add(name, now);
        state.index.measure(key, size);
        Ok(lost)
    }

    /// Whether a batch of so many bytes would be refused now.
    #[must_use]
    pub fn is_full_for(&self, size: u64) -> bool {
        self.options.on_full == OnFull::Refuse && self.state().index.bytes() + size > self.options.max_size
    }

    /// The store took something that was never here: then whatever fails alone is to blame for it.
    pub fn store_took(&self) {
        self.state().turns.store_took();
    }

    /// Whether others would be deleted for this batch now.
    #[must_use]
    pub fn evicts_for(&self, batch: &Batch) -> bool {
        let size = (batch.data.len() + batch.meta.encode().len()) as u64;
        self.options.on_full == OnFull::EvictOldest
            && self.state().index.bytes().saturating_add(size) > self.options.max_size
    }

    /// How much it holds.
    #[must_use]
    pub fn stats(&self) -> SpoolStats {
        let state = self.state();
        let oldest = state.index.oldest().and_then(|key| Timestamp::from_second(key.unix.into()).ok());
        SpoolStats { files: state.index.len() as u64, bytes: state.index.bytes(), oldest }
    }

    /// The files after the one of this name, oldest first.
    #[must_use]
    pub fn list(&self, after: Option<&str>, most: usize) -> Vec<Waiting> {
        let state = self.state();
        let after = after.and_then(|name| state.index.key(name));
        let files = state.index.after(after).take(most).map(|(key, bytes)| Waiting {
            file: state.index.name(key),
            since: time(key.unix),
            bytes,
        });
        files.collect()
    }

    /// The file of this name, if it waits.
    #[must_use]
    pub fn waiting(&self, name: &str) -> Option<Waiting> {
        let state = self.state();
        let key = state.index.key(name).filter(|_| state.index.contains(name))?;
        let since = time(key.unix);
        Some(Waiting { file: name.to_owned(), since, bytes: None })
    }

    /// The files of this second and before, newest first: at least so many, if there are, and all of the
    /// last second among them.
    #[must_use]
    pub fn newest(&self, until: Timestamp, least: usize) -> Vec<Waiting> {
        let state = self.state();
        some(&state.index, state.index.until(second(until)), least)
    }

    /// The files of this second and later, oldest first: at least so many, if there are, and all of the
    /// last second among them.
    #[must_use]
    pub fn oldest(&self, from: Timestamp, least: usize) -> Vec<Waiting> {
        let state = self.state();
        some(&state.index, state.index.from(second(from)), least)
    }

    /// How many files there are from this time on, and before that one.
    #[must_use]
    pub fn count(&self, since: Option<Timestamp>, until: Option<Timestamp>) -> u64 {
        let state = self.state();
        if since.is_none() && until.is_none() {
            return state.index.len() as u64;
        }
        let is_before = |unix: u32| until.is_none_or(|until| time(unix) < until);
        let files = state.index.from(since.map_or(0, second_after));
        files.take_while(|(key, _)| is_before(key.unix)).count() as u64
    }

    /// How many files there are of each hour, from this time on: the hours are counted since 1970.
    #[must_use]
    pub fn hours(&self, since: Timestamp) -> BTreeMap<i64, u64> {
        let mut hours = BTreeMap::new();
        for (key, _) in self.state().index.from(second_after(since)) {
            *hours.entry(i64::from(key.unix) / 3600).or_default() += 1;
        }
        hours
    }

    /// The contents of a file that waits; [`inspect`] says what is in it. `None` if no such file does.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(&self, name: &str) -> Result<Option<Batch>, Error> {
        // Only names from the index: no path out of the folder.
        if !self.state().index.contains(name) {
            return Ok(None);
        }
        let path = self.dir.join(name);
        match self.filesystem.read(&path) {
            Ok(data) => Ok(Some(Batch { data: data.into(), meta: self.meta(name) })),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("read", &path)(error)),
        }
    }

    /// Moves a file that waits, and what is beside it, to the folder [`SET_ASIDE`], where nobody looks for
    /// batches: it is not uploaded any more, and not deleted either. Whether it waited: somebody else may have
    /// been quicker.
    ///
    /// # Errors
    /// When the disk refuses; the file waits on then.
    pub fn set_aside(&self, name: &str) -> Result<bool, Error> {
        let key = self.state().index.key(name);
        let Some(key) = key else { return Ok(false) };
        let aside = self.dir.join(SET_ASIDE);
        self.filesystem.create_dir_all(&aside).map_err(Error::io("create", &aside))?;
        // One of that name may be there already, if somebody put it here again by hand.
        let taken = |name: &str| self.filesystem.size(&aside.join(name)).is_ok();
        let mut kept = name.to_owned();
        while taken(&kept) {
            kept.push_str(".again");
        }
        // The data goes first: what it is without its meta file is known, the other way round it is not.
        for (from, to) in
            [(name.to_owned(), kept.clone()), (format!("{name}{META}"), format!("{kept}{META}"))]
        {
            let from = self.dir.join(from);
            match self.filesystem.rename(&from, &aside.join(to)) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(Error::io("rename", &from)(error));
                }
                _ => {}
            }
        }
        self.filesystem.sync_dir(&aside).map_err(Error::io("sync", &aside))?;
        self.filesystem.sync_dir(&self.dir).map_err(Error::io("sync", &self.dir))?;
        Ok(self.state().remove(key))
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
            // A name that is no text is nobody's batch.
            let Some(name) = name.to_str() else { continue };
            match Entry::of(name) {
                Entry::Data(name) => drop(state.add(name, now)),
                Entry::MetaOf(data) => beside.push(data.to_owned()),
                Entry::Unfinished(data) => self.remove_unfinished(data, now),
                Entry::Other => {}
            }
        }
        for data in beside.iter().filter(|data| !state.index.contains(data)) {
            let _ = self.filesystem.remove(&self.dir.join(format!("{data}{META}")));
        }
        state.next_look = now + LOOK_EVERY;
        Ok(())
    }

    fn remove_unfinished(&self, name: &str, now: Timestamp) {
        let begun = BatchName::parse_loosely(name).map_or(0, |name| name.unix);
        if u64::from(begun) + UNFINISHED_FOR.as_secs() < u64::from(second(now)) {
            let _ = self.filesystem.remove(&self.unfinished(name));
        }
    }

    /// Sees to it that so many bytes more are allowed.
    fn make_room(&self, size: u64) -> Result<Vec<Lost>, Error> {
        let mut lost = Vec::new();
        loop {
            let (bytes, limit) = (self.state().index.bytes(), self.options.max_size);
            if bytes.saturating_add(size) <= limit {
                return Ok(lost);
            }
            let oldest = match self.options.on_full {
                OnFull::EvictOldest if size <= limit => self.state().index.oldest(),
                OnFull::EvictOldest | OnFull::Refuse => None,
            };
            let Some(oldest) = oldest else {
                return Err(Error::Full { dir: self.dir.clone(), size: bytes, limit });
            };
            lost.extend(self.lose(oldest)?);
        }
    }

    /// Deletes a file that was not uploaded; nothing is lost if somebody else was quicker.
    fn lose(&self, key: Key) -> Result<Option<Lost>, Error> {
        let name = self.state().index.name(key);
        let events = self.meta(&name).num_events;
        self.delete(&name)?;
        let was_there = self.state().remove(key);
        Ok(was_there.then_some(Lost { file: name, events }))
    }

    /// The data goes first: what is left of an interrupted deletion is removed at the next start.
    fn delete(&self, name: &str) -> Result<(), Error> {
        for path in [self.dir.join(name), self.dir.join(format!("{name}{META}"))] {
            match self.filesystem.remove(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(Error::io("remove", &path)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn meta(&self, name: &str) -> Meta {
        let path = self.dir.join(format!("{name}{META}"));
        self.filesystem.read(&path).map_or_else(|_| Meta::unknown(), |bytes| Meta::read(&bytes))
    }

    fn write(&self, name: &str, data: &[u8], meta: &[u8]) -> Result<(), Error> {
        let unfinished = self.unfinished(name);
        let written = self.write_durably(&unfinished, data);
        if written.is_err() {
            let _ = self.filesystem.remove(&unfinished);
            return written;
        }
        self.write_meta(name, meta);
        let path = self.dir.join(name);
        self.filesystem.rename(&unfinished, &path).map_err(Error::io("rename", &unfinished))?;
        self.filesystem.sync_dir(&self.dir).map_err(Error::io("sync", &self.dir))
    }

    fn write_durably(&self, path: &Path, data: &[u8]) -> Result<(), Error> {
        let _ = self.filesystem.remove(path);
        let mut file = self.filesystem.create(path).map_err(Error::io("create", path))?;
        file.append(data).map_err(Error::io("write", path))?;
        file.sync().map_err(Error::io("sync", path))
    }

    /// Before the data has its name, so that no batch is without. Not synced by itself: what is lost of it
    /// costs a count, not an event.
    fn write_meta(&self, name: &str, meta: &[u8]) {
        let path = self.dir.join(format!("{name}{META}"));
        let _ = self.filesystem.remove(&path);
        let written = self.filesystem.create(&path).and_then(|mut file| file.append(meta));
        if let Err(error) = written {
            tracing::warn!(file = %path.display(), %error, "a batch is kept without its count of events");
        }
    }

    fn unfinished(&self, name: &str) -> PathBuf {
        self.dir.join(format!(".{name}{UNFINISHED}"))
    }
}

fn second(time: Timestamp) -> u32 {
    u32::try_from(time.as_second().max(0)).unwrap_or(u32::MAX)
}

/// The first second that is not before this time.
fn second_after(time: Timestamp) -> u32 {
    second(time).saturating_add(u32::from(time.subsec_nanosecond() > 0))
}

fn time(unix: u32) -> Timestamp {
    Timestamp::from_second(unix.into()).unwrap_or_default()
}

/// The first files of these: at least so many, and all of the last second among them.
fn some(index: &Index, files: impl Iterator<Item = (Key, Option<u64>)>, least: usize) -> Vec<Waiting> {
    let mut some: Vec<Waiting> = Vec::new();
    for (key, bytes) in files {
        let since = time(key.unix);
        if some.len() >= least && some.last().is_some_and(|last| last.since != since) {
            break;
        }
        some.push(Waiting { file: index.name(key), since, bytes });
    }
    some
}
