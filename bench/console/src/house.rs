//! An outbox with letters, and a console over it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use redrive_core::backoff::Backoff;
use redrive_core::dead_letter::PipelineKind;
use redrive_core::policy::Policy;
use redrive_engine::Pipeline;
use redrive_engine::console::{Console, Desk, Records};
use redrive_store::{Database, Outbox, OutboxOptions};
use sqlx::{Connection as _, PgConnection, SqliteConnection};

/// An outbox with letters, and a console over it. Nobody works on the outbox.
pub(crate) struct House {
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) console: Arc<Console>,
}

impl House {
    pub(crate) async fn open(url: &str) -> anyhow::Result<Self> {
        let database = Database::connect(url).await?;
        let outbox = Arc::new(Outbox::new(database.clone(), OutboxOptions::new("orders"))?);
        outbox.migrate().await?;
        let records = Records::of(&database);
        records.migrate().await?;
        let pipeline =
            Pipeline::new("orders", PipelineKind::Outbox, outbox.clone(), outbox.clone(), policy()?);
        Ok(Self { outbox, console: Arc::new(Console::new(records, [Desk::of(&pipeline)])) })
    }
}

/// The founding policy.
pub(crate) fn policy() -> anyhow::Result<Policy> {
    Ok(Policy::new(5, Backoff::new(Duration::from_secs(5), 2.0, Duration::from_secs(300))?))
}

/// Twenty causes, four types, ten codes, a thousand keys; each letter a second after the one before.
const LETTER: &str = "(original_event_id, event_type, aggregate_type, aggregate_id, payload, error_message, failed_at, \
     retry_count, origin_id, error_class, error_code, error_kind, fingerprint, history)";

/// Fills the table of letters of a Postgres outbox.
pub(crate) async fn fill_postgres(connection: &mut PgConnection, letters: u32) -> anyhow::Result<()> {
    let fill = format!(
        "INSERT INTO outbox_event_dlq {LETTER} SELECT n, 'Type' || n % 4, 'Order', (n % 1000)::text, \
         '{{\"order\":' || n || ',\"total\":\"99.99\",\"lines\":[1,2,3]}}', 'card ' || n || ' was declined', \
         now() - ({letters} - n) * interval '1 second', 5, n, 'permanent', 'http:' || 400 + n % 10, 'HttpStatus', \
         lpad(to_hex(n % 20), 16, '0'), '[]' FROM generate_series(1, {letters}) AS n"
    );
    for statement in
        ["TRUNCATE outbox_event, outbox_event_dlq", &fill, "VACUUM ANALYZE outbox_event_dlq", "CHECKPOINT"]
    {
        sqlx::raw_sql(sqlx::AssertSqlSafe(statement.to_owned())).execute(&mut *connection).await?;
    }
    Ok(())
}

/// The same for SQLite.
pub(crate) async fn fill_sqlite(url: &str, letters: u32) -> anyhow::Result<()> {
    let mut connection = SqliteConnection::connect(url).await.context("SQLite")?;
    let fill = format!(
        "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {letters}) \
         INSERT INTO outbox_event_dlq {LETTER} SELECT n, 'Type' || (n % 4), 'Order', n % 1000, \
         '{{\"order\":' || n || ',\"total\":\"99.99\",\"lines\":[1,2,3]}}', 'card ' || n || ' was declined', \
         strftime('%Y-%m-%d %H:%M:%f', 'now', (n - {letters}) || ' seconds'), 5, n, 'permanent', \
         'http:' || (400 + n % 10), 'HttpStatus', printf('%016x', n % 20), '[]' FROM s"
    );
    for statement in ["DELETE FROM outbox_event_dlq", &fill, "ANALYZE"] {
        sqlx::raw_sql(sqlx::AssertSqlSafe(statement.to_owned())).execute(&mut connection).await?;
    }
    Ok(connection.close().await?)
}
