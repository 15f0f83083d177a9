//! What changes, as it changes: the script fetches the page again when it hears of something.

use axum::extract::State;
use axum::response::sse::Event;
use axum::response::{IntoResponse as _, Response};
use redrive_engine::console::{Pulse, Snapshot};
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::Problem;
use crate::changes::Listener;

/// How many browsers may listen at a time.
static LISTENERS: Semaphore = Semaphore::const_new(200);

/// What a page needs to know.
#[derive(Serialize)]
struct Beat {
    /// How many letters wait in all; nothing while a store does not answer.
    waiting: Option<u64>,
    /// The latest operations, by number and state.
    operations: Vec<(i64, &'static str)>,
}

pub(super) async fn show(State(pulse): State<Pulse>, State(stop): State<CancellationToken>) -> Response {
    let Ok(seat) = LISTENERS.try_acquire() else {
        return Problem::unavailable(
            "Too many pages listen already: this one stays as it is until it is reloaded.",
        )
        .into_response();
    };
    // A page shows how things are already: it is told only what changes.
    Listener::new(pulse.watch(), stop, seat).tell(beat).into_response()
}

fn beat(snapshot: &Snapshot) -> Event {
    let waiting = snapshot.pipelines.iter().map(|pipeline| pipeline.waiting).sum();
    let operations = snapshot.operations.iter().map(|operation| (operation.id, operation.state)).collect();
    Event::default().event("beat").json_data(Beat { waiting, operations }).unwrap_or_default()
}
