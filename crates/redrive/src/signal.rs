//! SIGTERM and Ctrl-C.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

const INTERRUPT: &str = "SIGINT";

/// Cancels `stop` at the first signal. A second one means: now.
///
/// # Errors
///
/// When the system does not let us listen for signals.
pub(crate) fn cancel_on_signal(stop: CancellationToken) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // Lives as long as the process does: it owns nothing that must be put away.
    tokio::spawn(async move {
        let signal = next(&mut terminate, &mut interrupt).await;
        stop.cancel();
        tracing::info!(signal, "stopping");
        let signal = next(&mut terminate, &mut interrupt).await;
        tracing::warn!(signal, "leaving at once");
        std::process::exit(if signal == INTERRUPT { 130 } else { 1 });
    });
    Ok(())
}

async fn next(terminate: &mut Signal, interrupt: &mut Signal) -> &'static str {
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => INTERRUPT,
    }
}
