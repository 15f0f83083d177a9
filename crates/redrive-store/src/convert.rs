//! Values and the types of columns: what a column takes, as which text, and when two texts are the same value in it.
//!
//! A value from JSON reaches the database as text, whatever the column is, and `ColumnInfo::store_text` makes it a
//! value of the column's type. What the type cannot hold is refused here, with what would be right: the databases
//! name no column, round, cut, or store something else (MySQL stores the first label of an ENUM for "1").

use std::borrow::Cow;

use jiff::{SignedDuration, Timestamp};
use redrive_core::column::{Cell, parse_millis, parse_time};
use serde::de::IgnoredAny;

use crate::catalog::{ColumnInfo, ColumnType};
use crate::decimal::Decimal;
use crate::dialect::Dialect;

/// SQLite keeps a number that is not a whole one as a double, which has at least this number of digits.
const SQLITE_DIGITS: usize = 15;

impl ColumnInfo {
    /// A value from JSON as the text that this column reads; nothing for NULL.
    ///
    /// # Errors
    /// Why the column cannot hold it, and what would be right: "must be …".
    pub fn convert<'a>(&self, cell: &'a Cell<'_>) -> Result<Option<Cow<'a, str>>, String> {
        let text = match (self.kind, cell) {
            (_, Cell::Null) => return Ok(None),
            (ColumnType::Json, Cell::Text(text)) => Cow::Owned(json_text(text)),
            (ColumnType::Json, Cell::Time(time)) => Cow::Owned(json_text(&time.to_string())),
            // As JSON they are JSON already.
            (ColumnType::Json, Cell::Json(text)) => Cow::Borrowed(*text),
            (ColumnType::Json, Cell::Number(text)) => Cow::Borrowed(text.as_ref()),
            (ColumnType::Time | ColumnType::Date, Cell::Number(text)) => {
                Cow::Owned(self.time_text(parse_millis(text).ok_or_else(|| self.wants("a time"))?))
            }
            (ColumnType::Time | ColumnType::Date, Cell::Time(time)) => Cow::Owned(self.time_text(*time)),
            // BOOLEAN of MySQL is a TINYINT.
            (ColumnType::Integer | ColumnType::Unsigned, Cell::Bool(flag))
                if self.dialect != Dialect::Postgres =>
            {
                Cow::Borrowed(if *flag { "1" } else { "0" })
            }
            (_, Cell::Bool(flag)) => self.convert_text(if *flag { "true" } else { "false" })?,
            (_, Cell::Number(text) | Cell::Text(text)) => self.convert_text(text)?,
            (_, Cell::Json(text)) => self.convert_text(text)?,
            (_, Cell::Time(time)) => Cow::Owned(self.convert_text(&time.to_string())?.into_owned()),
        };
        Ok(Some(text))
    }

