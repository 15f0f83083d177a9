//! Which columns of a table make a dead letter.

use redrive_core::dead_letter::{Filter, Status};

use crate::dialect::Dialect;
use crate::filter::{Leading, LeadingValue};
use crate::row::Times;
use crate::value::Value;

/// The condition that every row meets.
pub(crate) const EVERY_ONE: &str = "1 = 1";

/// Which column of a table says what about a letter. All are of the row `t`; `{scope}` of the store's
/// names says which rows are letters at all.
#[derive(Debug)]
pub(crate) struct Columns {
    pub(crate) id: &'static str,
    pub(crate) event_type: String,
    pub(crate) key: String,
    pub(crate) payload: String,
    pub(crate) message: &'static str,
    pub(crate) class: &'static str,
    pub(crate) code: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) attempts: &'static str,
    pub(crate) failed_at: &'static str,
    pub(crate) first_failed_at: &'static str,
    pub(crate) times: Times,
    pub(crate) redrive_count: &'static str,
    /// Which letters there is somewhere to redrive to.
    pub(crate) redrivable: &'static str,
    pub(crate) fingerprint: &'static str,
    pub(crate) resolved_at: &'static str,
    /// JSON texts, or NULL where the table itself is the origin and there are no headers.
    pub(crate) headers: &'static str,
    pub(crate) origin: &'static str,
    /// Where a letter is redriven to, if that is not where it was.
    pub(crate) target: &'static str,
    /// Which letters came at or after `{since}`; nothing where the time of their failure says it.
    pub(crate) arrived_since: Option<&'static str>,
    pub(crate) origin_id: &'static str,
    /// The table that an event was in before it died.
    pub(crate) origin_table: String,
    /// What has become of a letter that was sent back: `pending`, `delivered`, `handed-over` or `failed`.
    pub(crate) outcome: &'static str,
    /// Which rows are in which status.
    pub(crate) statuses: [(Status, &'static str); 5],
    /// On Postgres: the statuses that an index has in the order of a list.
    pub(crate) leads: &'static [LeadingStatus],
}

/// A status that an index has in the order of a list: the column that the index begins with, the condition that says so
/// without fixing that column, and what the column is then, if that can be compared with.
#[derive(Debug)]
pub(crate) struct LeadingStatus {
    pub(crate) status: Status,
    pub(crate) column: &'static str,
    pub(crate) condition: &'static str,
    pub(crate) value: Option<&'static str>,
}

impl Columns {
    /// The column that leads the order of a list of these letters, where the database has to be told.
    pub(crate) fn leading(&self, dialect: Dialect, lead: &Filter) -> Option<Leading> {
        if dialect != Dialect::Postgres || lead.key.is_some() {
            return None;
        }
        let given = |column: &str, value: &str| Leading {
            column: column.to_owned(),
            value: LeadingValue::Given(Value::Text(value.replace('\0', "\u{FFFD}"))),
        };
        if let Some(group) = lead.group {
            return Some(given(self.fingerprint, &group.to_string()));
        }
        let parts = [
            (self.code, lead.code.as_ref().filter(|code| code.contains(':'))),
            (self.class, lead.class.as_ref()),
            (&self.event_type, lead.event_type.as_ref().filter(|_| self.event_type.starts_with("t."))),
        ];
        if let Some((column, value)) = parts.into_iter().find_map(|(column, value)| Some((column, value?))) {
            return Some(given(column, value));
        }
        let lead = self.leads.iter().find(|of| Some(of.status) == lead.status)?;
        let value = LeadingValue::Status { condition: lead.condition, value: lead.value };
        Some(Leading { column: lead.column.to_owned(), value })
    }

    pub(crate) fn in_status(&self, status: Status) -> &'static str {
        self.statuses.iter().find(|(of, _)| *of == status).map_or("FALSE", |(_, condition)| *condition)
    }

    pub(crate) fn waiting(&self) -> String {
        format!("({}) OR ({})", self.in_status(Status::Open), self.in_status(Status::Failed))
    }

    pub(crate) fn closed(&self) -> String {
        format!("({}) OR ({})", self.in_status(Status::Resolved), self.in_status(Status::Redriven))
    }

    pub(crate) fn status_name(&self) -> String {
        let cases =
            self.statuses.iter().map(|(status, condition)| format!("WHEN {condition} THEN '{status}'"));
        format!("CASE {} ELSE 'open' END", cases.collect::<Vec<_>>().join(" "))
    }

    /// The columns of a summary, in the order that [`crate::dead_letters::DeadLetters`] reads them.
    pub(crate) fn summary(&self) -> String {
        [
            self.id,
            &self.event_type,
            &self.key,
            self.message,
            self.class,
            self.code,
            self.kind,
            self.attempts,
            self.failed_at,
            &self.status_name(),
            self.redrive_count,
            self.fingerprint,
        ]
        .join(", ")
    }
}
