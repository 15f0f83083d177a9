//! The transactional outbox: `outbox_event`, and `outbox_event_dlq` for the dead.
//!
//! Both may be tables of the application's own, with columns of other types and further columns. The statements are
//! made for the tables as the catalogue describes them, when they are first needed. Further columns of an event are
//! carried into its letter and back: a redriven event has them again.

use std::sync::Arc;

use jiff::Timestamp;
use redrive_core::dead_letter::{
    DeadLetterQueue, Operator, Order, PipelineKind, Refusal, Status, Unavailable,
};
use redrive_core::event::{NewEvent, Refused, WorkId};
use redrive_core::state::OutboxState;

use crate::act::{Act, Edit};
use crate::adoption::{self, Bound, Plan, Role};
use crate::caller::Caller;
use crate::catalog::{ColumnInfo, ColumnType, Table};
use crate::columns::{Columns, EVERY_ONE, LeadingStatus};
use crate::database::Database;
use crate::dead_letters::{Actions, DeadLetters, Identity, PURGE, dead_letter_queue};
use crate::dialect::{Dialect, check_name};
use crate::error::{Error, again};
use crate::insert::{Cell, Executor, Insert, Kind, OnConflict, portions};
use crate::queue::{Queue, work_store};
use crate::requests::{Answered, Begun, RequestKey, Requests};
use crate::rights;
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

/// Where the numbers of an application's rows come from. An event is known by its number: one that is used again would
/// be the idempotency key of two events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ids {
    /// The database gives them: an identity, a sequence, an auto-increment.
    #[default]
    Generated,
    /// Whoever gives them, none is ever used again: Snowflake ids and the like.
    Unique,
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
    /// Where the ids of events come from.
    pub ids: Ids,
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
            ids: Ids::Generated,
        }
    }
}

/// A transactional outbox in a database.
#[derive(Debug)]
pub struct Outbox {
    database: Database,
    names: Names,
    options: OutboxOptions,
    identity: Identity,
    requests: Requests,
    statements: Bound<Statements>,
}

/// What is made for the tables as they are.
#[derive(Debug)]
struct Statements {
    tables: Tables,
    insert: Insert,
    queue: Arc<Queue>,
    dead_letters: Arc<DeadLetters>,
}

/// The two tables as the catalogue describes them.
#[derive(Debug)]
struct Tables {
    dialect: Dialect,
    events: Table,
    letters: Table,
}

const SCHEMA: Sql = sql!(each "outbox/schema.sql");
const SCHEMA_ORDERED: Sql = sql!(each "outbox/schema_ordered.sql");
const SCHEMA_KEPT: Sql = sql!(each "outbox/schema_kept.sql");
const BURY: Sql = sql!(each "outbox/bury.sql");
const REDRIVE: Sql = sql!(each "outbox/redrive.sql");
const OUTCOMES: Sql = sql!(each "outbox/outcomes.sql");
const EDIT: Sql = sql!("outbox/edit.sql");

const WORK: &str = "id, lease, due_at, COALESCE(origin_id, id), {event_type}, {aggregate_type}, {aggregate_id}, \
                    payload, created_at, retry_count, NULL, {interrupted}, history, 0";

const EVENT_ROLES: [(&str, Role); 11] = [
    ("id", Role::Id),
    ("event_type", Role::Key),
    ("aggregate_type", Role::Key),
    ("aggregate_id", Role::Key),
    ("payload", Role::Payload),
    ("processed", Role::Flag),
    ("processed_at", Role::Time),
    ("error_message", Role::Message),
    ("retry_count", Role::Count),
    ("created_at", Role::Time),
    ("updated_at", Role::Time),
];
const LETTER_ROLES: [(&str, Role); 15] = [
    ("id", Role::Id),
    ("original_event_id", Role::Id),
    ("event_type", Role::IndexedKey),
    ("aggregate_type", Role::Key),
    ("aggregate_id", Role::Key),
    ("payload", Role::Payload),
    ("error_message", Role::Message),
    ("failed_at", Role::Time),
    ("retry_count", Role::Count),
    ("resolved", Role::Flag),
    ("resolved_at", Role::Time),
    ("resolved_by", Role::Message),
    ("resolution_note", Role::Note),
    ("created_at", Role::Time),
    ("updated_at", Role::Time),
];
/// What redrive adds to the two tables.
const EVENT_ADDITIONS: [&str; 7] =
    ["due_at", "lease", "leased_by", "interrupted", "origin_id", "redrive_count", "history"];
