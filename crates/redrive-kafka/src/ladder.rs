//! The ladder: a letter is confirmed by Kafka, or durable on this disk, before its record is let go.
//!
//! ```text
//! publish ──confirmed──▶ done
//!    │ Kafka is away                       │ refused for good (too large, not allowed)
//!    ▼                                     ▼
//! journal "outgoing" ──drained in order──▶ journal "refused" ──tried again now and then
//! ```
//!
//! - What lies in `outgoing` is published in order as soon as Kafka answers, and deleted only when
//!   confirmed. A crash in between publishes it again; nothing is lost. A topic that does not take its
//!   letters does not keep those of others waiting.
//! - What Kafka refuses for good does not stand in the way of the rest: it moves to `refused`, is
//!   reported, and is tried again at a slow pace and at every start. So it is neither lost nor looped.
//! - When the disk fails too, [`Ladder::settle`] says so, and the caller keeps the record uncommitted: it
//!   is still in Kafka.
//! - An entry on disk that is no letter (any more) is nobody's to publish: it is kept with what was refused, and
//!   reported.
//!
//! What it does not do: keep the order between letters on disk and those that come when Kafka is back.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use metrics::{counter, gauge};
use redrive_core::failure::Failure;
use redrive_core::ladder::Rung;
use redrive_spool::journal::{Position, Record};
use redrive_spool::{Error as SpoolError, Journal, JournalOptions};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::health::Health;
use crate::outgoing::Outgoing;
use crate::publisher::Publisher;
use crate::refused::Refused;

/// How many are read back at a time, and how many bytes.
const CHUNK: usize = 500;
const CHUNK_BYTES: usize = 8 << 20;
/// The pauses between attempts while Kafka is away.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How often what was refused is tried again: soon after a person has raised a limit or granted a right.
const REFUSED_INTERVAL: Duration = Duration::from_secs(30);

/// Letters that are neither confirmed by Kafka nor on disk.
#[derive(Debug, thiserror::Error)]
#[error("letters can be kept neither in Kafka nor on disk, and {} wait: {why}", open.len())]
pub struct Unsettled {
    /// Which ones.
    pub open: Vec<Outgoing>,
    why: String,
}

impl Unsettled {
    fn add(&mut self, letter: &Outgoing, failure: &Failure, why: &str) {
        if self.open.is_empty() {
            self.why = format!("topic {}: {}; {why}", letter.topic, failure.message);
        }
        self.open.push(letter.clone());
    }
}

/// The way of letters to safety.
#[derive(Debug)]
pub struct Ladder {
    pipeline: String,
    publisher: Arc<Publisher>,
    outgoing: Journal,
    refused: Journal,
    health: Health,
    /// How many batches wait for a safe place.
    held_back: AtomicUsize,
}

/// A batch whose letters have no safe place yet. With the last of them the disk is well again.
#[derive(Debug)]
pub(crate) struct HeldBack<'a>(&'a Ladder);

impl Drop for HeldBack<'_> {
    fn drop(&mut self) {
        if self.0.held_back.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.health.note("disk", Ok(()));
        }
    }
}

/// A journal of letters.
#[derive(Clone, Copy)]
enum Shelf {
    /// What waits for Kafka.
    Outgoing,
    /// What waits for a person.
    Refused,
}

impl Shelf {
    /// The word for it in metrics.
    const fn name(self) -> &'static str {
        match self {
            Self::Outgoing => "outgoing",
            Self::Refused => "refused",
        }
    }
}

impl Ladder {
    /// A ladder whose lower rungs are in this folder.
    ///
    /// # Errors
    /// When the folder cannot be used.
    pub fn open(
        pipeline: &str,
        publisher: Arc<Publisher>,
        folder: &Path,
        options: JournalOptions,
        health: Health,
    ) -> Result<Self, SpoolError> {
        let outgoing = Journal::open(&folder.join("outgoing"), options)?;
        let refused = Journal::open(&folder.join("refused"), options)?;
        let (pipeline, held_back) = (pipeline.to_owned(), AtomicUsize::new(0));
        let ladder = Self { pipeline, publisher, outgoing, refused, health, held_back };
        for journal in [&ladder.outgoing, &ladder.refused] {
            ladder.health.opened(journal);
        }
        ladder.measure();
        Ok(ladder)
    }