    /// A text as the text that this column reads: a time in any spelling, JSON as it is.
    pub(crate) fn convert_text<'a>(&self, text: &'a str) -> Result<Cow<'a, str>, String> {
        match self.kind {
            ColumnType::Time if self.dialect == Dialect::Postgres && is_endless(text) => {
                Ok(Cow::Borrowed(text))
            }
            ColumnType::Time => parse_time(text)
                .map(|time| Cow::Owned(self.time_text(time)))
                .ok_or_else(|| self.wants("a time")),
            ColumnType::Date => parse_time(text)
                .map(|time| Cow::Owned(self.time_text(time)))
                .ok_or_else(|| self.wants("a date")),
            ColumnType::Bool => {
                let flag = flag(text).ok_or_else(|| self.wants("true or false"))?;
                Ok(Cow::Borrowed(match (self.dialect, flag) {
                    (Dialect::Postgres, true) => "true",
                    (Dialect::Postgres, false) => "false",
                    (_, true) => "1",
                    (_, false) => "0",
                }))
            }
            _ => self.accepts(text).map(|()| Cow::Borrowed(text)),
        }
    }

    /// Whether it can hold this text as it is; if not, what would be right.
    pub(crate) fn accepts(&self, text: &str) -> Result<(), String> {
        match self.kind {
            ColumnType::Integer | ColumnType::Unsigned => self.accepts_integer(text),
            ColumnType::Number => self.accepts_number(text),
            ColumnType::Uuid | ColumnType::UuidBytes if !is_uuid(text) => Err(self.wants("a UUID")),
            ColumnType::Json if serde_json::from_str::<IgnoredAny>(text).is_err() => Err(self.wants("JSON")),
            ColumnType::Enum if !self.labels.is_empty() && !self.labels.iter().any(|label| label == text) => {
                Err(self.wants(&format!("one of {}", self.labels.join(", "))))
            }
            _ => self.accepts_length(text),
        }
    }

    fn wants(&self, what: &str) -> String {
        format!("must be {what}: the column {} is of the type {}", self.name, self.declared)
    }

    fn accepts_integer(&self, text: &str) -> Result<(), String> {
        let bits = match self.base.as_str() {
            // SQLite keeps 64 bits, whatever it is called.
            _ if self.dialect == Dialect::Sqlite => 64,
            "tinyint" => 8,
            "int2" | "smallint" => 16,
            "mediumint" => 24,
            "int4" | "int" => 32,
            _ => 64,
        };
        let (min, max) = match self.kind {
            ColumnType::Unsigned => (0, (1_i128 << bits) - 1),
            _ => (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1),
        };
        match text.parse::<i128>() {
            Ok(number) if (min..=max).contains(&number) => Ok(()),
            _ => Err(self.wants(&format!("a whole number from {min} to {max}"))),
        }
    }

    fn accepts_number(&self, text: &str) -> Result<(), String> {
        let number = Decimal::parse(text).ok_or_else(|| self.wants("a number"))?;
        if self.is_float() {
            let is_finite = text.parse::<f64>().is_ok_and(f64::is_finite);
            return is_finite.then_some(()).ok_or_else(|| self.wants("a number that a double holds"));
        }
        if self.dialect == Dialect::Sqlite {
            let is_kept = number.significant_digits() <= SQLITE_DIGITS || text.parse::<i64>().is_ok();
            let wanted =
                format!("a number of at most {SQLITE_DIGITS} digits (SQLite has no others; use TEXT)");
            return is_kept.then_some(()).ok_or_else(|| self.wants(&wanted));
        }
        let (Some(precision), scale) = self.modifiers() else { return Ok(()) };
        let (scale, digits) = (scale.unwrap_or(0), precision - scale.unwrap_or(0));
        if number.rounded(scale).whole_digits() > digits {
            return Err(self.wants(&format!("a number of at most {digits} digits before the point")));
        }
        Ok(())
    }

    fn accepts_length(&self, text: &str) -> Result<(), String> {
        let name = &self.name;
        match (self.max_bytes, self.max_chars) {
            (Some(max), _) if text.len() > max => {
                Err(format!("has {} bytes: the column {name} holds {max}", text.len()))
            }
            (None, Some(max)) if text.len() > max && text.chars().count() > max => {
                Err(format!("has {} characters: the column {name} holds {max}", text.chars().count()))
            }
            _ => Ok(()),
        }
    }

    /// A time as every one of these databases reads it, in UTC.
    fn time_text(&self, time: Timestamp) -> String {
        match (self.kind, self.dialect) {
            (ColumnType::Date, _) => time.strftime("%Y-%m-%d").to_string(),
            (_, Dialect::Postgres) => time.to_string(),
            // MariaDB reads no zone.
            (_, Dialect::MySql) => time.strftime("%Y-%m-%d %H:%M:%S%.6f").to_string(),
            // As CURRENT_TIMESTAMP writes it: times of SQLite are compared as text.
            (_, Dialect::Sqlite) => time.strftime("%Y-%m-%d %H:%M:%S%.f").to_string(),
        }
    }

    fn is_float(&self) -> bool {
        match self.dialect {
            Dialect::Sqlite => ["real", "floa", "doub"].iter().any(|word| self.base.contains(word)),
            Dialect::Postgres | Dialect::MySql => {
                matches!(self.base.as_str(), "float" | "double" | "float4" | "float8")
            }
        }
    }

    /// The numbers after the type: precision and scale, or digits of a second.
    fn modifiers(&self) -> (Option<i64>, Option<i64>) {
        let inside = self.declared.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
        let mut numbers =
            inside.map_or("", |(inside, _)| inside).split(',').map(|number| number.trim().parse().ok());
        (numbers.next().flatten(), numbers.next().flatten())
    }

    /// A text in one form for each value: `007` is 7 in a column of numbers.
    pub(crate) fn canonical(&self, text: &str) -> String {
        match self.kind {
            ColumnType::Integer | ColumnType::Unsigned => {
                text.parse::<i128>().map_or_else(|_| text.to_owned(), |number| number.to_string())
            }
            ColumnType::Number if self.is_float() => match (text.parse::<f64>(), self.base.as_str()) {
                #[expect(clippy::cast_possible_truncation, reason = "as the column keeps it")]
                (Ok(number), "float" | "float4") => (number as f32).to_string(),
                (Ok(number), _) => number.to_string(),
                (Err(_), _) => text.to_owned(),
            },
            ColumnType::Number => Decimal::parse(text).map_or_else(
                || text.to_owned(),
                |number| match self.modifiers() {
                    (Some(_), scale) if self.dialect != Dialect::Sqlite => {
                        format!("{:?}", number.rounded(scale.unwrap_or(0)))
                    }
                    _ => format!("{number:?}"),
                },
            ),
            ColumnType::Uuid | ColumnType::UuidBytes => text.replace('-', "").to_lowercase(),
            ColumnType::Bool => flag(text).map_or_else(|| text.to_owned(), |flag| flag.to_string()),
            // Fixed lengths are filled up.
            ColumnType::Text if self.declared.starts_with("char") => text.trim_end_matches(' ').to_owned(),
            ColumnType::Bytes if self.base == "binary" => text.trim_end_matches('\0').to_owned(),
            _ => text.to_owned(),
        }
    }

    /// Whether two texts are the same value of this column.
    pub(crate) fn is_same(&self, one: &str, other: &str) -> bool {
        match self.kind {
            ColumnType::Json => {
                let value = |text| serde_json::from_str::<serde_json::Value>(text);
                matches!((value(one), value(other)), (Ok(one), Ok(other)) if one == other)
            }
            ColumnType::Time | ColumnType::Date => match (parse_time(one), parse_time(other)) {
                (Some(one), Some(other)) => one.duration_since(other).abs() < self.resolution(),
                _ => one == other,
            },
            _ => self.canonical(one) == self.canonical(other),
        }
    }

    /// The least difference between two times that it keeps; some servers round to it, others cut.
    fn resolution(&self) -> SignedDuration {
        let digits = match (self.dialect, self.modifiers().0) {
            (_, Some(digits)) => u32::try_from(digits.clamp(0, 9)).unwrap_or(0),
            (Dialect::Postgres, None) => 6,
            (Dialect::MySql, None) => 0,
            (Dialect::Sqlite, None) => 9,
        };
        SignedDuration::from_nanos(10_i64.pow(9 - digits))
    }
}

