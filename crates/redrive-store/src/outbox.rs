//! The transactional outbox: `outbox_event`, and `outbox_event_dlq` for the dead.

use jiff::Timestamp;
use redrive_core::dead_letter::{
    DeadLetterQueue, Operator, Order, PipelineKind, Refusal, Status, Unavailable,
};
use redrive_core::event::{NewEvent, WorkId};
use redrive_core::state::OutboxState;

use crate::act::{Act, Edit, Payload};
use crate::caller::Caller;
use crate::columns::{Columns, EVERY_ONE};
use crate::database::Database;
use crate::dead_letters::{Actions, DeadLetters, PURGE, dead_letter_queue};
use crate::dialect::{Dialect, check_name};
use crate::error::{Error, again};
use crate::insert::{Insert, Kind, OnConflict, portions};
use crate::queue::{Queue, work_store};
use crate::requests::{Answered, Begun, RequestKey, Requests};
use crate::row::Times;
use crate::schema;
use crate::session::Session;
use crate::shape::{Dead, Done, Shape};
use crate::statement::{Names, Sql, Statement, sql};
use crate::value::{Column, Value};

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
    /// They stay, marked as processed, until somebody calls [`Outbox::purge_processed`].
    KeepForAWhile,
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
    processed: Processed,
    insert: Insert,
    requests: Requests,
    queue: Queue,
    dead_letters: DeadLetters,
}

const SCHEMA: Sql = sql!(each "outbox/schema.sql");
const SCHEMA_ORDERED: Sql = sql!(each "outbox/schema_ordered.sql");
const SCHEMA_KEPT: Sql = sql!(each "outbox/schema_kept.sql");
const BURY: Sql = sql!(each "outbox/bury.sql");
const REDRIVE: Sql = sql!(each "outbox/redrive.sql");
const OUTCOMES: Sql = sql!(each "outbox/outcomes.sql");
const EDIT: Sql = sql!("outbox/edit.sql");

