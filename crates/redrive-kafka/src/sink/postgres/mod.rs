//! Rows into Postgres.
//!
//! A batch goes in by one plain COPY: the quickest way there is, and whole or not at all. Records that are
//! there already break it, and so does poison; only then is care taken, and it costs only that batch:
//!
//! 1. The error of a COPY names the line it failed at. What stands before that line is copied again, the
//!    line is poison (or there already), and what follows is copied. A few poison rows cost a few round trips.
//! 2. When there seem to be many, or no line is named (foreign keys), one call of a server-side function takes
//!    the rest: slices of adaptive size, each in an exception block, `ON CONFLICT DO NOTHING`.
//! 3. Where the function cannot be made (no TEMP privilege), plain bisecting.
//!
//! Behind a pooler each of these is a transaction, statements have no names, and the function goes when its call ends.
//!
//! A failure that speaks of the statement, the table or the role (a lost right, a renamed column) is no
//! record's fault. COPY and the function may meet one that a plain insert does not (row-level security takes
//! no COPY), so the plain insert has the last word on it; the batch is then undecided, and is parked.
//!
//! All three store the same rows and name the same poison: rows go in from left to right, and a row is
//! poison if it fails when everything good before it is there.

mod copy;
mod detail;
mod isolate;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::failure::{Code, Failure};
use redrive_store::{Dialect, PostgresServer, Table};
use sqlx::postgres::{PgConnection, PgDatabaseError};
use sqlx::{AssertSqlSafe, Executor as _};

use super::statement::{SinkColumns, SinkTable};
use super::{Sink, Stored, bisect, may_pass};
use crate::row::Row;
use copy::CopyText;
use isolate::Function;

/// How many poison rows are worth a COPY of their own.
const SPLITS: usize = 3;

/// The first poison row so early in what is left (one part of so many) has many more behind it.
const EARLY: usize = 8;

/// How poison is found. All ways find the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// The quickest way that works.
    #[default]
    Quickest,
    /// By bisecting alone, as every sink can.
    Bisect,
}

/// Stores rows in a table of Postgres.
#[derive(Debug)]
pub struct PostgresSink {
    server: PostgresServer,
    table: SinkTable,
    timeout: Duration,
    isolation: Isolation,
    copy: String,
    /// Read again after a failure that speaks of the table, and before a value is held against a record.
    shape: Mutex<Option<Arc<Shape>>>,
    idle: Mutex<Vec<Link>>,
}

/// What only the catalogue knows.
#[derive(Debug)]
struct Shape {
    columns: SinkColumns,
    insert: String,
    function: Function,
}

/// A connection, and the shape for which the server-side function was made on it.
#[derive(Debug)]
struct Link {
    connection: PgConnection,
    function_of: Option<Arc<Shape>>,
}

/// Why a statement failed: the failure, and the row that it names, if it names one.
#[derive(Debug)]
struct Refused {
    failure: Failure,
    row: Option<usize>,
    /// A unique key is broken: the row may be there already. Which key was broken says nothing, since a
    /// record that comes twice breaks all of them.
    clash: bool,
    /// The statement, the table or the role is at fault.
    setup: bool,
}

impl PostgresSink {
    /// A sink at this address. Nothing is asked of the server yet; one batch may take so long.
    ///
    /// # Errors
    /// What is wrong with the address.
    pub fn new(url: &str, table: SinkTable, timeout: Duration) -> Result<Self, sqlx::Error> {
        let millis = timeout.as_millis().to_string();
        // A lock that is not had in time is given up by the server: a client that just left would leave
        // its statement waiting there. Text is UTF-8 and times are ISO, whatever the role's defaults are.
        let settings = vec![("lock_timeout", millis), ("datestyle", "ISO".to_owned())];
        let server =
            PostgresServer::open(url, settings).map_err(|error| sqlx::Error::Configuration(error.into()))?;
        let dialect = Dialect::Postgres;
        let copy = format!("COPY {} ({}) FROM STDIN", table.quoted(dialect), table.list(dialect));
        let (isolation, shape, idle) = (Isolation::default(), Mutex::default(), Mutex::default());
        Ok(Self { server, table, timeout, isolation, copy, shape, idle })
    }

