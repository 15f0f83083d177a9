//! A filter as a WHERE clause. Values are parameters; only our own column names become text.

use jiff::Timestamp;
use redrive_core::dead_letter::{Cursor, Filter};
use redrive_core::failure::Code;

use crate::columns::Columns;
use crate::dialect::Dialect;
use crate::value::Value;

/// Conditions that all must hold, with their parameters.
#[derive(Debug)]
pub(crate) struct Where {
    dialect: Dialect,
    text: String,
    pub(crate) values: Vec<Value>,
}

impl Where {
    pub(crate) fn new(dialect: Dialect, condition: &str) -> Self {
        Self { dialect, text: format!("({condition})"), values: Vec::new() }
    }

    /// The letters that a filter means.
    pub(crate) fn filter(mut self, columns: &Columns, filter: &Filter) -> Self {
        if let Some(status) = filter.status {
            self.and(columns.in_status(status));
        }
        if let Some(event_type) = &filter.event_type {
            self.and_value(&columns.event_type, "=", stored(event_type));
        }
        if let Some(key) = &filter.key {
            self.and_value(&columns.key, "=", stored(key));
        }
        if let Some(group) = filter.group {
            self.and_value(columns.fingerprint, "=", Value::Text(group.to_string()));
        }
        if let Some(class) = &filter.class {
            self.and_value(columns.class, "=", Value::Text(class.clone()));
        }
        if let Some(code) = &filter.code {
            self.code(columns.code, code);
        }
        if let Some(text) = &filter.text {
            self.contains(columns.message, text);
        }
        if let Some(since) = filter.since {
            self.and_value(columns.failed_at, ">=", columns.times.value(since));
        }
        if let Some(until) = filter.until {
            self.and_value(columns.failed_at, "<", columns.times.value(until));
        }
        if let Some(since) = filter.arrived_since {
            self.arrived_since(columns, since);
        }
        if let Some(below) = filter.redriven_below {
            self.and_value(columns.redrive_count, "<", Value::Int(below.into()));
            self.and(columns.redrivable);
        }
        self
    }

    /// The letters after this place in a list that is newest first.
    pub(crate) fn after(mut self, columns: &Columns, cursor: Cursor) -> Self {
        let at = Timestamp::from_microsecond(cursor.failed_at).unwrap_or(Timestamp::MIN);
        let at = columns.times.value(at);
        self.and_value(columns.failed_at, "<=", at.clone());
        let earlier = self.parameter(at);
        let lower = self.parameter(Value::Int(cursor.id));
        self.and(&format!("{} < {earlier} OR {} < {lower}", columns.failed_at, columns.id));
        self
    }

    /// The letters after this place in a list that is oldest first.
    pub(crate) fn since(mut self, columns: &Columns, cursor: Cursor) -> Self {
        let at = Timestamp::from_microsecond(cursor.failed_at).unwrap_or(Timestamp::MIN);
        let at = columns.times.value(at);
        self.and_value(columns.failed_at, ">=", at.clone());
        let later = self.parameter(at);
        let higher = self.parameter(Value::Int(cursor.id));
        self.and(&format!("{} > {later} OR {} > {higher}", columns.failed_at, columns.id));
        self
    }

    /// The clause, with the rest of the statement to come after it.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Adds a parameter and returns how the text refers to it.
    pub(crate) fn parameter(&mut self, value: Value) -> String {
        self.values.push(value);
        format!("${}", self.values.len())
    }

    fn and(&mut self, condition: &str) {
        self.text.push_str(&format!(" AND ({condition})"));
    }

    fn and_value(&mut self, column: &str, operator: &str, value: Value) {
        let parameter = self.parameter(value);
        self.and(&format!("{column} {operator} {parameter}"));
    }

    fn arrived_since(&mut self, columns: &Columns, since: Timestamp) {
        let since = columns.times.value(since);
        match columns.arrived_since {
            None => self.and_value(columns.failed_at, ">=", since),
            Some(condition) => {
                let parameter = self.parameter(since);
                self.and(&condition.replace("{since}", &parameter));
            }
        }
    }

    /// `sqlstate:23505` is itself; `23505` is that code in any scheme, so that an index still helps.
    fn code(&mut self, column: &str, code: &str) {
        let codes: Vec<String> = match code.contains(':') {
            true => vec![code.to_owned()],
            false => Code::SCHEMES.iter().map(|scheme| format!("{scheme}:{code}")).collect(),
        };
        let list: Vec<String> = codes.into_iter().map(|code| self.parameter(stored(&code))).collect();
        self.and(&format!("{column} IN ({})", list.join(", ")));
    }

    fn contains(&mut self, column: &str, text: &str) {
        let escaped = text.replace('!', "!!").replace('%', "!%").replace('_', "!_");
        let pattern = self.parameter(stored(&format!("%{escaped}%")));
        // MySQL's own columns are binary, so that keys are exact; this is the one that is not.
        self.and(&match self.dialect {
            Dialect::Postgres => format!("{column} ILIKE {pattern} ESCAPE '!'"),
            Dialect::MySql => format!("LOWER({column}) LIKE LOWER({pattern}) ESCAPE '!'"),
            Dialect::Sqlite => format!("{column} LIKE {pattern} ESCAPE '!'"),
        });
    }
}

/// What is asked for, in the spelling of what is kept: no stored text has a NUL.
fn stored(text: &str) -> Value {
    Value::Text(text.replace('\0', "\u{FFFD}"))
}
