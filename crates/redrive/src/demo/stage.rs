//! The stage: two pipelines on SQLite in a temporary folder.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use redrive_core::backoff::Backoff;
use redrive_core::dead_letter::{DeadLetterQueue, PipelineKind};
use redrive_core::event::NewEvent;
use redrive_core::policy::Policy;
use redrive_engine::alerts::{AlertService, DeadLetterAlert, HandlerDown, HandlerUp, Level};
use redrive_engine::{Engine, Pace, Pipeline, Route, Routes, WatchOptions};
use redrive_store::{Database, Jobs, JobsOptions, NewJob, Outbox, OutboxOptions};

use super::shop::{LONG_ARTICLE, Shop};

pub(crate) struct Stage {
    folder: tempfile::TempDir,
    engine: Engine,
    route: Route,
    pipelines: [Arc<Pipeline>; 2],
    pub(crate) orders: Arc<Outbox>,
    pub(crate) articles: Arc<Jobs>,
    pub(crate) shop: Arc<Shop>,
    pub(crate) billboard: Arc<Billboard>,
    placed: AtomicU64,
    enqueued: AtomicU64,
}

impl Stage {
    /// Sets the stage and starts the pipelines.
    pub(crate) async fn set() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("no temporary folder can be made: check TMPDIR")?;
        let database =
            Database::connect(&format!("sqlite:{}", folder.path().join("demo.db").display())).await?;
        let orders = Arc::new(Outbox::new(database.clone(), OutboxOptions::new("orders"))?);
        let articles = Arc::new(Jobs::new(database, JobsOptions::new("articles"))?);
        orders.migrate().await?;
        articles.migrate().await?;

        let (shop, billboard) = (Arc::new(Shop::default()), Arc::new(Billboard::default()));
        let route = Route::new("shop", shop.clone());
        let types = ["OrderCreated", "PaymentCaptured"].map(|name| (name.to_owned(), route.clone()));
        let outbox =
            Pipeline::new("orders", PipelineKind::Outbox, orders.clone(), orders.clone(), policy(6)?)
                .handled_by(Routes::ByType(HashMap::from(types)))
                .at(pace())
                .alerting(billboard.clone());
        let jobs =
            Pipeline::new("articles", PipelineKind::Jobs, articles.clone(), articles.clone(), policy(3)?)
                .handled_by(Routes::All(Route::new("summarizer", shop.clone())))
                .at(pace())
                .alerting(billboard.clone());

        let (engine, pipelines) = (Engine::new(), [Arc::new(outbox), Arc::new(jobs)]);
        for pipeline in &pipelines {
            engine.start(pipeline, WatchOptions::default());
        }
        Ok(Self {
            folder,
            engine,
            route,
            pipelines,
            orders,
            articles,
            shop,
            billboard,
            placed: AtomicU64::new(0),
            enqueued: AtomicU64::new(0),
        })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Puts events into the outbox.
    pub(crate) async fn place(&self, event_type: &str, count: usize) -> anyhow::Result<()> {
        let event = |number: usize| NewEvent {
            event_type: event_type.to_owned(),
            aggregate_type: "Order".to_owned(),
            aggregate_id: number.to_string(),
            payload: format!("{{\"order\":{number},\"total\":\"{}.99\"}}", number % 90 + 10),
        };
        let accepted = self.orders.append((1..=count).map(event).collect()).await?;
        self.placed.fetch_add(accepted.len() as u64, Relaxed);
        self.ring();
        Ok(())
    }

    /// Puts articles into the job queue; every so many of them is too long.
    pub(crate) async fn enqueue_articles(&self, count: usize, long_every: usize) -> anyhow::Result<()> {
        let job = |number: usize| {
            let payload = if number.is_multiple_of(long_every) { LONG_ARTICLE } else { "{\"words\":900}" };
            NewJob::new(format!("article-{number}"), payload)
        };
        let accepted = self.articles.enqueue((1..=count).map(job).collect()).await?;
        self.enqueued.fetch_add(accepted.len() as u64, Relaxed);
        self.ring();
        Ok(())
    }

    /// How many events the outbox has accepted.
    pub(crate) fn accepted_orders(&self) -> u64 {
        self.placed.load(Relaxed)
    }

    /// How many jobs the queue has accepted.
    pub(crate) fn accepted_articles(&self) -> u64 {
        self.enqueued.load(Relaxed)
    }

    /// Wakes the workers.
    pub(crate) fn ring(&self) {
        self.pipelines.iter().for_each(|pipeline| pipeline.bell.ring());
    }

    /// How many letters wait for a person.
    pub(crate) async fn waiting(&self) -> anyhow::Result<usize> {
        let waiting = self.orders.stats().await?.waiting() + self.articles.stats().await?.waiting();
        Ok(usize::try_from(waiting)?)
    }

    pub(crate) fn handler_is_down(&self) -> bool {
        self.route.is_down()
    }

    /// Stops the pipelines; the stores can still be asked.
    pub(crate) async fn curtain(&self) {
        self.engine.stop().await;
    }
}

fn policy(attempts: u32) -> anyhow::Result<Policy> {
    // Quick retries: a demo's minute is short.
    let backoff = Backoff::new(Duration::from_millis(50), 2.0, Duration::from_millis(400))?;
    Ok(Policy::new(attempts, backoff))
}

fn pace() -> Pace {
    Pace { batch_size: 200, handler_timeout: Duration::from_millis(300), ..Pace::default() }
}

/// Collects the alerts, so that the story can show them at its pace.
#[derive(Default)]
pub(crate) struct Billboard(Mutex<Vec<Notice>>);

/// One alert, in words.
#[derive(Debug, Clone)]
pub(crate) struct Notice {
    pub(crate) title: String,
    pub(crate) lines: Vec<String>,
    /// How many more of the same there were.
    pub(crate) more: usize,
    group: String,
}

impl Billboard {
    /// What was told since the last time.
    pub(crate) fn take(&self) -> Vec<Notice> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn put(&self, group: String, title: &str, lines: Vec<String>) {
        let mut notices = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match notices.iter_mut().find(|notice| notice.group == group) {
            Some(notice) => notice.more += 1,
            None => notices.push(Notice { title: title.to_owned(), lines, more: 0, group }),
        }
    }
}

impl AlertService for Billboard {
    fn dead_letter(&self, letter: DeadLetterAlert) {
        let lines = vec![
            format!("pipeline  {}", letter.pipeline),
            format!("event     {} {} ({})", letter.event_type, letter.event_id, letter.aggregate_id),
            format!("retries   {}", letter.retry_count),
            format!("error     {}", letter.error),
        ];
        self.put(letter.fingerprint.to_string(), "DEAD LETTER", lines);
    }

    fn unresolved(&self, level: Level) {
        if level.count >= level.threshold {
            let line =
                format!("{} unresolved in {}, threshold {}", level.count, level.pipeline, level.threshold);
            self.put(format!("threshold {}", level.pipeline), "THRESHOLD REACHED", vec![line]);
        }
    }

    fn handler_down(&self, handler: HandlerDown) {
        let line = format!("{}: {}", handler.handler, handler.error);
        self.put("down".to_owned(), "HANDLER DOWN, its events wait", vec![line]);
    }

    fn handler_up(&self, handler: HandlerUp) {
        self.put("up".to_owned(), "HANDLER BACK", vec![handler.handler.to_string()]);
    }
}
