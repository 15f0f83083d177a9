//! Where a claim begins to look, on Postgres.
//!
//! Every claim and every settlement leaves an index entry behind that is of no use any more, and they stay until a
//! vacuum comes, or longer, while an old transaction is open anywhere in the server. They are in front of what is
//! due next: without help each claim of a long backlog would walk over all that were left by the claims before it.
//!
//! So while batches are full, the first row that is live is looked up now and then, and claims begin there. What
//! comes in below it meanwhile (a transaction that commits late, a row that somebody set to pending by hand, a job
//! of a higher priority) waits for the next look. As soon as a batch is not full, claims look at everything again:
//! nothing is ever passed over for good.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::database::Database;
use crate::dialect::Dialect;
use crate::error::Error;
use crate::statement::{Names, Statement};
use crate::value::Value;

/// How long a look is good for, at least, and how many times as long as it took.
const GOOD_FOR: Duration = Duration::from_millis(200);
const SHARE: u32 = 20;
/// Before every row: the first year, in microseconds since 1970.
const LOWEST_TIME: i64 = -62_135_596_800_000_000;

/// Where claims of one table begin.
#[derive(Debug)]
pub(crate) struct Floor {
    columns: Vec<&'static str>,
    first: Statement,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Whether the latest batch was full.
    busy: bool,
    /// The first live row, and until when that is good.
    known: Option<(Vec<i64>, Instant)>,
}

impl Floor {
    /// For claims in this order; the names have those of the table and of its live rows.
    pub(crate) fn new(names: &Names, order: &'static str) -> Self {
        let columns: Vec<&str> = order.split(", ").collect();
        let number = |column: &&str| match is_time(column) {
            true => format!("(extract(epoch FROM {column}) * 1000000)::bigint"),
            false => format!("{column}::bigint"),
        };
        let numbers = columns.iter().map(number).collect::<Vec<_>>().join(", ");
        let first = format!("SELECT {numbers} FROM {{table}} AS e WHERE {{live}} ORDER BY {order} LIMIT 1");
        let first = Statement::new(Dialect::Postgres, &names.fill(&first));
        Self { columns, first, state: Mutex::default() }
    }

    /// The condition of a claim; its values are the parameters after so many others.
    pub(crate) fn condition(&self, parameters: usize) -> String {
        let value = |(index, column): (usize, &&str)| {
            let parameter = format!("${}::bigint", parameters + 1 + index);
            match is_time(column) {
                true => format!("'epoch'::timestamptz + {parameter} * interval '1 microsecond'"),
                false => parameter,
            }
        };
        let values = self.columns.iter().enumerate().map(value).collect::<Vec<_>>().join(", ");
        format!("AND ({}) >= ({values})", self.columns.join(", "))
    }

    /// The values of the condition, for a claim now.
    pub(crate) async fn values(&self, database: &Database) -> Result<Vec<Value>, Error> {
        let begun = Instant::now();
        let (busy, known) = {
            let state = self.state();
            (state.busy, state.known.as_ref().filter(|(_, until)| begun < *until).map(|(row, _)| row.clone()))
        };
        let row = match known {
            _ if !busy => self.lowest(),
            Some(row) => row,
            None => {
                let row = self.look(database).await?;
                let until = Instant::now() + GOOD_FOR.max(begun.elapsed() * SHARE);
                self.state().known = Some((row.clone(), until));
                row
            }
        };
        Ok(row.into_iter().map(Value::Int).collect())
    }

    /// A claim was answered.
    pub(crate) fn claimed(&self, is_full: bool) {
        let mut state = self.state();
        state.busy = is_full;
        if !is_full {
            state.known = None;
        }
    }

    async fn look(&self, database: &Database) -> Result<Vec<i64>, Error> {
        let rows = database.rows(&self.first, Vec::new()).await?;
        let Some(row) = rows.first() else { return Ok(self.lowest()) };
        (0..self.columns.len()).map(|column| row.int(column)).collect()
    }

    fn lowest(&self) -> Vec<i64> {
        self.columns.iter().map(|column| if is_time(column) { LOWEST_TIME } else { i64::MIN }).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_time(column: &str) -> bool {
    column.ends_with("_at")
}
