//! Files that wait on disk, as dead letters: each file one letter, its lines the payload.
//!
//! A file is uploaded by itself when the store is back; a redrive does it now. A resolved file is set aside,
//! in a folder of the spool that is never uploaded: what was a mistake can be put back by hand.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::books::Balance;
use redrive_core::dead_letter::{
    Acted, Arrivals, Cursor, DeadLetterQueue, Filter, Group, Ids, Letter, LetterId, Listing, Operator, Order,
    Origin, Outcome, Page, PipelineKind, Redelivery, RedeliveryState, Refusal, Stats, Status, Summary,
    Unavailable,
};
use redrive_core::failure::{Class, Failure};
use redrive_core::fingerprint::Fingerprint;
use redrive_core::history::History;
use redrive_spool::spool::{self, Inspection, Waiting, inspect};

use super::Ingest;
use super::books::Fate;
use super::listing::{First, is_meant, place};
use super::outage::Turn;

/// The type of a letter: it holds many events.
const BATCH: &str = "batch";
/// A batch is far smaller; one that somebody put here may unpack to anything.
const MOST_SHOWN: usize = 64 << 20;
/// How many orders that were interrupted are remembered.
const MOST_ORDERS: usize = 1_000;
/// How many files are looked at in one go.
const CHUNK: usize = 10_000;

/// The files of a spool.
pub(super) struct SpooledFiles {
    ingest: Arc<Ingest>,
    interrupted: Mutex<Interrupted>,
}

/// What was uploaded by orders that the store did not let end, by their notes: those files are gone, and when
/// the order comes again they must not count as unknown. A restart forgets it.
type Interrupted = HashMap<String, HashSet<String>>;

/// Why files wait: it is the same for all of them.
struct Why {
    failure: Failure,
    fingerprint: Fingerprint,
}

impl SpooledFiles {
    pub(super) fn of(ingest: &Arc<Ingest>) -> Self {
        Self { ingest: Arc::clone(ingest), interrupted: Mutex::default() }
    }
}

#[async_trait]
impl DeadLetterQueue for SpooledFiles {
    fn pipeline(&self) -> &str {
        self.ingest.name()
    }

    fn kind(&self) -> PipelineKind {
        PipelineKind::Ingest
    }

    async fn stats(&self) -> Result<Stats, Unavailable> {
        let stats = self.ingest.spool.stats();
        let by_type = (stats.files > 0).then(|| (BATCH.to_owned(), stats.files));
        Ok(Stats {
            by_status: vec![(Status::Open, stats.files)],
            waiting_by_type: by_type.into_iter().collect(),
            oldest_waiting: stats.oldest,
        })
    }

    async fn groups(&self, limit: u32) -> Result<Vec<Group>, Unavailable> {
        let stats = self.ingest.spool.stats();
        let (Some(oldest), true) = (stats.oldest, limit > 0) else { return Ok(Vec::new()) };
        let newest = self.ingest.spool.newest(Timestamp::MAX, 1).first().map_or(oldest, |file| file.since);
        let Why { failure, fingerprint } = self.why();
        Ok(vec![Group {
            fingerprint,
            event_type: BATCH.to_owned(),
            failure,
            count: stats.files,
            first_seen: oldest,
            last_seen: newest,
        }])
    }

    async fn arrivals(&self, since: Timestamp) -> Result<Vec<Arrivals>, Unavailable> {
        let (spool, fingerprint) = (Arc::clone(&self.ingest.spool), self.why().fingerprint);
        let hours = tokio::task::spawn_blocking(move || spool.hours(since)).await;
        let hours = hours.map_err(|error| self.unavailable(error))?;
        let arrivals = |(hour, count): (i64, u64)| Arrivals {
            fingerprint,
            hour: Timestamp::from_second(hour * 3600).unwrap_or_default(),
            count,
        };
        Ok(hours.into_iter().map(arrivals).collect())
    }

    async fn list(&self, filter: &Filter, page: Page) -> Result<Listing, Unavailable> {
        let limit = page.limit() as usize;
        let mut letters = self.find(filter, First::Newest, page.cursor(), limit + 1);
        let more = letters.len() > limit;
        letters.truncate(limit);
        let next = letters.last().filter(|_| more).map(cursor);
        Ok(Listing { letters, next })
    }

