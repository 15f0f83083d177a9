//! `failed_events`: what the persist pipeline could not save, until it can or a person decides.

use std::sync::Arc;

use jiff::Timestamp;
use redrive_core::dead_letter::{DeadLetterQueue, PipelineKind, Status};
use redrive_core::event::{MAX_KEY, Refused, WorkId, required, storable};
use redrive_core::failure::{Failure, clean};
use redrive_core::fingerprint::Fingerprint;
use redrive_core::history::History;
use redrive_core::state::FailedEventState;

use crate::act::{Act, Edit};
use crate::adoption::{self, Bound, Plan, Role};
use crate::batch::cut;
use crate::catalog::Table;
use crate::checks;
use crate::columns::{Columns, EVERY_ONE, LeadingStatus};
use crate::database::Database;
use crate::dead_letters::{Actions, DeadLetters, Identity, dead_letter_queue};
use crate::dialect::{Dialect, check_name};
use crate::error::Error;
use crate::insert::{Cell, Insert, Kind, OnConflict, chunks};
use crate::queue::{Queue, work_store};
use crate::rights;
use crate::row::Times;
use crate::schema;
use crate::session::Session;
use crate::shape::{Dead, Done, Shape};
use crate::statement::{Names, Sql, Statement, sql};
use crate::value::{Column, Value};

/// How often a failed event is retried before a person must act.
pub const MAX_RETRY_COUNT: u32 = 3;

/// An event that could not be saved. Immutable: each change gives a new value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedEvent {
    key: String,
    payload: String,
    created_at: Timestamp,
    failed_at: Timestamp,
    retry_count: u32,
    failure: Failure,
    status: FailedEventState,
}

impl FailedEvent {
    /// The event that was created and has now failed.
    #[must_use]
    pub fn new(
        key: &str,
        payload: &str,
        created_at: Timestamp,
        failed_at: Timestamp,
        failure: Failure,
    ) -> Self {
        Self {
            key: key.to_owned(),
            payload: payload.to_owned(),
            created_at,
            failed_at,
            retry_count: 0,
            failure,
            status: FailedEventState::Pending,
        }
    }

    /// The same event, one failed retry later.
    #[must_use]
    pub fn increment_retry(&self) -> Self {
        Self { retry_count: self.retry_count.saturating_add(1), ..self.clone() }
    }

    /// The same event in another state.
    #[must_use]
    pub fn with_status(&self, status: FailedEventState) -> Self {
        Self { status, ..self.clone() }
    }

    /// Whether the schedule may still retry it.
    #[must_use]
    pub const fn can_retry(&self) -> bool {
        self.retry_count < MAX_RETRY_COUNT
    }

    /// How many retries failed.
    #[must_use]
    pub const fn retry_count(&self) -> u32 {
        self.retry_count
    }

    /// Its state.
    #[must_use]
    pub const fn status(&self) -> FailedEventState {
        self.status
    }

    fn check(&self) -> Result<(), Refused> {
        required("key", &self.key, MAX_KEY)?;
        storable("payload", &self.payload, usize::MAX)
    }
}

/// How a table of failed events is set up.
#[derive(Debug, Clone)]
pub struct FailedEventsOptions {
    /// The pipeline's name; also the event type of its events.
    pub pipeline: String,
    /// The table.
    pub table: String,
    /// The column of the event's key.
    pub key_column: String,
    /// The column of the event's payload.
    pub payload_column: String,
}

impl FailedEventsOptions {
    /// Whether the table has a column of this name in any case, so that neither key nor payload can have it.
    #[must_use]
    pub fn is_reserved(column: &str) -> bool {
        let is_same = |own: &str| own.eq_ignore_ascii_case(column);
        is_same("id")
            || COLUMNS.iter().any(|(own, _)| is_same(own))
            || ADDITIONS.iter().any(|own| is_same(own))
    }

    /// The founding names: `failed_events` with `short_url` and `long_url`.
    #[must_use]
    pub fn new(pipeline: &str) -> Self {
        Self {
            pipeline: pipeline.to_owned(),
            table: "failed_events".to_owned(),
            key_column: "short_url".to_owned(),
            payload_column: "long_url".to_owned(),
        }
    }
}

/// The failed events of one pipeline.
#[derive(Debug)]
pub struct FailedEvents {
    database: Database,
    names: Names,
    options: FailedEventsOptions,
    identity: Identity,
    statements: Bound<Statements>,
}

/// What is made for the table as it is.
#[derive(Debug)]
struct Statements {
    insert: Insert,
    queue: Arc<Queue>,
    dead_letters: Arc<DeadLetters>,
}

