//! Events over HTTP into an object store that goes away and comes back: the founding system of ingest.
//!
//! ```sh
//! cargo run -p ingest-server                     # a folder as the store, in a temporary place
//! cargo run -p ingest-server -- ./estat          # keep the files and look at them
//! ```
//!
//! A server takes events in, answers once they are on disk, and uploads them in gzip JSONL batches. Then
//! the store is taken away: batches pile up in the spool. It comes back, and they drain, oldest first.
//! (For S3, the address is `s3://bucket/prefix`, and the credentials are in the environment.)
#![expect(clippy::print_stdout, reason = "an example talks to the person who runs it")]

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use redrive::alerts::Silence;
use redrive::ingest::{Ingest, IngestOptions};
use redrive::spool::Target;
use redrive::spool::target::Patience;
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let temporary = tempfile::tempdir()?;
    let folder = std::env::args().nth(1).map_or_else(|| temporary.path().to_owned(), PathBuf::from);
    fs::create_dir_all(&folder)?;
    let folder = folder.canonicalize()?;
    let store = folder.join("store");

    let target =
        Target::open(&format!("file://{}", store.display()), "RAW", "RAW_DLQ", &Patience::default())?;
    let options = IngestOptions {
        max_events: 100,
        max_delay: Duration::from_millis(50),
        ..IngestOptions::new(&folder)
    };
    let ingest = Ingest::open("estat", options, target, Arc::new(Silence))?;
    let stop = CancellationToken::new();
    let working = tokio::spawn(Arc::clone(&ingest).run(stop.clone()));
    let address = serve(Arc::clone(&ingest)).await?;

    println!("1,000 events over HTTP, each answer after they are on disk:");
    send(address, 0..1_000).await?;
    until(|| objects(&store) >= 1_000).await;
    println!("  in the store: {} events", objects(&store));

    println!("The store goes away:");
    fs::rename(&store, folder.join("away"))?;
    fs::write(&store, "no folder any more")?;
    send(address, 1_000..2_000).await?;
    until(|| ingest.status().backlog == 0).await;
    let status = ingest.status();
    println!("  accepted all the same; waiting on disk: {} files", status.spool.files);
    for file in ingest.spool().list(None, 2) {
        println!("  {}", file.file);
    }

    println!("It comes back:");
    fs::remove_file(&store)?;
    fs::rename(folder.join("away"), &store)?;
    until(|| ingest.status().spool.files == 0).await;
    println!("  waiting on disk: 0 files; in the store: {} events", objects(&store));
    stop.cancel();
    working.await?;
    Ok(())
}

async fn serve(ingest: Arc<Ingest>) -> anyhow::Result<SocketAddr> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let router = Router::new().route("/events", post(take_in)).with_state(ingest);
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(address)
}

/// One event per line, each with its end. `redrive serve` checks them, too; see its `POST /api/v1/ingest`.
async fn take_in(State(ingest): State<Arc<Ingest>>, lines: Bytes) -> StatusCode {
    let events = lines.iter().filter(|byte| **byte == b'\n').count() as u64;
    match ingest.accept(lines, events).await {
        Ok(()) => StatusCode::ACCEPTED,
        Err(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

async fn send(address: SocketAddr, numbers: std::ops::Range<u32>) -> anyhow::Result<()> {
    // Plain HTTP; the client wants its cryptography all the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build()?;
    for first in numbers.step_by(20) {
        let lines: String = (first..first + 20).map(|number| format!("{{\"event\":{number}}}\n")).collect();
        let answer = client.post(format!("http://{address}/events")).body(lines).send().await?;
        anyhow::ensure!(answer.status() == 202, "{}", answer.status());
    }
    Ok(())
}

/// How many events the store has.
fn objects(store: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(store.join("RAW")) else { return 0 };
    let data = entries.flatten().filter_map(|entry| fs::read(entry.path()).ok());
    data.map(|data| match redrive::spool::spool::inspect(&data, &redrive::spool::spool::Meta::unknown()) {
        redrive::spool::spool::Inspection::Sound { events } => events,
        redrive::spool::spool::Inspection::Damaged { .. } => 0,
    })
    .sum()
}

async fn until(holds: impl Fn() -> bool) {
    while !holds() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
