//! What operators do to letters: redrive and resolve, many in one transaction, each at most once.

use std::collections::{BTreeMap, BTreeSet};

use redrive_core::dead_letter::{Acted, Operator, Refusal};
use redrive_core::event::storable;
use serde::de::IgnoredAny;

use crate::adoption;
use crate::catalog::{ColumnInfo, ColumnType};
use crate::database::Database;
use crate::dialect::Dialect;
use crate::error::{Error, again};
use crate::row::Row;
use crate::session::Session;
use crate::statement::{Names, Sql, Statement, sql};
use crate::value::{Column, Value};

const UPDATE: Sql = sql!(each "letters/act.sql");
const PICK: Sql = sql!(each "letters/pick.sql");
const EDIT: Sql = sql!("letters/edit.sql");

/// An action on letters. Its statements take the ids as `$1`, the operator as `$2`, the note as `$3`.
#[derive(Debug)]
pub(crate) struct Act {
    /// MySQL only: locks the letters that wait, and says which.
    lock: Option<Statement>,
    statements: Vec<Statement>,
    /// What is known of those that nothing was done about: their note, and why not, if there is more to
    /// say than that they do not wait. `{known}` of the store's names says which are or were letters.
    others: Statement,
}

/// Another payload for the letter that is being sent back: the statement takes it as `$1`, and the letter's
/// number as `$2` and `$3`.
#[derive(Debug)]
pub(crate) struct Edit {
    statement: Statement,
    payload: Payload,
}

/// What a table keeps as a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payload {
    Text,
    Json,
    Bytes,
}

impl Payload {
    /// What the column keeps, and how the parameter `$1` is stored in it.
    fn of(column: Option<&ColumnInfo>) -> (Self, String) {
        match column {
            Some(column) if column.kind == ColumnType::Bytes => (Self::Bytes, "$1".to_owned()),
            Some(column) if column.kind == ColumnType::Json => (Self::Json, column.store_text("$1")),
            Some(column) => (Self::Text, column.store_text("$1")),
            None => (Self::Text, "$1".to_owned()),
        }
    }
}

impl Edit {
    /// Changes the payload of the letter itself, in this column.
    pub(crate) fn in_place(names: &Names, column: &str, info: Option<&ColumnInfo>) -> Self {
        let names = names.clone().with_sql("edited", column);
        Self::elsewhere(&names, EDIT, info)
    }

    /// Changes it where the letter was sent to.
    pub(crate) fn elsewhere(names: &Names, sql: Sql, info: Option<&ColumnInfo>) -> Self {
        let (payload, value) = Payload::of(info);
        Self { statement: names.clone().with_sql("edited_value", &value).statement(sql), payload }
    }

    /// Changes the bytes of the letter itself.
    pub(crate) fn of_bytes(names: &Names, column: &str) -> Self {
        let names = names.clone().with_sql("edited", column).with_sql("edited_value", "$1");
        Self { statement: names.statement(EDIT), payload: Payload::Bytes }
    }

    fn value(&self, payload: &[u8]) -> Result<Value, String> {
        if self.payload == Payload::Bytes {
            return Ok(Value::Bytes(payload.to_vec()));
        }
        let text = std::str::from_utf8(payload).map_err(|error| {
            format!("this pipeline keeps text only, and the new payload is none: {error}")
        })?;
        storable("payload", text, usize::MAX).map_err(|refused| refused.to_string())?;
        if self.payload == Payload::Json {
            serde_json::from_str::<IgnoredAny>(text)
                .map_err(|error| format!("this pipeline keeps JSON, and the new payload is none: {error}"))?;
        }
        Ok(Value::Text(text.to_owned()))
    }
}

impl Act {
    /// An action that changes letters in place: `set`, for those that are `waiting` (both of `t`).
    pub(crate) fn update(names: &Names, dialect: Dialect, waiting: &str, set: &str) -> Self {
        Self::of(names, dialect, waiting, vec![Self::update_statement(names, waiting, set)])
    }

    /// As [`Act::update`], and no letter twice under the same note, even if it waits again.
    pub(crate) fn update_once(names: &Names, dialect: Dialect, waiting: &str, set: &str) -> Self {
        let once = "(t.resolution_note IS NULL OR t.resolution_note <> given.note)";
        Self::update(names, dialect, &format!("{waiting} AND {once}"), set)
    }

    /// The statement of [`Act::update`] by itself.
    pub(crate) fn update_statement(names: &Names, waiting: &str, set: &str) -> Statement {
        names.clone().with_sql("waiting", waiting).with_sql("set", set).statement(UPDATE)
    }

    /// An action with statements of its own; the last returns the ids that it was done to.
    pub(crate) fn of(names: &Names, dialect: Dialect, waiting: &str, statements: Vec<Statement>) -> Self {
        let lock_names = names.clone().with_sql("waiting", waiting);
        let lock = include_str!("../sql/mysql/letters/lock.sql");
        let lock = (dialect == Dialect::MySql).then(|| Statement::new(dialect, &lock_names.fill(lock)));
        Self { lock, statements, others: others(names, "NULL") }
    }

    /// The same action; `why` (of `t`) says why it cannot be done to some letters, or is NULL.
    #[must_use]
    pub(crate) fn explained(mut self, names: &Names, why: &str) -> Self {
        self.others = others(names, why);
        self
    }

