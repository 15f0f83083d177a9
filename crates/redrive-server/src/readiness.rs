//! What the server asks its owner: is everything there that the pipelines need?

use async_trait::async_trait;
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

/// Whoever knows the state of pipelines and stores.
#[async_trait]
pub trait Readiness: Send + Sync + 'static {
    /// One line per pipeline and store. It must answer in bounded time, also when a store hangs.
    async fn check(&self) -> Vec<Component>;
}

/// The state of one pipeline or store. Anybody may read all of it but the detail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Component {
    /// Its name in the configuration.
    pub name: String,
    /// What it is: `outbox`, `jobs`, …, or `store`.
    pub kind: &'static str,
    /// Whether it can work right now.
    pub ok: bool,
    /// What is wrong, as a fixed code such as `store-unreachable` or `table-refused`; null when nothing is.
    pub reason: Option<&'static str>,
    /// Since when it is so.
    pub since: Timestamp,
    /// The state in words, with what to do; left out for callers without a token where the server asks for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}
