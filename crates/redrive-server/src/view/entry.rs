//! The audit log, as the API shows it.

use jiff::Timestamp;
use redrive_store::Entry;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A page of the audit log.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AuditPage {
    /// What was done, newest first.
    pub entries: Vec<EntryView>,
    /// Where the next page starts, as `before`; null at the end.
    pub next: Option<i64>,
}

/// One action.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct EntryView {
    /// Its number.
    pub id: i64,
    /// When it was done.
    pub at: Timestamp,
    /// Who did it.
    pub operator: String,
    /// What was done, such as `redrive` or `resolve`.
    pub action: String,
    /// To what: a letter, an operation, a pipeline.
    pub subject: String,
    /// To how many letters.
    pub count: u64,
    /// Why.
    pub note: String,
}

impl From<Entry> for EntryView {
    fn from(entry: Entry) -> Self {
        let Entry { id, at, operator, action, subject, count, note } = entry;
        Self { id, at, operator, action, subject, count, note }
    }
}