    /// What Kafka refused, for a reader of its own.
    pub(crate) fn refused(&self) -> Refused {
        Refused { reader: self.refused.reader(), dir: self.refused.dir().to_owned() }
    }

    /// How many letters wait on this disk: for Kafka, and for a person.
    #[must_use]
    pub fn waiting(&self) -> (u64, u64) {
        (self.outgoing.stats().records, self.refused.stats().records)
    }

    /// Brings letters to safety. When it returns, each is confirmed or on disk.
    ///
    /// # Errors
    /// [`Unsettled`] holds those that neither Kafka nor the disk took. The others are safe: settling them
    /// again would publish them twice.
    pub async fn settle(&self, letters: &[Outgoing]) -> Result<(), Unsettled> {
        if letters.is_empty() {
            return Ok(());
        }
        let results = self.publisher.publish(letters).await;
        let (mut later, mut refused) = (Vec::new(), Vec::new());
        for (letter, result) in letters.iter().zip(results) {
            match result {
                Ok(()) => {}
                Err(failure) if failure.class.is_retryable() => later.push((letter, failure)),
                Err(failure) => refused.push((letter, failure)),
            }
        }
        let mut unsettled = Unsettled { open: Vec::new(), why: String::new() };
        for (letter, failure, kept) in self.keep_all(Shelf::Outgoing, later).await {
            match kept {
                Ok(()) => self.note_waiting(&failure),
                Err(why) => unsettled.add(letter, &failure, &why),
            }
        }
        for (letter, failure, kept) in self.keep_all(Shelf::Refused, refused).await {
            match kept {
                Ok(()) => self.note_refused(letter, &failure),
                Err(why) => unsettled.add(letter, &failure, &why),
            }
        }
        self.measure();
        if unsettled.open.is_empty() {
            return Ok(());
        }
        self.health.note("disk", Err(unsettled.to_string()));
        Err(unsettled)
    }

