//! Short URLs that are written behind the request: the founding system of persist.
//!
//! ```sh
//! cargo run -p url-shortener                                 # SQLite, in a temporary folder
//! cargo run -p url-shortener -- ./urls                       # keep the folder: database and journal
//! cargo run -p url-shortener -- ./urls 127.0.0.1:8080        # and listen there
//!
//! curl -d '{"url":"https://example.org/a/long/way"}' -H 'content-type: application/json' http://127.0.0.1:8080/
//! curl -i http://127.0.0.1:8080/7n42DGM5Tfl
//! ```
//!
//! `POST /` answers as soon as the URL is on disk, in the journal. Behind it, rows are saved in batches. Take the
//! database away (move its file, lock it, fill the disk) and go on posting: nothing is lost, and when it is back
//! everything is saved, in order. Kill the process: what it had answered is saved at the next start.
//! `SELECT * FROM failed_events` in the database shows what could not be saved, and why.
#![expect(clippy::print_stdout, reason = "an example talks to the person who runs it")]

mod app;
mod base62;
mod cache;
mod short_url;
mod snowflake;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use redrive::persist::Durability;
use redrive::spool::{Journal, JournalOptions};
use redrive::{
    Database, Engine, FailedEvents, FailedEventsOptions, PersistOptions, Persister, Target, TargetOptions,
    WatchOptions,
};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use app::App;
use cache::UrlCache;
use short_url::ShortUrl;
use snowflake::Snowflake;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let temporary = tempfile::tempdir()?;
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().map_or(temporary.path().to_owned(), PathBuf::from);
    let listen = arguments.next().unwrap_or("127.0.0.1:8080".to_owned());
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;

    let engine = Engine::new();
    let app = build(&folder, &engine).await?;
    let listener = TcpListener::bind(&listen).await.with_context(|| format!("listening on {listen}"))?;
    println!("Short URLs on http://{}, data in {}", listener.local_addr()?, folder.display());
    axum::serve(listener, app::router(app)).with_graceful_shutdown(stopped()).await?;
    engine.stop().await;
    println!("Stopped; everything that was accepted is saved.");
    Ok(())
}

/// The application with its persister at work: table, failed events, journal, cache.
async fn build(folder: &Path, engine: &Engine) -> anyhow::Result<App> {
    let database = Database::open(&format!("sqlite:{}", folder.join("urls.db").display()))?;
    let target = Arc::new(Target::new(database.clone(), &TargetOptions::new("urls"))?);
    let failed = Arc::new(FailedEvents::new(database, FailedEventsOptions::new("urls"))?);
    target.migrate().await?;
    failed.migrate().await?;
    let journal = Journal::open(&folder.join("journal"), JournalOptions::default())?;
    let cache = Arc::new(UrlCache::default());
    let persister = Persister::<ShortUrl>::builder(target.clone(), failed)
        .caching(cache.clone())
        .journaling(journal, Durability::Journal)
        .build(PersistOptions::default());
    engine.persist(&persister, WatchOptions::default());
    Ok(App { ids: Arc::new(Snowflake::new(1)), persister, cache, target })
}

async fn stopped() {
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return std::future::pending().await };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
