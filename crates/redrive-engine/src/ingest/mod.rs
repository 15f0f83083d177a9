//! Ingest: events over HTTP into object storage, in gzip JSONL batches, with a spool on disk.
//!
//! # The way of an event
//! 1. [`Ingest::accept`] finds room in the bounded queue, or refuses. With a journal it appends the body,
//!    and returns when that is durable.
//! 2. The conveyor forms batches: so many events, so many bytes, or so long.
//! 3. A batch gets its name, which is the name of its object and of its file. With a journal the name is
//!    written down, so that a crash repeats it.
//! 4. It is uploaded; what the store does not take is saved in the spool.
//! 5. Only then it is acknowledged in the journal, and its room in the queue is free.
//!
//! The oldest file of the spool is uploaded when nothing else is, and beside the live batches for its share: one
//! file at a time.
//!
//! # What is lost, and when
//! With a journal, nothing, but what `evict-oldest`, age, or a batch larger than the whole spool take away,
//! counted. None of that happens while the store answers: age takes only files that the store has been asked to
//! take since it was last away, and a full spool makes room by uploading while senders are refused. Without one (the founding behaviour) also what is in memory when the process dies, and a batch
//! that neither the store nor the disk takes.

mod books;
mod conveyor;
mod delivery;
mod fallback;
mod intake;
mod letters;
mod listing;
mod losses;
mod notice;
mod outage;
mod record;
mod recovery;
mod replay;
mod share;
mod tally;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use redrive_core::dead_letter::DeadLetterQueue;
use redrive_spool::filesystem::{Disk, Filesystem};
use redrive_spool::journal::Span;
use redrive_spool::spool::{SpoolStats, instance};
use redrive_spool::{Error as DiskError, Journal, JournalOptions, Spool, SpoolOptions, Target};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use crate::alerts::AlertService;
use crate::findings;
use crate::ladder::Rung;
use crate::refusals::Refusals;
use books::Books;
use fallback::Fallback;
pub use intake::Cause;
use intake::Intake;
use losses::Losses;
use outage::Outage;
use tally::Tally;

/// How an ingest pipeline works.
#[derive(Debug, Clone)]
pub struct IngestOptions {
    /// A batch is full after so many events.
    pub max_events: u64,
    /// Or after so many bytes.
    pub max_bytes: usize,
    /// Or after so long.
    pub max_delay: Duration,
    /// How many bytes of events may be in memory.
    pub queue: usize,
    /// How many batches are uploaded at a time.
    pub uploads: usize,
    /// Where batches wait that could not be uploaded.
    pub spool: PathBuf,
    /// How they do.
    pub spool_options: SpoolOptions,
    /// What happens when the spool is full.
    pub on_full: WhenFull,
    /// Where events are kept before the sender is answered; nowhere, to answer at once.
    pub journal: Option<(PathBuf, JournalOptions)>,
    /// How often the spool is looked at while nothing is uploaded.
    pub recovery_interval: Duration,
    /// How many files are taken each time. One, unless a long outage is to be made up for.
    pub recovery_files: u32,
    /// Under load one file is taken beside so many live batches; more often the nearer the oldest is to its end.
    pub recovery_share: u32,
    /// How long uploads may take when the pipeline stops.
    pub grace: Duration,
}

impl IngestOptions {
    /// The founding settings, with a journal, under this folder.
    #[must_use]
    pub fn new(dir: &Path) -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self {
            max_events: 5_000,
            max_bytes: 8 << 20,
            max_delay: Duration::from_secs(1),
            queue: 32 << 20,
            uploads: 4,
            spool: dir.join("spool"),
            spool_options: SpoolOptions::new(instance(&host)),
            on_full: WhenFull::EvictOldest,
            journal: Some((dir.join("journal"), JournalOptions::default())),
            recovery_interval: Duration::from_millis(100),
            recovery_files: 1,
            recovery_share: 4,
            grace: Duration::from_secs(8),
        }
    }
}

/// What happens when the spool is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenFull {
    /// The oldest files are deleted, once the store is known to be away; until then senders are refused.
    EvictOldest,
    /// Senders are refused at once.
    Reject,
    /// Senders wait for a while, then they are refused.
    Pause,
}

