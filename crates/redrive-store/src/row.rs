//! A row that came back, whichever driver it came from.

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use sqlx::mysql::MySqlRow;
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{Column as _, Row as _, TypeInfo as _, ValueRef as _};
use time::PrimitiveDateTime;

use crate::dialect::Dialect;
use crate::error::Error;
use crate::value::{Value, parse_sqlite_time, postgres_time, timestamp};

/// A row that came back. Columns are read by position, as the statement lists them.
pub(crate) enum Row {
    Sqlite(SqliteRow),
    Postgres(PgRow),
    MySql(MySqlRow),
}

/// Reads a column with the driver at hand. Unchecked: the drivers' integer and text decoders take
/// every width, and the statement decides what a column is.
macro_rules! get {
    ($row:expr, $at:expr, $type:ty) => {
        match $row {
            Row::Sqlite(row) => row.try_get_unchecked::<$type, _>($at).map_err(rejected(Dialect::Sqlite)),
            Row::Postgres(row) => row.try_get_unchecked::<$type, _>($at).map_err(rejected(Dialect::Postgres)),
            Row::MySql(row) => row.try_get_unchecked::<$type, _>($at).map_err(rejected(Dialect::MySql)),
        }
    };
}

fn rejected(dialect: Dialect) -> impl Fn(sqlx::Error) -> Error {
    move |source| Error::Rejected { dialect, source: source.into() }
}

/// How a table keeps a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Times {
    /// In the dialect's own type.
    Native,
    /// In milliseconds since 1970.
    Millis,
}

impl Times {
    /// A time, as this table can be asked about it.
    pub(crate) fn value(self, at: Timestamp) -> Value {
        match self {
            Self::Native => Value::Time(at),
            Self::Millis => Value::Int(at.as_millisecond()),
        }
    }

    /// The hours from 1970 to a time, as a whole number.
    pub(crate) fn hour(self, dialect: Dialect, column: &str) -> String {
        match (self, dialect) {
            (Self::Millis, Dialect::MySql) => format!("{column} DIV 3600000"),
            (Self::Millis, _) => format!("{column} / 3600000"),
            (Self::Native, Dialect::Postgres) => {
                format!("CAST(floor(extract(epoch FROM {column}) / 3600) AS BIGINT)")
            }
            (Self::Native, Dialect::MySql) => format!("TIMESTAMPDIFF(HOUR, '1970-01-01', {column})"),
            (Self::Native, Dialect::Sqlite) => format!("CAST(strftime('%s', {column}) AS INTEGER) / 3600"),
        }
    }
}

/// MySQL has unsigned numbers, and answers with a decimal where signed and unsigned ones meet. A number that is beyond
/// `i64` is an error, never another number.
fn mysql_int(row: &MySqlRow, at: usize) -> Result<Option<i64>, sqlx::Error> {
    let name = row.columns().get(at).map_or("", |column| column.type_info().name());
    let too_large = |index: usize| sqlx::Error::ColumnDecode {
        index: index.to_string(),
        source: "a number that is too large for an id".into(),
    };
    if name == "DECIMAL" {
        let text = row.try_get_unchecked::<Option<String>, _>(at)?;
        let whole = |text: String| text.split('.').next().unwrap_or("").parse().map_err(|_| too_large(at));
        return text.map(whole).transpose();
    }
    if name.ends_with("UNSIGNED") {
        let number = row.try_get_unchecked::<Option<u64>, _>(at)?;
        return number.map(|number| i64::try_from(number).map_err(|_| too_large(at))).transpose();
    }
    row.try_get_unchecked::<Option<i64>, _>(at)
}

/// What another program wrote is read as well as it can be: one odd row must not keep all the others
/// from being claimed or shown.
impl Row {
    pub(crate) fn int(&self, at: usize) -> Result<i64, Error> {
        Ok(self.opt_int(at)?.unwrap_or(0))
    }

    pub(crate) fn opt_int(&self, at: usize) -> Result<Option<i64>, Error> {
        if let Self::MySql(row) = self {
            return mysql_int(row, at).map_err(rejected(Dialect::MySql));
        }
        get!(self, at, Option<i64>)
    }

