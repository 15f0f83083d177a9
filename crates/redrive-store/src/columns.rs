//! Which columns of a table make a dead letter.

use redrive_core::dead_letter::Status;

use crate::row::Times;

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
}

impl Columns {
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
