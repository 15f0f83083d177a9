//! Bodies that trickle in, or stop to: whoever sends nothing for a while is told that this was too long.
//!
//! A body is read whole before anything is done with it, so nothing was stored.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes, HttpBody as _};
use axum::extract::{Request, State};
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures_util::{Stream, StreamExt as _, stream};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::Problem;
use crate::problem::advice;

/// How long the next piece of a body may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the whole of it may take.
const WHOLE: Duration = Duration::from_secs(600);
/// How long the rest may take once everything stops.
const AT_THE_STOP: Duration = Duration::from_secs(1);

/// Ends a request whose body does not go on: 408.
pub(crate) async fn bound(State(stop): State<CancellationToken>, request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let was_late = Arc::new(AtomicBool::new(false));
    let late = Arc::clone(&was_late);
    let request = request.map(|body| Body::from_stream(in_time(body.into_data_stream(), late, stop)));
    let response = next.run(request).await;
    if !was_late.load(Ordering::Relaxed) {
        return response;
    }
    let status = StatusCode::REQUEST_TIMEOUT;
    let mut response = Problem::new(status, advice(status)).into_response();
    // What is left of the body may still come, and is not the next request.
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// The same pieces, until one is late.
fn in_time(
    pieces: BodyDataStream,
    was_late: Arc<AtomicBool>,
    stop: CancellationToken,
) -> impl Stream<Item = Result<Bytes, axum::Error>> {
    let deadline = Instant::now() + WHOLE;
    stream::unfold(Some(pieces), move |pieces| {
        let (was_late, stop) = (Arc::clone(&was_late), stop.clone());
        async move {
            let mut pieces = pieces?;
            tokio::select! {
                piece = pieces.next() => Some((piece?, Some(pieces))),
                late = too_late(deadline, &stop) => {
                    was_late.store(true, Ordering::Relaxed);
                    Some((Err(axum::Error::new(late)), None))
                }
            }
        }
    })
}

/// Ends when the next piece of a body is late.
async fn too_late(deadline: Instant, stop: &CancellationToken) -> io::Error {
    tokio::select! {
        () = sleep_until(deadline.min(Instant::now() + PATIENCE)) => {}
        () = async { stop.cancelled().await; sleep(AT_THE_STOP).await } => {}
    }
    io::ErrorKind::TimedOut.into()
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::to_bytes;
    use axum::routing::post;
    use serde_json::Value;
    use tower::ServiceExt as _;

    use super::*;

    async fn send(
        pieces: impl Stream<Item = Result<Bytes, axum::Error>> + Send + 'static,
    ) -> (StatusCode, Bytes) {
        send_until(&CancellationToken::new(), pieces).await
    }

    async fn send_until(
        stop: &CancellationToken,
        pieces: impl Stream<Item = Result<Bytes, axum::Error>> + Send + 'static,
    ) -> (StatusCode, Bytes) {
        let echo = post(async |body: Bytes| body);
        let bounded = axum::middleware::from_fn_with_state(stop.clone(), bound);
        let router = Router::new().route("/", echo).layer(bounded);
        let request = Request::post("/").body(Body::from_stream(pieces)).unwrap();
        let (parts, body) = router.oneshot(request).await.unwrap().into_parts();
        (parts.status, to_bytes(body, 10_000).await.unwrap())
    }

    /// It held its connection, and its seat among the requests, for ever.
    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_go_on_is_a_problem_that_says_so() {
        let begun = tokio::time::Instant::now();
        let pieces = stream::once(async { Ok(Bytes::from("{")) }).chain(stream::pending());
        let (status, body) = send(pieces).await;
        let problem: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((status.as_u16(), &problem["status"]), (408, &408.into()));
        assert!(problem["detail"].as_str().unwrap().contains("30 seconds"), "{problem}");
        assert_eq!(begun.elapsed().as_secs(), PATIENCE.as_secs());
    }

    /// A byte now and then held a request for as long as its sender liked.
    #[tokio::test(start_paused = true)]
    async fn a_body_that_trickles_on_and_on_is_ended() {
        let begun = Instant::now();
        let pieces = stream::repeat("a").then(async |piece| {
            sleep(PATIENCE / 10).await;
            Ok(Bytes::from(piece))
        });
        assert_eq!(send(pieces.boxed()).await.0, StatusCode::REQUEST_TIMEOUT);
        assert_eq!(begun.elapsed().as_secs(), WHOLE.as_secs());
    }

    /// A stop took all of its time, and was told as a failure.
    #[tokio::test(start_paused = true)]
    async fn at_a_stop_a_body_is_not_waited_for() {
        let (begun, stop) = (Instant::now(), CancellationToken::new());
        stop.cancel();
        let pieces = stream::once(async { Ok(Bytes::from("{")) }).chain(stream::pending());
        assert_eq!(send_until(&stop, pieces).await.0, StatusCode::REQUEST_TIMEOUT);
        assert_eq!(begun.elapsed().as_secs(), AT_THE_STOP.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_body_is_read_to_its_end() {
        let pieces = stream::iter(["a", "b", "c"]).then(async |piece| {
            tokio::time::sleep(PATIENCE / 2).await;
            Ok(Bytes::from(piece))
        });
        assert_eq!(send(pieces.boxed()).await, (StatusCode::OK, Bytes::from("abc")));
    }
}
