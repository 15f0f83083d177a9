//! The cache hook: what was saved is worth having at hand.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use redrive_store::Record;
use tokio::time::timeout;

use super::Persistent;

/// A cache in front of the target.
#[async_trait]
pub trait Cache<E>: Send + Sync {
    /// These events are saved now. Nothing waits for a cache that fails; it is told again next time.
    async fn refresh(&self, saved: Vec<E>);
}

/// A cache may hold up its pipeline for this long.
const PATIENCE: Duration = Duration::from_secs(5);

/// A [`Cache`], whatever its events are.
#[async_trait]
pub(super) trait Refresh: Send + Sync {
    async fn refresh(&self, saved: &[&Record]);
}

pub(super) struct Typed<E>(pub(super) Arc<dyn Cache<E>>);

#[async_trait]
impl<E: Persistent> Refresh for Typed<E> {
    async fn refresh(&self, saved: &[&Record]) {
        let events: Vec<E> =
            saved.iter().filter_map(|record| E::restore(&record.key, &record.payload)).collect();
        if events.is_empty() {
            return;
        }
        let refreshing = AssertUnwindSafe(self.0.refresh(events)).catch_unwind();
        match timeout(PATIENCE, refreshing).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => tracing::error!("the cache panicked while it was refreshed"),
            Err(_) => tracing::warn!("the cache took longer than {PATIENCE:?} to refresh: it is left alone"),
        }
    }
}
