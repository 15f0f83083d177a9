//! The job queue: one table, where dead jobs stay in place.
//!
//! It may be a table of the application's own, with a subject and a payload of other types: the statements are made for
//! the table as the catalogue describes it, when they are first needed.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::dead_letter::{PipelineKind, Status};
use redrive_core::event::{MAX_KEY, Refused, WorkId, required, storable};
use redrive_core::state::JobState;
use serde::{Deserialize, Serialize};

use crate::act::{Act, Edit};
use crate::adoption::{self, Bound, Plan, Role};
use crate::batch::whole_micros;
use crate::caller::Caller;
use crate::catalog::{ColumnType, Table};
use crate::checks;
use crate::columns::{Columns, EVERY_ONE, LeadingStatus};
use crate::database::Database;
use crate::dead_letters::{Actions, DeadLetters, Identity, dead_letter_queue};
use crate::dialect::{Dialect, check_name};
use crate::error::{Error, again};
use crate::insert::{Cell, Executor, Insert, Kind, OnConflict, chunks};
use crate::outbox::Ids;
use crate::queue::{Queue, work_store};
use crate::requests::{Answered, Begun, RequestKey, Requests};
use crate::rights;
use crate::row::Times;
use crate::schema;
use crate::session::Session;
use crate::shape::{Dead, Done, Shape};
use crate::statement::{Names, Sql, Statement, sql};
use crate::value::{Column, Value};

/// How a job queue is set up.
#[derive(Debug, Clone)]
pub struct JobsOptions {
    /// The pipeline's name; also the event type of its jobs.
    pub pipeline: String,
    /// The table.
    pub table: String,
    /// The column of the subject: what a job is about.
    pub subject_column: String,
    /// The attempts of a job that does not say otherwise.
    pub max_retries: u32,
    /// What becomes of completed jobs.
    pub completed: Completed,
    /// Where the ids of jobs come from.
    pub ids: Ids,
}

/// What becomes of completed jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Completed {
    /// They stay, with the status `completed`.
    #[default]
    Keep,
    /// They are deleted.
    Delete,
}

impl JobsOptions {
    /// The founding names: `<pipeline>_job_queue`, with the subject in `article_id`; three attempts.
    #[must_use]
    pub fn new(pipeline: &str) -> Self {
        Self {
            pipeline: pipeline.to_owned(),
            table: format!("{}_job_queue", pipeline.replace('-', "_")),
            subject_column: "article_id".to_owned(),
            max_retries: 3,
            completed: Completed::Keep,
            ids: Ids::Generated,
        }
    }
}

/// A job on its way into the queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "snake_case")]
pub struct NewJob {
    /// What it is about.
    pub subject: String,
    /// The body.
    pub payload: String,
    /// Lower runs first; 0 is the rule.
    pub priority: i16,
    /// How long it waits before it is due.
    pub delay: Duration,
    /// Its own limit of attempts.
    pub max_retries: Option<u32>,
    /// At most one job with this key is pending or running at a time.
    pub unique_key: Option<String>,
}

impl NewJob {
    /// A job about `subject`.
    #[must_use]
    pub fn new(subject: impl Into<String>, payload: impl Into<String>) -> Self {
        Self { subject: subject.into(), payload: payload.into(), ..Self::default() }
    }

    /// Checks that every backend can keep it.
    ///
    /// # Errors
    /// [`Refused`] names the field and what is wrong with it.
    pub fn check(&self) -> Result<(), Refused> {
        required("subject", &self.subject, MAX_KEY)?;
        storable("payload", &self.payload, usize::MAX)?;
        self.unique_key.as_deref().map_or(Ok(()), |key| required("unique_key", key, MAX_KEY))
    }
}

/// What became of one job that was to be enqueued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Enqueued {
    /// It waits under this number.
    Added(WorkId),
    /// A live job has its unique key already: nothing was added.
    Duplicate,
}

/// A job queue in a database.
#[derive(Debug)]
pub struct Jobs {
    database: Database,
    names: Names,
    options: JobsOptions,
    identity: Identity,
    requests: Requests,
    statements: Bound<Statements>,
}

