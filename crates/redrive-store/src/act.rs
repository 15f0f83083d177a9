//! What operators do to letters: redrive and resolve, many in one transaction, each at most once.

use std::collections::BTreeSet;

use redrive_core::dead_letter::{Acted, Operator, Refusal};

use crate::database::Database;
use crate::dialect::Dialect;
use crate::error::{Error, again};
use crate::row::Row;
use crate::session::Session;
use crate::statement::{Names, Sql, Statement, sql};
use crate::value::{Column, Value};

const UPDATE: Sql = sql!(each "letters/act.sql");
const FIND: Sql = sql!(each "letters/find.sql");

/// An action on letters. Its statements take the ids as `$1`, the operator as `$2`, the note as `$3`.
#[derive(Debug)]
pub(crate) struct Act {
    /// MySQL only: locks the letters that wait, and says which.
    lock: Option<Statement>,
    statements: Vec<Statement>,
    /// Which of the ids are or were letters: `{known}` of the store's names.
    find: Statement,
}

impl Act {
    /// An action that changes letters in place: `set`, for those that are `waiting` (both of `t`).
    pub(crate) fn update(names: &Names, dialect: Dialect, waiting: &str, set: &str) -> Self {
        Self::of(names, dialect, waiting, vec![Self::update_statement(names, waiting, set)])
    }

    /// The statement of [`Act::update`] by itself.
    pub(crate) fn update_statement(names: &Names, waiting: &str, set: &str) -> Statement {
        names.clone().with_sql("waiting", waiting).with_sql("set", set).statement(UPDATE)
    }

    /// An action with statements of its own; the last returns the ids that it was done to.
    pub(crate) fn of(names: &Names, dialect: Dialect, waiting: &str, statements: Vec<Statement>) -> Self {
        let names = names.clone().with_sql("waiting", waiting);
        let lock = include_str!("../sql/mysql/letters/lock.sql");
        let lock = (dialect == Dialect::MySql).then(|| Statement::new(dialect, &names.fill(lock)));
        Self { lock, statements, find: names.statement(FIND) }
    }

    /// Does it to those of the letters that wait.
    pub(crate) async fn run(
        &self,
        database: &Database,
        ids: &[String],
        operator: &Operator,
        note: &str,
    ) -> Result<Acted, Error> {
        let (numbers, mut refused) = numbers(ids);
        let numbers = &numbers;
        let (done, others) = again(move || self.transact(database, numbers, operator, note)).await?;
        refused.extend(others);
        Ok(Acted { done: done.iter().map(ToString::to_string).collect(), refused })
    }

    async fn transact(
        &self,
        database: &Database,
        ids: &BTreeSet<i64>,
        operator: &Operator,
        note: &str,
    ) -> Result<(BTreeSet<i64>, Vec<Refusal>), Error> {
        let mut session = database.begin().await?;
        let done = self.run_in(&mut session, ids, operator, note).await?;
        let left: Vec<i64> = ids.difference(&done).copied().collect();
        let refused = self.refusals(&mut session, left).await?;
        session.commit().await?;
        Ok((done, refused))
    }

    async fn run_in(
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
        let mut done = match &self.lock {
            Some(lock) => Some(first_column(&session.rows(lock, vec![rows(ids.clone())]).await?)?),
            None => None,
        };
        for statement in &self.statements {
            let values = vec![
                rows(ids.clone()),
                Value::Text(operator.name().to_owned()),
                Value::Text(note.to_owned()),
            ];
            if self.lock.is_some() {
                session.run(statement, values).await?;
            } else {
                done = Some(first_column(&session.rows(statement, values).await?)?);
            }
        }
        Ok(done.unwrap_or_default())
    }

    async fn refusals(&self, session: &mut Session, left: Vec<i64>) -> Result<Vec<Refusal>, Error> {
        if left.is_empty() {
            return Ok(Vec::new());
        }
        let known = first_column(&session.rows(&self.find, vec![rows(left.clone())]).await?)?;
        let refusal = |id: i64| match known.contains(&id) {
            true => Refusal::NotWaiting(id.to_string()),
            false => Refusal::Unknown(id.to_string()),
        };
        Ok(left.into_iter().map(refusal).collect())
    }
}

fn rows(ids: Vec<i64>) -> Value {
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
