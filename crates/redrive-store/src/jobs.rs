//! The job queue: one table, where dead jobs stay in place.

use std::time::Duration;

use redrive_core::dead_letter::{PipelineKind, Status};
use redrive_core::event::{MAX_KEY, Refused, WorkId, required, storable};
use redrive_core::state::JobState;
use serde::{Deserialize, Serialize};

use crate::act::{Act, Edit, Payload};
use crate::batch::whole_micros;
use crate::caller::Caller;
use crate::columns::{Columns, EVERY_ONE};
use crate::database::Database;
use crate::dead_letters::{Actions, DeadLetters, dead_letter_queue};
use crate::dialect::{Dialect, check_name};
use crate::error::{Error, again};
use crate::insert::{Insert, Kind, OnConflict, chunks};
use crate::queue::{Queue, work_store};
use crate::requests::{Answered, Begun, RequestKey, Requests};
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
    max_retries: u32,
    insert: Insert,
    insert_unique: Insert,
    requests: Requests,
    queue: Queue,
    dead_letters: DeadLetters,
}

const SCHEMA: Sql = sql!(each "jobs/schema.sql");

const COLUMNS: [(&str, Kind); 6] = [
    ("{key}", Kind::Text),
    ("payload", Kind::Text),
    ("priority", Kind::Int),
    ("due_at", Kind::After),
    ("max_retries", Kind::Int),
    ("unique_key", Kind::Text),
];