/// What is made for the table as it is.
#[derive(Debug)]
struct Statements {
    table: Table,
    insert: Insert,
    insert_unique: Insert,
    queue: Arc<Queue>,
    dead_letters: Arc<DeadLetters>,
}

const SCHEMA: Sql = sql!(each "jobs/schema.sql");
/// SQLite only, in tables that reuse ids: see [`schema::KEYS`].
const ORIGIN: &str = "ALTER TABLE {table} ADD COLUMN origin_id BIGINT;";

const COLUMNS: [(&str, Kind); 6] = [
    ("{key}", Kind::Text),
    ("payload", Kind::Text),
    ("priority", Kind::Int),
    ("due_at", Kind::After),
    ("max_retries", Kind::Int),
    ("unique_key", Kind::Text),
];
const STATUSES: &[&str] = &["pending", "running", "completed", "failed", "dead_letter"];
/// What a new job begins with, where its table has no default for it.
const DEFAULTS: [(&str, &str); 3] = [("status", "'pending'"), ("retry_count", "0"), ("created_at", "{now}")];
/// What redrive adds to the table.
const ADDITIONS: [&str; 21] = [
    "payload",
    "priority",
    "unique_key",
    "due_at",
    "lease",
    "leased_by",
    "interrupted",
    "redrive_count",
    "error_class",
    "error_code",
    "error_kind",
    "fingerprint",
    "history",
    "resolved_at",
    "resolved_by",
    "resolution_note",
    "live",
    "live_key",
    "dead_at",
    "letter_status",
    "origin_id",
];

