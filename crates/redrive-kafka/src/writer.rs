//! The writer: a batch of records in; every one of them stored, or a letter that is safe.
//!
//! ```text
//! decode ─▶ store ─▶ (may pass: 1 s, again, 2 s, again) ─▶ plan ─▶ letters to safety ─▶ committed by the lane
//! ```
//! The whole batch is judged before the first letter is published.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use jiff::Timestamp;
use metrics::{counter, histogram};
use redrive_core::backoff::Backoff;
use redrive_core::failure::Failure;
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::decode::Decoder;
use crate::headers::{self, Cause, annotate};
use crate::health::Health;
use crate::ladder::Ladder;
use crate::lane::Processor;
use crate::observer::{NewLetterNotice, Observer};
use crate::outgoing::Outgoing;
use crate::pause::Pause;
use crate::plan::{Destination, Outcome, Plan, Stage, plan};
use crate::record::{Position, Record};
use crate::row::Row;
use crate::seal::Seal;
use crate::sink::{Sink, bisect_exhausted};

/// The pause when neither Kafka nor the disk takes a letter.
const STUCK: Duration = Duration::from_secs(5);
/// The longest pause between two looks at a database that is away.
const LONGEST_PROBE: Duration = Duration::from_secs(30);

/// The names of the topics that letters go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LetterTopics {
    /// What fails and would again.
    pub dlq: String,
    /// What may yet succeed.
    pub parking: String,
    /// What the parking lot gave up.
    pub parking_dlq: String,
}

impl LetterTopics {
    /// The topic for this destination.
    #[must_use]
    pub fn of(&self, destination: Destination) -> &str {
        match destination {
            Destination::Dlq => &self.dlq,
            Destination::Parking => &self.parking,
            Destination::ParkingDlq => &self.parking_dlq,
        }
    }
}

/// When a failed batch is tried again.
#[derive(Debug, Clone, Copy)]
pub struct Retries {
    /// How often.
    pub attempts: u32,
    /// The pauses in between.
    pub backoff: Backoff,
}

/// Writes the batches of one consumer.
pub(crate) struct Writer {
    pub(crate) stage: Stage,
    pub(crate) pipeline: String,
    /// The topic of the stream, also where that of the parking lot is consumed.
    pub(crate) topic: Arc<str>,
    pub(crate) group: String,
    pub(crate) retries: Retries,
    pub(crate) decoder: Decoder,
    pub(crate) seal: Option<Seal>,
    pub(crate) sink: Arc<dyn Sink>,
    /// So many batches are stored at a time.
    pub(crate) gate: Semaphore,
    pub(crate) pause: Pause,
    pub(crate) ladder: Arc<Ladder>,
    pub(crate) topics: LetterTopics,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) health: Health,
}

/// What is known of a batch while it is being stored.
struct Tally {
    outcomes: Vec<Option<Outcome>>,
    attempts: u32,
}

#[async_trait]
impl Processor for Writer {
    async fn process(&self, batch: &[Record], stop: &CancellationToken) -> bool {
        if self.stage == Stage::Parking && !self.wait_until_due(batch, stop).await {
            return false;
        }
        // It may have been paused meanwhile.
        if !self.pause.is_resumed(stop).await {
            return false;
        }
        let begun = Instant::now();
        let Some(tally) = self.store(batch, stop).await else { return false };
        histogram!("redrive_attempt_seconds", "pipeline" => self.pipeline.clone()).record(begun.elapsed());
        let attempts = tally.attempts;
        let stored = |outcome: Option<Outcome>| outcome.unwrap_or(Outcome::Stored);
        let plan = plan(self.stage, tally.outcomes.into_iter().map(stored).collect());
        if !self.settle(self.letters(batch, &plan, attempts), stop).await {
            return false;
        }
        self.count(batch, &plan);
        self.tell(batch, &plan, attempts);
        true
    }
}

