//! The words that the API uses for kinds, states and classes.

use redrive_core::dead_letter::{PipelineKind, RedeliveryState, Status};
use redrive_core::failure::Class;
use redrive_store::OperationState;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Words of an API for the cases of a type of ours, and what they are called.
macro_rules! names {
    ($(#[$doc:meta])* $name:ident of $of:ty { $($(#[$case_doc:meta])* $case:ident = $word:literal from $pattern:pat),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
        #[serde(rename_all = "kebab-case")]
        pub enum $name { $($(#[$case_doc])* $case),+ }

        impl $name {
            /// The word.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$case => $word),+ }
            }
        }

        impl From<$of> for $name {
            fn from(of: $of) -> Self {
                match of { $($pattern => Self::$case),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

names! {
    /// The state of a letter.
    StatusName of Status {
        /// Waiting for a person or a policy.
        Open = "open" from Status::Open,
        /// On its way back.
        Retrying = "retrying" from Status::Retrying,
        /// Sent back to work.
        Redriven = "redriven" from Status::Redriven,
        /// Closed.
        Resolved = "resolved" from Status::Resolved,
        /// Needs a person: redriving it failed, too.
        Failed = "failed" from Status::Failed,
    }
}

names! {
    /// How far the event of a redriven letter is.
    RedeliveryStateName of RedeliveryState {
        /// Not handled yet, or being retried.
        Pending = "pending" from RedeliveryState::Pending,
        /// Delivered.
        Delivered = "delivered" from RedeliveryState::Delivered,
        /// Handed over, to a topic for example, and not back since.
        HandedOver = "handed-over" from RedeliveryState::HandedOver,
        /// Failed again, for good.
        Failed = "failed" from RedeliveryState::Failed,
    }
}

names! {
    /// The kind of a pipeline.
    KindName of PipelineKind {
        /// Write-behind persistence.
        Persist = "persist" from PipelineKind::Persist,
        /// A transactional outbox.
        Outbox = "outbox" from PipelineKind::Outbox,
        /// HTTP to object storage.
        Ingest = "ingest" from PipelineKind::Ingest,
        /// A Kafka consumer.
        Kafka = "kafka" from PipelineKind::Kafka,
        /// A job queue.
        Jobs = "jobs" from PipelineKind::Jobs,
        /// Handed in by another service.
        Intake = "intake" from PipelineKind::Intake,
    }
}

names! {
    /// What kind of failure it is.
    ClassName of Class {
        /// The same event may succeed later.
        Transient = "transient" from Class::Transient,
        /// The other side said when to come back.
        Throttled = "throttled" from Class::Throttled { .. },
        /// The same event will fail every time.
        Permanent = "permanent" from Class::Permanent,
        /// The event cannot even be read.
        Malformed = "malformed" from Class::Malformed,
        /// Nobody is registered for this type of event.
        Unhandled = "unhandled" from Class::Unhandled,
        /// The handler gave no hint.
        Unclassified = "unclassified" from Class::Unclassified,
    }
}

names! {
    /// How far an operation is.
    OperationStateName of OperationState {
        /// Its set is still being written down.
        Freezing = "freezing" from OperationState::Freezing,
        /// At work.
        Running = "running" from OperationState::Running,
        /// Waiting for a person.
        Paused = "paused" from OperationState::Paused,
        /// Every letter is dealt with.
        Finished = "finished" from OperationState::Finished,
        /// A person ended it.
        Cancelled = "cancelled" from OperationState::Cancelled,
        /// It stopped itself: what it redrove failed again.
        Stopped = "stopped" from OperationState::Stopped,
    }
}

impl OperationStateName {
    /// Whether nothing more happens unless a person does something.
    #[must_use]
    pub const fn is_at_rest(self) -> bool {
        !matches!(self, Self::Freezing | Self::Running)
    }
}

impl From<StatusName> for Status {
    fn from(name: StatusName) -> Self {
        match name {
            StatusName::Open => Self::Open,
            StatusName::Retrying => Self::Retrying,
            StatusName::Redriven => Self::Redriven,
            StatusName::Resolved => Self::Resolved,
            StatusName::Failed => Self::Failed,
        }
    }
}

/// How a payload is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PayloadFormat {
    /// It is the text of a JSON value.
    Json,
    /// It is text.
    Text,
    /// It is base64 of bytes that are no text.
    Base64,
}
