//! What is bound to a statement, and how each driver takes it.
//!
//! A batch is bound as a [`Value::Rows`]: Postgres takes one array per column (`unnest`), the others
//! one JSON document (`json_each`, `JSON_TABLE`). Either way it is one statement for many rows.

use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde_json::Value as Json;
use sqlx::mysql::MySqlArguments;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{MySql, Postgres, Sqlite};
use time::{OffsetDateTime, PrimitiveDateTime};

/// One column of a batch.
#[derive(Debug, Clone)]
pub(crate) enum Column {
    Ints(Vec<i64>),
    Texts(Vec<String>),
    OptTexts(Vec<Option<String>>),
    Bytes(Vec<Vec<u8>>),
    Times(Vec<Timestamp>),
}

/// One parameter of a statement.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Int(i64),
    Text(String),
    OptText(Option<String>),
    Bytes(Vec<u8>),
    Bool(bool),
    Time(Timestamp),
    Rows(Vec<Column>),
    /// The same, kept by its owner, who may have to send it again.
    Kept(Arc<[Column]>),
    /// Numbers and fences, which SQLite takes as `{"number":fence,…}`: it takes them apart quicker.
    Leases(Leases),
}

/// The numbers of leases and their fences, in the order of the numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Leases {
    pub(crate) ids: Vec<i64>,
    pub(crate) fences: Vec<i64>,
}

impl Column {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Ints(v) => v.len(),
            Self::Texts(v) => v.len(),
            Self::OptTexts(v) => v.len(),
            Self::Bytes(v) => v.len(),
            Self::Times(v) => v.len(),
        }
    }

    /// The cells, each as a parameter of its own.
    pub(crate) fn into_values(self) -> Vec<Value> {
        match self {
            Self::Ints(v) => v.into_iter().map(Value::Int).collect(),
            Self::Texts(v) => v.into_iter().map(Value::Text).collect(),
            Self::OptTexts(v) => v.into_iter().map(Value::OptText).collect(),
            Self::Bytes(v) => v.into_iter().map(Value::Bytes).collect(),
            Self::Times(v) => v.into_iter().map(Value::Time).collect(),
        }
    }

    fn bind_postgres<'q>(&self, query: Pg<'q>) -> Pg<'q> {
        match self {
            Self::Ints(v) => query.bind(v),
            Self::Texts(v) => query.bind(v),
            Self::OptTexts(v) => query.bind(v),
            Self::Bytes(v) => query.bind(v),
            Self::Times(v) => query.bind(v.iter().copied().map(offset_time).collect::<Vec<_>>()),
        }
    }
}

type Pg<'q> = Query<'q, Postgres, PgArguments>;
type My<'q> = Query<'q, MySql, MySqlArguments>;
type Lite<'q> = Query<'q, Sqlite, SqliteArguments>;

