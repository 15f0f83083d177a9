//! The transactional outbox: `outbox_event`, and `outbox_event_dlq` for the dead.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::dead_letter::{
    Acted, DeadLetterQueue, Filter, Group, Letter, Listing, Operator, Page, PipelineKind, Stats, Status, Unavailable,
};
use redrive_core::event::{NewEvent, WorkId};
use redrive_core::lease::{Lease, Settlement};
use redrive_core::state::OutboxState;

use crate::act::Act;
use crate::database::Database;
use crate::dead_letters::{Columns, DeadLetters, Times, dead_letter_queue};
use crate::dialect::{Dialect, check_name};
use crate::error::Error;
use crate::insert::{Insert, Kind, OnConflict};
use crate::queue::{Dead, Done, Queue, Shape};
use crate::schema;
use crate::statement::{Names, Sql, Statement, sql};
use crate::value::{Column, Value};
use crate::work::{Claim, Turn, WorkStore};

/// In which order events are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ordering {
    /// In any order, as fast as possible.
    None,
    /// Per aggregate, one after the other; later ones wait for a dead letter.
    AggregateHold,
    /// Per aggregate, one after the other; later ones pass a dead letter.
    AggregateSkip,
}

/// What becomes of delivered events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Processed {
    /// They stay, marked as processed.
    Keep,
    /// They are deleted: quicker, and the table stays small.
    Delete,
}

/// How an outbox is set up.
#[derive(Debug, Clone)]
pub struct OutboxOptions {
    /// The pipeline's name.
    pub pipeline: String,
    /// The table that applications insert into.
    pub table: String,
    /// The table of dead letters.
    pub letters_table: String,
    /// In which order events are handled.
    pub ordering: Ordering,
    /// What becomes of delivered events.
    pub processed: Processed,
}

impl OutboxOptions {
    /// The founding table names, no order, history kept.
    #[must_use]
    pub fn new(pipeline: &str) -> Self {
        Self {
            pipeline: pipeline.to_owned(),
            table: "outbox_event".to_owned(),
            letters_table: "outbox_event_dlq".to_owned(),
            ordering: Ordering::None,
            processed: Processed::Keep,
        }
    }
}

/// A transactional outbox in a database.
#[derive(Debug)]
pub struct Outbox {
    database: Database,
    names: Names,
    ordering: Ordering,
    insert: Insert,
    queue: Queue,
    dead_letters: DeadLetters,
}

const SCHEMA: Sql = sql!(each "outbox/schema.sql");
const SCHEMA_ORDERED: Sql = sql!(each "outbox/schema_ordered.sql");
const BURY: Sql = sql!(each "outbox/bury.sql");
const REDRIVE: Sql = sql!(each "outbox/redrive.sql");

/// The most events that one statement inserts.
const CHUNK: usize = 1_000;

const WORK: &str = "id, lease, due_at, COALESCE(origin_id, id), event_type, aggregate_type, aggregate_id, payload, \
                    created_at, retry_count, NULL, {interrupted}, history";

impl Outbox {
    /// The outbox with these tables. Nothing is asked of the database yet.
    ///
    /// # Errors
    /// [`Error::Setting`] when a table name cannot be used.
    pub fn new(database: Database, options: OutboxOptions) -> Result<Self, Error> {
        check_name("outbox table", &options.table)?;
        check_name("dead-letter table", &options.letters_table)?;
        let dialect = database.dialect();
        let names = Names::new(dialect)
            .with("table", &options.table)
            .with("letters", &options.letters_table)
            .with("letter_id", "id")
            .with_sql("scope", "1 = 1")
            .with_sql("table_name", &index_prefix(&options.table))
            .with_sql("letters_name", &index_prefix(&options.letters_table));
        let columns = [
            ("event_type", Kind::Text),
            ("aggregate_type", Kind::Text),
            ("aggregate_id", Kind::Text),
            ("payload", Kind::Text),
        ];
        Ok(Self {
            insert: Insert::new(&names, dialect, "id", &columns, OnConflict::Fail),
            queue: Queue::new(database.clone(), &names, &shape(&options)),
            dead_letters: dead_letters(&database, &names, &options),
            ordering: options.ordering,
            names,
            database,
        })
    }

