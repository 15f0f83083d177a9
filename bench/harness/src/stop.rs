//! What to do when somebody wants us to stop.

use tokio::signal::unix::{SignalKind, signal};

/// Ends with an error when somebody wants us to stop: the scratch database must not stay behind on a
/// server that is shared.
///
/// # Errors
/// Always, in the end.
pub(crate) async fn asked_to_stop<T>() -> anyhow::Result<T> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminate.recv() => {}
    }
    anyhow::bail!("stopped before the end")
}
