//! Requests that have a key: each is carried out once, and answered the same when it is sent again.
//!
//! Where the work of a request is rows of the same database, its key and answer are written in the transaction of
//! the rows: there is no moment in which one is there without the other. Elsewhere the key
//! is written first and the answer afterwards; one without an answer was cut off, or is still under way.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redrive_core::dead_letter::Operator;
use redrive_core::event::WorkId;
use redrive_core::fingerprint::digest;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::adoption::Plan;
use crate::database::Database;
use crate::error::{Error, again};
use crate::insert::{Insert, Kind, OnConflict};
use crate::schema;
use crate::session::Session;
use crate::statement::{Names, Sql, Statement, sql};
use crate::value::{Column, Value};

/// What makes several requests one: the key that they have in common, and who sends them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestKey {
    /// Who sends them: two callers who choose the same key do not meet.
    pub operator: Operator,
    /// The key.
    pub key: String,
}

/// An answer, and whether it was given before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered<T> {
    /// The answer.
    pub answer: T,
    /// Whether it is that of an earlier request with the same key: nothing was done now.
    pub is_repeated: bool,
}

/// What the ledger says to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// It is the first with its key: carry it out, then [`Requests::answer`] it.
    New(i64),
    /// One with this key was begun, and has no answer: it is under way, or was cut off.
    Begun(i64),
    /// One with this key was answered like this.
    Answered(String),
}

/// A request whose work is rows of the same database.
pub(crate) enum Begun<A> {
    /// Its transaction is under way, under this number.
    Now(Session, i64),
    /// It was answered before.
    Before(A),
}

/// The ledger of requests, in `redrive_request`.
#[derive(Debug)]
pub struct Requests {
    database: Database,
    names: Names,
    insert: Insert,
    find: Statement,
    answer: Statement,
    forget: Statement,
    asked: AtomicU64,
}

const TABLE: &str = "redrive_request";
const SCHEMA: Sql = sql!(each "console/requests.sql");
const COLUMNS: [(&str, Kind); 4] =
    [("scope", Kind::Text), ("operator", Kind::Text), ("request_key", Kind::Text), ("digest", Kind::Text)];
/// How long keys are remembered.
const REMEMBERED: Duration = Duration::from_secs(24 * 60 * 60);
/// How often a key is tried that others take and give back meanwhile.
const TRIES: usize = 20;
/// After so many requests old ones are deleted, more at a time than have come since.
const TIDY_EVERY: u64 = 100;
const TIDY_MOST: i64 = 1_000;

impl Requests {
    /// The ledger of this database. Nothing is asked of it yet.
    #[must_use]
    pub fn new(database: Database) -> Self {
        let table = database.own_table(TABLE);
        Self::in_table(database, &table)
    }

    /// The ledger in redrive's own schema, or else in that of this table: whoever may use the one needs no rights
    /// elsewhere.
    pub(crate) fn beside(database: Database, table: &str) -> Self {
        match table.rsplit_once('.').filter(|_| database.own_schema().is_none()) {
            Some((schema, _)) => Self::in_table(database, &format!("{schema}.{TABLE}")),
            None => Self::new(database),
        }
    }

    fn in_table(database: Database, table: &str) -> Self {
        let dialect = database.dialect();
        let names = Names::new(dialect).with("table", table);
        let statement = |text: &str| Statement::new(dialect, &names.fill(text));
        let forget = names
            .clone()
            .with_sql("purged", "{table}")
            .with_sql("purged_id", "id")
            .with_sql("closed", "1 = 1")
            .with_sql("old", &format!("t.asked_at < {}", dialect.after_now()))
            .with_sql("limit", "$2")
            .statement(crate::dead_letters::PURGE);
        Self {
            insert: Insert::new(&names, dialect, "id", &COLUMNS, OnConflict::Skip),
            find: statement(
                "SELECT id, digest, answer FROM {table} WHERE request_key = $1 AND operator = $2 AND scope = $3",
            ),
            answer: statement("UPDATE {table} SET answer = $1 WHERE id = $2"),
            forget,
            asked: AtomicU64::new(0),
            names,
            database,
        }
    }

    /// Makes the table if it is missing.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached or refuses.
    pub async fn migrate(&self) -> Result<(), Error> {
        schema::migrate(&self.database, &self.names, &[self.names.text(SCHEMA)]).await
    }

