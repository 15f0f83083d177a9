//! `GET /api/v1/stream`: what changes, as it changes, as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::State;
use axum::response::sse::{Event, Sse};
use futures_util::Stream;
use redrive_engine::console::{Pulse, Snapshot};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::Problem;
use crate::changes::Listener;

/// How many may watch at a time.
static WATCHERS: Semaphore = Semaphore::const_new(500);

/// One `snapshot` event at the start and one for each change: pipelines with the letters that wait, and the
/// latest operations. Ends when the server stops: come back.
#[utoipa::path(get, path = "/stream", operation_id = "stream_changes", tag = "numbers",
    responses((status = 200, description = "Events named `snapshot`, each with JSON.", content_type = "text/event-stream", body = String)))]
pub(super) async fn stream(
    State(pulse): State<Pulse>,
    State(stop): State<CancellationToken>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let seat = WATCHERS
        .try_acquire()
        .map_err(|_| Problem::unavailable("Too many are watching: close a stream, or come back later."))?;
    let mut changes = pulse.watch();
    let is_known = *changes.borrow() != Arc::default();
    if is_known {
        // A newcomer is told how things are, not only what changes.
        changes.mark_changed();
    }
    Ok(Listener::new(changes, stop, seat).tell(snapshot))
}

fn snapshot(snapshot: &Snapshot) -> Event {
    Event::default().event("snapshot").json_data(snapshot).unwrap_or_default()
}
