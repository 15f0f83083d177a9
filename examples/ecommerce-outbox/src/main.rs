//! An order and its event in one transaction: the founding system of the outbox.
//!
//! ```sh
//! cargo run -p ecommerce-outbox                              # SQLite, in a temporary folder
//! cargo run -p ecommerce-outbox -- sqlite:./shop.db          # keep the file and look at it
//! ```
//!
//! Three orders are placed. One is rolled back, and its event with it. One cannot be shipped and its
//! event becomes a dead letter, until the stock is corrected and it is sent back to work.
#![expect(clippy::print_stdout, reason = "an example talks to the person who runs it")]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use redrive::core::backoff::Backoff;
use redrive::core::dead_letter::{DeadLetterQueue, Filter, Operator, Page, PipelineKind};
use redrive::core::event::{Event, NewEvent};
use redrive::core::failure::Failure;
use redrive::core::handler::Handler;
use redrive::core::policy::Policy;
use redrive::engine::{Engine, Pipeline, Route, Routes, WatchOptions};
use redrive::store::{Database, Outbox, OutboxOptions, WorkStore as _};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};

/// Ships what was ordered, if there is stock.
#[derive(Default)]
struct Warehouse {
    stock_corrected: AtomicBool,
}

#[async_trait]
impl Handler for Warehouse {
    async fn handle(&self, batch: &[Event]) -> Vec<Result<(), Failure>> {
        batch.iter().map(|event| self.ship(event)).collect()
    }
}

impl Warehouse {
    fn ship(&self, event: &Event) -> Result<(), Failure> {
        let order = String::from_utf8_lossy(&event.payload);
        if order.contains("unicorn") && !self.stock_corrected.load(Ordering::Relaxed) {
            return Err(Failure::permanent(
                "OutOfStock",
                format!("order {}: no unicorns in stock", event.key),
            ));
        }
        // At-least-once: the warehouse deduplicates by `event.origin`, which a redrive keeps.
        println!("  shipped order {} (idempotency key {}): {order}", event.key, event.origin);
        Ok(())
    }
}

/// Places an order: the business row and its event, in one transaction.
async fn place_order(pool: &SqlitePool, outbox: &Outbox, id: i64, item: &str) -> anyhow::Result<()> {
    let mut transaction = pool.begin().await?;
    sqlx::query("INSERT INTO orders (id, item) VALUES ($1, $2)")
        .bind(id)
        .bind(item)
        .execute(&mut *transaction)
        .await?;
    let event = NewEvent {
        event_type: "OrderCreated".to_owned(),
        aggregate_type: "Order".to_owned(),
        aggregate_id: id.to_string(),
        payload: format!("{{\"item\":\"{item}\"}}"),
    };
    outbox.append_in(&mut *transaction, vec![event]).await?;
    anyhow::ensure!(item != "bomb", "we do not sell those: the order and its event are rolled back");
    transaction.commit().await?;
    println!("  placed order {id}: {item}");
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let temporary = format!("sqlite:{}", folder.path().join("shop.db").display());
    let url = std::env::args().nth(1).unwrap_or(temporary);

    let outbox = Arc::new(Outbox::new(Database::connect(&url).await?, OutboxOptions::new("orders"))?);
    outbox.migrate().await?;
    // The application's own connections, to the same database.
    let pool =
        SqlitePool::connect_with(url.parse::<SqliteConnectOptions>().context("a sqlite: address")?).await?;
    sqlx::query("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL)")
        .execute(&pool)
        .await?;

    let warehouse = Arc::new(Warehouse::default());
    let routes = HashMap::from([("OrderCreated".to_owned(), Route::new("warehouse", warehouse.clone()))]);
    // Five retries, as the outbox was founded with.
    let policy = Policy::new(6, Backoff::new(Duration::from_secs(5), 2.0, Duration::from_secs(300))?);
    let pipeline = Pipeline::new("orders", PipelineKind::Outbox, outbox.clone(), outbox.clone(), policy)
        .handled_by(Routes::ByType(routes));
    let pipeline = Arc::new(pipeline);
    let engine = Engine::new();
    engine.start(&pipeline, WatchOptions::default());

    println!("Three orders:");
    for (id, item) in [(1, "book"), (2, "bomb"), (3, "unicorn")] {
        if let Err(error) = place_order(&pool, &outbox, id, item).await {
            println!("  refused order {id}: {error}");
        }
        // SQLite cannot announce a commit: ring the bell, or wait for the next look.
        pipeline.bell.ring();
    }
    until_idle(&outbox).await?;

    let letters = outbox.list(&Filter::default(), Page::first(10)).await?.letters;
    println!("Dead letters:");
    for letter in &letters {
        println!("  {} {} of order {}: {}", letter.id, letter.event_type, letter.key, letter.failure);
    }

    println!("The stock is corrected, and the letter goes back to work:");
    warehouse.stock_corrected.store(true, Ordering::Relaxed);
    for letter in &letters {
        outbox.retry_from_dlq(&letter.id.local, &Operator::new("warehouse team")).await??;
    }
    pipeline.bell.ring();
    until_idle(&outbox).await?;
    engine.stop().await;
    println!("Unresolved letters: {}", outbox.stats().await?.waiting());
    Ok(())
}

async fn until_idle(outbox: &Outbox) -> anyhow::Result<()> {
    while outbox.backlog().await? > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
