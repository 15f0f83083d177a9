//! What changes, as it changes, as server-sent events: of the API and of the pages, which differ in what they
//! tell and in how many may listen.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::{Stream, stream};
use redrive_engine::console::Snapshot;
use tokio::sync::{SemaphorePermit, watch};
use tokio_util::sync::CancellationToken;

/// Whatever is between us and the listener may close a connection that says nothing.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A listener. Each costs a connection for as long as it likes, so it has a seat, and gives it back when it leaves.
pub(crate) struct Listener {
    changes: watch::Receiver<Arc<Snapshot>>,
    stop: CancellationToken,
    _seat: SemaphorePermit<'static>,
}

impl Listener {
    pub(crate) const fn new(
        changes: watch::Receiver<Arc<Snapshot>>,
        stop: CancellationToken,
        seat: SemaphorePermit<'static>,
    ) -> Self {
        Self { changes, stop, _seat: seat }
    }

    /// Tells every change, until the listener leaves or the server stops.
    pub(crate) fn tell(
        self,
        event: fn(&Snapshot) -> Event,
    ) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
        let events = stream::unfold(self, move |mut listener| async move {
            listener.stop.run_until_cancelled(listener.changes.changed()).await?.ok()?;
            let event = event(&listener.changes.borrow_and_update());
            Some((Ok(event), listener))
        });
        Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE).text("still here"))
    }
}