const LETTER_ADDITIONS: [&str; 8] = [
    "origin_id",
    "redrive_count",
    "redriven",
    "error_class",
    "error_code",
    "error_kind",
    "fingerprint",
    "history",
];
/// What a new row begins with, where its table has no default for it.
const EVENT_DEFAULTS: [(&str, &str); 4] =
    [("processed", "FALSE"), ("retry_count", "0"), ("created_at", "{now}"), ("updated_at", "{now}")];
const LETTER_DEFAULTS: [(&str, &str); 3] =
    [("failed_at", "{now}"), ("resolved", "FALSE"), ("updated_at", "{now}")];
/// The columns that an event and its letter have in common, and what the statements call them.
const SHARED: [(&str, &str, &str, &str); 4] = [
    ("event_type", "buried_type", "sent_type", "letter_event_type"),
    ("aggregate_type", "buried_aggregate_type", "sent_aggregate_type", "letter_aggregate_type"),
    ("aggregate_id", "buried_aggregate_id", "sent_aggregate_id", "letter_aggregate_id"),
    ("payload", "buried_payload", "sent_payload", "letter_payload"),
];

impl Outbox {
    /// The outbox with these tables. Nothing is asked of the database yet.
    ///
    /// # Errors
    /// [`Error::Setting`] when a table name cannot be used.
    pub fn new(database: Database, options: OutboxOptions) -> Result<Self, Error> {
        check_name("outbox table", &options.table)?;
        check_name("dead-letter table", &options.letters_table)?;
        let names = Names::new(database.dialect())
            .with_table("table", "table_name", &options.table)
            .with("notify", &format!("{}_notify", options.table))
            .with_table("letters", "letters_name", &options.letters_table)
            .with("letter_id", "id")
            .with("id", "id")
            .with_sql("scope", "1 = 1")
            .with_sql("known", "1 = 1");
        let is_parallel = options.ordering == Ordering::None;
        Ok(Self {
            identity: Identity::new(&database, &options.pipeline, PipelineKind::Outbox, is_parallel),
            requests: Requests::beside(database.clone(), &options.table),
            statements: Bound::default(),
            options,
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
    /// [`Error::Unsuitable`] when tables that are there cannot be used: nothing was changed then. Another [`Error`]
    /// when the store cannot be reached or refuses.
    pub async fn migrate(&self) -> Result<(), Error> {
        self.statements.forget();
        schema::carry_out(&self.database, async |session| self.plan_in(session).await).await
    }

    /// What [`Outbox::migrate`] would do; nothing is changed.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn plan(&self) -> Result<Plan, Error> {
        self.plan_in(&mut self.database.session().await?).await
    }

    async fn plan_in(&self, session: &mut Session) -> Result<Plan, Error> {
        let dialect = self.database.dialect();
        let tables = self.tables(session).await?;
        let names = tables.names(&self.names);
        let mut files = vec![names.text(SCHEMA)];
        if self.options.ordering != Ordering::None {
            files.push(names.text(SCHEMA_ORDERED));
        }
        if self.options.processed == Processed::KeepForAWhile {
            files.push(names.text(SCHEMA_KEPT));
        }
        if tables.events.reuses_ids {
            files.push(schema::KEYS);
        }
        files.extend(schema::notify(dialect));
        let mut plan = schema::plan(session, dialect, &names, &files).await?;
        plan.statements.extend(tables.additions(&names));
        plan.problems.extend(tables.problems(&names, self.options.ordering));
        for table in [&self.options.table, &self.options.letters_table] {
            plan.problems.extend(adoption::unsafe_kind(session, dialect, table).await?);
        }
        for table in [&tables.events, &tables.letters] {
            plan.problems.extend(adoption::shared_id(session, dialect, table, "id").await?);
        }
        let are_unique = self.options.ids == Ids::Unique;
        plan.problems.extend(adoption::given_id(dialect, &tables.events, "id", are_unique));
        plan.unserved.extend(adoption::unrepresentable(session, dialect, &tables.events, "id").await?);
        let plan = plan.with_rights(session, dialect, &schema::tables(&names, &files), &rights::ALL).await?;
        Ok(plan.and(self.requests.plan_in(session).await?))
    }

    async fn tables(&self, session: &mut Session) -> Result<Tables, Error> {
        let dialect = self.database.dialect();
        Ok(Tables {
            dialect,
            events: Table::read(session, dialect, &self.options.table).await?,
            letters: Table::read(session, dialect, &self.options.letters_table).await?,
        })
    }

    /// The statements for the tables as they are.
    async fn statements(&self) -> Result<Arc<Statements>, Error> {
        if let Some(statements) = self.statements.get() {
            return Ok(statements);
        }
        let tables = self.tables(&mut self.database.session().await?).await?;
        let is_migrated = tables.events.exists() && tables.letters.exists();
        let names = tables.names(&self.names);
        let statements = Arc::new(Statements {
            insert: tables.insert(&names),
            queue: Arc::new(Queue::new(self.database.clone(), &names, &shape(&self.options))),
            dead_letters: Arc::new(dead_letters(&self.database, &names, &tables, &self.options)),
            tables,
        });
        if is_migrated {
            self.statements.keep(Arc::clone(&statements));
        }
        Ok(statements)
    }

    async fn queue(&self) -> Result<Arc<Queue>, Error> {
        Ok(Arc::clone(&self.statements().await?.queue))
    }

    async fn dead_letters(&self) -> Result<Arc<DeadLetters>, Error> {
        Ok(Arc::clone(&self.statements().await?.dead_letters))
    }

    /// A refusal may mean that the tables are not what they were: they are looked at again.
    fn refused(&self) {
        self.statements.forget();
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
        let statements = &*self.statements().await?;
        statements.tables.accept(&events)?;
        let events = &events;
        again(move || self.insert_plain(statements, events)).await
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
        let statements = &*self.statements().await?;
        statements.tables.accept(events)?;
        again(move || self.insert_once(statements, events, key)).await
    }

    /// Adds events to the application's own transaction: they are there when it commits, with the
    /// business rows, or not at all. Returns their numbers in the same order.
    ///
    /// # Errors
    /// [`Error::Refused`] names the first event that cannot be kept. After any other error the
    /// transaction should be rolled back, as after any failed statement.
    pub async fn append_in<'t>(
        &self,
        transaction: impl Into<Caller<'t>> + Send,
        events: Vec<NewEvent>,
    ) -> Result<Vec<WorkId>, Error> {
        check(&events)?;
        let statements = self.statements().await?;
        statements.tables.accept(&events)?;
        let mut caller = transaction.into();
        caller.check(self.database.dialect())?;
        statements.insert_all(&mut caller, events).await
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

    async fn insert_plain(&self, statements: &Statements, events: &[NewEvent]) -> Result<Vec<WorkId>, Error> {
        let mut session = self.database.begin().await?;
        let ids = statements.insert_all(&mut session, events.to_vec()).await?;
        session.commit().await?;
        Ok(ids)
    }

    async fn insert_once(
        &self,
        statements: &Statements,
        events: &[NewEvent],
        key: &RequestKey,
    ) -> Result<Answered<Vec<WorkId>>, Error> {
        let scope = format!("outbox {}", self.options.pipeline);
        let (mut session, request) = match self.requests.begin(key, &scope, &events).await? {
            Begun::Now(session, request) => (session, request),
            Begun::Before(answer) => return Ok(Answered { answer, is_repeated: true }),
        };
        let answer = statements.insert_all(&mut session, events.to_vec()).await?;
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

work_store!(Outbox, announced);
dead_letter_queue!(Outbox);

impl Statements {
    async fn insert_all(
        &self,
        session: &mut dyn Executor,
        events: Vec<NewEvent>,
    ) -> Result<Vec<WorkId>, Error> {
        let mut ids = Vec::with_capacity(events.len());
        let portions = portions(events.iter().map(|event| event.payload.len()));
        let mut events = events.into_iter();
        for count in portions {
            let inserted = self.insert.run(session, event_columns(events.by_ref().take(count))).await?;
            adoption::none_dropped("outbox", inserted.len() as u64, count as u64)?;
            ids.extend(inserted);
        }
        Ok(ids)
    }
}

impl Tables {
    /// The names of the store, and the pieces of SQL that depend on the types of these columns.
    fn names(&self, names: &Names) -> Names {
        let failed_message = if self.dialect == Dialect::Postgres { "t.failed_message" } else { "s.message" };
        let mut names = names
            .clone()
            .with_sql("event_type", &self.events.text_of("", "event_type", "event_type"))
            .with_sql("aggregate_type", &self.events.text_of("", "aggregate_type", "aggregate_type"))
            .with_sql("aggregate_id", &self.events.text_of("", "aggregate_id", "aggregate_id"))
            .with_sql("message", &self.events.cut("error_message", "s.message"))
            .with_sql("buried_message", &self.letters.cut("error_message", failed_message))
            .with_sql("operator", &self.letters.cut("resolved_by", "given.operator"))
            .with_sql("operator_2", &self.letters.cut("resolved_by", "$2"))
            .with_sql("letter_key", &self.letters.in_index("aggregate_id", "aggregate_id"))
            .with_sql("same_aggregate", &self.same_aggregate())
            .with_sql("representable", adoption::representable(&self.events, "id"));
        for (column, buried, sent, letter_type) in SHARED {
            names = names
                .with_sql(buried, &copied(&self.events, &self.letters, column))
                .with_sql(sent, &copied(&self.letters, &self.events, column))
                .with_sql(letter_type, &self.letter_type(column));
        }
        let carried = self.carried();
        let quoted = |from: &str| {
            carried.iter().map(|name| format!(", {from}{}", self.dialect.quote(name))).collect::<String>()
        };
        let (event_fixed, event_values) = fixed(&self.events, &EVENT_DEFAULTS);
        let (letter_fixed, letter_values) = fixed(&self.letters, &LETTER_DEFAULTS);
        // An id that the application gives itself was freed when the event became a letter.
        let needs_id = self.events.column("id").is_some_and(ColumnInfo::is_required);
        let (id, id_value) = if needs_id { (", id", ", t.original_event_id") } else { ("", "") };
        names
            .with_sql("carried", &quoted(""))
            .with_sql("carried_values", &quoted("t."))
            .with_sql("event_fixed", &format!("{event_fixed}{id}"))
            .with_sql("event_fixed_values", &format!("{event_values}{id_value}"))
            .with_sql("letter_fixed", &letter_fixed)
            .with_sql("letter_fixed_values", &letter_values)
    }

    /// The columns of the application's own that an event keeps when it becomes a letter.
    fn carried(&self) -> Vec<&str> {
        let extra = self.extra().map(|column| column.name.as_str());
        extra.filter(|name| self.letters.column(name).is_some_and(|column| !column.is_generated)).collect()
    }

    /// The columns of an event that redrive knows nothing of.
    fn extra(&self) -> impl Iterator<Item = &ColumnInfo> {
        let is_known = |name: &str| {
            let names = EVENT_ROLES.iter().chain(&LETTER_ROLES).map(|(name, _)| *name);
            names.chain(EVENT_ADDITIONS).chain(LETTER_ADDITIONS).any(|known| known.eq_ignore_ascii_case(name))
        };
        self.events.columns.iter().filter(move |column| {
            !column.is_generated && !is_known(&column.name) && adoption::is_plain(&column.name)
        })
    }

    /// The statements that let the letters keep the columns of the application's own.
    fn additions(&self, names: &Names) -> Vec<String> {
        let missing = self.extra().filter(|column| self.letters.column(&column.name).is_none());
        let add = |column: &ColumnInfo| {
            let name = self.dialect.quote(&column.name);
            names.fill(&format!("ALTER TABLE {{letters}} ADD COLUMN {name} {}", column.declared))
        };
        missing.map(add).collect()
    }

    /// The type that a column of a letter gets: that of the event, if the application chose another.
    fn letter_type(&self, column: &str) -> String {
        let ours = match (column, self.dialect) {
            ("event_type", _) => "VARCHAR(100) NOT NULL",
            ("aggregate_type", _) => "VARCHAR(100)",
            ("aggregate_id", _) => "VARCHAR(255)",
            (_, Dialect::MySql) => "LONGTEXT",
            _ => "TEXT",
        };
        match self.events.column(column) {
            Some(theirs) if theirs.kind != ColumnType::Text => theirs.declared.clone(),
            _ => ours.to_owned(),
        }
    }

    fn same_aggregate(&self) -> String {
        let same = |column: &str| match (self.letters.column(column), self.events.column(column)) {
            (Some(letter), Some(event)) if letter.kind != event.kind => {
                let (l, e) = (format!("l.{column}"), format!("e.{column}"));
                format!("{} = {}", letter.as_text(&l), event.as_text(&e))
            }
            _ => format!("l.{column} = e.{column}"),
        };
        format!("{} AND {}", same("aggregate_type"), same("aggregate_id"))
    }

    fn insert(&self, names: &Names) -> Insert {
        let given = ["event_type", "aggregate_type", "aggregate_id", "payload"];
        let mut cells: Vec<Cell> = given.into_iter().map(|column| self.cell(column)).collect();
        let without_default = |(column, _): &&(&str, &str)| {
            self.events.column(column).is_some_and(|column| !column.has_default)
        };
        cells.extend(EVENT_DEFAULTS.iter().filter(without_default).map(|(name, sql)| Cell::fixed(name, sql)));
        Insert::of_cells(names, self.dialect, "id", cells, OnConflict::Fail)
    }

    fn cell(&self, column: &str) -> Cell {
        let stored = self.events.stored(column, "@");
        let allows_null = self.events.column(column).is_none_or(|column| column.is_nullable);
        let stored = if allows_null || stored != "@" { stored } else { "COALESCE(@, '')".to_owned() };
        Cell { name: column.to_owned(), kind: Kind::Text, stored }
    }

    fn problems(&self, names: &Names, ordering: Ordering) -> Vec<String> {
        let file = names.fill(names.text(SCHEMA));
        let is_indexed = |column: &str| ordering != Ordering::None && column.starts_with("aggregate_");
        let roles = |roles: &[(&'static str, Role)]| -> Vec<(&'static str, Role)> {
            let role = |(name, role): &(&'static str, Role)| match is_indexed(name) {
                true => (*name, Role::IndexedKey),
                false => (*name, *role),
            };
            roles.iter().map(role).collect()
        };
        let mut problems = adoption::problems(self.dialect, &self.events, &file, &roles(&EVENT_ROLES));
        problems.extend(adoption::problems(self.dialect, &self.letters, &file, &roles(&LETTER_ROLES)));
        problems.extend(adoption::sqlite_id(self.dialect, &self.events, "id"));
        problems.extend(adoption::sqlite_id(self.dialect, &self.letters, "id"));
        let known: Vec<&str> =
            LETTER_ROLES.iter().map(|(name, _)| *name).filter(|name| *name != "id").collect();
        let carried = self.carried();
        let known: Vec<&str> = known.into_iter().chain(LETTER_ADDITIONS).chain(carried).collect();
        problems.extend(adoption::unfilled(self.dialect, &self.letters, &known));
        problems.extend(self.bytes_into_text());
        problems.extend(SHARED.iter().filter_map(|(column, ..)| self.lacks_characters(column)));
        problems
    }

    /// MySQL only: what one character set has and the other lacks cannot be kept in a letter.
    fn lacks_characters(&self, column: &str) -> Option<String> {
        let (event, letter) = (self.events.column(column)?, self.letters.column(column)?);
        let is_lossy = !letter.holds_all_text() && (event.kind != letter.kind || event.cast != letter.cast);
        is_lossy.then(|| {
            format!(
                "{0}.{column} has the character set {1}, which cannot hold every {column} of {2}: ALTER TABLE {3} CONVERT TO \
                 CHARACTER SET utf8mb4;",
                self.letters.name,
                letter.cast,
                self.events.name,
                self.dialect.quote(&self.letters.name)
            )
        })
    }

    /// What is not text cannot be kept in a letter that is.
    fn bytes_into_text(&self) -> Option<String> {
        let kind = |table: &Table| table.column("payload").map(|column| column.kind);
        let is_lossy = self.dialect != Dialect::Sqlite
            && kind(&self.events) == Some(ColumnType::Bytes)
            && kind(&self.letters).is_some_and(|kind| kind != ColumnType::Bytes);
        is_lossy.then(|| {
            let declared = self.events.column("payload").map_or("", |column| column.declared.as_str());
            format!(
                "{}.payload cannot hold every payload of {}: make it {declared}, too",
                self.letters.name, self.events.name
            )
        })
    }

    /// Whether the table can hold these events.
    fn accept(&self, events: &[NewEvent]) -> Result<(), Error> {
        let required: Vec<&str> = self
            .events
            .columns
            .iter()
            .filter(|column| column.is_required() && !is_given(&column.name))
            .map(|column| column.name.as_str())
            .collect();
        if !required.is_empty() {
            let why = format!(
                "cannot be appended here: {} requires {}, which only the application knows: insert the event with SQL, \
                 or give the column a default",
                self.events.name,
                required.join(", ")
            );
            return Err(Error::Refused { item: 0, source: Refused { field: "event", why } });
        }
        for (item, event) in events.iter().enumerate() {
            let refused = |source| Error::Refused { item, source };
            self.accepts("event_type", &event.event_type).map_err(refused)?;
            self.accepts("payload", &event.payload).map_err(refused)?;
            if !event.aggregate_type.is_empty() || !event.aggregate_id.is_empty() {
                self.accepts("aggregate_type", &event.aggregate_type).map_err(refused)?;
            }
            if !event.aggregate_id.is_empty() || self.requires("aggregate_id") {
                self.accepts("aggregate_id", &event.aggregate_id).map_err(refused)?;
            }
        }
        Ok(())
    }

    /// It has to be a value of another type than text.
    fn requires(&self, column: &str) -> bool {
        self.events
            .column(column)
            .is_some_and(|column| !column.is_nullable && column.kind != ColumnType::Text)
    }

    fn accepts(&self, field: &'static str, text: &str) -> Result<(), Refused> {
        match self.events.column(field) {
            Some(column) => column.accepts(text).map_err(|why| Refused { field, why }),
            None => Ok(()),
        }
    }
}

/// A column of one table, as the other stores it.
fn copied(from: &Table, to: &Table, column: &str) -> String {
    let expression = format!("t.{column}");
    match (from.column(column), to.column(column)) {
        (Some(from), Some(to)) => to.copied_from(from, &expression),
        _ => expression,
    }
}

/// The columns without a default, and what they begin with: `, a, b` each.
fn fixed(table: &Table, defaults: &[(&str, &str)]) -> (String, String) {
    let needed = |(column, _): &&(&str, &str)| table.column(column).is_some_and(|column| !column.has_default);
    let needed: Vec<_> = defaults.iter().filter(needed).collect();
    (
        needed.iter().map(|(column, _)| format!(", {column}")).collect(),
        needed.iter().map(|(_, value)| format!(", {value}")).collect(),
    )
}

/// Whether an appended event has a value for the column.
fn is_given(column: &str) -> bool {
    let given = ["event_type", "aggregate_type", "aggregate_id", "payload"];
    given
        .into_iter()
        .chain(EVENT_DEFAULTS.map(|(name, _)| name))
        .any(|name| name.eq_ignore_ascii_case(column))
}

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
const LEADS: [LeadingStatus; 3] = [
    LeadingStatus { status: Status::Open, column: "t.resolved", condition: WAITING, value: Some("FALSE") },
    LeadingStatus {
        status: Status::Redriven,
        column: "t.redriven",
        condition: "t.resolved = TRUE AND t.redriven = TRUE",
        value: Some("TRUE"),
    },
    LeadingStatus {
        status: Status::Resolved,
        column: "t.resolved",
        condition: "t.resolved = TRUE AND t.redriven = FALSE",
        value: Some("TRUE"),
    },
];
/// What it was sent back as is not under way: its letter says what became of it.
const SETTLED: &str = "(t.redriven = FALSE OR NOT EXISTS (SELECT 1 FROM {table} AS e \
                       WHERE e.origin_id = COALESCE(t.origin_id, t.original_event_id) AND e.processed = FALSE))";

fn dead_letters(database: &Database, names: &Names, tables: &Tables, options: &OutboxOptions) -> DeadLetters {
    let dialect = database.dialect();
    let columns = Columns {
        id: "t.id",
        event_type: tables.letters.text_of("t.", "event_type", "event_type"),
        key: tables.letters.text_of("t.", "aggregate_id", "aggregate_id"),
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
        origin_table: options.table.clone(),
        outcome: "NULL",
        statuses: [
            (Status::Open, WAITING),
            (Status::Redriven, "t.resolved = TRUE AND t.redriven = TRUE"),
            (Status::Resolved, "t.resolved = TRUE AND t.redriven = FALSE"),
            (Status::Retrying, "1 = 0"),
            (Status::Failed, "1 = 0"),
        ],
        leads: &LEADS,
    };
    let resolve = Act::update(names, dialect, WAITING, include_str!("../sql/outbox/resolve.sql"));
    let is_in_order = options.ordering != Ordering::None;
    // Postgres is the quicker for not sorting them.
    let in_order = if is_in_order { "ORDER BY t.id" } else { "" };
    let send = names.clone().with_sql("waiting", WAITING).with_sql("in_order", in_order).statement(REDRIVE);
    let close = Act::update_statement(names, WAITING, include_str!("../sql/outbox/redriven.sql"));
    let steps = match dialect {
        Dialect::Postgres => vec![send],
        Dialect::Sqlite | Dialect::MySql => vec![send, close],
    };
    let actions = Actions {
        redrive: Act::of(names, dialect, WAITING, steps),
        edit: Edit::elsewhere(names, EDIT, tables.events.column("payload")),
        balance: match options.processed {
            Processed::Keep => include_str!("../sql/outbox/balance.sql"),
            Processed::KeepForAWhile | Processed::Delete => {
                include_str!("../sql/outbox/balance_forgetful.sql")
            }
        },
        resolve,
        settled: SETTLED,
        outcomes: Some(names.statement(OUTCOMES)),
        redelivery: sql!("outbox/redelivery.sql"),
    };
    let kind = PipelineKind::Outbox;
    DeadLetters::new(database.clone(), names.clone(), options.pipeline.clone(), kind, columns, actions)
}