impl Value {
    pub(crate) fn bind_postgres(self, query: Pg<'_>) -> Pg<'_> {
        match self {
            Self::Int(v) => query.bind(v),
            Self::Text(v) => query.bind(v),
            Self::OptText(v) => query.bind(v),
            Self::Bytes(v) => query.bind(v),
            Self::Bool(v) => query.bind(v),
            Self::Time(v) => query.bind(offset_time(v)),
            Self::Rows(columns) => columns.iter().fold(query, |query, column| column.bind_postgres(query)),
            Self::Kept(columns) => columns.iter().fold(query, |query, column| column.bind_postgres(query)),
            Self::Leases(leases) => query.bind(leases.ids).bind(leases.fences),
        }
    }

    pub(crate) fn bind_mysql(self, query: My<'_>) -> My<'_> {
        match self {
            Self::Int(v) => query.bind(v),
            Self::Text(v) => query.bind(v),
            Self::OptText(v) => query.bind(v),
            Self::Bytes(v) => query.bind(v),
            Self::Bool(v) => query.bind(v),
            Self::Time(v) => query.bind(plain_time(v)),
            Self::Rows(columns) => query.bind(json(columns, MYSQL_TIME)),
            Self::Kept(columns) => query.bind(json(columns.to_vec(), MYSQL_TIME)),
            Self::Leases(Leases { ids, fences }) => {
                query.bind(json(vec![Column::Ints(ids), Column::Ints(fences)], MYSQL_TIME))
            }
        }
    }

    pub(crate) fn bind_sqlite(self, query: Lite<'_>) -> Lite<'_> {
        match self {
            Self::Int(v) => query.bind(v),
            Self::Text(v) => query.bind(v),
            Self::OptText(v) => query.bind(v),
            Self::Bytes(v) => query.bind(v),
            Self::Bool(v) => query.bind(v),
            Self::Time(v) => query.bind(sqlite_time(v)),
            Self::Rows(columns) => query.bind(json(columns, SQLITE_TIME)),
            Self::Kept(columns) => query.bind(json(columns.to_vec(), SQLITE_TIME)),
            Self::Leases(leases) => query.bind(leases.json()),
        }
    }
}

impl Leases {
    pub(crate) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    fn json(&self) -> String {
        use std::fmt::Write as _;
        let mut text = String::with_capacity(self.ids.len() * 24 + 2);
        for (id, fence) in self.ids.iter().zip(&self.fences) {
            let comma = if text.is_empty() { '{' } else { ',' };
            let _ = write!(text, "{comma}\"{id}\":{fence}");
        }
        text.push_str(if text.is_empty() { "{}" } else { "}" });
        text
    }
}

const MYSQL_TIME: &str = "%Y-%m-%d %H:%M:%S.%6f";

/// How SQLite keeps a time: as text that sorts, in milliseconds like its own `strftime`.
const SQLITE_TIME: &str = "%Y-%m-%d %H:%M:%S.%3f";

pub(crate) fn sqlite_time(at: Timestamp) -> String {
    text_time(at, SQLITE_TIME)
}

fn text_time(at: Timestamp, format: &str) -> String {
    TimeZone::UTC.to_datetime(at.max(YEAR_ONE)).strftime(format).to_string()
}

/// Reads what [`sqlite_time`] writes, and what a person may have typed in its place.
pub(crate) fn parse_sqlite_time(text: &str) -> Option<Timestamp> {
    let plain = text.strip_suffix('Z').unwrap_or(text);
    let at: DateTime = plain.parse().ok()?;
    TimeZone::UTC.to_timestamp(at).ok()
}

/// The first year that every backend can keep; an earlier time would fail its statement.
const YEAR_ONE: Timestamp = Timestamp::constant(-62_135_596_800, 0);

pub(crate) fn offset_time(at: Timestamp) -> OffsetDateTime {
    let at = at.max(YEAR_ONE);
    OffsetDateTime::from_unix_timestamp_nanos(at.as_nanosecond()).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

fn plain_time(at: Timestamp) -> PrimitiveDateTime {
    let at = offset_time(at);
    PrimitiveDateTime::new(at.date(), at.time())
}

/// Postgres counts microseconds from the year 2000; infinity, and what is beyond the year 9999, is just late.
pub(crate) fn postgres_time(micros: i64) -> Timestamp {
    const YEAR_2000: i64 = 946_684_800_000_000;
    let end = if micros < 0 { Timestamp::MIN } else { Timestamp::MAX };
    micros.checked_add(YEAR_2000).and_then(|at| Timestamp::from_microsecond(at).ok()).unwrap_or(end)
}

pub(crate) fn timestamp(at: OffsetDateTime) -> Timestamp {
    Timestamp::from_nanosecond(at.unix_timestamp_nanos()).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// The batch as an array of rows, each an array of its columns.
fn json(columns: Vec<Column>, time_format: &str) -> String {
    let mut rows: Vec<Json> = Vec::new();
    for column in columns {
        let cells = cells(column, time_format);
        rows.resize_with(rows.len().max(cells.len()), || Json::Array(Vec::new()));
        for (row, cell) in rows.iter_mut().zip(cells) {
            if let Json::Array(row) = row {
                row.push(cell);
            }
        }
    }
    Json::Array(rows).to_string()
}

fn cells(column: Column, time_format: &str) -> Vec<Json> {
    match column {
        Column::Ints(v) => v.into_iter().map(Json::from).collect(),
        Column::Texts(v) => v.into_iter().map(Json::from).collect(),
        Column::OptTexts(v) => v.into_iter().map(Json::from).collect(),
        Column::Bytes(v) => v.into_iter().map(|bytes| Json::from(hex(&bytes))).collect(),
        Column::Times(v) => v.into_iter().map(|at| Json::from(text_time(at, time_format))).collect(),
    }
}

/// Bytes travel through JSON as hex, and back with the database's own `unhex`.
fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_becomes_rows_of_columns() {
        let columns = vec![Column::Ints(vec![1, 2]), Column::OptTexts(vec![Some("a\"".into()), None])];
        assert_eq!(json(columns, SQLITE_TIME), r#"[[1,"a\""],[2,null]]"#);
    }

    #[test]
    fn a_sqlite_time_survives_and_so_does_one_typed_by_hand() {
        let at: Timestamp = "2026-11-15T19:45:15.123Z".parse().unwrap();
        assert_eq!(sqlite_time(at), "2026-11-15 19:45:15.123");
        assert_eq!(parse_sqlite_time(&sqlite_time(at)), Some(at));
        assert!(parse_sqlite_time("2026-11-15 19:45:15").is_some());
        assert!(parse_sqlite_time("2026-11-15T19:45:15Z").is_some());
        assert_eq!(parse_sqlite_time("yesterday"), None);
    }
}
