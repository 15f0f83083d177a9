//! `redrive serve`: everything, until a signal.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use redrive::config::{Config, Role, ServerConfig, Source};
use redrive_engine::alerts::Dispatcher;
use redrive_engine::console::{Console, Pulse, Records, Runner};
use redrive_server::{Access, Grant, Limits, Metrics, Series, Site, router};
use tokio::net::TcpListener;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::{prepare_data_dir, runtime};
use crate::monitor::Monitor;
use crate::running::Running;
use crate::signal::cancel_on_signal;
use crate::wire::{Plant, Stores, alerts};

/// How long the stores may take to let go of their connections.
const CLOSING: Duration = Duration::from_secs(1);
/// What alerts get even when the pipelines used up all the time.
const LAST_WORDS: Duration = Duration::from_millis(100);

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
    announce(source, config, listener.local_addr()?);
    serve_on(listener, config, stop).await?;
    tracing::info!("stopped");
    Ok(())
}

/// Serves on this socket until it is told to stop.
pub(crate) async fn serve_on(
    listener: TcpListener,
    config: &Config,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let metrics = Metrics::install()?;
    let house = House::build(config)?;
    let monitor = Arc::clone(&house.monitor);
    let preparing = tokio::spawn(monitor.prepare(Arc::clone(&house.running), stop.clone()));
    let series = Series::of(&metrics);
    house.running.chore(|stop| metrics.clone().keep_up(stop));
    house.running.chore(|stop| Arc::clone(&house.monitor).keep_looking(stop));
    house.running.chore(|stop| series.clone().keep(Arc::clone(&house.console), stop));
    let site = house.site(access(&config.server), metrics, series, stop.clone());
    let served = answer(listener, site, &config.server, &stop);
    let (served, left) = tokio::join!(served, house.leave(&stop, config.server.shutdown_deadline));
    preparing.await.context("preparing the stores ended in a defect")?;
    served?;
    left?;
    house.close().await;
    Ok(())
}

/// Who may call, from the tokens in the configuration.
fn access(server: &ServerConfig) -> Access {
    let grant = |token: &redrive::config::Token| Grant {
        name: token.name.clone(),
        role: match token.role {
            Role::Viewer => redrive_server::Role::Viewer,
            Role::Operator => redrive_server::Role::Operator,
            Role::Admin => redrive_server::Role::Admin,
        },
        sha256: *token.sha256.as_bytes(),
    };
    Access::new(server.tokens.iter().map(grant).collect())
}

/// Everything but HTTP.
struct House {
    monitor: Arc<Monitor>,
    doors: Arc<redrive_server::Doors>,
    console: Arc<Console>,
    pulse: Pulse,
    running: Arc<Running>,
    alerts: Arc<Dispatcher>,
}

impl House {
    fn build(config: &Config) -> anyhow::Result<Self> {
        let alerts = Arc::new(alerts(&config.alerts)?);
        let stores = Stores::of(config)?;
        let plant = Plant::new(config, &stores, alerts.clone())?;
        let targets = config.intake.targets.iter().map(|(name, _)| name.clone());
        let console = Arc::new(Console::new(Records::of(&stores.own), plant.desks).with_targets(targets));
        let pulse = Pulse::default();
        let running = Running::new(Records::of(&stores.own).audit);
        running.chore(|stop| Runner::new(Arc::clone(&console)).named(&instance(&config.server)).run(stop));
        running.chore(|stop| Arc::clone(&console).look_around(stop));
        running.chore(|stop| Arc::clone(&console).keep_verifying(stop));
        running.chore(|stop| pulse.clone().beat(Arc::clone(&console), stop));
        for ingest in &plant.ingests {
            running.chore(|stop| Arc::clone(ingest).run(stop));
        }
        let monitor = Monitor::new(stores.parts, plant.launches, plant.ingests, Arc::clone(&console));
        Ok(Self {
            monitor: Arc::new(monitor),
            doors: Arc::new(plant.doors),
            console,
            pulse,
            running: Arc::new(running),
            alerts,
        })
    }

    fn site(&self, access: Access, metrics: Metrics, series: Series, stop: CancellationToken) -> Site {
        Site {
            readiness: self.monitor.clone(),
            access,
            console: Arc::clone(&self.console),
            pulse: self.pulse.clone(),
            doors: self.doors.clone(),
            metrics,
            series,
            stop,
        }
    }

    /// Waits for the stop; then pipelines finish or hand back what they hold, and alerts are sent.
    async fn leave(&self, stop: &CancellationToken, within: Duration) -> anyhow::Result<()> {
        stop.cancelled().await;
        let deadline = Instant::now() + within;
        let stopped = timeout_at(deadline, self.running.stop()).await;
        let left = deadline.saturating_duration_since(Instant::now());
        self.alerts.shutdown(left.max(LAST_WORDS)).await;
        if stopped.is_err() {
            bail!(
                "pipelines were still working {within:?} after the stop: what they held is taken over when its leases \
                 run out; raise server.shutdown-deadline if handlers need longer"
            );
        }
        Ok(())
    }

    async fn close(&self) {
        if timeout(CLOSING, self.monitor.close()).await.is_err() {
            tracing::warn!("connections to a store did not close in time");
        }
    }
}

/// What this instance is called, before and after a restart: no other has its folder.
fn instance(server: &ServerConfig) -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let folder = std::path::absolute(&server.data_dir).unwrap_or_else(|_| server.data_dir.clone());
    format!("{host} {} {}", server.listen, folder.display())
}

/// How long claims that are under way at the stop may take to end.
const LAST_CLAIMS: Duration = Duration::from_secs(1);

/// Answers until the stop; a server that fails stops everything.
async fn answer(
    listener: TcpListener,
    site: Site,
    server: &ServerConfig,
    stop: &CancellationToken,
) -> Result<(), redrive_server::Error> {
    let doors = Arc::clone(&site.doors);
    let router = router(site, Limits { body: server.max_body.as_len() });
    let served = redrive_server::serve(listener, router, stop.clone(), server.shutdown_deadline).await;
    stop.cancel();
    // A store that does not answer now holds up no stop: leases run out.
    if tokio::time::timeout(LAST_CLAIMS, doors.finish_claims()).await.is_err() {
        tracing::warn!("stopped while a claim was under way: its leases run out");
    }
    served
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
    tracing::info!(
        "health: http://{address}/api/v1/health   readiness: http://{address}/api/v1/ready   metrics: http://{address}/metrics"
    );
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
