//! One step of recovery: the oldest file is taken to the store.
//!
//! A step costs the same however many files wait: what takes longer the more there are, is done beside it
//! (`tending`).

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use redrive_core::failure::{Class, Failure};

use super::index::Key;
use super::name::{BatchName, DATA, second};
use super::{Batch, Culprit, Inspection, Lost, Spool, State, inspect};
use crate::error::Error;
use crate::filesystem::Stamp;
use crate::target::Target;

/// How long a file that is not whole, or not ours, must not have changed before it is taken.
const SETTLED: Duration = Duration::from_secs(60);

/// What a step did.
#[derive(Debug, Clone)]
pub struct Step {
    /// Files that were too old, and that the store did not take.
    pub expired: Vec<Lost>,
    /// What became of the oldest file.
    pub outcome: Outcome,
}

/// What became of the oldest file.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// There is none.
    Empty,
    /// It was uploaded and deleted.
    Uploaded {
        /// Its name.
        file: String,
        /// Its events.
        events: u64,
    },
    /// It was damaged: what is intact was uploaded, all of it set aside in the store, and it was deleted.
    Quarantined {
        /// Its name.
        file: String,
        /// What was wrong with it.
        reason: String,
        /// The events that were intact.
        rescued: u64,
        /// The events that it was said to have.
        held: u64,
    },
    /// The store did not take it: it is kept.
    Kept {
        /// Its name.
        file: String,
        /// What the store said.
        failure: Failure,
        /// Whose fault that seems to be.
        culprit: Culprit,
    },
    /// The disk does not give it, or does not let go of it once it was uploaded: it is kept, and the others go
    /// first.
    Unreadable {
        /// Its name.
        file: String,
        /// What the disk said.
        error: Error,
    },
    /// It was uploaded, and somebody else has uploaded or deleted it meanwhile: they count it.
    Gone {
        /// Its name.
        file: String,
    },
    /// Somebody is still writing to it: it is kept until it has not changed for a while.
    Unfinished {
        /// Its name.
        file: String,
    },
}

impl Spool {
    /// Takes the oldest file to the store, and deletes what is too old if the store does not take it.
    pub async fn process_one(self: &Arc<Self>, target: &Target, now: Timestamp) -> Step {
        let spool = Arc::clone(self);
        let looked = tokio::task::spawn_blocking(move || match spool.take(now) {
            // There is time, and somebody may have put something here.
            Found::Nothing => {
                spool.tend(now);
                spool.take(now)
            }
            found => {
                spool.tend_aside(now);
                found
            }
        });
        let found = looked.await.unwrap_or(Found::Nothing);
        let outcome = self.settle(found, target, now).await.unwrap_or(Outcome::Empty);
        let is_away = matches!(&outcome, Outcome::Kept { culprit: Culprit::Store, .. });
        let chance = if is_away { Chance::None } else { Chance::Had };
        let expired = self.expire_aside(chance, now).await;
        Step { expired, outcome }
    }

    /// Deletes files that are too old, at most `scan` of them: for a caller who has just asked the store in vain,
    /// and knows that it is away.
    pub fn expire(&self, now: Timestamp) -> Vec<Lost> {
        self.expire_with(Chance::None, now)
    }

    async fn expire_aside(self: &Arc<Self>, chance: Chance, now: Timestamp) -> Vec<Lost> {
        if self.next_expired(chance, now).is_none() {
            return Vec::new();
        }
        let spool = Arc::clone(self);
        tokio::task::spawn_blocking(move || spool.expire_with(chance, now)).await.unwrap_or_default()
    }

    /// Takes the file of this name to the store, out of turn. `None` if no such file waits.
    pub async fn process(self: &Arc<Self>, name: &str, target: &Target, now: Timestamp) -> Option<Outcome> {
        let (spool, name) = (Arc::clone(self), name.to_owned());
        let looked = tokio::task::spawn_blocking(move || spool.find(name, now)).await;
        self.settle(looked.unwrap_or(Found::Nothing), target, now).await
    }

