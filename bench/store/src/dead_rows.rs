//! Claims beside a million rows that are through: they must not notice them.

use std::sync::Arc;

use bench_harness::{Contestant, Ratio, Scratch, Table, Target, race, thousands};
use redrive_store::{Database, Jobs, JobsOptions, Ordering, Outbox, OutboxOptions, Processed, WorkStore};

use crate::Args;
use crate::load::Load;
use crate::ours::Ours;
use bench_harness::events::{LIVE, PAYLOAD, fill_jobs, fill_postgres};
use bench_harness::{Hand, Stage, tidy_postgres};

/// A drain of the few live rows takes a moment only: more rounds make up for it.
const MORE_ROUNDS: usize = 4;

/// Where the rows are that are through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Dead letters of the outbox, in their own table.
    Letters(Ordering),
    /// Events that were delivered and kept.
    Processed,
    /// Dead jobs, among the live ones.
    Jobs,
}

const PLACES: [Place; 4] =
    [Place::Letters(Ordering::None), Place::Letters(Ordering::AggregateHold), Place::Processed, Place::Jobs];

/// Compares the claims with and without such rows, for every place, and prints the table.
pub(crate) async fn measure(args: &Args, scratch: &Scratch) -> anyhow::Result<Vec<Target>> {
    let rounds = args.rounds * MORE_ROUNDS;
    let (live, dead) = (thousands(LIVE.into()), thousands(args.dead.into()));
    println!(
        "\n## Claims beside dead rows, Postgres\n\n{live} live rows, with and without {dead} others; 2 workers, \
         {rounds} rounds in turns; events/s: median (slowest–fastest)\n"
    );
    let mut table = Table::new(&["others", "load", "without", "with", "with ÷ without"]);
    let mut targets = Vec::new();
    for place in PLACES {
        let pair = [Beside::new(place, 0, scratch).await?, Beside::new(place, args.dead, scratch).await?];
        for batch in [50, 500] {
            let load = Load { workers: 2, batch, processed: Processed::Keep };
            let mut contestants: Vec<Box<dyn Contestant>> = Vec::new();
            for beside in &pair {
                contestants.push(Box::new(beside.contestant(load, scratch).await?));
            }
            let rates = race(&mut contestants, rounds).await?;
            let ratio = Ratio::of(&rates[1], &rates[0]);
            table.row([
                place.name(),
                load.name(),
                rates[0].to_string(),
                rates[1].to_string(),
                ratio.to_string(),
            ]);
            let name = format!("{dead} {} beside {live} live, {}: with ÷ without", place.name(), load.name());
            targets.push(Target::at_least(name, 0.9, ratio.of_medians));
        }
    }
    print!("{table}");
    Ok(targets)
}

impl Place {
    fn name(self) -> String {
        match self {
            Self::Letters(Ordering::None) => "letters",
            Self::Letters(_) => "letters, claims per aggregate",
            Self::Processed => "processed events",
            Self::Jobs => "dead jobs",
        }
        .to_owned()
    }

    /// The prefix of its tables.
    fn prefix(self, dead: u32) -> String {
        let place = match self {
            Self::Letters(Ordering::None) => "letters",
            Self::Letters(_) => "ordered",
            Self::Processed => "processed",
            Self::Jobs => "jobs",
        };
        format!("{place}_{}", if dead == 0 { "without" } else { "with" })
    }

    /// The statement that puts so many rows that are through into the table, numbered from 1.
    fn fill_dead(self, table: &str, dead: u32) -> String {
        let series = format!("FROM generate_series(1, {dead}) AS n");
        match self {
            Self::Letters(_) => format!(
                "INSERT INTO {table}_dlq (original_event_id, event_type, aggregate_type, aggregate_id, payload, \
                     error_message, retry_count, origin_id, error_class, error_kind, fingerprint) \
                 SELECT -n, 'OrderCreated', 'Order', 'dead-' || n, {PAYLOAD}, 'connection refused', 5, -n, \
                     'transient', 'Io', lpad(to_hex(n % 100), 16, '0') {series}"
            ),
            Self::Processed => format!(
                "INSERT INTO {table} (event_type, aggregate_type, aggregate_id, payload, processed, processed_at) \
                 SELECT 'OrderCreated', 'Order', n::text, {PAYLOAD}, TRUE, now() {series}"
            ),
            Self::Jobs => format!(
                "INSERT INTO {table} (article_id, payload, status, completed_at, retry_count, error_message, \
                     error_class, error_kind, fingerprint) \
                 SELECT 'dead-' || n, {PAYLOAD}, 'dead_letter', now(), 3, 'connection refused', 'transient', 'Io', \
                     lpad(to_hex(n % 100), 16, '0') {series}"
            ),
        }
    }
}

/// A store whose live rows lie beside so many others.
struct Beside {
    place: Place,
    dead: u32,
    table: String,
    store: Arc<dyn WorkStore>,
}

impl Beside {
    async fn new(place: Place, dead: u32, scratch: &Scratch) -> anyhow::Result<Self> {
        let table = place.prefix(dead);
        let database = Database::connect(&scratch.url()?).await?;
        let store = store(place, &table, database).await?;
        let mut hand = Hand::Postgres(scratch.connect().await?);
        hand.run(&[
            format!("ALTER TABLE {table} SET (autovacuum_enabled = off)"),
            place.fill_dead(&table, dead),
            "VACUUM (ANALYZE)".to_owned(),
        ])
        .await?;
        Ok(Self { place, dead, table, store })
    }

    async fn contestant(&self, load: Load, scratch: &Scratch) -> anyhow::Result<Ours> {
        let stage = Stage {
            hand: Hand::Postgres(scratch.connect().await?),
            before: self.before(),
            waiting: self.waiting(),
        };
        Ok(Ours { name: self.table.clone(), stage, store: Arc::clone(&self.store), load })
    }

    /// The live rows of the last round go; those that were there before stay.
    fn before(&self) -> Vec<String> {
        let Self { table, .. } = self;
        // Letters are in another table: what is in this one was live.
        let dead_here = if matches!(self.place, Place::Letters(_)) { 0 } else { self.dead };
        let (id, fill) = match self.place {
            Place::Jobs => ("job_id", fill_jobs(table, LIVE)),
            Place::Letters(_) | Place::Processed => ("id", fill_postgres(table, LIVE)),
        };
        let mut before = vec![format!("DELETE FROM {table} WHERE {id} > {dead_here}"), fill];
        before.extend(tidy_postgres(table));
        before
    }

    fn waiting(&self) -> String {
        let live = match self.place {
            Place::Jobs => "status IN ('pending', 'running')",
            Place::Letters(_) | Place::Processed => "NOT processed",
        };
        format!("SELECT count(*) FROM {} WHERE {live}", self.table)
    }
}

async fn store(place: Place, table: &str, database: Database) -> anyhow::Result<Arc<dyn WorkStore>> {
    if place == Place::Jobs {
        let jobs = Jobs::new(database, JobsOptions { table: table.to_owned(), ..JobsOptions::new("bench") })?;
        jobs.migrate().await?;
        return Ok(Arc::new(jobs));
    }
    let ordering = if let Place::Letters(ordering) = place { ordering } else { Ordering::None };
    let options = OutboxOptions {
        table: table.to_owned(),
        letters_table: format!("{table}_dlq"),
        ordering,
        ..OutboxOptions::new("bench")
    };
    let outbox = Outbox::new(database, options)?;
    outbox.migrate().await?;
    Ok(Arc::new(outbox))
}
