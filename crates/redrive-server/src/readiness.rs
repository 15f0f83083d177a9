//! What the server asks its owner: is everything there that the pipelines need?

use async_trait::async_trait;
use serde::Serialize;
use utoipa::ToSchema;

/// Whoever knows the state of pipelines and stores.
#[async_trait]
pub trait Readiness: Send + Sync + 'static {
    /// One line per pipeline and store. It must answer in bounded time, also when a store hangs.
    async fn check(&self) -> Vec<Component>;
}

/// The state of one pipeline or store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Component {
    /// Its name in the configuration.
    pub name: String,
    /// What it is: `outbox`, `jobs`, …, or `store`.
    pub kind: &'static str,
    /// Whether it can work right now.
    pub ok: bool,
    /// The state in words; without secrets, because everyone may read it.
    pub detail: String,
}