    async fn get(&self, id: &str) -> Result<Option<Letter>, Unavailable> {
        let (spool, name) = (Arc::clone(&self.ingest.spool), id.to_owned());
        let read = tokio::task::spawn_blocking(move || {
            let batch = spool.read(&name)?;
            Ok(batch.map(|batch| {
                (batch.meta.num_events, spool::lines(&batch, MOST_SHOWN), inspect(&batch.data, &batch.meta))
            }))
        });
        let read: Result<_, redrive_spool::Error> = read.await.map_err(|error| self.unavailable(error))?;
        let read = read.map_err(|error| self.unavailable(error))?;
        let (Some((events, payload, inspection)), Some(waiting)) = (read, self.ingest.spool.waiting(id))
        else {
            return self.past(id).await;
        };
        let mut headers = vec![("events".to_owned(), events.to_string().into_bytes())];
        if let Inspection::Damaged { reason, events, .. } = inspection {
            headers
                .push(("damaged".to_owned(), format!("{reason}; {events} events are intact").into_bytes()));
        }
        if payload.len() >= MOST_SHOWN {
            let path = self.ingest.spool.dir().join(id);
            let said =
                format!("only the first {MOST_SHOWN} bytes are here; all of it is in {}", path.display());
            headers.push(("cut".to_owned(), said.into_bytes()));
        }
        Ok(Some(Letter {
            summary: self.summary(&waiting, &self.why()),
            payload,
            headers,
            origin: Origin::File { file: id.to_owned(), line: 1 },
            target: None,
            history: History::default().with(self.failure(), waiting.since),
            first_failed_at: waiting.since,
            resolution: None,
            redelivery: None,
            redriven_from: None,
        }))
    }

    async fn count(&self, filter: &Filter) -> Result<u64, Unavailable> {
        let why = self.why();
        if !self.means_any(filter, &why) {
            return Ok(0);
        }
        if let Some(name) = &filter.key {
            return Ok(u64::from(self.named(name, filter, &why).is_some()));
        }
        let (spool, since, until) = (Arc::clone(&self.ingest.spool), filter.since, filter.until);
        let counted = tokio::task::spawn_blocking(move || spool.count(since, until)).await;
        counted.map_err(|error| self.unavailable(error))
    }

    async fn ids(&self, filter: &Filter, after: Option<Cursor>, limit: u32) -> Result<Ids, Unavailable> {
        let mut rest = self.find(filter, First::Oldest, after, limit as usize + 1);
        let more = rest.len() > limit as usize;
        rest.truncate(limit as usize);
        let next = rest.last().filter(|_| more).map(cursor);
        Ok(Ids { ids: rest.into_iter().map(|letter| letter.id.local).collect(), next })
    }

    async fn redrive(&self, ids: &[String], order: &Order) -> Result<Acted, Unavailable> {
        let mut acted = Acted::default();
        let before = self.interrupted().get(order.note()).cloned().unwrap_or_default();
        for id in ids {
            let outcome = self.ingest.spool.process(id, &self.ingest.target, Timestamp::now()).await;
            let Some(outcome) = outcome else {
                match before.contains(id) {
                    true => acted.before.push(id.clone()),
                    false => acted.refused.push(Refusal::Unknown(id.clone())),
                }
                continue;
            };
            let refusal = refusal(&outcome);
            self.ingest.recovered(outcome, &Turn::default());
            match refusal {
                Some(Kept::Away(failure)) => {
                    self.interrupt(order, &acted);
                    return Err(self.unavailable(format!("the store did not take {id}: {failure}")));
                }
                Some(Kept::Refused(why)) => acted.refused.push(Refusal::Impossible { id: id.clone(), why }),
                None => {
                    tracing::info!(pipeline = %self.ingest.name, file = %id, note = order.note(), "a file was uploaded");
                    acted.done.push(id.clone());
                }
            }
        }
        self.interrupted().remove(order.note());
        Ok(acted)
    }

    async fn redrive_edited(&self, id: &str, _: &[u8], _: &Order) -> Result<Acted, Unavailable> {
        let refusal = match self.is_waiting(id) {
            true => Refusal::Impossible {
                id: id.to_owned(),
                why: "a file of many events is uploaded as it is, or not at all: redrive it without an edit"
                    .to_owned(),
            },
            false => Refusal::Unknown(id.to_owned()),
        };
        Ok(Acted { refused: vec![refusal], ..Acted::default() })
    }