const SCHEMA: Sql = sql!(each "failed_events/schema.sql");
const COLUMNS: [(&str, Kind); 12] = [
    ("{key}", Kind::Text),
    ("{payload}", Kind::Text),
    ("created_at", Kind::Int),
    ("failed_at", Kind::Int),
    ("retry_count", Kind::Int),
    ("status", Kind::Text),
    ("last_error", Kind::Text),
    ("error_class", Kind::Text),
    ("error_code", Kind::Text),
    ("error_kind", Kind::Text),
    ("fingerprint", Kind::Text),
    ("history", Kind::Text),
];
const STATUSES: &[&str] = &["PENDING", "PROCESSING", "RESOLVED", "FAILED"];
/// What redrive adds to the table, besides what it inserts.
const ADDITIONS: [&str; 9] = [
    "due_at",
    "lease",
    "leased_by",
    "interrupted",
    "redrive_count",
    "resolved_at",
    "resolved_by",
    "resolution_note",
    "live",
];

impl FailedEvents {
    /// The failed events in this table. Nothing is asked of the database yet.
    ///
    /// # Errors
    /// [`Error::Setting`] when a name cannot be used.
    pub fn new(database: Database, options: FailedEventsOptions) -> Result<Self, Error> {
        check_name("failed-events table", &options.table)?;
        check_name("key column", &options.key_column)?;
        check_name("payload column", &options.payload_column)?;
        for column in [&options.key_column, &options.payload_column] {
            if FailedEventsOptions::is_reserved(column) {
                return Err(Error::Setting(format!(
                    "{column:?} is a column of its own of {}: give key and payload other names there",
                    options.table
                )));
            }
        }
        let dialect = database.dialect();
        let names = Names::new(dialect)
            .with_table("table", "table_name", &options.table)
            .with("letters", &options.table)
            .with("letter_id", "id")
            .with("id", "id")
            .with("key", &options.key_column)
            .with("payload", &options.payload_column)
            .with_sql("scope", "1 = 1")
            .with_sql("known", "1 = 1")
            .with_literal("pipeline", &options.pipeline);
        Ok(Self {
            identity: Identity::new(&database, &options.pipeline, PipelineKind::Persist, true),
            statements: Bound::default(),
            options,
            names,
            database,
        })
    }

    /// Makes the table, or adds to the application's own what it lacks.
    ///
    /// # Errors
    /// [`Error::Unsuitable`] when a table that is there cannot be used: nothing was changed then. Another [`Error`]
    /// when the store cannot be reached or refuses.
    pub async fn migrate(&self) -> Result<(), Error> {
        self.statements.forget();
        schema::carry_out(&self.database, async |session| self.plan_in(session).await).await
    }