    /// Makes the tables, or adds to the application's own what they lack.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached or refuses.
    pub async fn migrate(&self) -> Result<(), Error> {
        let mut files = vec![self.names.text(SCHEMA)];
        if self.ordering != Ordering::None {
            files.push(self.names.text(SCHEMA_ORDERED));
        }
        schema::migrate(&self.database, &self.names, &files).await
    }

    /// Adds events, all or none, and returns their numbers in the same order.
    ///
    /// # Errors
    /// [`Error::Refused`] names the first event that cannot be kept; none is stored then.
    pub async fn append(&self, events: Vec<NewEvent>) -> Result<Vec<WorkId>, Error> {
        for (item, event) in events.iter().enumerate() {
            event.check().map_err(|source| Error::Refused { item, source })?;
        }
        let mut ids = Vec::with_capacity(events.len());
        if events.is_empty() {
            return Ok(ids);
        }
        let mut session = self.database.begin().await?;
        let mut events = events.into_iter().peekable();
        while events.peek().is_some() {
            ids.extend(self.insert.run(&mut session, event_columns(events.by_ref().take(CHUNK))).await?);
        }
        session.commit().await?;
        Ok(ids)
    }

    /// Sends a dead letter back into the outbox as a new event and closes it.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be reached; the inner result says why this letter
    /// cannot be redriven.
    pub async fn retry_from_dlq(
        &self,
        id: &str,
        operator: &Operator,
    ) -> Result<Result<(), redrive_core::dead_letter::Refusal>, Unavailable> {
        let mut acted = self.redrive(&[id.to_owned()], operator).await?;
        Ok(acted.refused.pop().map_or(Ok(()), Err))
    }

    /// Closes a dead letter that a person has dealt with.
    ///
    /// # Errors
    /// As [`Outbox::retry_from_dlq`].
    pub async fn resolve_manually(
        &self,
        id: &str,
        operator: &Operator,
        note: &str,
    ) -> Result<Result<(), redrive_core::dead_letter::Refusal>, Unavailable> {
        let mut acted = self.resolve(&[id.to_owned()], operator, note).await?;
        Ok(acted.refused.pop().map_or(Ok(()), Err))
    }

    /// Deletes events that were processed before this, at most `limit` of them, and says how many.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn purge_processed(&self, before: Timestamp, limit: u32) -> Result<u64, Error> {
        // The inner SELECT in a derived table: MySQL will not read the table that it deletes from.
        let text = self.names.fill(
            "DELETE FROM {table} WHERE id IN (SELECT id FROM (SELECT id FROM {table} \
             WHERE processed = TRUE AND processed_at < $1 ORDER BY id LIMIT $2) AS old)",
        );
        let statement = Statement::new(self.database.dialect(), &text);
        self.database.change(&statement, vec![Value::Time(before), Value::Int(i64::from(limit))]).await
    }

    /// Where an event is now; a letter is found by the number of the event that died.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn state(&self, event: WorkId) -> Result<Option<OutboxState>, Error> {
        let text = self.names.fill(
            "SELECT CASE WHEN processed = TRUE THEN 'processed' WHEN leased_by IS NULL THEN 'ready' ELSE 'leased' END \
             FROM {table} WHERE id = $1 UNION ALL \
             SELECT CASE WHEN redriven = TRUE THEN 'redriven' WHEN resolved = TRUE THEN 'resolved' ELSE 'dead' END \
             FROM {letters} WHERE original_event_id = $2",
        );
        let statement = Statement::new(self.database.dialect(), &text);
        let rows = self.database.rows(&statement, vec![Value::Int(event.0), Value::Int(event.0)]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(match row.text(0)?.as_str() {
            "processed" => Some(OutboxState::Processed),
            "ready" => Some(OutboxState::Ready),
            "leased" => Some(OutboxState::Leased),
            "redriven" => Some(OutboxState::Redriven),
            "resolved" => Some(OutboxState::Resolved),
            _ => Some(OutboxState::Dead),
        })
    }
}

#[async_trait]
impl WorkStore for Outbox {
    async fn turn(&self, settled: &mut Vec<(Lease, Settlement)>, claim: Option<&Claim>) -> Result<Turn, Error> {
        self.queue.turn(settled, claim).await
    }