    async fn outcomes(&self, ids: &[String]) -> Result<Vec<Outcome>, Unavailable> {
        let outcome = |id: &String| match self.is_waiting(id) {
            true => Outcome::Failed(self.failure()),
            false => Outcome::Delivered,
        };
        Ok(ids.iter().map(outcome).collect())
    }

    async fn resolve(&self, ids: &[String], operator: &Operator, note: &str) -> Result<Acted, Unavailable> {
        let mut acted = Acted::default();
        for id in ids {
            let Some(events) = self.set_aside(id).await? else {
                acted.refused.push(Refusal::Unknown(id.clone()));
                continue;
            };
            self.ingest.tally.resolved.increment(events);
            self.ingest.books.left_disk(Fate::Resolved, events, id);
            tracing::warn!(pipeline = %self.ingest.name, file = %id, events, operator = operator.name(), note, "a file was resolved: it is not uploaded, and kept in .resolved of the spool");
            acted.done.push(id.clone());
        }
        Ok(acted)
    }

    async fn balance(&self) -> Result<Balance, Unavailable> {
        Ok(self.ingest.books.balance(self.ingest.backlog.load(Ordering::Relaxed)))
    }

    async fn purge(&self, _: Timestamp) -> Result<u64, Unavailable> {
        Ok(0)
    }
}

impl SpooledFiles {
    /// A file that does not wait any more, as far as one can know: it was set aside, or the store has it. Its events are
    /// there, and not shown.
    async fn past(&self, name: &str) -> Result<Option<Letter>, Unavailable> {
        let Some((since, is_aside)) = self.ingest.spool.past(name) else { return Ok(None) };
        let stored = match is_aside {
            true => None,
            false => self.ingest.target.stored_at(name).await.map_err(|failure| {
                self.unavailable(format!(
                    "it does not wait on disk, and the store does not say whether it has it: {failure}"
                ))
            })?,
        };
        let (status, redelivery) = match stored {
            Some(at) => {
                let redelivery = Redelivery { state: RedeliveryState::Delivered, at: Some(at), letter: None };
                (Status::Redriven, Some(redelivery))
            }
            None if is_aside => (Status::Resolved, None),
            None => return Ok(None),
        };
        let waiting = Waiting { file: name.to_owned(), since, bytes: None };
        Ok(Some(Letter {
            summary: Summary { status, ..self.summary(&waiting, &self.why()) },
            payload: Vec::new(),
            headers: Vec::new(),
            origin: Origin::File { file: name.to_owned(), line: 1 },
            target: None,
            history: History::default().with(self.failure(), since),
            first_failed_at: since,
            resolution: None,
            redelivery,
            redriven_from: None,
        }))
    }