    /// A number that cannot be negative; one that a person made negative counts as zero.
    pub(crate) fn count(&self, at: usize) -> Result<u32, Error> {
        Ok(u32::try_from(self.int(at)?.max(0)).unwrap_or(u32::MAX))
    }

    /// How many rows were counted.
    pub(crate) fn total(&self, at: usize) -> Result<u64, Error> {
        Ok(u64::try_from(self.int(at)?).unwrap_or(0))
    }

    /// A text; SQLite may hold one that is not UTF-8.
    pub(crate) fn text(&self, at: usize) -> Result<String, Error> {
        Ok(self.opt_text(at)?.unwrap_or_default())
    }

    pub(crate) fn opt_text(&self, at: usize) -> Result<Option<String>, Error> {
        let text = |bytes: Vec<u8>| match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        };
        Ok(get!(self, at, Option<Vec<u8>>)?.map(text))
    }

    pub(crate) fn bytes(&self, at: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = get!(self, at, Option<Vec<u8>>)?.unwrap_or_default();
        if let Self::Postgres(row) = self
            && row.columns().get(at).is_some_and(|column| column.type_info().name() == "JSONB")
            && !bytes.is_empty()
        {
            // On the wire it begins with the version of its format.
            bytes.remove(0);
        }
        Ok(bytes)
    }

    /// What we wrote as JSON ourselves; if it is none any more, that is an error and not nothing.
    pub(crate) fn json<T: DeserializeOwned>(&self, at: usize) -> Result<T, Error> {
        let damaged = |error: serde_json::Error| sqlx::Error::ColumnDecode {
            index: at.to_string(),
            source: Box::new(error),
        };
        let text = self.text(at)?;
        serde_json::from_str(&text).map_err(damaged).map_err(rejected(self.dialect()))
    }

    const fn dialect(&self) -> Dialect {
        match self {
            Self::Sqlite(_) => Dialect::Sqlite,
            Self::Postgres(_) => Dialect::Postgres,
            Self::MySql(_) => Dialect::MySql,
        }
    }

    pub(crate) fn flag(&self, at: usize) -> Result<bool, Error> {
        Ok(get!(self, at, Option<bool>)?.unwrap_or(false))
    }

    pub(crate) fn time(&self, at: usize) -> Result<Timestamp, Error> {
        Ok(self.opt_time(at)?.unwrap_or(Timestamp::UNIX_EPOCH))
    }

    pub(crate) fn time_of(&self, times: Times, at: usize) -> Result<Timestamp, Error> {
        match times {
            Times::Native => self.time(at),
            Times::Millis => Ok(Timestamp::from_millisecond(self.int(at)?).unwrap_or(Timestamp::UNIX_EPOCH)),
        }
    }

    pub(crate) fn opt_time(&self, at: usize) -> Result<Option<Timestamp>, Error> {
        match self {
            Self::Sqlite(row) => {
                let text =
                    row.try_get_unchecked::<Option<Vec<u8>>, _>(at).map_err(rejected(Dialect::Sqlite))?;
                Ok(text
                    .as_deref()
                    .and_then(|text| std::str::from_utf8(text).ok())
                    .and_then(parse_sqlite_time))
            }
            // As it is on the wire: the driver's own types have no room for infinity, and panic.
            Self::Postgres(row) => {
                let at = row.try_get_unchecked::<Option<i64>, _>(at);
                Ok(at.map_err(rejected(Dialect::Postgres))?.map(postgres_time))
            }
            Self::MySql(row) => {
                let at = row.try_get_unchecked::<Option<PrimitiveDateTime>, _>(at);
                Ok(at.map_err(rejected(Dialect::MySql))?.map(|at| timestamp(at.assume_utc())))
            }
        }
    }

    /// Whether the column holds nothing at all.
    pub(crate) fn is_null(&self, at: usize) -> Result<bool, Error> {
        match self {
            Self::Sqlite(row) => row.try_get_raw(at).map(|v| v.is_null()).map_err(rejected(Dialect::Sqlite)),
            Self::Postgres(row) => {
                row.try_get_raw(at).map(|v| v.is_null()).map_err(rejected(Dialect::Postgres))
            }
            Self::MySql(row) => row.try_get_raw(at).map(|v| v.is_null()).map_err(rejected(Dialect::MySql)),
        }
    }
}