impl Jobs {
    /// The queue in this table. Nothing is asked of the database yet.
    ///
    /// # Errors
    /// [`Error::Setting`] when a name cannot be used.
    pub fn new(database: Database, options: JobsOptions) -> Result<Self, Error> {
        check_name("jobs table", &options.table)?;
        check_name("subject column", &options.subject_column)?;
        let dialect = database.dialect();
        let names = Names::new(dialect)
            .with_table("table", "table_name", &options.table)
            .with("letters", &options.table)
            .with("letter_id", "job_id")
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
            insert: Insert::new(&names, dialect, "job_id", &COLUMNS, OnConflict::Fail),
            insert_unique: Insert::new(&names, dialect, "job_id, unique_key", &COLUMNS, OnConflict::Skip),
            requests: Requests::new(database.clone()),
            queue: Queue::new(database.clone(), &names, &shape(dialect, options.completed)),
            max_retries: options.max_retries,
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

    /// Makes the table, or adds to the application's own what it lacks.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached or refuses.
    pub async fn migrate(&self) -> Result<(), Error> {
        let mut files = vec![self.names.text(SCHEMA)];
        files.extend(schema::notify(self.database.dialect()));
        schema::migrate(&self.database, &self.names, &files).await?;
        self.requests.migrate().await
    }

    /// Adds jobs, all or none, and says in the same order what became of each.
    ///
    /// # Errors
    /// [`Error::Refused`] names the first job that cannot be kept; none is stored then.
    pub async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, Error> {
        check(&jobs)?;
        let jobs = &jobs;
        again(move || self.insert_plain(jobs)).await
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
        again(move || self.insert_once(jobs, key)).await
    }

    /// Adds a job to the application's own transaction: it is there when that commits, or not at all.
    ///
    /// # Errors
    /// [`Error::Refused`] when it cannot be kept; [`Error::Rejected`] when a live job has its unique
    /// key. After an error the transaction should be rolled back, as after any failed statement.
    pub async fn enqueue_in<'t>(
        &self,
        transaction: impl Into<Caller<'t>> + Send,
        job: &NewJob,
    ) -> Result<(), Error> {
        job.check().map_err(|source| Error::Refused { item: 0, source })?;
        self.insert.run_in(&mut transaction.into(), self.columns(std::iter::once(job))).await
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

    async fn insert_plain(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>, Error> {
        let mut session = self.database.begin().await?;
        let enqueued = self.insert_all(&mut session, jobs).await?;
        session.commit().await?;
        Ok(enqueued)
    }

    async fn insert_once(&self, jobs: &[NewJob], key: &RequestKey) -> Result<Answered<Vec<Enqueued>>, Error> {
        let scope = format!("jobs {}", self.dead_letters.pipeline);
        let (mut session, request) = match self.requests.begin(key, &scope, &jobs).await? {
            Begun::Now(session, request) => (session, request),
            Begun::Before(answer) => return Ok(Answered { answer, is_repeated: true }),
        };
        let answer = self.insert_all(&mut session, jobs).await?;
        self.requests.finish(session, request, &answer).await?;
        Ok(Answered { answer, is_repeated: false })
    }

    async fn insert_all(&self, session: &mut Session, jobs: &[NewJob]) -> Result<Vec<Enqueued>, Error> {
        let (mut unique, plain): (Vec<_>, Vec<_>) =
            jobs.iter().enumerate().partition(|(_, job)| job.unique_key.is_some());
        let mut enqueued = vec![Enqueued::Duplicate; jobs.len()];
        for chunk in chunks(&plain, |(_, job)| job.payload.len()) {
            let added = self.insert.run(session, self.columns(chunk.iter().map(|(_, job)| *job))).await?;
            for ((at, _), id) in chunk.iter().zip(added) {
                enqueued[*at] = Enqueued::Added(id);
            }
        }
        // In the order of the keys: two that enqueue the same ones would otherwise wait for each other.
        unique.sort_by_key(|(_, job)| &job.unique_key);
        for chunk in chunks(&unique, |(_, job)| job.payload.len()) {
            let columns = self.columns(chunk.iter().map(|(_, job)| *job));
            let keys = chunk.iter().filter_map(|(_, job)| job.unique_key.clone());
            let mut added = self.insert_unique.run_keyed(session, columns, keys).await?;
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
        let limit = |job: &NewJob| job.max_retries.unwrap_or(self.max_retries).min(i32::MAX as u32);
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

work_store!(Jobs);
dead_letter_queue!(Jobs);

const SCOPE: &str = "t.status IN ('failed', 'dead_letter')";
const WAITING: &str = "t.status IN ('failed', 'dead_letter') AND t.resolved_at IS NULL";

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
        work: "job_id, lease, due_at, job_id, {pipeline}, NULL, {key}{as_text}, payload, created_at, retry_count, \
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

fn dead_letters(database: &Database, names: &Names, options: JobsOptions) -> DeadLetters {
    let dialect = database.dialect();
    let columns = Columns {
        id: "t.job_id",
        event_type: "{pipeline}",
        key: if dialect == Dialect::Postgres { "t.{key}::text" } else { "t.{key}" }.to_owned(),
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
        origin_table: options.table,
        outcome: "CASE WHEN t.status = 'completed' THEN 'delivered' \
                  WHEN t.status IN ('failed', 'dead_letter') OR t.retry_count > 0 THEN 'failed' ELSE 'pending' END",
        statuses: [
            (Status::Open, "t.status = 'dead_letter' AND t.resolved_at IS NULL"),
            (Status::Failed, "t.status = 'failed'"),
            (Status::Resolved, "t.status = 'dead_letter' AND t.resolved_at IS NOT NULL"),
            (Status::Retrying, "1 = 0"),
            (Status::Redriven, "1 = 0"),
        ],
    };
    let actions = Actions {
        redrive: Act::update_once(names, dialect, WAITING, include_str!("../sql/jobs/redrive.sql")),
        edit: Edit::in_place(names, "payload", Payload::Text),
        balance: include_str!("../sql/jobs/balance.sql"),
        resolve: Act::update(names, dialect, WAITING, include_str!("../sql/jobs/resolve.sql")),
        settled: "1 = 1",
        in_order: false,
        outcomes: None,
    };
    let kind = PipelineKind::Jobs;
    DeadLetters::new(database.clone(), names.clone(), options.pipeline, kind, columns, actions)
}