    /// Says that a batch is held back until its letters have a safe place.
    pub(crate) fn hold_back(&self) -> HeldBack<'_> {
        self.held_back.fetch_add(1, Ordering::AcqRel);
        HeldBack(self)
    }

    /// Publishes what lies on disk, until it is told to stop.
    pub async fn drain(&self, stop: &CancellationToken) {
        tokio::join!(self.drain_outgoing(stop), self.drain_refused(stop));
    }

    /// Passes over the journal: in each, a topic whose letters must wait is left alone once that is known,
    /// which keeps the order of its letters from one chunk to the next, and the letters of others go on.
    async fn drain_outgoing(&self, stop: &CancellationToken) {
        let mut reader = self.outgoing.reader();
        let mut pause = FIRST_PAUSE;
        let mut held = HashSet::new();
        loop {
            let is_first = held.is_empty();
            let next = async {
                if is_first {
                    reader.wait().await;
                }
                reader.next(CHUNK, CHUNK_BYTES).await
            };
            let Some(read) = stop.run_until_cancelled(next).await else { return };
            let records = match read {
                // Whatever was there is acknowledged.
                Ok(records) if records.is_empty() && is_first => continue,
                Ok(records) => records,
                Err(error) => {
                    self.health
                        .note("letters on disk", Err(format!("letters on disk cannot be read: {error}")));
                    stop.run_until_cancelled(sleep(LONGEST_PAUSE)).await;
                    continue;
                }
            };
            self.health.note("letters on disk", Ok(()));
            let goes_on = !records.is_empty() && self.publish_chunk(&records, &mut held).await.is_ok();
            if !goes_on {
                held.clear();
                reader.rewind();
                stop.run_until_cancelled(sleep(pause)).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            } else if held.is_empty() {
                pause = FIRST_PAUSE;
                self.health.note("kafka", Ok(()));
            }
            self.measure();
        }
    }

    /// Publishes a chunk but for what is held, and acknowledges what is confirmed or moved on. Topics whose
    /// letters must wait are added to what is held.
    ///
    /// An error when there is no use in going on: Kafka is away, or the disk fails.
    async fn publish_chunk(&self, records: &[Record], held: &mut HashSet<String>) -> Result<(), Failure> {
        let Chunk { positions, letters, mut stuck } = self.open_chunk(records, held).await;
        let results = self.publisher.publish(&letters).await;
        let (mut waiting, mut confirmed) = (None, 0);
        for ((position, letter), result) in positions.into_iter().zip(&letters).zip(results) {
            match result {
                Ok(()) => {
                    confirmed += 1;
                    self.outgoing.acknowledge(position.into());
                }
                Err(failure) if failure.class.is_retryable() => {
                    self.note_away(&failure);
                    held.insert(letter.topic.clone());
                    waiting = Some((failure, &letter.topic));
                }
                // The others are acknowledged whatever happens here, or they would be published again.
                Err(failure) => match self.move_on(position, letter.encode()).await {
                    Ok(()) => self.note_refused(letter, &failure),
                    Err(failure) => stuck = Some(failure),
                },
            }
        }
        match (stuck, waiting) {
            (Some(failure), _) => Err(failure),
            (None, Some((failure, topic))) if confirmed == 0 => self.look_for_kafka(failure, topic).await,
            _ => Ok(()),
        }
    }

    /// What is to be published of these, and what cannot be.
    async fn open_chunk(&self, records: &[Record], held: &HashSet<String>) -> Chunk {
        let mut chunk = Chunk { positions: Vec::new(), letters: Vec::new(), stuck: None };
        for record in records {
            match Outgoing::decode(record.payload.clone()) {
                Ok(letter) if held.contains(&letter.topic) => {}
                Ok(letter) => {
                    chunk.letters.push(letter);
                    chunk.positions.push(record.position);
                }
                Err(_) => match self.move_on(record.position, record.payload.clone()).await {
                    Ok(()) => self.note_unreadable(),
                    Err(failure) => chunk.stuck = Some(failure),
                },
            }
        }
        chunk
    }

    /// Nothing of a chunk was confirmed: an error when Kafka is away. Otherwise it is this topic, or the producer.
    async fn look_for_kafka(&self, failure: Failure, topic: &str) -> Result<(), Failure> {
        if !self.publisher.is_answered(topic).await {
            return Err(failure);
        }
        self.publisher.replace_stuck(&failure);
        Ok(())
    }

    async fn move_on(&self, position: Position, entry: Bytes) -> Result<(), Failure> {
        let moved = self.keep(Shelf::Refused, vec![entry]).await;
        moved.map_err(|why| Failure::transient("Disk", why))?;
        self.outgoing.acknowledge(position.into());
        Ok(())
    }

    async fn drain_refused(&self, stop: &CancellationToken) {
        let mut pause = FIRST_PAUSE;
        loop {
            // One that is on its way when this ends is published again: better than to keep a stop waiting.
            let Some(tried) = stop.run_until_cancelled(self.try_all_refused()).await else { return };
            let wait = if let Err(failure) = tried {
                self.note_not_tried(&failure);
                pause = (pause * 2).min(LONGEST_PAUSE);
                pause
            } else {
                pause = FIRST_PAUSE;
                REFUSED_INTERVAL
            };
            if self.refused.stats().records == 0 {
                self.health.note("refused", Ok(()));
            }
            self.measure();
            if stop.run_until_cancelled(sleep(wait)).await.is_none() {
                return;
            }
        }
    }

    /// Each by itself: one that is still refused does not hold up the others. An error when Kafka is away: then
    /// the others are left alone.
    async fn try_all_refused(&self) -> Result<(), Failure> {
        let mut reader = self.refused.reader();
        loop {
            let records = match reader.next(CHUNK, CHUNK_BYTES).await {
                Ok(records) if records.is_empty() => return Ok(()),
                Ok(records) => records,
                Err(error) => {
                    let advice = format!("letters that Kafka refused cannot be read from disk: {error}");
                    self.health.note("refused", Err(advice));
                    return Ok(());
                }
            };
            for record in records {
                self.try_refused(record).await?;
            }
        }
    }

    /// An error when it is not refused, and must wait.
    async fn try_refused(&self, record: Record) -> Result<(), Failure> {
        let Ok(letter) = Outgoing::decode(record.payload) else {
            self.note_unreadable();
            return Ok(());
        };
        let result = self.publisher.publish(std::slice::from_ref(&letter)).await;
        match result.into_iter().next() {
            Some(Ok(())) => self.refused.acknowledge(record.position.into()),
            Some(Err(failure)) if failure.class.is_retryable() => return Err(failure),
            Some(Err(failure)) => self.note_refused(&letter, &failure),
            None => {}
        }
        Ok(())
    }

    /// Keeps letters, and says of each whether it is kept. Together, or, when they do not fit together, each
    /// by itself.
    async fn keep_all<'a>(
        &self,
        shelf: Shelf,
        letters: Vec<(&'a Outgoing, Failure)>,
    ) -> Vec<(&'a Outgoing, Failure, Result<(), String>)> {
        let entries: Vec<Bytes> = letters.iter().map(|(letter, _)| letter.encode()).collect();
        let kept = match self.keep(shelf, entries.clone()).await {
            Ok(()) => vec![Ok(()); entries.len()],
            Err(_) if entries.len() > 1 => {
                let mut kept = Vec::with_capacity(entries.len());
                for entry in entries {
                    kept.push(self.keep(shelf, vec![entry]).await);
                }
                kept
            }
            Err(why) => vec![Err(why)],
        };
        letters.into_iter().zip(kept).map(|((letter, failure), kept)| (letter, failure, kept)).collect()
    }

    /// All of them, or none and why.
    async fn keep(&self, shelf: Shelf, entries: Vec<Bytes>) -> Result<(), String> {
        if entries.is_empty() {
            return Ok(());
        }
        let journal = match shelf {
            Shelf::Outgoing => &self.outgoing,
            Shelf::Refused => &self.refused,
        };
        let many = entries.len() as u64;
        journal.append(entries).await.map_err(|error| why_not_kept(&error))?;
        let labels = [("pipeline", self.pipeline.clone()), ("rung", shelf.name().to_owned())];
        counter!("redrive_kafka_spooled_total", &labels).increment(many);
        Ok(())
    }

    fn note_away(&self, failure: &Failure) {
        self.health.note("kafka", Err(format!("letters wait on disk for Kafka: {}", failure.message)));
    }

    /// Letters were put on disk. Whoever drains it may have been quicker, and nobody would say that Kafka is back.
    fn note_waiting(&self, failure: &Failure) {
        self.note_away(failure);
        if self.outgoing.stats().records == 0 {
            self.health.note("kafka", Ok(()));
        }
    }

    /// Kafka is not there to refuse letters again: that is said of them, and ends with them.
    fn note_not_tried(&self, failure: &Failure) {
        let (dir, why) = (self.refused.dir().display(), &failure.message);
        let advice =
            format!("letters that Kafka refused are kept in {dir}, and cannot be tried again now: {why}");
        self.health.note("refused", Err(advice));
    }

    fn note_unreadable(&self) {
        let dir = self.refused.dir().display();
        tracing::error!(pipeline = %self.pipeline, %dir, "an entry on disk is no letter: it is kept");
        let advice = format!(
            "an entry in {dir} is no letter that redrive wrote, or is damaged, and cannot be published: look at it, \
             and move the folder away while redrive is stopped"
        );
        self.health.note("refused", Err(advice));
    }

    fn note_refused(&self, letter: &Outgoing, failure: &Failure) {
        let topic = &letter.topic;
        tracing::error!(pipeline = %self.pipeline, topic, error = %failure, "Kafka refuses a letter: it is kept on disk");
        let advice = format!(
            "Kafka refuses letters for topic {topic}, which are kept in {}: {}: raise its max.message.bytes or allow \
             this user to write, then restart or wait",
            self.refused.dir().display(),
            failure.message
        );
        self.health.note("refused", Err(advice));
    }

    /// Letters go to Kafka, or some are on disk.
    fn measure(&self) {
        let (outgoing, refused) = self.waiting();
        let pipeline = || self.pipeline.clone();
        let rung = if outgoing + refused > 0 { Rung::Disk } else { Rung::Target };
        gauge!("redrive_ladder_rung", "pipeline" => pipeline()).set(rung.level());
        for (shelf, waiting) in [(Shelf::Outgoing, outgoing), (Shelf::Refused, refused)] {
            gauge!("redrive_kafka_spooled", "pipeline" => pipeline(), "rung" => shelf.name())
                .set(waiting as f64);
        }
    }
}

/// What was read of the journal, as letters.
struct Chunk {
    positions: Vec<Position>,
    letters: Vec<Outgoing>,
    /// Why an entry that is no letter could not be moved on.
    stuck: Option<Failure>,
}

fn why_not_kept(error: &SpoolError) -> String {
    match error {
        SpoolError::Full { .. } => format!("{error}: raise `fallback.max-size`"),
        error => error.to_string(),
    }
}