    /// The same sink with another way to find poison.
    #[must_use]
    pub fn isolating_by(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// Runs something on a connection of its own. The connection is kept only when the server answered:
    /// one that is in the middle of something is closed.
    async fn with<T>(&self, run: impl AsyncFnOnce(&mut Link) -> Result<T, Refused>) -> Result<T, Refused> {
        let within = self.timeout + Duration::from_secs(5);
        let done = tokio::time::timeout(within, async {
            let mut link = self.connect().await?;
            let done = match self.server.is_pooled() {
                true => self.in_transaction(&mut link, run).await,
                false => run(&mut link).await,
            };
            Ok::<_, Refused>((link, done))
        });
        let (link, done) = match done.await {
            Ok(Ok(done)) => done,
            Ok(Err(refused)) => return Err(refused),
            Err(_) => {
                // The others are as silent: to try each would cost a time-out each.
                self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
                return Err(Refused::of(timed_out(within)));
            }
        };
        // Behind a pooler its transaction goes with it.
        let broken = self.server.is_pooled() && done.is_err()
            || done.as_ref().is_err_and(|refused| refused.failure.code.is_none() || is_gone(refused));
        if done.as_ref().is_err_and(|refused| refused.setup) {
            self.forget_shape();
        }
        if !broken {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(link);
        }
        done
    }

    /// Behind a pooler nothing outlives a transaction, so whatever belongs together is in one.
    async fn in_transaction<T>(
        &self,
        link: &mut Link,
        run: impl AsyncFnOnce(&mut Link) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let plain = |text: String| sqlx::raw_sql(AssertSqlSafe(text));
        link.connection.execute(plain(self.server.begin())).await.map_err(|error| refused(&error))?;
        let done = run(link).await?;
        link.connection.execute(plain("COMMIT".to_owned())).await.map_err(|error| refused(&error))?;
        Ok(done)
    }

    async fn connect(&self) -> Result<Link, Refused> {
        if let Some(link) = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            return Ok(link);
        }
        let connection = self.server.connect().await.map_err(|error| refused(&error))?;
        Ok(Link { connection, function_of: None })
    }

