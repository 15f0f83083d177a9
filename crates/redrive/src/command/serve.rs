//! `redrive serve`: everything, until a signal.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use redrive::config::{Config, ServerConfig, Source};
use redrive_server::{Limits, router};
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{prepare_data_dir, runtime};
use crate::monitor::Monitor;
use crate::signal::cancel_on_signal;
use crate::wire::wire;

/// How long the stores may take to let go of their connections.
const CLOSING: Duration = Duration::from_secs(1);

/// Serves until SIGTERM or Ctrl-C.
pub(crate) fn run(source: &Source, config: &Config) -> anyhow::Result<()> {
    prepare_data_dir(&config.server.data_dir)?;
    let runtime = runtime()?;
    let ended = runtime.block_on(serve(source, config));
    // Whatever is still running after the deadline must not hold up the exit.
    runtime.shutdown_background();
    ended
}

async fn serve(source: &Source, config: &Config) -> anyhow::Result<()> {
    let stop = CancellationToken::new();
    cancel_on_signal(stop.clone()).context("signals cannot be watched")?;
    let listener = listen(config.server.listen).await?;
    let monitor = Arc::new(Monitor::new(wire(config)?));
    announce(source, config, listener.local_addr()?);

    let preparing = tokio::spawn(Arc::clone(&monitor).prepare(stop.clone()));
    let served = answer(listener, Arc::clone(&monitor), &config.server, stop.clone()).await;
    stop.cancel();
    preparing.await.context("preparing the stores ended in a defect")?;
    served?;
    if timeout(CLOSING, monitor.close()).await.is_err() {
        tracing::warn!("connections to a store did not close in time");
    }
    tracing::info!("stopped");
    Ok(())
}

async fn answer(
    listener: TcpListener,
    monitor: Arc<Monitor>,
    server: &ServerConfig,
    stop: CancellationToken,
) -> Result<(), redrive_server::Error> {
    let router = router(monitor, Limits { body: server.max_body.as_len() });
    redrive_server::serve(listener, router, stop, server.shutdown_deadline).await
}

async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}")).map_err(|error| {
        let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        error.context(listening_advice(kind))
    })
}

fn listening_advice(kind: Option<ErrorKind>) -> &'static str {
    match kind {
        Some(ErrorKind::AddrInUse) => {
            "the port is taken: stop the other process, or set server.listen to another"
        }
        Some(ErrorKind::PermissionDenied) => {
            "the port is not allowed for this user: set server.listen to one above 1023"
        }
        Some(ErrorKind::AddrNotAvailable) => {
            "this machine has no such address: set server.listen to one that it has"
        }
        _ => "the HTTP server cannot start: check server.listen",
    }
}

/// What a person wants to know when it starts.
fn announce(source: &Source, config: &Config, address: SocketAddr) {
    let server = &config.server;
    tracing::info!("redrive {} is listening on http://{address}", env!("CARGO_PKG_VERSION"));
    tracing::info!("health: http://{address}/api/v1/health   readiness: http://{address}/api/v1/ready");
    tracing::info!(
        configuration = source.name(),
        data_dir = %server.data_dir.display(),
        database = %server.database,
        "embedded state and defaults"
    );
    for (kind, name) in config.pipelines() {
        tracing::info!(kind, name, "pipeline");
    }
    if config.pipelines().next().is_none() {
        tracing::info!("no pipelines yet: add [outbox.NAME], [jobs.NAME] … to redrive.toml");
    }
}