const WORK: &str = "id, lease, due_at, COALESCE(origin_id, id), event_type{as_text}, aggregate_type{as_text}, \
                    aggregate_id{as_text}, payload, created_at, retry_count, NULL, {interrupted}, history, 0";

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
            .with_table("table", "table_name", &options.table)
            .with_table("letters", "letters_name", &options.letters_table)
            .with("letter_id", "id")
            .with_sql("scope", "1 = 1")
            .with_sql("known", "1 = 1");
        let columns = [
            ("event_type", Kind::Text),
            ("aggregate_type", Kind::Text),
            ("aggregate_id", Kind::Text),
            ("payload", Kind::Text),
        ];
        Ok(Self {
            insert: Insert::new(&names, dialect, "id", &columns, OnConflict::Fail),
            requests: Requests::new(database.clone()),
            queue: Queue::new(database.clone(), &names, &shape(&options)),
            ordering: options.ordering,
            processed: options.processed,
            dead_letters: dead_letters(&database, &names, options),
            names,
            database,
        })
    }

    /// The Postgres channel on which inserts are announced.
    #[must_use]
    pub fn channel(&self) -> String {
        self.names.fill("redrive_{table_name}")
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
        if self.processed == Processed::KeepForAWhile {
            files.push(self.names.text(SCHEMA_KEPT));
        }
        files.extend(schema::notify(self.database.dialect()));
        schema::migrate(&self.database, &self.names, &files).await?;
        self.requests.migrate().await
    }

    /// Adds events, all or none, and returns their numbers in the same order.
    ///
    /// # Errors
    /// [`Error::Refused`] names the first event that cannot be kept; none is stored then.
    pub async fn append(&self, events: Vec<NewEvent>) -> Result<Vec<WorkId>, Error> {
        check(&events)?;
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let mut session = self.database.begin().await?;
        let ids = self.insert_all(&mut session, events).await?;
        session.commit().await?;
        Ok(ids)
    }

    /// As [`Outbox::append`], once for each key: the same request again is told the same numbers. The key is kept
    /// in the transaction of the events, for a day.
    ///
    /// # Errors
    /// As [`Outbox::append`]; [`Error::OtherRequest`] when the key is that of other events.
    pub async fn append_once(
        &self,
        events: &[NewEvent],
        key: &RequestKey,
    ) -> Result<Answered<Vec<WorkId>>, Error> {
        check(events)?;
        again(move || self.insert_once(events, key)).await
    }

    /// Adds events to the application's own transaction: they are there when it commits, with the
    /// business rows, or not at all.
    ///
    /// # Errors
    /// [`Error::Refused`] names the first event that cannot be kept. After any other error the
    /// transaction should be rolled back, as after any failed statement.
    pub async fn append_in<'t>(
        &self,
        transaction: impl Into<Caller<'t>> + Send,
        events: Vec<NewEvent>,
    ) -> Result<(), Error> {
        check(&events)?;
        let mut caller = transaction.into();
        let portions = portions(events.iter().map(|event| event.payload.len()));
        let mut events = events.into_iter();
        for count in portions {
            self.insert.run_in(&mut caller, event_columns(events.by_ref().take(count))).await?;
        }
        Ok(())
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
    ) -> Result<Result<(), Refusal>, Unavailable> {
        let order = Order::new(operator, &format!("letter {id}"));
        let mut acted = self.redrive(&[id.to_owned()], &order).await?;
        acted.refused.extend(acted.before.pop().map(Refusal::NotWaiting));
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
    ) -> Result<Result<(), Refusal>, Unavailable> {
        let mut acted = self.resolve(&[id.to_owned()], operator, note).await?;
        Ok(acted.refused.pop().map_or(Ok(()), Err))
    }

    /// Deletes events that were processed before this, at most `limit` of them, and says how many.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn purge_processed(&self, before: Timestamp, limit: u32) -> Result<u64, Error> {
        let purge = self
            .names
            .clone()
            .with_sql("purged", "{table}")
            .with_sql("purged_id", "id")
            .with_sql("closed", "t.processed = TRUE")
            .with_sql("old", "t.processed_at < $1")
            .with_sql("limit", "$2")
            .statement(PURGE);
        self.database.change(&purge, vec![Value::Time(before), Value::Int(i64::from(limit))]).await
    }

    async fn insert_all(&self, session: &mut Session, events: Vec<NewEvent>) -> Result<Vec<WorkId>, Error> {
        let mut ids = Vec::with_capacity(events.len());
        let portions = portions(events.iter().map(|event| event.payload.len()));
        let mut events = events.into_iter();
        for count in portions {
            ids.extend(self.insert.run(session, event_columns(events.by_ref().take(count))).await?);
        }
        Ok(ids)
    }

    async fn insert_once(
        &self,
        events: &[NewEvent],
        key: &RequestKey,
    ) -> Result<Answered<Vec<WorkId>>, Error> {
        let scope = format!("outbox {}", self.dead_letters.pipeline);
        let (mut session, request) = match self.requests.begin(key, &scope, &events).await? {
            Begun::Now(session, request) => (session, request),
            Begun::Before(answer) => return Ok(Answered { answer, is_repeated: true }),
        };
        let answer = self.insert_all(&mut session, events.to_vec()).await?;
        self.requests.finish(session, request, &answer).await?;
        Ok(Answered { answer, is_repeated: false })
    }

    /// The letter of the event that died under this number; for the conformance suite.
    pub(crate) async fn letter_of(&self, event: WorkId) -> Result<Option<i64>, Error> {
        let text = self.names.fill("SELECT id FROM {letters} WHERE original_event_id = $1");
        let statement = Statement::new(self.database.dialect(), &text);
        let rows = self.database.rows(&statement, vec![Value::Int(event.0)]).await?;
        rows.first().map(|row| row.int(0)).transpose()
    }

    /// How many delivered events are still kept.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn delivered(&self) -> Result<u64, Error> {
        self.database.count(&self.names.fill("SELECT count(*) FROM {table} WHERE processed = TRUE")).await
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

work_store!(Outbox);
dead_letter_queue!(Outbox);

/// Whether every backend can keep them.
fn check(events: &[NewEvent]) -> Result<(), Error> {
    for (item, event) in events.iter().enumerate() {
        event.check().map_err(|source| Error::Refused { item, source })?;
    }
    Ok(())
}