    fn find(&self, name: String, now: Timestamp) -> Found {
        let found = self.state().index.find(&name);
        found.map_or(Found::Nothing, |(key, _)| self.look_at(key, name, now))
    }

    /// At most `scan` of those that are too old.
    fn expire_with(&self, chance: Chance, now: Timestamp) -> Vec<Lost> {
        let mut expired = Vec::new();
        while expired.len() < self.options.scan {
            let Some(oldest) = self.next_expired(chance, now) else { break };
            match self.lose(oldest) {
                Ok(lost) => expired.extend(lost),
                Err(error) => {
                    tracing::warn!(%error, "a file that is too old cannot be deleted");
                    break;
                }
            }
        }
        expired
    }

    fn next_expired(&self, chance: Chance, now: Timestamp) -> Option<Key> {
        let limit = u64::from(second(now)).saturating_sub(self.options.max_age.as_secs());
        let state = self.state();
        let oldest = match chance {
            Chance::Had => state.turns.oldest_refused(),
            Chance::None => state.index.oldest(),
        };
        oldest.filter(|key| u64::from(key.unix) < limit)
    }

    /// The oldest file that is not put off.
    fn take(&self, now: Timestamp) -> Found {
        loop {
            let next = self.state().next(now);
            let Some((key, name)) = next else { return Found::Nothing };
            match self.look_at(key, name, now) {
                // Somebody else took it.
                Found::Nothing => self.state().remove(key),
                Found::Unfinished(_) => self.state().turns.put_off_until(key, now + SETTLED),
                Found::Unreadable(name, error) => {
                    self.state().turns.refuse(key, now);
                    return Found::Unreadable(name, error);
                }
                found @ Found::File(_) => return found,
            }
        }
    }

    /// Reads a file from end to end.
    fn look_at(&self, key: Key, name: String, now: Timestamp) -> Found {
        let stamp = match self.stamp(&name) {
            Ok(stamp) => stamp,
            Err(error) => return Found::Unreadable(name, error),
        };
        match (stamp, self.read(&name)) {
            (Some(stamp), Ok(Some(batch))) => {
                let inspection = inspect(&batch.data, &batch.meta);
                let file = File { key, name, batch, inspection, stamp };
                let is_settled = self.is_of_ours(&file) || file.is_unchanged(now);
                if is_settled { Found::File(file) } else { Found::Unfinished(file.name) }
            }
            (None, _) | (_, Ok(None)) => Found::Nothing,
            (_, Err(error)) => Found::Unreadable(name, error),
        }
    }

    /// Batches of ours get their name when they are whole; a file that somebody copies here has it from the
    /// start, and what looks whole may only be so far. One that was saved when the disk was full has no meta file
    /// to know it by, but the name that only this spool gives.
    fn is_of_ours(&self, file: &File) -> bool {
        let is_named_here =
            || BatchName::parse(&file.name).is_some_and(|name| name.instance == self.options.instance);
        matches!(file.inspection, Inspection::Sound { .. })
            && (file.batch.meta.checksums.is_some() || is_named_here())
    }

    fn stamp(&self, name: &str) -> Result<Option<Stamp>, Error> {
        let path = self.dir.join(name);
        match self.filesystem.stamp(&path) {
            Ok(stamp) => Ok(Some(stamp)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("look at", &path)(error)),
        }
    }

    /// Takes what was found to the store; `None` if nothing was.
    async fn settle(&self, found: Found, target: &Target, now: Timestamp) -> Option<Outcome> {
        let file = match found {
            Found::Nothing => return None,
            Found::Unreadable(file, error) => return Some(Outcome::Unreadable { file, error }),
            Found::Unfinished(file) => return Some(Outcome::Unfinished { file }),
            Found::File(file) => file,
        };
        Some(match upload(&file, target).await {
            Ok(()) => {
                self.store_took();
                self.finish(file, now)
            }
            Err(failure) => {
                let culprit = self.blame(file.key, &failure, now);
                Outcome::Kept { file: file.name, failure, culprit }
            }
        })
    }