/// A text as JSON.
fn json_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Times without end, which only Postgres has.
fn is_endless(text: &str) -> bool {
    matches!(text, "infinity" | "-infinity")
}

/// Words for `true` and `false`.
fn flag(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "on" | "1" => Some(true),
        "false" | "f" | "no" | "n" | "off" | "0" => Some(false),
        _ => None,
    }
}

fn is_uuid(text: &str) -> bool {
    let digits: Vec<char> = text.chars().filter(|c| *c != '-').collect();
    digits.len() == 32 && digits.iter().all(char::is_ascii_hexdigit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::tests::column;

    #[test]
    fn a_value_that_the_column_cannot_hold_is_refused_with_what_would_be_right() {
        let number = column(Dialect::MySql, "bigint", "bigint(20) unsigned");
        assert!(number.accepts("18446744073709551615").is_ok());
        assert!(number.accepts("-1").unwrap_err().contains("from 0 to 18446744073709551615"));
        let short = ColumnInfo { max_chars: Some(3), ..column(Dialect::Postgres, "varchar", "varchar(3)") };
        assert!(short.accepts("éàü").is_ok());
        assert!(short.accepts("four").unwrap_err().contains("holds 3"));
        let bytes = ColumnInfo {
            max_chars: Some(63),
            max_bytes: Some(255),
            ..column(Dialect::MySql, "tinytext", "tinytext")
        };
        assert!(bytes.accepts(&"x".repeat(255)).is_ok());
        assert!(bytes.accepts(&"é".repeat(128)).unwrap_err().contains("has 256 bytes"));
        let price = column(Dialect::Postgres, "numeric", "numeric(4,2)");
        assert!(price.accepts("99.994").is_ok());
        assert!(price.accepts("99.995").unwrap_err().contains("2 digits before the point"));
    }

    /// Two numbers beyond 2^53 were one, and an event was lost; 1.005 was a conflict with what it was rounded to.
    #[test]
    fn values_are_compared_as_the_column_keeps_them() {
        let same = |dialect, base: &str, declared: &str, one: &str, other: &str| {
            column(dialect, base, declared).is_same(one, other)
        };
        let (postgres, mysql) = (Dialect::Postgres, Dialect::MySql);
        assert!(!same(postgres, "numeric", "numeric", "9007199254740993", "9007199254740992"));
        assert!(same(postgres, "numeric", "numeric(12,2)", "1.01", "1.005"));
        assert!(!same(postgres, "numeric", "numeric(12,2)", "1.01", "1.02"));
        assert!(same(mysql, "float", "float", "1.2345677614212036", "1.2345678"));
        assert!(same(mysql, "datetime", "datetime", "2026-01-02 03:04:05", "2026-01-02T05:04:05.9+02:00"));
        assert!(!same(mysql, "datetime", "datetime", "2026-01-02 03:04:05", "2026-01-02 03:04:06"));
        let zoned = "timestamp with time zone";
        assert!(same(postgres, "timestamptz", zoned, "2026-01-02 03:04:05.5+00", "2026-01-02T03:04:05.5Z"));
        assert!(same(postgres, "bpchar", "character(4)", "ab  ", "ab"));
        assert!(same(postgres, "bool", "boolean", "t", "true"));
        assert!(same(postgres, "jsonb", "jsonb", r#"{"b": 1, "a": 2}"#, r#"{"a":2,"b":1}"#));
    }

    #[test]
    fn json_becomes_what_the_column_reads() {
        let text = |column: &ColumnInfo, cell: Cell<'_>| {
            column.convert(&cell).map(|text| text.map(Cow::into_owned)).map_err(|_| ())
        };
        let json = column(Dialect::Postgres, "jsonb", "jsonb");
        assert_eq!(text(&json, Cell::Text("a\"b".into())), Ok(Some(r#""a\"b""#.into())));
        assert_eq!(text(&json, Cell::Null), Ok(None));
        let time = column(Dialect::MySql, "datetime", "datetime(6)");
        assert_eq!(text(&time, Cell::Number("0".into())), Ok(Some("1970-01-01 00:00:00.000000".into())));
        let flag = column(Dialect::MySql, "tinyint", "tinyint(1)");
        assert_eq!(text(&flag, Cell::Bool(true)), Ok(Some("1".into())));
        let label = column(Dialect::MySql, "enum", "enum('a','b')");
        assert_eq!(text(&label, Cell::Number("1".into())), Err(()));
    }
}
