//! What changes, as it changes: the script fetches the page again when it hears of something.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use redrive_engine::console::{Pulse, Snapshot};
use serde::Serialize;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio_util::sync::CancellationToken;

use crate::Problem;

/// How many browsers may listen at a time.
const MOST: usize = 200;
static LISTENERS: Semaphore = Semaphore::const_new(MOST);

/// What a page needs to know.
#[derive(Serialize)]
struct Beat {
    /// How many letters wait in all; nothing while a store does not answer.
    waiting: Option<u64>,
    /// The latest operations, by number and state.
    operations: Vec<(i64, &'static str)>,
}

struct Listener {
    changes: watch::Receiver<Arc<Snapshot>>,
    stop: CancellationToken,
    _permit: SemaphorePermit<'static>,
}

pub(super) async fn show(State(pulse): State<Pulse>, State(stop): State<CancellationToken>) -> Response {
    let Ok(permit) = LISTENERS.try_acquire() else {
        return Problem::unavailable(
            "Too many pages listen already: this one stays as it is until it is reloaded.",
        )
        .into_response();
    };
    let listener = Listener { changes: pulse.watch(), stop, _permit: permit };
    let beats = stream::unfold(listener, |mut listener| async move {
        let changed = listener.stop.run_until_cancelled(listener.changes.changed()).await;
        if !matches!(changed, Some(Ok(()))) {
            return None;
        }
        let event = beat(&listener.changes.borrow_and_update());
        Some((Ok::<_, Infallible>(event), listener))
    });
    Sse::new(beats).keep_alive(KeepAlive::default()).into_response()
}

fn beat(snapshot: &Snapshot) -> Event {
    let waiting = snapshot.pipelines.iter().map(|pipeline| pipeline.waiting).sum();
    let operations = snapshot.operations.iter().map(|operation| (operation.id, operation.state)).collect();
    Event::default().event("beat").json_data(Beat { waiting, operations }).unwrap_or_default()
}
