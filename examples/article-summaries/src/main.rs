//! Articles that time out every time, and a queue that does not starve because of them: the founding
//! system of the job queue.
//!
//! ```sh
//! cargo run -p article-summaries                             # SQLite, in a temporary folder
//! cargo run -p article-summaries -- sqlite:./articles.db     # keep the file and look at it
//! ```
//!
//! Ten articles are summarized. One is so long that the summarizer never answers in time: after three
//! attempts it is a dead letter, in its place in the table. A person raises the time-out and requeues
//! it with plain SQL.
#![expect(clippy::print_stdout, reason = "an example talks to the person who runs it")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use redrive::core::backoff::Backoff;
use redrive::core::dead_letter::{DeadLetterQueue, Filter, Page, PipelineKind};
use redrive::core::event::Event;
use redrive::core::failure::Failure;
use redrive::core::handler::Handler;
use redrive::core::policy::Policy;
use redrive::engine::{Engine, Pace, Pipeline, Route, Routes, WatchOptions};
use redrive::store::{Database, Jobs, JobsOptions, NewJob, WorkStore as _};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};

/// Takes as long as an article is, until it gets a faster model.
#[derive(Default)]
struct Summarizer {
    is_fast: AtomicBool,
}

#[async_trait]
impl Handler for Summarizer {
    async fn handle(&self, batch: &[Event]) -> Vec<Result<(), Failure>> {
        let mut results = Vec::new();
        for event in batch {
            results.push(self.summarize(event).await);
        }
        results
    }
}

impl Summarizer {
    async fn summarize(&self, event: &Event) -> Result<(), Failure> {
        let words: u64 = std::str::from_utf8(&event.payload)
            .ok()
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| Failure::malformed("NotANumber", "the payload is the number of words"))?;
        let speed = if self.is_fast.load(Ordering::Relaxed) { 1_000 } else { 10 };
        tokio::time::sleep(Duration::from_millis(words / speed)).await;
        println!("  summarized {} ({words} words)", event.key);
        Ok(())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let temporary = format!("sqlite:{}", folder.path().join("articles.db").display());
    let url = std::env::args().nth(1).unwrap_or(temporary);

    let jobs = Arc::new(Jobs::new(Database::connect(&url).await?, JobsOptions::new("summarize"))?);
    jobs.migrate().await?;

    let summarizer = Arc::new(Summarizer::default());
    let policy = Policy::new(3, Backoff::new(Duration::from_millis(100), 2.0, Duration::from_secs(1))?);
    let pace = Pace {
        handler_timeout: Duration::from_millis(500),
        poll_interval: Duration::from_millis(200),
        ..Pace::default()
    };
    let pipeline = Pipeline::new("summarize", PipelineKind::Jobs, jobs.clone(), jobs.clone(), policy)
        .handled_by(Routes::All(Route::new("summarizer", summarizer.clone())))
        .at(pace);
    let engine = Engine::new();
    engine.start(&Arc::new(pipeline), WatchOptions::default());

    println!("Ten articles, one of them endless:");
    let words = |number: u64| if number == 7 { 90_000 } else { number * 100 };
    let articles = (1..=10).map(|number| NewJob::new(format!("article-{number}"), words(number).to_string()));
    jobs.enqueue(articles.collect()).await?;
    until_idle(&jobs).await?;

    println!("Dead letters, in the same table:");
    for letter in jobs.list(&Filter::default(), Page::first(10)).await?.letters {
        println!("  {} {} after {} attempts: {}", letter.id, letter.key, letter.attempts, letter.failure);
    }

    println!("A faster model, and a plain UPDATE:");
    summarizer.is_fast.store(true, Ordering::Relaxed);
    let pool =
        SqlitePool::connect_with(url.parse::<SqliteConnectOptions>().context("a sqlite: address")?).await?;
    let requeue =
        "UPDATE summarize_job_queue SET status = 'pending', retry_count = 0 WHERE article_id = 'article-7'";
    sqlx::query(requeue).execute(&pool).await?;
    until_idle(&jobs).await?;
    engine.stop().await;
    println!("Completed: {} of 10", jobs.delivered().await?);
    Ok(())
}

async fn until_idle(jobs: &Jobs) -> anyhow::Result<()> {
    while jobs.backlog().await? > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