    /// What the store will never take must not stand in the way of the others.
    fn blame(&self, key: Key, failure: &Failure, now: Timestamp) -> Culprit {
        if matches!(failure.class, Class::Permanent | Class::Malformed) {
            self.state().turns.refuse(key, now);
            return Culprit::File;
        }
        self.state().turns.failed(key, now)
    }

    /// Lets go of a file that the store has. Whoever takes it away counts it.
    fn finish(&self, file: File, now: Timestamp) -> Outcome {
        // Written to since it was read: it goes again when it is whole, as the same object.
        if self.stamp(&file.name).is_ok_and(|stamp| stamp.is_some_and(|stamp| stamp != file.stamp)) {
            self.state().turns.put_off_until(file.key, now + SETTLED);
            return Outcome::Unfinished { file: file.name };
        }
        match self.delete(&file.name) {
            Ok(was_there) => {
                self.state().remove(file.key);
                if was_there { file.uploaded() } else { Outcome::Gone { file: file.name } }
            }
            // It is uploaded again later, as the same object.
            Err(error) => {
                self.put_off(file.key, now);
                Outcome::Unreadable { file: file.name, error }
            }
        }
    }

    fn put_off(&self, key: Key, now: Timestamp) {
        self.state().turns.put_off(key, now);
    }
}

impl State {
    fn next(&mut self, now: Timestamp) -> Option<(Key, String)> {
        let key = self.turns.next(&self.index, now)?;
        Some((key, self.index.name(key)))
    }
}

/// What a file must have had before it is deleted by its age.
#[derive(Debug, Clone, Copy)]
enum Chance {
    /// The store answered, and did not take it.
    Had,
    /// Nothing: the store is away.
    None,
}

enum Found {
    Nothing,
    Unreadable(String, Error),
    Unfinished(String),
    File(File),
}

struct File {
    key: Key,
    name: String,
    batch: Batch,
    inspection: Inspection,
    /// When it was read.
    stamp: Stamp,
}

impl File {
    /// Whether nobody has written to it for a while. The time of a file on another host may be ahead of ours.
    fn is_unchanged(&self, now: Timestamp) -> bool {
        now.duration_since(self.stamp.written).unsigned_abs() >= SETTLED
    }

    fn uploaded(self) -> Outcome {
        match self.inspection {
            Inspection::Sound { events } => Outcome::Uploaded { file: self.name, events },
            Inspection::Damaged { reason, events, .. } => {
                let held = self.batch.meta.num_events;
                Outcome::Quarantined { file: self.name, reason, rescued: events, held }
            }
        }
    }
}

/// What is intact first: when only that arrived, the file is still here.
async fn upload(file: &File, target: &Target) -> Result<(), Failure> {
    match &file.inspection {
        Inspection::Sound { .. } => target.put_raw(&file.name, file.batch.data.clone()).await,
        Inspection::Damaged { intact, .. } => {
            if !intact.is_empty() {
                let rescued = compressed(intact.clone()).await?;
                target.put_raw(&object_name(&file.name), rescued.data).await?;
            }
            target.put_damaged(&file.name, file.batch.data.clone()).await
        }
    }
}

/// Away from the threads that must not block.
async fn compressed(lines: Bytes) -> Result<Batch, Failure> {
    let compressed = tokio::task::spawn_blocking(move || Batch::compress(&[lines])).await;
    let failed = || Failure::transient("OutOfMemory", "the intact lines of a file cannot be compressed");
    compressed.ok().and_then(Result::ok).ok_or_else(failed)
}

/// Whatever it is called on disk, what is uploaded is a batch.
fn object_name(name: &str) -> String {
    if name.ends_with(DATA) { name.to_owned() } else { format!("{name}{DATA}") }
}