    /// What a migration would do; nothing is changed.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn plan(&self) -> Result<Plan, Error> {
        schema::plan_of(&self.database, &self.names, &[self.names.text(SCHEMA)]).await
    }

    /// As [`Requests::plan`], on this connection.
    pub(crate) async fn plan_in(&self, session: &mut Session) -> Result<Plan, Error> {
        schema::plan_own(session, &self.database, &self.names, &[self.names.text(SCHEMA)]).await
    }

    /// Asks for something under a key. `scope` says what may be asked for under the same keys, `digest` what is
    /// asked for.
    ///
    /// # Errors
    /// [`Error::OtherRequest`] when the key is that of a request for something else.
    pub async fn ask(&self, key: &RequestKey, scope: &str, digest: u64) -> Result<Asked, Error> {
        let asked = again(move || self.ask_once(key, scope, digest)).await?;
        self.tidy().await;
        Ok(asked)
    }

    async fn ask_once(&self, key: &RequestKey, scope: &str, digest: u64) -> Result<Asked, Error> {
        let mut session = self.database.begin().await?;
        let asked = self.ask_in(&mut session, key, scope, digest).await?;
        session.commit().await?;
        Ok(asked)
    }

    /// Asks as part of a transaction: whoever asks for the same meanwhile waits for its end.
    async fn ask_in(
        &self,
        session: &mut Session,
        key: &RequestKey,
        scope: &str,
        digest: u64,
    ) -> Result<Asked, Error> {
        let digest = format!("{digest:016x}");
        let text = |text: &str| Column::Texts(vec![text.to_owned()]);
        let row = vec![text(scope), text(key.operator.name()), text(&key.key), text(&digest)];
        let value = |text: &str| Value::Text(text.to_owned());
        for _ in 0..TRIES {
            if let Some(WorkId(id)) = self.insert.run(session, row.clone()).await?.first() {
                return Ok(Asked::New(*id));
            }
            let values = vec![value(&key.key), value(key.operator.name()), value(scope)];
            let rows = session.rows(&self.find, values).await?;
            // It was there, and was withdrawn in this moment.
            let Some(row) = rows.first() else { continue };
            if row.text(1)? != digest {
                return Err(Error::OtherRequest(key.key.clone()));
            }
            return Ok(match row.opt_text(2)? {
                Some(answer) => Asked::Answered(answer),
                None => Asked::Begun(row.int(0)?),
            });
        }
        Err(Error::Busy(key.key.clone()))
    }

    /// Begins a transaction with the key of a request, or says what that was answered before.
    pub(crate) async fn begin<A: DeserializeOwned>(
        &self,
        key: &RequestKey,
        scope: &str,
        asked: &impl Serialize,
    ) -> Result<Begun<A>, Error> {
        let digest = digest(&serde_json::to_vec(asked).unwrap_or_default());
        let mut session = self.database.begin().await?;
        match self.ask_in(&mut session, key, scope, digest).await? {
            Asked::New(id) | Asked::Begun(id) => Ok(Begun::Now(session, id)),
            Asked::Answered(text) => {
                session.roll_back().await?;
                let answer = serde_json::from_str(&text).map_err(|_| Error::OtherRequest(key.key.clone()))?;
                Ok(Begun::Before(answer))
            }
        }
    }

    /// Ends the transaction of a request with its answer.
    pub(crate) async fn finish(
        &self,
        mut session: Session,
        request: i64,
        answer: &impl Serialize,
    ) -> Result<(), Error> {
        let answer = serde_json::to_string(answer).unwrap_or_default();
        session.run(&self.answer, vec![Value::Text(answer), Value::Int(request)]).await?;
        session.commit().await?;
        self.tidy().await;
        Ok(())
    }

    /// Writes down what a request was answered.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn answer(&self, request: i64, answer: &str) -> Result<(), Error> {
        let values = vec![Value::Text(answer.to_owned()), Value::Int(request)];
        self.database.change(&self.answer, values).await.map(drop)
    }

    /// Forgets a request that was not carried out: the same may be asked for again.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn withdraw(&self, request: i64) -> Result<(), Error> {
        let text = "DELETE FROM {table} WHERE id = $1 AND answer IS NULL";
        self.change(text, vec![Value::Int(request)]).await.map(drop)
    }

    /// Takes a request over that was begun so long ago that whoever did is gone, and says whether that is so.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn take_over(&self, request: i64, begun_before: Duration) -> Result<bool, Error> {
        let text = format!(
            "UPDATE {{table}} SET asked_at = {{now}} WHERE asked_at < {} AND id = $2 AND answer IS NULL",
            self.database.dialect().after_now()
        );
        Ok(self.change(&text, vec![ago(begun_before), Value::Int(request)]).await? > 0)
    }

    /// Deletes what is older than a day, now and then.
    async fn tidy(&self) {
        if !self.asked.fetch_add(1, Ordering::Relaxed).is_multiple_of(TIDY_EVERY) {
            return;
        }
        let values = vec![ago(REMEMBERED), Value::Int(TIDY_MOST)];
        // What does not work now is tried again with a later request.
        drop(self.database.change(&self.forget, values).await);
    }

    async fn change(&self, text: &str, values: Vec<Value>) -> Result<u64, Error> {
        let statement = Statement::new(self.database.dialect(), &self.names.fill(text));
        self.database.change(&statement, values).await
    }
}

fn ago(duration: Duration) -> Value {
    Value::Int(i64::try_from(duration.as_micros()).map_or(i64::MIN, |micros| -micros))
}