    async fn shape(&self, link: &mut Link) -> Result<Arc<Shape>, Refused> {
        let known = self.shape.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(shape) = known {
            return Ok(shape);
        }
        let shape = Arc::new(self.read_shape(&mut link.connection).await?);
        *self.shape.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&shape));
        Ok(shape)
    }

    async fn read_shape(&self, connection: &mut PgConnection) -> Result<Shape, Refused> {
        let found = look(connection, &self.table).await?;
        let columns = SinkColumns::new(&self.table, &found).map_err(Refused::of)?;
        Ok(Shape {
            insert: isolate::insert(&self.table, &columns),
            function: Function::new(&self.table, &columns),
            columns,
        })
    }

    fn forget_shape(&self) {
        *self.shape.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The rows as arrays of text. The table may have changed since it was looked at: it is looked at again before a
    /// value is refused.
    async fn arrays(
        &self,
        link: &mut Link,
        rows: &[Row<'_>],
    ) -> Result<(Arc<Shape>, Vec<Vec<Option<String>>>), Refused> {
        let shape = self.shape(link).await?;
        if let Ok(arrays) = isolate::arrays(&shape.columns, rows) {
            return Ok((shape, arrays));
        }
        self.forget_shape();
        let shape = self.shape(link).await?;
        let arrays = isolate::arrays(&shape.columns, rows).map_err(Refused::of)?;
        Ok((shape, arrays))
    }

    /// Everything at once: all or nothing, and nothing that is there already.
    async fn copy(&self, text: &CopyText, range: std::ops::Range<usize>) -> Result<(), Refused> {
        self.with(async |link: &mut Link| {
            let copied = copy::copy(&mut link.connection, &self.copy, text.slice(range.clone())).await;
            copied.map_err(|error| refused(&error))
        })
        .await
    }

    /// Stores the rows whose values fit their columns; the others are poison.
    async fn store_fitting(&self, rows: &[Row<'_>]) -> Stored {
        match self.fitting(rows).await {
            Ok((text, unfit)) if unfit.is_empty() => self.store_quickly(rows, &text).await,
            Ok((text, unfit)) => {
                let is_fit = |(index, _): &(usize, &Row<'_>)| !unfit.iter().any(|(other, _)| other == index);
                let fitting: Vec<Row<'_>> =
                    rows.iter().enumerate().filter(is_fit).map(|(_, row)| row.clone()).collect();
                self.store_quickly(&fitting, &text).await.beside(unfit)
            }
            Err(refused) => Stored::nothing(rows.len(), refused.failure),
        }
    }

    /// The rows whose values fit their columns as text for COPY, and the others with the reason. The table may have
    /// changed since it was looked at: it is looked at again before a value is refused.
    async fn fitting(&self, rows: &[Row<'_>]) -> Result<(CopyText, Vec<(usize, Failure)>), Refused> {
        let known = self.shape.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(shape) = known {
            let (text, unfit) = CopyText::new(&shape.columns, rows);
            if unfit.is_empty() {
                return Ok((text, unfit));
            }
        }
        self.forget_shape();
        let shape = self.with(async |link: &mut Link| self.shape(link).await).await?;
        Ok(CopyText::new(&shape.columns, rows))
    }

    /// A COPY of all rows, and what to do when it does not go through.
    async fn store_quickly(&self, rows: &[Row<'_>], text: &CopyText) -> Stored {
        let mut stored = Stored::default();
        if rows.is_empty() {
            return stored;
        }
        let mut first = 0;
        for _ in 0..SPLITS {
            let refused = match self.copy(text, first..rows.len()).await {
                Ok(()) => return stored,
                Err(refused) => refused,
            };
            if refused.setup {
                break;
            }
            if may_pass(&refused.failure) {
                stored.extend(Stored::nothing(rows.len() - first, refused.failure), first);
                return stored;
            }
            let Some(bad) = refused.row.map(|row| first + row).filter(|bad| *bad < rows.len()) else { break };
            let left = rows.len() - first;
            if left > EARLY && bad - first < left / EARLY {
                break;
            }
            if bad > first && self.copy(text, first..bad).await.is_err() {
                break;
            }
            first = bad;
            if refused.clash {
                let alone = self.store_carefully(&rows[bad..=bad]).await;
                // A record that was read twice rarely comes alone.
                let Some((_, failure)) = alone.poison.into_iter().next() else { break };
                stored.poison.push((bad, failure));
            } else {
                stored.poison.push((bad, refused.failure));
            }
            first = bad + 1;
            if first == rows.len() {
                return stored;
            }
        }
        let rest = self.store_carefully(&rows[first..]).await;
        stored.extend(rest, first);
        stored
    }

    /// One call that stores what it can and names the rest.
    async fn store_carefully(&self, rows: &[Row<'_>]) -> Stored {
        let called = self
            .with(async |link: &mut Link| {
                let (shape, arrays) = self.arrays(link, rows).await?;
                let call = Function::call(&shape, link, &self.server, arrays).await;
                call.map_err(|error| refused(&error))
            })
            .await;
        match called {
            Ok(poison) => Stored { poison, ..Stored::default() },
            Err(refused) if may_pass(&refused.failure) && !refused.setup => {
                Stored::nothing(rows.len(), refused.failure)
            }
            Err(_) => bisect(self, rows, None).await,
        }
    }
}

#[async_trait]
impl Sink for PostgresSink {
    async fn write(&self, rows: &[Row<'_>]) -> Result<(), Failure> {
        let written = self
            .with(async |link: &mut Link| {
                let (shape, arrays) = self.arrays(link, rows).await?;
                let named = self.server.names_statements();
                let inserted = isolate::run_insert(&mut link.connection, &shape.insert, named, arrays);
                inserted.await.map_err(|error| refused(&error))
            })
            .await;
        written.map_err(|refused| refused.failure)
    }

    async fn store(&self, rows: &[Row<'_>]) -> Stored {
        if rows.is_empty() {
            return Stored::default();
        }
        match self.isolation {
            Isolation::Quickest => self.store_fitting(rows).await,
            Isolation::Bisect => bisect(self, rows, None).await,
        }
    }

    async fn probe(&self) -> Result<(), Failure> {
        // The insert itself, of no rows: it finds a lost right, which a look at the table does not.
        self.write(&[]).await
    }

    async fn check(&self) -> Result<(), String> {
        let found = self
            .with(async |link: &mut Link| {
                let found = look(&mut link.connection, &self.table).await?;
                let keys = unique_indexes(&mut link.connection, &self.table).await;
                Ok((found, keys.map_err(|error| refused(&error))?))
            })
            .await;
        let (found, keys) =
            found.map_err(|refused| format!("the sink's database: {}", refused.failure.message))?;
        self.table.complaint(Dialect::Postgres, &found, &keys).map_or(Ok(()), Err)?;
        self.probe().await.map_err(|failure| self.table.unwritable(&failure))
    }
}

/// The table, wherever the search path of this user finds it.
async fn look(connection: &mut PgConnection, table: &SinkTable) -> Result<Table, Refused> {
    let schema: Option<String> = sqlx::query_scalar(
        "SELECT n.nspname::text FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace \
         WHERE c.oid = to_regclass($1)",
    )
    .bind(table.quoted(Dialect::Postgres))
    .persistent(false)
    .fetch_optional(&mut *connection)
    .await
    .map_err(|error| refused(&error))?;
    let Some(schema) = schema else { return Ok(Table::default()) };
    let name = table.name().rsplit('.').next().unwrap_or_default();
    let found = Table::of(connection.into(), &format!("{schema}.{name}")).await;
    found.map_err(|error| Refused::of(error.failure()))
}

/// The columns of each unique index that holds for every row.
async fn unique_indexes(
    connection: &mut PgConnection,
    table: &SinkTable,
) -> Result<Vec<Vec<String>>, sqlx::Error> {
    sqlx::query_scalar(
        "SELECT ARRAY(SELECT a.attname::text FROM pg_attribute a \
         WHERE a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey[0:i.indnkeyatts - 1])) \
         FROM pg_index i \
         WHERE i.indrelid = to_regclass($1) AND i.indisunique AND i.indisvalid AND i.indpred IS NULL \
         AND i.indexprs IS NULL",
    )
    .bind(table.quoted(Dialect::Postgres))
    .persistent(false)
    .fetch_all(connection)
    .await
}

impl Refused {
    fn of(failure: Failure) -> Self {
        Self { failure, row: None, clash: false, setup: false }
    }
}

fn timed_out(within: Duration) -> Failure {
    Failure::transient("Timeout", format!("the sink's database did not answer within {within:?}"))
}

/// The same failure, for what is not the records' fault.
fn transient(failure: Failure) -> Failure {
    Failure { class: redrive_core::failure::Class::Transient, ..failure }
}

/// Whether the server ended the connection with its answer.
fn is_gone(refused: &Refused) -> bool {
    matches!(&refused.failure.code, Some(Code::SqlState(state)) if state.starts_with("57P") || state.starts_with("08"))
}

fn refused(error: &sqlx::Error) -> Refused {
    let mut failure = redrive_store::failure(Dialect::Postgres, error);
    let Some(known) = error.as_database_error().and_then(|error| error.try_downcast_ref::<PgDatabaseError>())
    else {
        return Refused::of(failure);
    };
    let setup = speaks_of_setup(known);
    if setup {
        failure = transient(failure);
    }
    failure.message = detail::said(known.message(), known.detail().unwrap_or_default());
    Refused { failure, row: copy::named_row(known.r#where()), clash: known.code() == "23505", setup }
}

/// Whether an error is about the statement, the table or the role, and so about every record alike: wrong
/// names and types and lost rights (42), no such schema (3F), what the table does not take (0A, 55), roles
/// (0L, 0P). Row-level security and `RAISE` in a trigger report single rows with the same codes.
fn speaks_of_setup(error: &PgDatabaseError) -> bool {
    let is_of_a_row = matches!(error.routine(), Some("ExecWithCheckOptions" | "exec_stmt_raise"));
    !is_of_a_row && matches!(error.code().get(..2), Some("42" | "3F" | "0A" | "55" | "0L" | "0P"))
}
