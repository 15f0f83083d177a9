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

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use metrics::{counter, gauge};
use redrive_core::failure::Failure;
use redrive_core::ladder::Rung;
use redrive_spool::{Error as SpoolError, Journal, JournalOptions};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::health::Health;
use crate::outgoing::Outgoing;
use crate::publisher::Publisher;

/// How many are read back at a time, and how many bytes.
const CHUNK: usize = 500;
const CHUNK_BYTES: usize = 8 << 20;
/// The pauses between attempts while Kafka is away.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How often what was refused is tried again.
const REFUSED_INTERVAL: Duration = Duration::from_secs(300);

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
        let ladder = Self { pipeline: pipeline.to_owned(), publisher, outgoing, refused, health };
        for journal in [&ladder.outgoing, &ladder.refused] {
            ladder.health.opened(journal);
        }
        ladder.measure();
        Ok(ladder)
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
        for (letter, failure, kept) in self.keep_all(&self.outgoing, later, "outgoing").await {
            match kept {
                Ok(()) => self.note_away(&failure),
                Err(why) => unsettled.add(letter, &failure, &why),
            }
        }
        for (letter, failure, kept) in self.keep_all(&self.refused, refused, "refused").await {
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
            let records = match stop.run_until_cancelled(next).await {
                None => return,
                // Whatever was there is acknowledged.
                Some(Ok(records)) if records.is_empty() && is_first => continue,
                Some(Ok(records)) => records,
                Some(Err(error)) => {
                    self.health.note("disk", Err(format!("letters on disk cannot be read: {error}")));
                    stop.run_until_cancelled(sleep(LONGEST_PAUSE)).await;
                    continue;
                }
            };
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
    async fn publish_chunk(
        &self,
        records: &[redrive_spool::journal::Record],
        held: &mut HashSet<String>,
    ) -> Result<(), Failure> {
        let (mut letters, mut positions, mut stuck) = (Vec::new(), Vec::new(), None);
        for record in records {
            match Outgoing::decode(record.payload.clone()) {
                Ok(letter) if held.contains(&letter.topic) => {}
                Ok(letter) => {
                    letters.push(letter);
                    positions.push(record.position);
                }
                Err(error) => {
                    tracing::error!(pipeline = %self.pipeline, %error, dir = %self.outgoing.dir().display(), "an entry on disk is no letter");
                    stuck = self.move_on(record.position, record.payload.clone()).await.err().or(stuck);
                }
            }
        }
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
            (None, Some((failure, topic))) if confirmed == 0 => {
                if !self.publisher.is_answered(topic).await {
                    return Err(failure);
                }
                self.publisher.mend_stuck(&failure);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    async fn move_on(&self, position: redrive_spool::journal::Position, entry: Bytes) -> Result<(), Failure> {
        let moved = self.keep(&self.refused, vec![entry], "refused").await;
        moved.map_err(|why| Failure::transient("Disk", why))?;
        self.outgoing.acknowledge(position.into());
        Ok(())
    }

    async fn drain_refused(&self, stop: &CancellationToken) {
        loop {
            // One that is on its way when this ends is published again: better than to keep a stop waiting.
            if stop.run_until_cancelled(self.try_all_refused()).await.is_none() {
                return;
            }
            if self.refused.stats().records == 0 {
                self.health.note("refused", Ok(()));
            }
            self.measure();
            if stop.run_until_cancelled(sleep(REFUSED_INTERVAL)).await.is_none() {
                return;
            }
        }
    }

    /// Each by itself: one that is still refused does not hold up the others. While Kafka is away, none.
    async fn try_all_refused(&self) {
        let mut reader = self.refused.reader();
        while let Ok(records) = reader.next(CHUNK, CHUNK_BYTES).await {
            if records.is_empty() {
                return;
            }
            for record in records {
                if let Err(failure) = self.try_refused(record).await {
                    self.note_away(&failure);
                    return;
                }
            }
        }
    }

    /// An error when it is not refused, and must wait.
    async fn try_refused(&self, record: redrive_spool::journal::Record) -> Result<(), Failure> {
        let Ok(letter) = Outgoing::decode(record.payload) else { return Ok(()) };
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
        journal: &Journal,
        letters: Vec<(&'a Outgoing, Failure)>,
        rung: &'static str,
    ) -> Vec<(&'a Outgoing, Failure, Result<(), String>)> {
        let entries: Vec<Bytes> = letters.iter().map(|(letter, _)| letter.encode()).collect();
        let kept = match self.keep(journal, entries.clone(), rung).await {
            Ok(()) => vec![Ok(()); entries.len()],
            Err(_) if entries.len() > 1 => {
                let mut kept = Vec::with_capacity(entries.len());
                for entry in entries {
                    kept.push(self.keep(journal, vec![entry], rung).await);
                }
                kept
            }
            Err(why) => vec![Err(why)],
        };
        letters.into_iter().zip(kept).map(|((letter, failure), kept)| (letter, failure, kept)).collect()
    }

    /// All of them, or none and why.
    async fn keep(&self, journal: &Journal, entries: Vec<Bytes>, rung: &'static str) -> Result<(), String> {
        if entries.is_empty() {
            return Ok(());
        }
        let (many, bytes) = (entries.len() as u64, entries.iter().map(Bytes::len).sum::<usize>());
        journal.append(entries).await.map_err(|error| why_not_kept(bytes, &error))?;
        let labels = [("pipeline", self.pipeline.clone()), ("rung", rung.to_owned())];
        counter!("redrive_kafka_spooled_total", &labels).increment(many);
        self.health.note("disk", Ok(()));
        Ok(())
    }

    fn note_away(&self, failure: &Failure) {
        self.health.note("kafka", Err(format!("letters wait on disk for Kafka: {}", failure.message)));
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
        gauge!("redrive_kafka_spooled", "pipeline" => pipeline(), "rung" => "outgoing").set(outgoing as f64);
        gauge!("redrive_kafka_spooled", "pipeline" => pipeline(), "rung" => "refused").set(refused as f64);
    }
}

fn why_not_kept(bytes: usize, error: &SpoolError) -> String {
    match error {
        SpoolError::Full { dir, size, limit } => format!(
            "{bytes} bytes do not fit into {}, which holds {size} of at most {limit}: raise `fallback.max-size`",
            dir.display()
        ),
        error => error.to_string(),
    }
}