    /// Does it to those of the letters that wait.
    pub(crate) async fn run(
        &self,
        database: &Database,
        ids: &[String],
        operator: &Operator,
        note: &str,
    ) -> Result<Acted, Error> {
        let (numbers, refused) = numbers(ids);
        let numbers = &numbers;
        let mut acted = again(move || self.transact(database, numbers, operator, note, None)).await?;
        acted.refused.splice(0..0, refused);
        Ok(acted)
    }

    /// Does it to one letter, with another payload.
    pub(crate) async fn run_edited(
        &self,
        database: &Database,
        id: &str,
        (edit, payload): (&Edit, &[u8]),
        operator: &Operator,
        note: &str,
    ) -> Result<Acted, Error> {
        let value = match edit.value(payload) {
            Ok(value) => value,
            Err(why) => {
                let refused = vec![Refusal::Impossible { id: id.to_owned(), why }];
                return Ok(Acted { refused, ..Acted::default() });
            }
        };
        let (numbers, refused) = numbers(std::slice::from_ref(&id.to_owned()));
        let (numbers, edit) = (&numbers, Some((&edit.statement, &value)));
        let mut acted = again(move || self.transact(database, numbers, operator, note, edit)).await?;
        acted.refused.splice(0..0, refused);
        Ok(acted)
    }

    async fn transact(
        &self,
        database: &Database,
        ids: &BTreeSet<i64>,
        operator: &Operator,
        note: &str,
        edit: Option<(&Statement, &Value)>,
    ) -> Result<Acted, Error> {
        let mut session = database.begin().await?;
        let done = self.run_in(&mut session, ids, operator, note).await?;
        if let Some((statement, payload)) = edit {
            for id in &done {
                session.run(statement, vec![payload.clone(), Value::Int(*id), Value::Int(*id)]).await?;
            }
        }
        let left: Vec<i64> = ids.difference(&done).copied().collect();
        let mut acted = self.account_for(&mut session, left, note).await?;
        session.commit().await?;
        acted.done = done.iter().map(ToString::to_string).collect();
        Ok(acted)
    }

    /// Does it as part of a transaction, and returns the letters that it was done to.
    pub(crate) async fn run_in(
        &self,
        session: &mut Session,
        ids: &BTreeSet<i64>,
        operator: &Operator,
        note: &str,
    ) -> Result<BTreeSet<i64>, Error> {
        if ids.is_empty() {
            return Ok(BTreeSet::new());
        }
        let ids: Vec<i64> = ids.iter().copied().collect();
        let values =
            || vec![rows(ids.clone()), Value::Text(operator.name().to_owned()), Value::Text(note.to_owned())];
        let mut done = match &self.lock {
            Some(lock) => Some(first_column(&session.rows(lock, values()).await?)?),
            None => None,
        };
        let Some((last, before)) = self.statements.split_last() else { return Ok(done.unwrap_or_default()) };
        let mut sent = None;
        for statement in before {
            sent = Some(session.run(statement, values()).await?);
        }
        if self.lock.is_some() {
            session.run(last, values()).await?;
        } else {
            done = Some(first_column(&session.rows(last, values()).await?)?);
        }
        let done: BTreeSet<i64> = done.unwrap_or_default();
        if let Some(sent) = sent {
            adoption::none_dropped("outbox", sent, done.len() as u64)?;
        }
        Ok(done)
    }

    /// What there is to say about letters that nothing was done about.
    async fn account_for(&self, session: &mut Session, left: Vec<i64>, note: &str) -> Result<Acted, Error> {
        let mut acted = Acted::default();
        if left.is_empty() {
            return Ok(acted);
        }
        let mut known: BTreeMap<i64, (Option<String>, Option<String>)> = BTreeMap::new();
        for row in session.rows(&self.others, vec![rows(left.clone())]).await? {
            known.insert(row.int(0)?, (row.opt_text(1)?, row.opt_text(2)?));
        }
        for number in left {
            let id = number.to_string();
            match known.remove(&number) {
                None => acted.refused.push(Refusal::Unknown(id)),
                Some((Some(of), _)) if of == note => acted.before.push(id),
                Some((_, Some(why))) => acted.refused.push(Refusal::Impossible { id, why }),
                Some((_, None)) => acted.refused.push(Refusal::NotWaiting(id)),
            }
        }
        Ok(acted)
    }
}

fn others(names: &Names, why: &str) -> Statement {
    names.clone().with_sql("picked", &format!("t.resolution_note, {why}")).statement(PICK)
}

/// A statement that reads `picked` (of `t`) of letters, after their number; the ids are `$1`.
pub(crate) fn pick(names: &Names, picked: &str) -> Statement {
    names.clone().with_sql("picked", picked).statement(PICK)
}

pub(crate) fn rows(ids: Vec<i64>) -> Value {
    Value::Rows(vec![Column::Ints(ids)])
}

/// The numbers among the ids; what is no number is no letter of a SQL store.
fn numbers(ids: &[String]) -> (BTreeSet<i64>, Vec<Refusal>) {
    let mut numbers = BTreeSet::new();
    let mut refused = Vec::new();
    for id in ids {
        match number(id) {
            Some(number) => drop(numbers.insert(number)),
            None => refused.push(Refusal::Unknown(id.clone())),
        }
    }
    (numbers, refused)
}

/// The number in an id. `+7` and `007` are not what we call letter 7.
pub(crate) fn number(id: &str) -> Option<i64> {
    id.parse().ok().filter(|number: &i64| number.to_string() == id)
}

fn first_column(rows: &[Row]) -> Result<BTreeSet<i64>, Error> {
    rows.iter().map(|row| row.int(0)).collect()
}
