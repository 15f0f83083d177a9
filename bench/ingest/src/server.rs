//! The servers: ours, and a bare one that reads the body and answers.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::routing::post;
use redrive_engine::alerts::Silence;
use redrive_engine::console::{Console, Pulse, Records};
use redrive_engine::ingest::{Ingest, IngestOptions};
use redrive_server::{Component, Doors, IngestDoor, Limits, Metrics, Readiness, Series, Site, router};
use redrive_spool::Target;
use redrive_spool::target::Patience;
use redrive_store::Database;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const MAX_BODY: usize = 8 << 20;

/// Ours, on a folder.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) ingest: Arc<Ingest>,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

impl Server {
    pub(crate) async fn start(dir: &Path, options: IngestOptions, metrics: &Metrics) -> anyhow::Result<Self> {
        let store = format!("file://{}", dir.join("store").display());
        let patience = Patience { retries: 0, ..Patience::default() };
        let target = Target::open(&store, "RAW", "RAW_DLQ", &patience)?;
        let ingest = Ingest::open("bench", options, target, Arc::new(Silence))?;
        let stop = CancellationToken::new();
        let mut doors = Doors::default();
        doors.add_ingest(IngestDoor::new(Arc::clone(&ingest), MAX_BODY));
        let site = Site {
            readiness: Arc::new(Always),
            access: redrive_server::Access::default(),
            console: Arc::new(Console::new(Records::of(&Database::open("sqlite::memory:")?), [])),
            pulse: Pulse::default(),
            series: Series::default(),
            doors: Arc::new(doors),
            metrics: metrics.clone(),
            stop: stop.clone(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let router = router(site, Limits { body: MAX_BODY });
        let (serving, running) = (stop.clone(), stop.clone());
        let tasks = vec![
            tokio::spawn(async move {
                let _ = redrive_server::serve(listener, router, serving, Duration::from_secs(5)).await;
            }),
            tokio::spawn(Arc::clone(&ingest).run(running)),
        ];
        Ok(Self { address, ingest, stop, tasks })
    }

    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.stop.cancel();
        for task in self.tasks {
            task.await?;
        }
        Ok(())
    }
}

struct Always;

#[async_trait]
impl Readiness for Always {
    async fn check(&self) -> Vec<Component> {
        Vec::new()
    }
}

/// What HTTP alone costs: the body is read, and that is all.
pub(crate) async fn bare() -> anyhow::Result<(SocketAddr, JoinHandle<()>)> {
    async fn swallow(body: Bytes) -> (StatusCode, String) {
        (StatusCode::ACCEPTED, format!("{{\"accepted\":{}}}", body.len()))
    }
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let router = Router::new().route("/api/v1/ingest/{name}", post(swallow));
    Ok((address, tokio::spawn(async move { drop(axum::serve(listener, router).await) })))
}