impl Jobs {
    /// The queue in this table. Nothing is asked of the database yet.
    ///
    /// # Errors
    /// [`Error::Setting`] when a name cannot be used.
    pub fn new(database: Database, options: JobsOptions) -> Result<Self, Error> {
        check_name("jobs table", &options.table)?;
        check_name("subject column", &options.subject_column)?;
        let names = Names::new(database.dialect())
            .with_table("table", "table_name", &options.table)
            .with("notify", &format!("{}_notify", options.table))
            .with("letters", &options.table)
            .with("letter_id", "job_id")
            .with("id", "job_id")
            .with("key", &options.subject_column)
            .with_sql("scope", SCOPE)
            // One that was redriven was a letter, and is none now.
            .with_sql("known", "({scope} OR t.redrive_count > 0)")
            .with_literal("pipeline", &options.pipeline)
            .with_sql("attempt", "COALESCE(t.retry_count, 0) + 1")
            // A limit that another program left out must not mean that there is none.
            .with_sql("default_limit", &options.max_retries.min(i32::MAX as u32).to_string())
            .with_sql("attempt_limit", "COALESCE(t.max_retries, {default_limit})");
        Ok(Self {
            identity: Identity::new(&database, &options.pipeline, PipelineKind::Jobs, true),
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

    /// Makes the table, or adds to the application's own what it lacks.
    ///
    /// # Errors
    /// [`Error::Unsuitable`] when a table that is there cannot be used: nothing was changed then. Another [`Error`]
    /// when the store cannot be reached or refuses.
    pub async fn migrate(&self) -> Result<(), Error> {
        self.statements.forget();
        schema::carry_out(&self.database, async |session| self.plan_in(session).await).await
    }

    /// What [`Jobs::migrate`] would do; nothing is changed.
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
        let mut files = vec![names.text(SCHEMA)];
        if table.reuses_ids {
            files.extend([ORIGIN, schema::KEYS]);
        }
        files.extend(schema::notify(dialect));
        let mut plan = schema::plan(session, dialect, &names, &files).await?;
        plan.problems.extend(self.problems(&names, &table));
        plan.problems.extend(checks::problems(session, dialect, &table, "status", STATUSES).await?);
        plan.problems.extend(adoption::unsafe_kind(session, dialect, &self.options.table).await?);
        plan.problems.extend(adoption::shared_id(session, dialect, &table, "job_id").await?);
        let are_unique = self.options.ids == Ids::Unique;
        plan.problems.extend(adoption::given_id(dialect, &table, "job_id", are_unique));
        plan.unserved.extend(adoption::unrepresentable(session, dialect, &table, "job_id").await?);
        let plan = plan.with_rights(session, dialect, &schema::tables(&names, &files), &rights::ALL).await?;
        Ok(plan.and(self.requests.plan_in(session).await?))
    }

    fn problems(&self, names: &Names, table: &Table) -> Vec<String> {
        let roles = [
            ("job_id", Role::Id),
            (self.options.subject_column.as_str(), Role::IndexedKey),
            ("status", Role::Status(STATUSES)),
            ("retry_count", Role::Count),
            ("max_retries", Role::Count),
            ("error_message", Role::Message),
            ("created_at", Role::Time),
            ("started_at", Role::Time),
            ("completed_at", Role::Time),
        ];
        let dialect = self.database.dialect();
        let mut problems = adoption::problems(dialect, table, &names.fill(names.text(SCHEMA)), &roles);
        let own =
            [("payload", Role::Payload), ("resolution_note", Role::Note), ("resolved_by", Role::Message)];
        let there: Vec<_> = own.into_iter().filter(|(name, _)| table.column(name).is_some()).collect();
        problems.extend(adoption::problems(dialect, table, "", &there));
        problems.extend(adoption::sqlite_id(dialect, table, "job_id"));
        problems
    }

    /// The names of the store, and the pieces of SQL that depend on the types of the table's columns.
    fn names_for(&self, table: &Table) -> Names {
        let subject = &self.options.subject_column;
        let quoted = self.database.dialect().quote(subject);
        let as_status = match table.column("status") {
            Some(status)
                if status.kind == ColumnType::Enum && self.database.dialect() == Dialect::Postgres =>
            {
                format!("::{}", status.declared)
            }
            _ => String::new(),
        };
        let origin = if table.reuses_ids { "COALESCE(origin_id, job_id)" } else { "job_id" };
        self.names
            .clone()
            .with_sql("subject", &table.text_of("", subject, &quoted))
            .with_sql("letter_subject", &table.text_of("t.", subject, &quoted))
            .with_sql("message", &table.cut("error_message", "s.message"))
            .with_sql("operator", &table.cut("resolved_by", "given.operator"))
            .with_sql("as_status", &as_status)
            .with_sql("job_origin", origin)
            .with_sql("representable", adoption::representable(table, "job_id"))
    }

    /// The statements for the table as it is.
    async fn statements(&self) -> Result<Arc<Statements>, Error> {
        if let Some(statements) = self.statements.get() {
            return Ok(statements);
        }
        let dialect = self.database.dialect();
        let table = Table::read(&mut self.database.session().await?, dialect, &self.options.table).await?;
        let names = self.names_for(&table);
        let cells = self.cells(&table);
        let shape = shape(dialect, self.options.completed);
        let unique = "job_id, unique_key";
        let statements = Arc::new(Statements {
            insert: Insert::of_cells(&names, dialect, "job_id", cells.clone(), OnConflict::Fail),
            insert_unique: Insert::of_cells(&names, dialect, unique, cells, OnConflict::Skip),
            queue: Arc::new(Queue::new(self.database.clone(), &names, &shape)),
            dead_letters: Arc::new(dead_letters(&self.database, &names, &table, &self.options)),
            table,
        });
        if statements.table.exists() {
            self.statements.keep(Arc::clone(&statements));
        }
        Ok(statements)
    }

    fn cells(&self, table: &Table) -> Vec<Cell> {
        let cell = |(name, kind): &(&str, Kind)| {
            let column = if *name == "{key}" { self.options.subject_column.as_str() } else { *name };
            let stored = if *kind == Kind::Text { table.stored(column, "@") } else { "@".to_owned() };
            Cell { name: (*name).to_owned(), kind: *kind, stored }
        };
        let mut cells: Vec<Cell> = COLUMNS.iter().map(cell).collect();
        let needed =
            |(column, _): &&(&str, &str)| table.column(column).is_some_and(|column| !column.has_default);
        cells.extend(
            DEFAULTS.iter().filter(needed).map(|(name, sql)| Cell::fixed(name, &table.stored(name, sql))),
        );
        cells
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

    /// Whether the table can hold these jobs.
    fn accept(&self, table: &Table, jobs: &[NewJob]) -> Result<(), Error> {
        let known: Vec<&str> =
            COLUMNS.iter().chain(&[("job_id", Kind::Int)]).map(|(name, _)| *name).collect();
        let known = known.into_iter().chain(DEFAULTS.map(|(name, _)| name)).chain(ADDITIONS);
        let known: Vec<&str> = known.chain([self.options.subject_column.as_str()]).collect();
        let required: Vec<&str> = table.without_default(&known).map(|column| column.name.as_str()).collect();
        if !required.is_empty() {
            let why = format!(
                "cannot be enqueued here: {} requires {}, which only the application knows: insert the job with SQL, \
                 or give the column a default",
                table.name,
                required.join(", ")
            );
            return Err(Error::Refused { item: 0, source: Refused { field: "job", why } });
        }
        for (item, job) in jobs.iter().enumerate() {
            for (field, column, text) in [
                ("subject", self.options.subject_column.as_str(), &job.subject),
                ("payload", "payload", &job.payload),
            ] {
                if let Some(column) = table.column(column) {
                    let refused = |why| Error::Refused { item, source: Refused { field, why } };
                    column.accepts(text).map_err(refused)?;
                }
            }
        }
        Ok(())
    }

    /// Adds jobs, all or none, and says in the same order what became of each.
    ///
    /// # Errors
    /// [`Error::Refused`] names the first job that cannot be kept; none is stored then.
    pub async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, Error> {
        check(&jobs)?;
        let (jobs, statements) = (&jobs, &*self.statements().await?);
        self.accept(&statements.table, jobs)?;
        again(move || self.insert_plain(statements, jobs)).await
    }

    /// As [`Jobs::enqueue`], once for each key: the same request again is told the same. The key is kept in the
    /// transaction of the jobs, for a day.
    ///
    /// # Errors
    /// As [`Jobs::enqueue`]; [`Error::OtherRequest`] when the key is that of other jobs.
    pub async fn enqueue_once(
        &self,
        jobs: &[NewJob],
        key: &RequestKey,
    ) -> Result<Answered<Vec<Enqueued>>, Error> {
        check(jobs)?;
        let statements = &*self.statements().await?;
        self.accept(&statements.table, jobs)?;
        again(move || self.insert_once(statements, jobs, key)).await
    }

    /// Adds a job to the application's own transaction: it is there when that commits, or not at all.
    /// A live job with its unique key makes it [`Enqueued::Duplicate`], and the transaction goes on.
    ///
    /// # Errors
    /// [`Error::Refused`] when it cannot be kept. After any other error the transaction should be rolled back, as
    /// after any failed statement.
    pub async fn enqueue_in<'t>(
        &self,
        transaction: impl Into<Caller<'t>> + Send,
        job: &NewJob,
    ) -> Result<Enqueued, Error> {
        job.check().map_err(|source| Error::Refused { item: 0, source })?;
        let statements = self.statements().await?;
        let jobs = std::slice::from_ref(job);
        self.accept(&statements.table, jobs)?;
        let mut caller = transaction.into();
        caller.check(self.database.dialect())?;
        let mut enqueued = self.insert_all(&mut caller, &statements, jobs).await?;
        Ok(enqueued.pop().unwrap_or(Enqueued::Duplicate))
    }

    /// How many jobs are completed.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn delivered(&self) -> Result<u64, Error> {
        self.database.count(&self.names.fill("SELECT count(*) FROM {table} WHERE status = 'completed'")).await
    }

    /// Where a job is now.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn state(&self, job: WorkId) -> Result<Option<JobState>, Error> {
        let text = self.names.fill("SELECT status, resolved_at FROM {table} WHERE job_id = $1");
        let statement = Statement::new(self.database.dialect(), &text);
        let rows = self.database.rows(&statement, vec![Value::Int(job.0)]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(Some(match row.text(0)?.as_str() {
            "pending" => JobState::Pending,
            "running" => JobState::Running,
            "completed" => JobState::Completed,
            "failed" => JobState::Failed,
            _ if row.is_null(1)? => JobState::DeadLetter,
            _ => JobState::Resolved,
        }))
    }

    /// Sets the status of a job with plain SQL, as another program would; for the conformance suite.
    pub(crate) async fn place(&self, job: WorkId, state: JobState) -> Result<(), Error> {
        let text = self.names.fill("UPDATE {table} SET status = $1 WHERE job_id = $2");
        let values = vec![Value::Text(state.column().to_owned()), Value::Int(job.0)];
        self.database.change(&Statement::new(self.database.dialect(), &text), values).await.map(drop)
    }

    async fn insert_plain(&self, statements: &Statements, jobs: &[NewJob]) -> Result<Vec<Enqueued>, Error> {
        let mut session = self.database.begin().await?;
        let enqueued = self.insert_all(&mut session, statements, jobs).await?;
        session.commit().await?;
        Ok(enqueued)
    }

    async fn insert_once(
        &self,
        statements: &Statements,
        jobs: &[NewJob],
        key: &RequestKey,
    ) -> Result<Answered<Vec<Enqueued>>, Error> {
        let scope = format!("jobs {}", self.options.pipeline);
        let (mut session, request) = match self.requests.begin(key, &scope, &jobs).await? {
            Begun::Now(session, request) => (session, request),
            Begun::Before(answer) => return Ok(Answered { answer, is_repeated: true }),
        };
        let answer = self.insert_all(&mut session, statements, jobs).await?;
        self.requests.finish(session, request, &answer).await?;
        Ok(Answered { answer, is_repeated: false })
    }

    async fn insert_all(
        &self,
        session: &mut dyn Executor,
        statements: &Statements,
        jobs: &[NewJob],
    ) -> Result<Vec<Enqueued>, Error> {
        let (mut unique, plain): (Vec<_>, Vec<_>) =
            jobs.iter().enumerate().partition(|(_, job)| job.unique_key.is_some());
        let mut enqueued = vec![Enqueued::Duplicate; jobs.len()];
        for chunk in chunks(&plain, |(_, job)| job.payload.len()) {
            let added =
                statements.insert.run(session, self.columns(chunk.iter().map(|(_, job)| *job))).await?;
            for ((at, _), id) in chunk.iter().zip(added) {
                enqueued[*at] = Enqueued::Added(id);
            }
        }
        // In the order of the keys: two that enqueue the same ones would otherwise wait for each other.
        unique.sort_by_key(|(_, job)| &job.unique_key);
        for chunk in chunks(&unique, |(_, job)| job.payload.len()) {
            let columns = self.columns(chunk.iter().map(|(_, job)| *job));
            let keys = chunk.iter().filter_map(|(_, job)| job.unique_key.clone());
            let mut added = statements.insert_unique.run_keyed(session, columns, keys).await?;
            // The first of those with the same key is the one that was added.
            for (at, job) in chunk {
                let id = job.unique_key.as_ref().and_then(|key| added.remove(key));
                enqueued[*at] = id.map_or(Enqueued::Duplicate, Enqueued::Added);
            }
        }
        Ok(enqueued)
    }

    fn columns<'a>(&self, jobs: impl Iterator<Item = &'a NewJob>) -> Vec<Column> {
        let jobs: Vec<&NewJob> = jobs.collect();
        let texts = |of: &dyn Fn(&NewJob) -> String| Column::Texts(jobs.iter().map(|job| of(job)).collect());
        let ints = |of: &dyn Fn(&NewJob) -> i64| Column::Ints(jobs.iter().map(|job| of(job)).collect());
        let limit = |job: &NewJob| job.max_retries.unwrap_or(self.options.max_retries).min(i32::MAX as u32);
        vec![
            texts(&|job| job.subject.clone()),
            texts(&|job| job.payload.clone()),
            ints(&|job| i64::from(job.priority)),
            ints(&|job| whole_micros(job.delay)),
            ints(&|job| i64::from(limit(job))),
            Column::OptTexts(jobs.iter().map(|job| job.unique_key.clone()).collect()),
        ]
    }
}

