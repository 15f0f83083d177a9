//! The town: services that the demo's pipelines talk to, which can be broken and mended.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

/// What the payload of an article that is too long says.
pub(super) const LONG_ARTICLE: &str = r#"{"words":180000}"#;

/// Services in other programs, as far as redrive can tell.
#[derive(Debug)]
pub(super) struct Town {
    /// A bad release: every payment in euros is refused.
    pub(super) refuses_euros: AtomicBool,
    /// Nobody answers sensibly at all.
    pub(super) down: AtomicBool,
    /// Long articles are summarized, too.
    pub(super) is_patient: AtomicBool,
    delivered: AtomicU64,
    summarized: AtomicU64,
    pager: Mutex<Vec<Page>>,
    visits: UnboundedSender<Visit>,
}

/// What whoever plays has done.
#[derive(Debug)]
pub(super) enum Visit {
    /// Asked for the faults to be mended, and waits for that.
    Mend(oneshot::Sender<()>),
    /// Sent this to the CRM.
    Letter(Bytes),
}

/// What the pager said.
#[derive(Debug, Clone)]
pub(super) struct Page {
    pub(super) title: String,
    pub(super) text: String,
}

impl Town {
    /// Opens the services, and says where they are and who visits them.
    pub(super) async fn open() -> anyhow::Result<(Arc<Self>, String, UnboundedReceiver<Visit>)> {
        let (visits, visitors) = unbounded_channel();
        let town = Arc::new(Self::new(visits));
        let routes = Router::new()
            .route("/bank", post(bank))
            .route("/summaries", post(summaries))
            .route("/pager", post(pager))
            .route("/crm", post(crm))
            .route("/mend", post(mend))
            .with_state(Arc::clone(&town));
        let listener = TcpListener::bind("127.0.0.1:0").await.context("no port is free on this machine")?;
        let address = format!("http://{}", listener.local_addr()?);
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Ok((town, address, visitors))
    }

    fn new(visits: UnboundedSender<Visit>) -> Self {
        Self {
            refuses_euros: AtomicBool::default(),
            down: AtomicBool::default(),
            is_patient: AtomicBool::default(),
            delivered: AtomicU64::default(),
            summarized: AtomicU64::default(),
            pager: Mutex::default(),
            visits,
        }
    }

    fn visit(&self, visit: Visit) {
        // Nobody listens before the story is told.
        let _ = self.visits.send(visit);
    }

    /// How many events the bank took.
    pub(super) fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// How many articles were summarized.
    pub(super) fn summarized(&self) -> u64 {
        self.summarized.load(Ordering::Relaxed)
    }

    /// What the pager said since the last time.
    pub(super) fn pages(&self) -> Vec<Page> {
        std::mem::take(&mut *self.pager.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn set(&self, switch: &AtomicBool, on: bool) {
        switch.store(on, Ordering::Relaxed);
    }
}

async fn bank(State(town): State<Arc<Town>>, body: Bytes) -> (StatusCode, String) {
    if town.down.load(Ordering::Relaxed) {
        return (StatusCode::SERVICE_UNAVAILABLE, "the bank is being restarted".to_owned());
    }
    let payment: Value = serde_json::from_slice(&body).unwrap_or_default();
    if payment["currency"] == "EUR" && town.refuses_euros.load(Ordering::Relaxed) {
        return (
            StatusCode::UNPROCESSABLE_ENTITY,
            format!("order {}: unknown currency EUR", payment["order"]),
        );
    }
    town.delivered.fetch_add(1, Ordering::Relaxed);
    (StatusCode::OK, String::new())
}

async fn summaries(State(town): State<Arc<Town>>, body: Bytes) -> (StatusCode, String) {
    if body == LONG_ARTICLE.as_bytes() && !town.is_patient.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(20)).await;
        return (StatusCode::UNPROCESSABLE_ENTITY, "180000 words are more than the model takes".to_owned());
    }
    town.summarized.fetch_add(1, Ordering::Relaxed);
    (StatusCode::OK, String::new())
}

/// Takes whatever letters are sent to it.
async fn crm(State(town): State<Arc<Town>>, body: Bytes) -> StatusCode {
    town.visit(Visit::Letter(body));
    StatusCode::OK
}

/// The switch of a demo that is kept: whoever plays mends the faults by it.
async fn mend(State(town): State<Arc<Town>>) -> &'static str {
    let (done, mended) = oneshot::channel();
    town.visit(Visit::Mend(done));
    if mended.await.is_err() {
        return "the demo is ending\n";
    }
    "mended: the bank takes euros, long articles are summarized, the odd rules are gone. Now retry.\n"
}

async fn pager(State(town): State<Arc<Town>>, body: Bytes) -> StatusCode {
    let alert: Value = serde_json::from_slice(&body).unwrap_or_default();
    let text = |name: &str| alert[name].as_str().unwrap_or_default().to_owned();
    let page = Page { title: text("title"), text: text("error") };
    town.pager.lock().unwrap_or_else(PoisonError::into_inner).push(page);
    StatusCode::OK
}