    async fn extend(&self, leases: &mut [&mut Lease], lease: Duration) -> Result<Vec<WorkId>, Error> {
        self.queue.extend(leases, lease).await
    }

    async fn backlog(&self) -> Result<u64, Error> {
        let text = self.names.fill("SELECT count(*) FROM {table} WHERE processed = FALSE");
        let rows = self.database.rows(&Statement::new(self.database.dialect(), &text), Vec::new()).await?;
        Ok(rows.first().map(|row| row.int(0)).transpose()?.and_then(|count| u64::try_from(count).ok()).unwrap_or(0))
    }
}

dead_letter_queue!(Outbox);

/// Index names live in the schema of their table and do not repeat it.
pub(crate) fn index_prefix(table: &str) -> String {
    table.rsplit('.').next().unwrap_or(table).to_owned()
}

fn event_columns(events: impl Iterator<Item = NewEvent>) -> Vec<Column> {
    let mut columns: [Vec<String>; 4] = Default::default();
    for event in events {
        let cells = [event.event_type, event.aggregate_type, event.aggregate_id, event.payload];
        for (column, cell) in columns.iter_mut().zip(cells) {
            column.push(cell);
        }
    }
    columns.into_iter().map(Column::Texts).collect()
}

fn shape(options: &OutboxOptions) -> Shape {
    let order = include_str!("../sql/outbox/hold_order.sql");
    let dead = include_str!("../sql/outbox/hold_dead.sql");
    Shape {
        id: "id",
        live: "e.processed = FALSE",
        leased: "e.leased_by IS NOT NULL",
        held: "t.leased_by IS NOT NULL AND t.processed = FALSE",
        take: "interrupted = (t.leased_by IS NOT NULL), updated_at = {now}",
        order: "e.due_at, e.id",
        in_order: match options.ordering {
            Ordering::None => String::new(),
            Ordering::AggregateSkip => order.to_owned(),
            Ordering::AggregateHold => format!("{order}{dead}"),
        },
        work: WORK,
        done: match options.processed {
            Processed::Keep => Done::Set(include_str!("../sql/outbox/done.sql")),
            Processed::Delete => Done::Delete,
        },
        retry: include_str!("../sql/outbox/retry.sql"),
        release: include_str!("../sql/outbox/release.sql"),
        dead: Dead::Move(BURY),
    }
}

const WAITING: &str = "t.resolved = FALSE";

fn dead_letters(database: &Database, names: &Names, options: &OutboxOptions) -> DeadLetters {
    let dialect = database.dialect();
    let columns = Columns {
        id: "t.id",
        scope: "1 = 1".to_owned(),
        event_type: "t.event_type",
        key: "t.aggregate_id".to_owned(),
        payload: "t.payload".to_owned(),
        message: "t.error_message",
        class: "t.error_class",
        code: "t.error_code",
        kind: "t.error_kind",
        attempts: "t.retry_count + 1",
        failed_at: "t.failed_at",
        first_failed_at: "t.failed_at",
        times: Times::Native,
        redrive_count: "t.redrive_count",
        fingerprint: "t.fingerprint",
        resolved_at: "t.resolved_at",
        headers: "NULL",
        origin: "NULL",
        origin_id: "t.original_event_id",
        origin_table: options.table.clone(),
        statuses: [
            (Status::Open, WAITING),
            (Status::Redriven, "t.redriven = TRUE"),
            (Status::Resolved, "t.resolved = TRUE AND t.redriven = FALSE"),
            (Status::Retrying, "1 = 0"),
            (Status::Failed, "1 = 0"),
        ],
    };
    let resolve = Act::update(names, dialect, WAITING, include_str!("../sql/outbox/resolve.sql"));
    let send = names.clone().with_sql("waiting", WAITING).statement(REDRIVE);
    let close = Act::update_statement(names, WAITING, include_str!("../sql/outbox/redriven.sql"));
    let steps = match dialect {
        Dialect::Postgres => vec![send],
        Dialect::Sqlite | Dialect::MySql => vec![send, close],
    };
    let redrive = Act::of(names, dialect, WAITING, steps);
    let kind = PipelineKind::Outbox;
    DeadLetters::new(database.clone(), names.clone(), options.pipeline.clone(), kind, columns, redrive, resolve)
}