/// Whether every backend can keep them.
fn check(jobs: &[NewJob]) -> Result<(), Error> {
    for (item, job) in jobs.iter().enumerate() {
        job.check().map_err(|source| Error::Refused { item, source })?;
    }
    Ok(())
}

work_store!(Jobs, announced);
dead_letter_queue!(Jobs);

const SCOPE: &str = "t.status IN ('failed', 'dead_letter')";
const WAITING: &str = "t.status IN ('failed', 'dead_letter') AND t.resolved_at IS NULL";
const OPEN: &str = "t.status = 'dead_letter' AND t.resolved_at IS NULL";
const RESOLVED: &str = "t.status = 'dead_letter' AND t.resolved_at IS NOT NULL";

fn shape(dialect: Dialect, completed: Completed) -> Shape {
    Shape {
        id: "job_id",
        live: match dialect {
            Dialect::MySql => "e.live = 1",
            Dialect::Postgres | Dialect::Sqlite => "e.status IN ('pending', 'running')",
        },
        leased: "e.status = 'running'",
        held: "t.status = 'running'",
        take: "interrupted = (t.status = 'running'), status = 'running', started_at = {now}",
        order: "e.priority, e.due_at, e.job_id",
        index: "_due",
        in_order: String::new(),
        work: "job_id, lease, due_at, {job_origin}, {pipeline}, NULL, {subject}, payload, created_at, retry_count, \
               COALESCE(max_retries, {default_limit}), {interrupted}, history, priority",
        created: Times::Native,
        done: match completed {
            Completed::Keep => Done::Set(include_str!("../sql/jobs/done.sql")),
            Completed::Delete => Done::Delete,
        },
        retry: include_str!("../sql/jobs/retry.sql"),
        release: include_str!("../sql/jobs/release.sql"),
        dead: Dead::Set(include_str!("../sql/jobs/dead.sql")),
    }
}

