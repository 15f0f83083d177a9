//! `GET /api/v1/stream`: what changes, as it changes, as server-sent events.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use redrive_engine::console::Pulse;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use crate::Problem;

/// How many may watch at a time: each costs a connection for as long as it likes.
static WATCHERS: Semaphore = Semaphore::const_new(500);
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// One `snapshot` event at the start and one for each change: pipelines with the letters that wait, and the
/// latest operations. Ends when the server stops: come back.
#[utoipa::path(get, path = "/stream", tag = "numbers",
    responses((status = 200, description = "Events named `snapshot`, each with JSON.", content_type = "text/event-stream", body = String)))]
pub(super) async fn stream(
    State(pulse): State<Pulse>,
    State(stop): State<CancellationToken>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let seat = WATCHERS
        .try_acquire()
        .map_err(|_| Problem::unavailable("Too many are watching: close a stream, or come back later."))?;
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE).text("still here");
    Ok(Sse::new(snapshots(&pulse, stop, seat)).keep_alive(keep_alive))
}

fn snapshots(
    pulse: &Pulse,
    stop: CancellationToken,
    seat: SemaphorePermit<'static>,
) -> impl Stream<Item = Result<Event, Infallible>> + use<> {
    let mut watch = pulse.watch();
    let is_known = *watch.borrow() != std::sync::Arc::default();
    if is_known {
        // A newcomer is told how things are, not only what changes.
        watch.mark_changed();
    }
    // The seat is given back when the stream is dropped.
    futures_util::stream::unfold((watch, stop, seat), |(mut watch, stop, seat)| async move {
        let event = {
            let changed = stop.run_until_cancelled(watch.changed()).await?;
            changed.ok()?;
            let snapshot = watch.borrow_and_update().clone();
            let json = serde_json::to_string(&*snapshot).unwrap_or_default();
            Event::default().event("snapshot").data(json)
        };
        Some((Ok(event), (watch, stop, seat)))
    })
}