    fn interrupted(&self) -> MutexGuard<'_, Interrupted> {
        self.interrupted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The group of all files: not by what the store says at the moment, or it would be another one each time.
    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(self.ingest.name(), BATCH, &Failure::transient("Upload", "the store did not take it"))
    }

    /// Why files wait: what the store says now, or said.
    fn failure(&self) -> Failure {
        match self.ingest.outage.error() {
            Some(error) => Failure::transient("Upload", error),
            None => Failure::transient("Upload", "the store did not take it; it is uploaded by itself"),
        }
    }

    /// What all files have in common: so they are one group, and mostly need not be looked at one by one.
    fn why(&self) -> Why {
        Why { failure: self.failure(), fingerprint: self.fingerprint() }
    }

    fn summary(&self, waiting: &Waiting, why: &Why) -> Summary {
        Summary {
            id: LetterId::new(self.ingest.name(), &waiting.file),
            kind: PipelineKind::Ingest,
            event_type: BATCH.to_owned(),
            key: waiting.file.clone(),
            failure: why.failure.clone(),
            attempts: 1,
            failed_at: waiting.since,
            status: Status::Open,
            redrive_count: 0,
            fingerprint: why.fingerprint,
        }
    }

    /// Whether a filter means any file, whatever its name and its time.
    fn means_any(&self, filter: &Filter, why: &Why) -> bool {
        let any = Waiting { file: String::new(), since: Timestamp::UNIX_EPOCH, bytes: None };
        let filter = Filter { key: None, since: None, until: None, ..filter.clone() };
        is_meant(&self.summary(&any, why), &filter)
    }

    /// The file that a filter names.
    fn named(&self, name: &str, filter: &Filter, why: &Why) -> Option<Summary> {
        let waiting = self.ingest.spool.waiting(name)?;
        Some(self.summary(&waiting, why)).filter(|letter| is_meant(letter, filter))
    }

    /// The files that a filter means, in this order, from after this place.
    fn find(&self, filter: &Filter, first: First, after: Option<Cursor>, most: usize) -> Vec<Summary> {
        let why = self.why();
        if !self.means_any(filter, &why) {
            return Vec::new();
        }
        let is_left = |letter: &Summary| after.is_none_or(|cursor| first.is_after(letter, cursor));
        if let Some(name) = &filter.key {
            return self.named(name, filter, &why).into_iter().filter(is_left).collect();
        }
        let from = after.and_then(|cursor| Timestamp::from_microsecond(cursor.failed_at).ok());
        let mut from = first.start(from, filter);
        let mut found = Vec::new();
        loop {
            let files = match first {
                First::Newest => self.ingest.spool.newest(from, most.min(CHUNK)),
                First::Oldest => self.ingest.spool.oldest(from, most.min(CHUNK)),
            };
            let Some(last) = files.last().map(|file| file.since) else { return found };
            let letters = files.iter().map(|file| self.summary(file, &why));
            let mut letters: Vec<Summary> =
                letters.filter(|letter| is_left(letter) && is_meant(letter, filter)).collect();
            letters.sort_by_key(place);
            if first == First::Newest {
                letters.reverse();
            }
            found.extend(letters);
            if found.len() >= most || first.is_past(last, filter) {
                found.truncate(most);
                return found;
            }
            let Some(next) = first.next(last) else { return found };
            from = next;
        }
    }

    /// The store is away in the middle of an order, which comes again.
    fn interrupt(&self, order: &Order, acted: &Acted) {
        let mut interrupted = self.interrupted();
        if interrupted.len() >= MOST_ORDERS {
            interrupted.clear();
        }
        interrupted.entry(order.note().to_owned()).or_default().extend(acted.done.iter().cloned());
    }

    /// Sets a file aside, and says how many events it has; nothing when it does not wait. One that cannot be read
    /// is set aside all the same.
    async fn set_aside(&self, name: &str) -> Result<Option<u64>, Unavailable> {
        let (spool, name) = (Arc::clone(&self.ingest.spool), name.to_owned());
        let setting_aside = tokio::task::spawn_blocking(move || {
            let batch = spool.read(&name).ok().flatten();
            let events = batch.map_or(0, |batch| batch.meta.num_events);
            Ok(spool.set_aside(&name)?.then_some(events))
        });
        let aside: Result<_, redrive_spool::Error> =
            setting_aside.await.map_err(|error| self.unavailable(error))?;
        aside.map_err(|error| self.unavailable(error))
    }

    fn is_waiting(&self, name: &str) -> bool {
        self.ingest.spool.waiting(name).is_some()
    }

    fn unavailable(&self, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Unavailable {
        Unavailable { pipeline: self.ingest.name().to_owned(), source: error.into() }
    }
}

/// Why a file was not uploaded.
enum Kept {
    /// The store is away: whoever asked should wait.
    Away(Failure),
    /// It will be the same the next time.
    Refused(String),
}

fn refusal(outcome: &spool::Outcome) -> Option<Kept> {
    match outcome {
        spool::Outcome::Kept { failure, .. } if is_final(failure) => {
            Some(Kept::Refused(format!("the store did not take it: {failure}")))
        }
        spool::Outcome::Kept { failure, .. } => Some(Kept::Away(failure.clone())),
        spool::Outcome::Unreadable { error, .. } => {
            Some(Kept::Refused(format!("the disk does not give it: {error}")))
        }
        spool::Outcome::Unfinished { .. } => Some(Kept::Refused(
            "somebody may still be writing to it: it is uploaded when it has not changed for a minute"
                .to_owned(),
        )),
        _ => None,
    }
}

fn is_final(failure: &Failure) -> bool {
    matches!(failure.class, Class::Permanent | Class::Malformed)
}

/// Where a list goes on after this letter.
fn cursor(last: &Summary) -> Cursor {
    let (failed_at, id) = place(last);
    Cursor { failed_at, id }
}