fn event_columns(events: impl Iterator<Item = NewEvent>) -> Vec<Column> {
    let (mut types, mut payloads) = (Vec::new(), Vec::new());
    let (mut aggregate_types, mut aggregate_ids) = (Vec::new(), Vec::new());
    for event in events {
        // Without an id it belongs to no aggregate: NULL, which waits for nobody.
        let aggregate = !event.aggregate_id.is_empty();
        types.push(event.event_type);
        aggregate_types.push((aggregate || !event.aggregate_type.is_empty()).then_some(event.aggregate_type));
        aggregate_ids.push(aggregate.then_some(event.aggregate_id));
        payloads.push(event.payload);
    }
    vec![
        Column::Texts(types),
        Column::OptTexts(aggregate_types),
        Column::OptTexts(aggregate_ids),
        Column::Texts(payloads),
    ]
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
        index: "_due",
        in_order: match options.ordering {
            Ordering::None => String::new(),
            Ordering::AggregateSkip => order.to_owned(),
            Ordering::AggregateHold => format!("{order}{dead}"),
        },
        work: WORK,
        created: Times::Native,
        done: match options.processed {
            Processed::Keep | Processed::KeepForAWhile => Done::Set(include_str!("../sql/outbox/done.sql")),
            Processed::Delete => Done::Delete,
        },
        retry: include_str!("../sql/outbox/retry.sql"),
        release: include_str!("../sql/outbox/release.sql"),
        dead: Dead::Move(BURY),
    }
}

const WAITING: &str = "t.resolved = FALSE";
/// What it was sent back as is not under way: its letter says what became of it.
const SETTLED: &str = "(t.redriven = FALSE OR NOT EXISTS (SELECT 1 FROM {table} AS e \
                       WHERE e.origin_id = COALESCE(t.origin_id, t.original_event_id) AND e.processed = FALSE))";

fn dead_letters(database: &Database, names: &Names, options: OutboxOptions) -> DeadLetters {
    let dialect = database.dialect();
    let columns = Columns {
        id: "t.id",
        event_type: "t.event_type",
        key: "t.aggregate_id".to_owned(),
        payload: "t.payload".to_owned(),
        message: "t.error_message",
        class: "t.error_class",
        code: "t.error_code",
        kind: "t.error_kind",
        attempts: "COALESCE(t.retry_count, 0) + 1",
        failed_at: "t.failed_at",
        first_failed_at: "t.failed_at",
        times: Times::Native,
        redrive_count: "(t.redrive_count + CASE WHEN t.redriven = TRUE THEN 1 ELSE 0 END)",
        redrivable: EVERY_ONE,
        fingerprint: "t.fingerprint",
        resolved_at: "t.resolved_at",
        headers: "NULL",
        origin: "NULL",
        target: "NULL",
        arrived_since: None,
        origin_id: "t.original_event_id",
        origin_table: options.table,
        outcome: "NULL",
        statuses: [
            (Status::Open, WAITING),
            (Status::Redriven, "t.resolved = TRUE AND t.redriven = TRUE"),
            (Status::Resolved, "t.resolved = TRUE AND t.redriven = FALSE"),
            (Status::Retrying, "1 = 0"),
            (Status::Failed, "1 = 0"),
        ],
    };
    let resolve = Act::update(names, dialect, WAITING, include_str!("../sql/outbox/resolve.sql"));
    let is_in_order = options.ordering != Ordering::None;
    // Postgres is the quicker for not sorting them.
    let in_order = if is_in_order { "ORDER BY id" } else { "" };
    let send = names.clone().with_sql("waiting", WAITING).with_sql("in_order", in_order).statement(REDRIVE);
    let close = Act::update_statement(names, WAITING, include_str!("../sql/outbox/redriven.sql"));
    let steps = match dialect {
        Dialect::Postgres => vec![send],
        Dialect::Sqlite | Dialect::MySql => vec![send, close],
    };
    let actions = Actions {
        redrive: Act::of(names, dialect, WAITING, steps),
        edit: Edit::elsewhere(names.statement(EDIT), Payload::Text),
        balance: match options.processed {
            Processed::Keep => include_str!("../sql/outbox/balance.sql"),
            Processed::KeepForAWhile | Processed::Delete => {
                include_str!("../sql/outbox/balance_forgetful.sql")
            }
        },
        resolve,
        settled: SETTLED,
        in_order: is_in_order,
        outcomes: Some(names.statement(OUTCOMES)),
    };
    let kind = PipelineKind::Outbox;
    DeadLetters::new(database.clone(), names.clone(), options.pipeline, kind, columns, actions)
}