    /// What [`FailedEvents::migrate`] would do; nothing is changed.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn plan(&self) -> Result<Plan, Error> {
        self.plan_in(&mut self.database.session().await?).await
    }

    async fn plan_in(&self, session: &mut Session) -> Result<Plan, Error> {
        let dialect = self.database.dialect();
        let table = Table::read(session, dialect, &self.options.table).await?;
        let names = self.names_for(&table);
        let files = [names.text(SCHEMA)];
        let mut plan = schema::plan(session, dialect, &names, &files).await?;
        let (key, payload) = (self.options.key_column.as_str(), self.options.payload_column.as_str());
        let roles = [
            ("id", Role::Id),
            // They hold what the target has refused, whatever that is.
            (key, Role::Message),
            (payload, Role::Message),
            ("created_at", Role::Millis),
            ("failed_at", Role::Millis),
            ("retry_count", Role::Count),
            ("last_error", Role::Message),
            ("status", Role::Status(STATUSES)),
        ];
        plan.problems.extend(adoption::problems(dialect, &table, &names.fill(files[0]), &roles));
        let known = COLUMNS.iter().map(|(name, _)| *name).chain([key, payload]).chain(ADDITIONS);
        plan.problems.extend(adoption::unfilled(dialect, &table, &known.collect::<Vec<_>>()));
        plan.problems.extend(adoption::sqlite_id(dialect, &table, "id"));
        plan.problems.extend(checks::problems(session, dialect, &table, "status", STATUSES).await?);
        plan.problems.extend(adoption::unsafe_kind(session, dialect, &self.options.table).await?);
        plan.problems.extend(adoption::shared_id(session, dialect, &table, "id").await?);
        plan.unserved.extend(adoption::unrepresentable(session, dialect, &table, "id").await?);
        plan.with_rights(session, dialect, &schema::tables(&names, &files), &rights::ALL).await
    }

    /// The names of the store, and the pieces of SQL that depend on the table's columns.
    fn names_for(&self, table: &Table) -> Names {
        self.names
            .clone()
            .with_sql("message", &table.cut("last_error", "s.message"))
            .with_sql("letter_key", &table.in_index(&self.options.key_column, "{key}"))
            .with_sql("operator", &table.cut("resolved_by", "given.operator"))
            .with_sql("representable", adoption::representable(table, "id"))
    }

    /// The statements for the table as it is.
    async fn statements(&self) -> Result<Arc<Statements>, Error> {
        if let Some(statements) = self.statements.get() {
            return Ok(statements);
        }
        let dialect = self.database.dialect();
        let table = Table::read(&mut self.database.session().await?, dialect, &self.options.table).await?;
        let names = self.names_for(&table);
        let cell = |(name, kind): &(&str, Kind)| match *name {
            "last_error" => Cell { stored: table.cut(name, "@"), ..Cell::plain(name, *kind) },
            "status" => Cell { stored: table.stored(name, "@"), ..Cell::plain(name, *kind) },
            _ => Cell::plain(name, *kind),
        };
        let cells = COLUMNS.iter().map(cell).collect();
        let statements = Arc::new(Statements {
            insert: Insert::of_cells(&names, dialect, "id", cells, OnConflict::Fail),
            queue: Arc::new(Queue::new(self.database.clone(), &names, &shape(dialect))),
            dead_letters: Arc::new(dead_letters(&self.database, &names, &table, &self.options)),
        });
        if table.exists() {
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

    /// A refusal may mean that the table is not what it was: it is looked at again.
    fn refused(&self) {
        self.statements.forget();
    }

    /// Writes failed events down, all or none, and returns their numbers.
    ///
    /// # Errors
    /// [`Error::Refused`] names the first event that cannot be kept; none is stored then.
    pub async fn append(&self, events: &[FailedEvent]) -> Result<Vec<WorkId>, Error> {
        for (item, event) in events.iter().enumerate() {
            event.check().map_err(|source| Error::Refused { item, source })?;
        }
        let mut ids = Vec::with_capacity(events.len());
        if events.is_empty() {
            return Ok(ids);
        }
        let statements = self.statements().await?;
        let mut session = self.database.begin().await?;
        for chunk in chunks(events, |event| event.payload.len()) {
            ids.extend(statements.insert.run(&mut session, self.columns(chunk)).await?);
        }
        session.commit().await?;
        Ok(ids)
    }

    /// Where an event is now.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn state(&self, event: WorkId) -> Result<Option<FailedEventState>, Error> {
        let text = self.names.fill("SELECT status FROM {table} WHERE id = $1");
        let statement = Statement::new(self.database.dialect(), &text);
        let rows = self.database.rows(&statement, vec![Value::Int(event.0)]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let status = row.text(0)?;
        let states = [
            FailedEventState::Pending,
            FailedEventState::Processing,
            FailedEventState::Resolved,
            FailedEventState::Failed,
        ];
        Ok(states.into_iter().find(|state| state.column() == status))
    }

    fn columns(&self, events: &[FailedEvent]) -> Vec<Column> {
        let texts = |of: &dyn Fn(&FailedEvent) -> String| Column::Texts(events.iter().map(of).collect());
        let ints = |of: &dyn Fn(&FailedEvent) -> i64| Column::Ints(events.iter().map(of).collect());
        let pipeline = self.pipeline();
        let code = |event: &FailedEvent| event.failure.code.as_ref().map(|code| cut(&code.to_string(), 100));
        let history = |event: &FailedEvent| {
            serde_json::to_string(&History::default().with(event.failure.clone(), event.failed_at))
                .unwrap_or_default()
        };
        vec![
            texts(&|event| event.key.clone()),
            texts(&|event| event.payload.clone()),
            ints(&|event| event.created_at.as_millisecond()),
            ints(&|event| event.failed_at.as_millisecond()),
            ints(&|event| i64::from(event.retry_count)),
            texts(&|event| event.status.column().to_owned()),
            texts(&|event| clean(&event.failure.message)),
            texts(&|event| event.failure.class.name().to_owned()),
            Column::OptTexts(events.iter().map(code).collect()),
            texts(&|event| cut(&event.failure.kind, 255)),
            texts(&|event| Fingerprint::of(pipeline, pipeline, &event.failure).to_string()),
            texts(&history),
        ]
    }
}

work_store!(FailedEvents);
dead_letter_queue!(FailedEvents);

const WAITING: &str = "t.status IN ('PENDING', 'FAILED')";
const LEADS: [LeadingStatus; 4] = [
    leading(Status::Open, "t.status BETWEEN 'PENDING' AND 'PENDING'", "'PENDING'"),
    leading(Status::Retrying, "t.status BETWEEN 'PROCESSING' AND 'PROCESSING'", "'PROCESSING'"),
    leading(Status::Resolved, "t.status BETWEEN 'RESOLVED' AND 'RESOLVED'", "'RESOLVED'"),
    leading(Status::Failed, "t.status BETWEEN 'FAILED' AND 'FAILED'", "'FAILED'"),
];

const fn leading(status: Status, condition: &'static str, value: &'static str) -> LeadingStatus {
    LeadingStatus { status, column: "t.status", condition, value: Some(value) }
}

/// Why an event that has not failed for good is not redriven.
const BY_ITSELF: &str = "CASE WHEN t.status IN ('PENDING', 'PROCESSING') \
     THEN 'it is tried again by its schedule, and the next run has been called for: nothing to redrive' END";

fn shape(dialect: Dialect) -> Shape {
    Shape {
        id: "id",
        live: match dialect {
            Dialect::MySql => "e.live = 1",
            Dialect::Postgres | Dialect::Sqlite => "e.status IN ('PENDING', 'PROCESSING')",
        },
        leased: "e.status = 'PROCESSING'",
        held: "t.status = 'PROCESSING'",
        take: "interrupted = (t.status = 'PROCESSING'), status = 'PROCESSING'",
        order: "e.failed_at, e.id",
        index: "_live",
        in_order: String::new(),
        work: "id, lease, due_at, id, {pipeline}, NULL, {key}, {payload}, created_at, retry_count, NULL, {interrupted}, \
               history, 0",
        created: Times::Millis,
        done: Done::Set(include_str!("../sql/failed_events/done.sql")),
        retry: include_str!("../sql/failed_events/retry.sql"),
        release: include_str!("../sql/failed_events/release.sql"),
        dead: Dead::Set(include_str!("../sql/failed_events/dead.sql")),
    }
}

fn dead_letters(
    database: &Database,
    names: &Names,
    table: &Table,
    options: &FailedEventsOptions,
) -> DeadLetters {
    let dialect = database.dialect();
    let columns = Columns {
        id: "t.id",
        event_type: "{pipeline}".to_owned(),
        key: "t.{key}".to_owned(),
        payload: "t.{payload}".to_owned(),
        message: "t.last_error",
        class: "t.error_class",
        code: "t.error_code",
        kind: "t.error_kind",
        attempts: "t.retry_count + 1",
        failed_at: "t.failed_at",
        first_failed_at: "t.failed_at",
        times: Times::Millis,
        redrive_count: "t.redrive_count",
        redrivable: EVERY_ONE,
        fingerprint: "t.fingerprint",
        resolved_at: "t.resolved_at",
        headers: "NULL",
        origin: "NULL",
        target: "NULL",
        arrived_since: None,
        origin_id: "t.id",
        origin_table: options.table.clone(),
        outcome: "CASE WHEN t.status = 'RESOLVED' THEN 'delivered' \
                  WHEN t.status = 'FAILED' OR t.retry_count > 0 THEN 'failed' ELSE 'pending' END",
        statuses: [
            (Status::Open, "t.status = 'PENDING'"),
            (Status::Retrying, "t.status = 'PROCESSING'"),
            (Status::Resolved, "t.status = 'RESOLVED'"),
            (Status::Failed, "t.status = 'FAILED'"),
            (Status::Redriven, "1 = 0"),
        ],
        leads: &LEADS,
    };
    let failed = "t.status = 'FAILED'";
    let redrive = Act::update_once(names, dialect, failed, include_str!("../sql/failed_events/redrive.sql"));
    let actions = Actions {
        redrive: redrive.explained(names, BY_ITSELF),
        edit: Edit::in_place(names, "{payload}", table.column(&options.payload_column)),
        balance: include_str!("../sql/failed_events/balance.sql"),
        resolve: Act::update(names, dialect, WAITING, include_str!("../sql/failed_events/resolve.sql")),
        settled: "1 = 1",
        outcomes: None,
        redelivery: sql!("failed_events/redelivery.sql"),
    };
    let kind = PipelineKind::Persist;
    DeadLetters::new(database.clone(), names.clone(), options.pipeline.clone(), kind, columns, actions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_event_is_immutable_and_can_be_retried_three_times() {
        let now = Timestamp::UNIX_EPOCH;
        let first =
            FailedEvent::new("abc", "https://example.org", now, now, Failure::transient("Timeout", ""));
        let third = first.increment_retry().increment_retry().increment_retry();
        assert_eq!((first.retry_count(), third.retry_count()), (0, 3));
        assert!(first.can_retry() && !third.can_retry());
        assert_eq!(third.with_status(FailedEventState::Failed).status(), FailedEventState::Failed);
        assert_eq!(third.status(), FailedEventState::Pending);
    }
}
