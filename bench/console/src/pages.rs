//! Pages and API answers beside a million letters, on Postgres and SQLite: server time, asked one after the other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use bench_harness::{Scratch, Table, Target, thousands};
use redrive_core::dead_letter::Filter;
use redrive_server::{Access, Component, Doors, Limits, Metrics, Readiness, Series, Site, router};
use tokio_util::sync::CancellationToken;

use crate::Args;
use crate::house::{House, fill_postgres, fill_sqlite};

const WANTED_API: f64 = 50.0;
const WANTED_PAGE: f64 = 100.0;
const WANTED_SIZE: f64 = 100.0;
const LARGEST: usize = 16 << 20;

struct Well;

#[async_trait::async_trait]
impl Readiness for Well {
    async fn check(&self) -> Vec<Component> {
        Vec::new()
    }
}

pub(crate) async fn measure(args: &Args, scratch: &Scratch) -> anyhow::Result<Vec<Target>> {
    let metrics = Metrics::install()?;
    let mut targets = Vec::new();
    let house = House::open(&scratch.url()?).await?;
    fill_postgres(&mut scratch.connect().await?, args.letters).await?;
    targets.extend(ask_all(args, "Postgres", &house, metrics.clone()).await?);

    let folder = tempfile::tempdir()?;
    let url = format!("sqlite:{}", folder.path().join("console.db").display());
    let house = House::open(&url).await?;
    fill_sqlite(&url, args.letters).await?;
    targets.extend(ask_all(args, "SQLite", &house, metrics).await?);
    Ok(targets)
}

async fn ask_all(args: &Args, store: &str, house: &House, metrics: Metrics) -> anyhow::Result<Vec<Target>> {
    println!(
        "\n## {} letters, {store}: milliseconds, each asked {} times\n",
        thousands(args.letters.into()),
        args.asks
    );
    let site = Site {
        readiness: Arc::new(Well),
        access: Access::default(),
        console: Arc::clone(&house.console),
        pulse: redrive_engine::console::Pulse::default(),
        doors: Arc::new(Doors::default()),
        metrics,
        series: Series::default(),
        stop: CancellationToken::new(),
    };
    let router = router(site, Limits { body: 1 << 20 });
    let letter = house.console.list(&Filter::default(), 1, None).await?.letters.remove(0).id;
    let asks = [
        ("first page", "/api/v1/dead-letters?limit=100".to_owned(), WANTED_API),
        ("filtered page", "/api/v1/dead-letters?limit=100&type=Type1&status=open".to_owned(), WANTED_API),
        ("by code", "/api/v1/dead-letters?limit=100&code=404".to_owned(), WANTED_API),
        ("by group", "/api/v1/dead-letters?limit=100&group=0000000000000007".to_owned(), WANTED_API),
        ("groups", "/api/v1/groups".to_owned(), WANTED_API),
        ("one letter", format!("/api/v1/dead-letters/{letter}"), WANTED_API),
        ("page: groups", "/".to_owned(), WANTED_PAGE),
        ("page: letters", "/letters".to_owned(), WANTED_PAGE),
        ("page: one letter", format!("/letters/{letter}"), WANTED_PAGE),
        ("page: operations", "/operations".to_owned(), WANTED_PAGE),
        ("page: pipelines", "/pipelines".to_owned(), WANTED_PAGE),
    ];
    let mut table = Table::new(&["what", "median", "p99", "slowest", "kB"]);
    let mut targets = Vec::new();
    for (what, path, wanted) in asks {
        // The first look takes a census; it is told apart.
        let (first, _) = ask(&router, &path).await?;
        let mut times = Vec::with_capacity(args.asks);
        let mut size = 0;
        for _ in 0..args.asks {
            let (took, bytes) = ask(&router, &path).await?;
            times.push(took.as_secs_f64() * 1_000.0);
            size = bytes;
        }
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        let kilobytes = size as f64 / 1_000.0;
        table.row([
            format!("{what} (the first time {:.0})", first.as_secs_f64() * 1_000.0),
            format!("{:.1}", at(0.5)),
            format!("{:.1}", at(0.99)),
            format!("{:.1}", at(1.0)),
            format!("{kilobytes:.0}"),
        ]);
        targets.push(Target::at_most(format!("{store}, {what}: p99 ms"), wanted, at(0.99)));
        if what.starts_with("page") {
            targets.push(Target::at_most(format!("{store}, {what}: kB"), WANTED_SIZE, kilobytes));
        }
    }
    println!("{table}");
    Ok(targets)
}

async fn ask(router: &Router, path: &str) -> anyhow::Result<(Duration, usize)> {
    use tower::ServiceExt as _;
    let request = Request::get(path).header("host", "localhost").body(Body::empty())?;
    let begun = Instant::now();
    let Ok(answer) = router.clone().oneshot(request).await;
    let status = answer.status();
    let bytes = to_bytes(answer.into_body(), LARGEST).await.context("the answer ended early")?;
    ensure!(status.is_success(), "{path} answered {status}: {}", String::from_utf8_lossy(&bytes));
    Ok((begun.elapsed(), bytes.len()))
}
