//! Why something cannot do its work: a fixed code for machines, words for people.

use std::fmt;

/// Why something cannot do its work, as a fixed code: for readiness, metrics and alert rules. A code says nothing
/// of addresses, tables or data, so anybody may read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It has just been started and has not been prepared yet.
    Starting,
    /// The store does not answer, or not in time.
    StoreUnreachable,
    /// The store answers that it cannot right now: locked, overloaded, starting up.
    StoreBusy,
    /// The store refuses the user or the password.
    CredentialsRefused,
    /// The server has no database of this name.
    DatabaseMissing,
    /// The server at the address is of another kind.
    WrongServer,
    /// The file of the database cannot be opened, or is no database.
    FileUnusable,
    /// The store refused a statement, and will refuse it again: a table is not as it must be, or a right is missing.
    TableRefused,
    /// The caller's input is at fault, not the store.
    RequestRefused,
    /// A setting cannot be used.
    SettingRefused,
    /// Events wait on the local disk: nothing further up takes them.
    EventsOnDisk,
    /// The local disk does not take what must be kept on it.
    DiskUnusable,
    /// The object store does not take batches.
    ObjectStoreUnavailable,
    /// Kafka does not answer, or refuses the settings.
    KafkaUnavailable,
    /// The sink of a Kafka pipeline takes no rows.
    SinkUnavailable,
    /// Letters cannot be published.
    LettersRefused,
    /// Letters in topics cannot be indexed.
    IndexUnavailable,
    /// A defect of redrive ended one of its tasks.
    Defect,
}

impl Reason {
    /// The code. It never changes.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::StoreUnreachable => "store-unreachable",
            Self::StoreBusy => "store-busy",
            Self::CredentialsRefused => "credentials-refused",
            Self::DatabaseMissing => "database-missing",
            Self::WrongServer => "wrong-server",
            Self::FileUnusable => "file-unusable",
            Self::TableRefused => "table-refused",
            Self::RequestRefused => "request-refused",
            Self::SettingRefused => "setting-refused",
            Self::EventsOnDisk => "events-on-disk",
            Self::DiskUnusable => "disk-unusable",
            Self::ObjectStoreUnavailable => "object-store-unavailable",
            Self::KafkaUnavailable => "kafka-unavailable",
            Self::SinkUnavailable => "sink-unavailable",
            Self::LettersRefused => "letters-refused",
            Self::IndexUnavailable => "index-unavailable",
            Self::Defect => "defect",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What keeps something from its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// Why, as a fixed code.
    pub reason: Reason,
    /// What happened, to what, and what to do. It may hold addresses and names of tables.
    pub detail: String,
}

impl Trouble {
    /// This trouble.
    pub fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into() }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}