/// Why events were not accepted. Nothing was stored.
#[derive(Debug, thiserror::Error)]
pub enum NotAccepted {
    /// There is no room in memory.
    #[error("the queue is full: events come faster than they are uploaded")]
    QueueFull,
    /// There is no room on disk.
    #[error("the disk is full: {0}")]
    DiskFull(String),
    /// The disk failed.
    #[error("the journal cannot be written: {0}")]
    Disk(DiskError),
    /// The pipeline is stopping.
    #[error("the pipeline is stopping")]
    Stopping,
}

/// An ingest pipeline.
pub struct Ingest {
    name: String,
    options: IngestOptions,
    spool: Arc<Spool>,
    journal: Option<Journal>,
    target: Target,
    alerts: Arc<dyn AlertService>,
    room: Arc<Semaphore>,
    inbox: mpsc::UnboundedSender<Arrival>,
    arrivals: std::sync::Mutex<Option<mpsc::UnboundedReceiver<Arrival>>>,
    backlog: AtomicU64,
    outage: Outage,
    refusals: Refusals,
    intake: Intake,
    losses: Losses,
    fallback: Fallback,
    tally: Tally,
    books: Books,
    stop: CancellationToken,
}

/// What comes to the conveyor.
enum Arrival {
    Item(Item),
    /// A batch that a crash interrupted.
    Again(delivery::Formed),
}

/// Events of one body.
struct Item {
    lines: Bytes,
    events: u64,
    span: Option<Span>,
    /// Given back when they are safe.
    room: OwnedSemaphorePermit,
}

/// How it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngestStatus {
    /// Events in memory.
    pub backlog: u64,
    /// What waits on disk.
    pub spool: SpoolStats,
    /// What the store said, while it does not answer.
    pub store_down: Option<String>,
    /// Why neither the store nor the disk takes batches, while they do not.
    pub nowhere: Option<String>,
}

/// Room is counted in units of so many bytes.
const UNIT: usize = 1024;
/// How long a sender waits when the pipeline pauses.
const PAUSE: Duration = Duration::from_secs(20);

impl Ingest {
    /// Opens spool and journal; nothing is uploaded before [`Self::run`].
    ///
    /// # Errors
    /// When the spool or the journal cannot be opened.
    pub fn open(
        name: &str,
        options: IngestOptions,
        target: Target,
        alerts: Arc<dyn AlertService>,
    ) -> Result<Arc<Self>, DiskError> {
        Self::open_on(Arc::new(Disk), name, options, target, alerts)
    }

