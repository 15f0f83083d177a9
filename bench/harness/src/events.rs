//! The events that are drained: the same in every table, made by the server itself.

/// How many live events lie beside the dead ones.
pub const LIVE: u32 = 10_000;

/// A JSON document of about 150 bytes; both databases understand it.
pub const PAYLOAD: &str = r#"'{"order_id":' || n || ',"customer":"customer-' || n % 1000
    || '","currency":"EUR","total":"129.90","lines":[{"sku":"A-1000","quantity":2},{"sku":"B-2000","quantity":1}]}'"#;

/// Fills a table of events on Postgres.
#[must_use]
pub fn fill_postgres(table: &str, rows: u32) -> String {
    format!("{} FROM generate_series(1, {rows}) AS n", insert(table, ""))
}

/// Fills a table of jobs on Postgres.
#[must_use]
pub fn fill_jobs(table: &str, rows: u32) -> String {
    format!(
        "INSERT INTO {table} (article_id, payload, max_retries) SELECT n::text, {PAYLOAD}, 5 FROM generate_series(1, {rows}) AS n"
    )
}

/// Fills a table of events on SQLite.
#[must_use]
pub fn fill_sqlite(table: &str, rows: u32) -> String {
    let numbers = format!("WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {rows})");
    format!("{} FROM s", insert(table, &numbers))
}

fn insert(table: &str, with: &str) -> String {
    format!(
        "INSERT INTO {table} (event_type, aggregate_type, aggregate_id, payload) \
         {with} SELECT 'OrderCreated', 'Order', CAST(n AS VARCHAR(20)), {PAYLOAD}"
    )
}
