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
//!   confirmed. A crash in between publishes it again; nothing is lost.
//! - What Kafka refuses for good does not stand in the way of the rest: it moves to `refused`, is
//!   reported, and is tried again at a slow pace and at every start. So it is neither lost nor looped.
//! - When the disk fails too, [`Ladder::settle`] says so, and the caller keeps the record uncommitted: it
//!   is still in Kafka.

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
        for found in [&ladder.outgoing, &ladder.refused].into_iter().flat_map(|one| &one.recovery().damaged) {
            let kind = if found.is_damage() { "damaged" } else { "unfinished" };
            counter!("redrive_journal_damaged_total", "pipeline" => pipeline.to_owned(), "kind" => kind)
                .increment(1);
            tracing::error!(pipeline, %found, "a journal of letters is not as it should be");
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
    /// When neither Kafka nor the disk took some of them.
    pub async fn settle(&self, letters: &[Outgoing]) -> Result<(), SpoolError> {
        if letters.is_empty() {
            return Ok(());
        }
        let results = self.publisher.publish(letters).await;
        let (mut later, mut refused) = (Vec::new(), Vec::new());
        for (letter, result) in letters.iter().zip(results) {
            match result {
                Ok(()) => {}
                Err(failure) if failure.class.is_retryable() => {
                    self.note_away(&failure);
                    later.push(letter.encode());
                }
                Err(failure) => {
                    self.note_refused(letter, &failure);
                    refused.push(letter.encode());
                }
            }
        }
        self.keep(&self.outgoing, later, "outgoing").await?;
        self.keep(&self.refused, refused, "refused").await?;
        self.measure();
        Ok(())
    }

    /// Publishes what lies on disk, until it is told to stop.
    pub async fn drain(&self, stop: &CancellationToken) {
        tokio::join!(self.drain_outgoing(stop), self.drain_refused(stop));
    }

    async fn drain_outgoing(&self, stop: &CancellationToken) {
        let mut reader = self.outgoing.reader();
        let mut pause = FIRST_PAUSE;
        loop {
            let next = async {
                reader.wait().await;
                reader.next(CHUNK, CHUNK_BYTES).await
            };
            let records = match stop.run_until_cancelled(next).await {
                None => return,
                Some(Ok(records)) if records.is_empty() => {
                    // Whatever was there is acknowledged. The journal may say so again at once.
                    stop.run_until_cancelled(sleep(FIRST_PAUSE)).await;
                    continue;
                }
                Some(Ok(records)) => records,
                Some(Err(error)) => {
                    self.health.note("disk", Err(format!("letters on disk cannot be read: {error}")));
                    stop.run_until_cancelled(sleep(LONGEST_PAUSE)).await;
                    continue;
                }
            };
            match self.publish_in_order(&records).await {
                Ok(()) => {
                    pause = FIRST_PAUSE;
                    self.health.note("kafka", Ok(()));
                }
                Err(failure) => {
                    self.note_away(&failure);
                    reader.rewind();
                    stop.run_until_cancelled(sleep(pause)).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
            self.measure();
        }
    }

    /// Acknowledges what is confirmed or moved on; stops at the first that must wait, which keeps the order.
    async fn publish_in_order(&self, records: &[redrive_spool::journal::Record]) -> Result<(), Failure> {
        let mut letters = Vec::with_capacity(records.len());
        for record in records {
            match Outgoing::decode(record.payload.clone()) {
                Ok(letter) => letters.push((record.position, letter)),
                Err(error) => {
                    tracing::error!(pipeline = %self.pipeline, %error, dir = %self.outgoing.dir().display(), "an entry on disk was moved to refused");
                    self.move_on(record.position, record.payload.clone()).await?;
                }
            }
        }
        let outgoing: Vec<Outgoing> = letters.iter().map(|(_, letter)| letter.clone()).collect();
        let results = self.publisher.publish(&outgoing).await;
        let mut waiting = None;
        for ((position, letter), result) in letters.into_iter().zip(results) {
            match result {
                Ok(()) => self.outgoing.acknowledge(position.into()),
                Err(failure) if failure.class.is_retryable() => waiting = waiting.or(Some(failure)),
                Err(failure) => {
                    self.note_refused(&letter, &failure);
                    self.move_on(position, letter.encode()).await?;
                }
            }
        }
        waiting.map_or(Ok(()), Err)
    }

    async fn move_on(&self, position: redrive_spool::journal::Position, entry: Bytes) -> Result<(), Failure> {
        let moved = self.keep(&self.refused, vec![entry], "refused").await;
        moved.map_err(|error| Failure::transient("Disk", error.to_string()))?;
        self.outgoing.acknowledge(position.into());
        Ok(())
    }

    /// Each by itself: one that is still refused does not hold up the others.
    async fn drain_refused(&self, stop: &CancellationToken) {
        loop {
            let mut reader = self.refused.reader();
            while let Ok(records) = reader.read(CHUNK, CHUNK_BYTES) {
                if records.is_empty() || stop.is_cancelled() {
                    break;
                }
                for record in records {
                    self.try_refused(record).await;
                }
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

    async fn try_refused(&self, record: redrive_spool::journal::Record) {
        let Ok(letter) = Outgoing::decode(record.payload) else { return };
        let result = self.publisher.publish(std::slice::from_ref(&letter)).await;
        match result.into_iter().next() {
            Some(Ok(())) => self.refused.acknowledge(record.position.into()),
            Some(Err(failure)) if !failure.class.is_retryable() => self.note_refused(&letter, &failure),
            _ => {}
        }
    }

    async fn keep(
        &self,
        journal: &Journal,
        entries: Vec<Bytes>,
        rung: &'static str,
    ) -> Result<(), SpoolError> {
        if entries.is_empty() {
            return Ok(());
        }
        let many = entries.len() as u64;
        match journal.append(entries).await {
            Ok(_) => {
                let labels = [("pipeline", self.pipeline.clone()), ("rung", rung.to_owned())];
                counter!("redrive_kafka_spooled_total", &labels).increment(many);
                self.health.note("disk", Ok(()));
                Ok(())
            }
            Err(error) => {
                self.health
                    .note("disk", Err(format!("letters can be kept neither in Kafka nor on disk: {error}")));
                Err(error)
            }
        }
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