impl Writer {
    /// Stores what can be stored. None when it was told to stop.
    async fn store(&self, batch: &[Record], stop: &CancellationToken) -> Option<Tally> {
        let mut tally = Tally { outcomes: vec![None; batch.len()], attempts: 0 };
        let mut rows: Vec<(usize, Row<'_>)> = Vec::with_capacity(batch.len());
        for (at, record) in batch.iter().enumerate() {
            match self.decoder.decode(record) {
                Ok(row) => rows.push((at, Row { identity: self.identity(record), ..row })),
                Err(failure) => tally.outcomes[at] = Some(Outcome::Poison(failure)),
            }
        }
        loop {
            tally.attempts += 1;
            let cause = self.attempt(&mut tally, &mut rows).await;
            let Some(cause) = cause else { return Some(tally) };
            self.health.note("sink", Err(format!("the sink is not available: {}", cause.message)));
            if tally.attempts > self.retries.attempts {
                self.give_up(&mut tally, &rows, &cause).await;
                return Some(tally);
            }
            let pause = match self.stage {
                Stage::Stream => self.retries.backoff.delay(tally.attempts, 0),
                Stage::Parking => self.retries.backoff.delay(tally.attempts, self.seed(batch)),
            };
            stop.run_until_cancelled(sleep(pause)).await?;
            if self.stage == Stage::Parking && !self.wait_for_sink(stop).await {
                return None;
            }
            if !self.pause.is_resumed(stop).await {
                return None;
            }
        }
    }

    /// Who a record is, so that the sink takes it once wherever it lies now. In the stream anybody may
    /// say who a record is, and only what is sealed is believed. A parked record is the one that it was in
    /// the stream: the parking lot is a topic of ours, and what it says of origins was written by [`annotate`].
    fn identity(&self, record: &Record) -> Position {
        let origin = match self.stage {
            Stage::Stream => self.seal.as_ref().and_then(|seal| seal.origin(record)),
            Stage::Parking => headers::origin(record).filter(|origin| origin.topic == self.topic),
        };
        origin.unwrap_or_else(|| record.position.clone())
    }

    /// One attempt at what is left; says why something is still left after it.
    async fn attempt<'a>(&self, tally: &mut Tally, rows: &mut Vec<(usize, Row<'a>)>) -> Option<Failure> {
        if rows.is_empty() {
            return None;
        }
        let permit = self.gate.acquire().await;
        let only: Vec<Row<'a>> = rows.iter().map(|(_, row)| row.clone()).collect();
        let stored = self.sink.store(&only).await;
        drop(permit);
        for (at, failure) in stored.poison {
            tally.outcomes[rows[at].0] = Some(Outcome::Poison(failure));
        }
        if stored.undecided.is_empty() {
            self.health.note("sink", Ok(()));
            rows.clear();
            return None;
        }
        *rows = stored.undecided.iter().map(|at| rows[*at].clone()).collect();
        Some(stored.cause.unwrap_or_else(|| Failure::transient("Unknown", "the sink did not say why")))
    }

    /// Attempts are used up. In the parking lot a last search keeps one record from taking its neighbours
    /// with it; in the stream the parking lot will do that.
    async fn give_up(&self, tally: &mut Tally, rows: &[(usize, Row<'_>)], cause: &Failure) {
        if self.stage == Stage::Stream {
            for (at, _) in rows {
                tally.outcomes[*at] = Some(Outcome::Undecided(cause.clone()));
            }
            return;
        }
        let only: Vec<Row<'_>> = rows.iter().map(|(_, row)| row.clone()).collect();
        let stored = bisect_exhausted(self.sink.as_ref(), &only).await;
        let cause = stored.cause.as_ref().unwrap_or(cause);
        for at in stored.undecided {
            tally.outcomes[rows[at].0] = Some(Outcome::Undecided(cause.clone()));
        }
        for (at, failure) in stored.poison {
            tally.outcomes[rows[at].0] = Some(Outcome::Poison(failure));
        }
    }

    /// A parked record is left alone for the first pause, and then until the sink answers: an outage burns
    /// nobody's attempts.
    async fn wait_until_due(&self, batch: &[Record], stop: &CancellationToken) -> bool {
        let parked = batch.iter().filter_map(|record| headers::read(record).failed_at).max();
        let due = parked.and_then(|at| at.checked_add(self.retries.backoff.initial()).ok());
        let wait = due.map(|due| due.duration_since(Timestamp::now())).unwrap_or_default();
        let wait = Duration::try_from(wait).unwrap_or_default().min(self.retries.backoff.max());
        stop.run_until_cancelled(sleep(wait)).await.is_some() && self.wait_for_sink(stop).await
    }

    async fn wait_for_sink(&self, stop: &CancellationToken) -> bool {
        let mut pause = Duration::from_millis(500);
        while let Err(failure) = self.sink.probe().await {
            self.health.note("sink", Err(format!("the sink is not available: {}", failure.message)));
            if stop.run_until_cancelled(sleep(pause)).await.is_none() {
                return false;
            }
            pause = (pause * 2).min(LONGEST_PROBE);
        }
        !stop.is_cancelled()
    }

    fn letters(&self, batch: &[Record], plan: &Plan, attempts: u32) -> Vec<Outgoing> {
        let now = Timestamp::now();
        let letter = |(at, destination, failure): &(usize, Destination, Failure)| {
            let record = &batch[*at];
            let (attempts, group) = (attempts_at(failure, attempts), self.group.clone());
            let cause = Cause { failure: failure.clone(), attempts, at: now, group };
            let identity = self.identity(record);
            Outgoing {
                topic: self.topics.of(*destination).to_owned(),
                partition: Some(identity.partition),
                timestamp: None,
                key: record.key.clone(),
                value: record.value.clone(),
                headers: annotate(record, &identity, &cause),
            }
        };
        plan.letters.iter().map(letter).collect()
    }

    /// Until every letter is safe: a record that neither Kafka nor the disk takes is not let go.
    /// What is safe is not published again.
    async fn settle(&self, mut letters: Vec<Outgoing>, stop: &CancellationToken) -> bool {
        let mut held_back = None;
        while let Err(unsettled) = self.ladder.settle(&letters).await {
            held_back.get_or_insert_with(|| self.ladder.hold_back());
            tracing::error!(pipeline = %self.pipeline, error = %unsettled, "letters have no safe place: the partition waits");
            letters = unsettled.open;
            if stop.run_until_cancelled(sleep(STUCK)).await.is_none() {
                return false;
            }
        }
        true
    }

    fn count(&self, batch: &[Record], plan: &Plan) {
        let topic = batch.first().map_or_else(String::new, |record| record.position.topic.to_string());
        let count = |outcome: &'static str, many: usize| {
            let (pipeline, topic) = (self.pipeline.clone(), topic.clone());
            let labels = [("pipeline", pipeline), ("type", topic), ("outcome", outcome.to_owned())];
            counter!("redrive_events_total", &labels).increment(many as u64);
        };
        let is_parked = |letter: &&(usize, Destination, Failure)| letter.1 == Destination::Parking;
        let parked = plan.letters.iter().filter(is_parked).count();
        let counts = [("delivered", plan.stored), ("parked", parked), ("dead", plan.letters.len() - parked)];
        for (outcome, many) in counts.into_iter().filter(|(_, many)| *many > 0) {
            count(outcome, many);
        }
    }

    fn tell(&self, batch: &[Record], plan: &Plan, attempts: u32) {
        for (at, destination, failure) in &plan.letters {
            let record = &batch[*at];
            let key = String::from_utf8_lossy(record.key.as_deref().unwrap_or_default());
            self.observer.letter(&NewLetterNotice {
                position: &record.position,
                key: &key,
                destination: *destination,
                topic: self.topics.of(*destination),
                failure,
                attempts: attempts_at(failure, attempts),
            });
        }
    }

    /// Spreads the retries of partitions that were parked together.
    fn seed(&self, batch: &[Record]) -> u64 {
        batch.first().map_or(0, |record| {
            record.position.offset.unsigned_abs() ^ u64::from(record.position.partition.unsigned_abs())
        })
    }
}

/// How often a record was tried that has this failure, in a batch that was tried so often: one that is at fault
/// itself is not tried again.
fn attempts_at(failure: &Failure, attempts: u32) -> u32 {
    if failure.class.is_retryable() { attempts } else { 1 }
}