fn dead_letters(database: &Database, names: &Names, table: &Table, options: &JobsOptions) -> DeadLetters {
    let dialect = database.dialect();
    let is_mysql = dialect == Dialect::MySql;
    let columns = Columns {
        id: "t.job_id",
        event_type: "{pipeline}".to_owned(),
        key: "{letter_subject}".to_owned(),
        payload: "t.payload".to_owned(),
        message: "t.error_message",
        class: "t.error_class",
        code: "t.error_code",
        kind: "t.error_kind",
        attempts: "t.retry_count",
        failed_at: match dialect {
            Dialect::MySql => "t.dead_at",
            Dialect::Postgres | Dialect::Sqlite => "COALESCE(t.completed_at, t.created_at)",
        },
        first_failed_at: "t.completed_at",
        times: Times::Native,
        redrive_count: "t.redrive_count",
        redrivable: EVERY_ONE,
        fingerprint: "t.fingerprint",
        resolved_at: "t.resolved_at",
        headers: "NULL",
        origin: "NULL",
        target: "NULL",
        arrived_since: None,
        origin_id: "t.job_id",
        origin_table: options.table.clone(),
        outcome: "CASE WHEN t.status = 'completed' THEN 'delivered' \
                  WHEN t.status IN ('failed', 'dead_letter') OR t.retry_count > 0 THEN 'failed' ELSE 'pending' END",
        statuses: [
            (Status::Open, if is_mysql { "t.letter_status = 1" } else { OPEN }),
            (Status::Failed, if is_mysql { "t.letter_status = 3" } else { "t.status = 'failed'" }),
            (Status::Resolved, if is_mysql { "t.letter_status = 2" } else { RESOLVED }),
            // These are jobs again, and no letters: only whoever asks for one by its id is shown it.
            (Status::Retrying, "t.status IN ('pending', 'running') AND t.redrive_count > 0"),
            (Status::Redriven, "t.status = 'completed' AND t.redrive_count > 0"),
        ],
        leads: &[LeadingStatus {
            status: Status::Open,
            column: "t.resolved_at",
            condition: OPEN,
            value: None,
        }],
    };
    let actions = Actions {
        redrive: Act::update_once(names, dialect, WAITING, include_str!("../sql/jobs/redrive.sql")),
        edit: Edit::in_place(names, "payload", table.column("payload")),
        balance: include_str!("../sql/jobs/balance.sql"),
        resolve: Act::update(names, dialect, WAITING, include_str!("../sql/jobs/resolve.sql")),
        settled: "1 = 1",
        outcomes: None,
        redelivery: sql!("jobs/redelivery.sql"),
    };
    let kind = PipelineKind::Jobs;
    DeadLetters::new(database.clone(), names.clone(), options.pipeline.clone(), kind, columns, actions)
}
