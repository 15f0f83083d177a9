//! A filter as a WHERE clause. Values are parameters; only our own column names become text.

use jiff::Timestamp;
use redrive_core::dead_letter::{Cursor, Filter};

use crate::columns::Columns;
use crate::dialect::Dialect;
use crate::search::schemes;
use crate::value::Value;

/// Conditions that all must hold, with their parameters.
#[derive(Debug)]
pub(crate) struct Where {
    dialect: Dialect,
    text: String,
    pub(crate) values: Vec<Value>,
    leading: Option<Leading>,
}

/// The column that an index begins with which has the letters of a part of a filter in the order of a list.
///
/// For Postgres, which knows that such a column is the same in all of them, and so takes the index of all letters to be
/// as good: it walks that, newest first, and throws away what is not meant, which may be a million letters. As a range
/// that happens to have one value, and as the first column of the order, the column leaves it no choice.
#[derive(Debug, Clone)]
pub(crate) struct Leading {
    pub(crate) column: String,
    pub(crate) value: LeadingValue,
}

/// What a leading column is in the letters that are meant.
#[derive(Debug, Clone)]
pub(crate) enum LeadingValue {
    /// As it is asked for.
    Given(Value),
    /// As the condition of a status says, in SQL; `None` where that cannot be compared with.
    Status { condition: &'static str, value: Option<&'static str> },
}

impl Where {
    pub(crate) fn new(dialect: Dialect, condition: &str) -> Self {
        Self { dialect, text: format!("({condition})"), values: Vec::new(), leading: None }
    }

    /// The same conditions; this column leads the order.
    pub(crate) fn led_by(mut self, leading: Option<Leading>) -> Self {
        self.leading = leading;
        self
    }

    /// What the letters are sorted by, newest first.
    pub(crate) fn newest_first(&self, columns: &Columns) -> String {
        let leading = self.leading.as_ref().map(|leading| format!("{} DESC, ", leading.column));
        format!("ORDER BY {}{} DESC, {} DESC", leading.unwrap_or_default(), columns.failed_at, columns.id)
    }

    /// The letters that a filter means.
    pub(crate) fn filter(mut self, columns: &Columns, filter: &Filter) -> Self {
        if let Some(status) = filter.status {
            match self.leading.as_ref().map(|leading| &leading.value) {
                Some(LeadingValue::Status { condition, .. }) => self.and(condition),
                _ => self.and(columns.in_status(status)),
            }
        }
        if let Some(event_type) = &filter.event_type {
            self.and_is(&columns.event_type, stored(event_type));
        }
        if let Some(key) = &filter.key {
            self.and_is(&columns.key, stored(key));
        }
        if let Some(group) = filter.group {
            self.and_is(columns.fingerprint, Value::Text(group.to_string()));
        }
        if let Some(class) = &filter.class {
            self.and_is(columns.class, Value::Text(class.clone()));
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
    pub(crate) fn after(self, columns: &Columns, cursor: Cursor) -> Self {
        self.from(columns, cursor, ("<", "<", "<="))
    }

    /// The letters up to this place in a list that is newest first.
    pub(crate) fn up_to(self, columns: &Columns, cursor: Cursor) -> Self {
        self.from(columns, cursor, (">=", ">", ">="))
    }

    /// The letters on one side of a place: of the same moment those with such numbers, and those of other moments.
    fn from(
        mut self,
        columns: &Columns,
        cursor: Cursor,
        (number, moment, either): (&str, &str, &str),
    ) -> Self {
        let at = Timestamp::from_microsecond(cursor.failed_at).unwrap_or(Timestamp::MIN);
        let at = columns.times.value(at);
        if let Some((column, value)) = self.leading_value() {
            let at = self.parameter(at);
            let id = self.parameter(Value::Int(cursor.id));
            let (failed_at, own) = (columns.failed_at, columns.id);
            self.and(&format!("({column}, {failed_at}, {own}) {number} ({value}, {at}, {id})"));
            return self;
        }
        self.and_value(columns.failed_at, either, at.clone());
        let other = self.parameter(at);
        let id = self.parameter(Value::Int(cursor.id));
        self.and(&format!("{} {moment} {other} OR {} {number} {id}", columns.failed_at, columns.id));
        self
    }

    /// The leading column and its value, to be compared with.
    fn leading_value(&mut self) -> Option<(String, String)> {
        let Leading { column, value } = self.leading.clone()?;
        let value = match value {
            LeadingValue::Given(value) => self.parameter_of(&column, value),
            LeadingValue::Status { value, .. } => value?.to_owned(),
        };
        Some((column, value))
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

    /// The column has this value.
    fn and_is(&mut self, column: &str, value: Value) {
        let leads = self.leading.as_ref().is_some_and(|leading| leading.column == column);
        let parameter = self.parameter_of(column, value.clone());
        if !leads {
            return self.and(&format!("{column} = {parameter}"));
        }
        let same = self.parameter_of(column, value);
        self.and(&format!("{column} BETWEEN {parameter} AND {same}"));
    }

    /// A parameter to compare a column with. Postgres would compare a fingerprint as the text that a parameter is, which
    /// no index has.
    fn parameter_of(&mut self, column: &str, value: Value) -> String {
        let parameter = self.parameter(value);
        match self.dialect {
            Dialect::Postgres if column.ends_with(".fingerprint") => format!("CAST({parameter} AS bpchar)"),
            _ => parameter,
        }
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
        let codes = schemes(code);
        if let [code] = codes.as_slice() {
            return self.and_is(column, stored(code));
        }
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