    /// Opens spool and journal on this filesystem.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_on(
        filesystem: Arc<dyn Filesystem>,
        name: &str,
        options: IngestOptions,
        target: Target,
        alerts: Arc<dyn AlertService>,
    ) -> Result<Arc<Self>, DiskError> {
        let spool_options = options.spool_options.clone();
        let spool =
            Spool::open_on(Arc::clone(&filesystem), &options.spool, spool_options.clone(), Timestamp::now())?;
        let spool = Arc::new(spool);
        let journal = match &options.journal {
            Some((dir, journal)) => Some(Journal::open_on(filesystem, dir, *journal)?),
            None => None,
        };
        if let Some(journal) = &journal {
            findings::tell(name, journal, &*alerts);
        }
        let (inbox, arrivals) = mpsc::unbounded_channel();
        let level = if spool.stats().files == 0 { Rung::Target } else { Rung::Disk };
        Ok(Arc::new(Self {
            name: name.to_owned(),
            refusals: Refusals::new(name, Arc::clone(&alerts)),
            intake: Intake::new(name, Arc::clone(&alerts)),
            losses: Losses::new(name, Arc::clone(&alerts)),
            fallback: Fallback::new(name, Arc::clone(&alerts), level),
            room: Arc::new(Semaphore::new(units(options.queue))),
            options,
            spool,
            journal,
            target,
            alerts,
            inbox,
            arrivals: std::sync::Mutex::new(Some(arrivals)),
            backlog: AtomicU64::new(0),
            outage: Outage::default(),
            tally: Tally::new(name),
            books: Books::new(&spool_options.instance),
            stop: CancellationToken::new(),
        }))
    }

    /// Takes events in, given as lines of JSON, each with its end. When it returns they are durable, if the
    /// pipeline has a journal.
    ///
    /// # Errors
    /// [`NotAccepted`]; nothing was stored.
    pub async fn accept(self: &Arc<Self>, lines: Bytes, events: u64) -> Result<(), NotAccepted> {
        let accepted = self.try_accept(lines, events).await;
        accepted.inspect_err(|error| self.intake.refused(error.into(), &error.to_string()))
    }

    /// A request was refused before its events came here.
    pub fn note_refused(&self, cause: Cause) {
        self.intake.refused(cause, "the body was not read");
    }

    async fn try_accept(self: &Arc<Self>, lines: Bytes, events: u64) -> Result<(), NotAccepted> {
        if self.stop.is_cancelled() {
            return Err(NotAccepted::Stopping);
        }
        let room = self.find_room(lines.len()).await?;
        if self.journal.is_none() {
            return self.hand_over(Item { lines, events, span: None, room });
        }
        // A sender that hangs up takes this call with it. What is in the journal by then must come to the
        // conveyor all the same: nothing else takes it out again before the next start. So that is done
        // by a task which outlives the call, and ends when the disk has answered.
        let ingest = Arc::clone(self);
        let taking = tokio::spawn(async move {
            let span = ingest.write_down(&lines).await?;
            ingest.hand_over(Item { lines, events, span, room })
        });
        taking.await.unwrap_or(Err(NotAccepted::Stopping))
    }

    /// Works until it is told to stop; then what is in memory is uploaded or saved.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let arrivals = self.arrivals.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        let Some(arrivals) = arrivals else { return };
        let replay = replay::Replay::new(Arc::clone(&self));
        let replaying = tokio::spawn(replay.run(stop.clone()));
        conveyor::Conveyor::new(Arc::clone(&self), arrivals).run(stop).await;
        replaying.abort();
        let _ = replaying.await;
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The files that wait, for whoever wants to look at them.
    #[must_use]
    pub fn spool(&self) -> &Arc<Spool> {
        &self.spool
    }

    /// Its files that wait on disk, as dead letters.
    #[must_use]
    pub fn letters(self: &Arc<Self>) -> Arc<dyn DeadLetterQueue> {
        Arc::new(letters::SpooledFiles::of(self))
    }

    /// How it is.
    #[must_use]
    pub fn status(&self) -> IngestStatus {
        IngestStatus {
            backlog: self.backlog.load(Ordering::Relaxed),
            spool: self.spool.stats(),
            store_down: self.outage.error(),
            nowhere: self.fallback.why_nowhere(),
        }
    }

    async fn find_room(&self, bytes: usize) -> Result<OwnedSemaphorePermit, NotAccepted> {
        // A body as large as the whole queue may pass when the queue is empty.
        let units = u32::try_from(units(bytes).min(units(self.options.queue))).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room);
        if self.options.on_full == WhenFull::Pause {
            let waited = tokio::time::timeout(PAUSE, room.acquire_many_owned(units)).await;
            return waited.ok().and_then(Result::ok).ok_or(NotAccepted::QueueFull);
        }
        if self.options.on_full == WhenFull::Reject
            && self.outage.is_down()
            && self.spool.is_full_for(bytes as u64)
        {
            return Err(NotAccepted::DiskFull("the spool has reached its size".to_owned()));
        }
        if self.options.on_full == WhenFull::EvictOldest
            && !self.outage.is_confirmed()
            && self.spool.is_short_of_room()
        {
            let why = "the spool has reached its size, and its files are uploaded first";
            return Err(NotAccepted::DiskFull(why.to_owned()));
        }
        room.try_acquire_many_owned(units).map_err(|_| NotAccepted::QueueFull)
    }

    async fn write_down(&self, lines: &Bytes) -> Result<Option<Span>, NotAccepted> {
        let Some(journal) = &self.journal else { return Ok(None) };
        let written = journal.append(vec![record::encode_events(lines)]).await;
        self.refusals.note(&written);
        match written {
            Ok(span) => Ok(Some(span)),
            Err(error) if error.is_full() => Err(NotAccepted::DiskFull(error.to_string())),
            Err(error) => Err(NotAccepted::Disk(error)),
        }
    }

    /// Gives events to the conveyor.
    fn hand_over(&self, item: Item) -> Result<(), NotAccepted> {
        let (events, is_written_down) = (item.events, item.span.is_some());
        self.backlog.fetch_add(events, Ordering::Relaxed);
        self.tally.accepted.increment(events);
        self.books.accepted(events);
        let sent = self.inbox.send(Arrival::Item(item));
        // What comes after the conveyor has ended is in the journal, for the next start, or nowhere.
        if sent.is_err() && !is_written_down {
            return Err(NotAccepted::Stopping);
        }
        Ok(())
    }
}

fn units(bytes: usize) -> usize {
    bytes.div_ceil(UNIT).max(1)
}
