//! Why the console did not do what it was asked for.

use redrive_core::dead_letter::{LetterId, Refusal, Unavailable};
use redrive_store::{Error, OperationState};

/// Why the console did not do what it was asked for. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum ConsoleError {
    /// There is no such pipeline.
    #[error("there is no pipeline {asked}: {}", list(.known))]
    NoPipeline {
        /// What was asked for.
        asked: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// There is no such letter.
    #[error("there is no letter {0}: check the id, it may have been redriven or purged")]
    NoLetter(LetterId),
    /// There is no such operation.
    #[error("there is no operation {0}: the list of operations has their numbers")]
    NoOperation(i64),
    /// The letter is not waiting, or it cannot be done to it.
    #[error("{0}")]
    Refused(Refusal),
    /// The operation cannot go there from where it is.
    #[error("operation {id} is {}: it cannot {verb} now", state.name())]
    WrongState {
        /// The operation.
        id: i64,
        /// What was asked for.
        verb: &'static str,
        /// Where it is.
        state: OperationState,
    },
    /// It has no workers that could be paused.
    #[error(
        "{0} cannot be paused: ingest has no workers, it answers its senders itself; stop those, or the server"
    )]
    NoWorkers(String),
    /// The key of a request is that of another request.
    #[error("the key is that of operation {0}, which was asked for something else: use a new key")]
    KeyInUse(i64),
    /// The source of a letter that is handed in is that of another letter.
    #[error(
        "the source is that of letter {0}, which has another type, key or payload: give each letter a source of its own"
    )]
    SourceInUse(LetterId),
    /// What is asked for makes no sense.
    #[error("{0}")]
    Request(String),
    /// The letters of a pipeline cannot be reached.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// redrive's own tables cannot be reached, or refused something.
    #[error(transparent)]
    Store(#[from] Error),
}

fn list(names: &[String]) -> String {
    match names {
        [] => "none are configured".to_owned(),
        names => format!("there are {}", names.join(", ")),
    }
}
