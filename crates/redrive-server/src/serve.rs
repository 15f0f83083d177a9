//! Serving until told to stop, and stopping in time.
//!
//! A connection costs memory and a file for as long as it lasts, so it must not last for nothing: whoever has not
//! sent a whole header within [`HEADER_PATIENCE`] is hung up on. That holds between two requests as well: an idle
//! connection is closed after as long. A header has at most [`head::MOST_BYTES`] bytes, and names one host. Bodies have their own patience ([`crate::trickle`]), and so have answers that
//! nobody reads ([`crate::unread`]).

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::response::IntoResponse as _;
use futures_util::future::Either;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::failures::Peer;
use crate::unread::Unread;
use crate::{head, headers};

/// How long a request may take to say what it wants.
const HEADER_PATIENCE: Duration = Duration::from_secs(20);
/// How long after the stop a first header that is on its way is waited for.
const LAST_HEADERS: Duration = Duration::from_secs(1);
/// How long to wait when no connection can be taken, such as for want of files.
const NO_ROOM: Duration = Duration::from_secs(1);

/// Why serving ended badly.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Requests in flight did not end in time; their connections are cut.
    #[error(
        "requests were still running {deadline:?} after the stop and were cut off: raise server.shutdown-deadline if they need longer"
    )]
    DeadlineExceeded {
        /// How long the stop was allowed to take.
        deadline: Duration,
    },
}

/// Answers requests until `stop` is cancelled; then takes no more, finishes those in flight, and
/// returns within `deadline`.
///
/// # Errors
///
/// [`Error::DeadlineExceeded`] when requests were still running at the deadline.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    stop: CancellationToken,
    deadline: Duration,
) -> Result<(), Error> {
    let overdue = async {
        stop.cancelled().await;
        sleep(deadline).await;
    };
    tokio::select! {
        () = attend_all(listener, &router, &stop) => Ok(()),
        () = overdue => Err(Error::DeadlineExceeded { deadline }),
    }
}

/// Attends to everybody who connects; dropped, it hangs up on them.
async fn attend_all(listener: TcpListener, router: &Router, stop: &CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            (stream, peer) = accept(&listener) => {
                drop(connections.spawn(attend(stream, Peer(peer), router.clone(), stop.clone())));
            }
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) if is_gone(error.kind()) => {}
            Err(error) => {
                tracing::error!(%error, "no connection can be taken: trying again");
                sleep(NO_ROOM).await;
            }
        }
    }
}

/// Whether whoever called has hung up already.
const fn is_gone(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::ConnectionRefused | ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset)
}

/// Answers the requests of one connection until it ends, or the one that is in flight at the stop.
async fn attend(stream: TcpStream, peer: Peer, router: Router, stop: CancellationToken) {
    let has_asked = Arc::new(AtomicBool::new(false));
    let (service, asks) = (TowerToHyperService::new(router), Arc::clone(&has_asked));
    let service = service_fn(move |mut request: Request<Incoming>| {
        asks.store(true, Ordering::Relaxed);
        request.extensions_mut().insert(peer);
        match head::check(&request) {
            Ok(()) => Either::Left(service.call(request)),
            Err(problem) => Either::Right(async { Ok(headers::secure(problem.into_response()).await) }),
        }
    });
    let mut server = http1::Builder::new();
    let server = server.timer(TokioTimer::new()).header_read_timeout(HEADER_PATIENCE);
    // Beyond that nothing is read any more, and there is no problem document; below, there is one.
    let server = server.max_buf_size(head::MOST_BYTES * 2);
    let mut connection =
        pin!(server.serve_connection(TokioIo::new(Unread::new(stream, stop.clone())), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection => ended,
                () = nobody_asks(&has_asked) => Ok(()),
            }
        }
    };
    if let Err(error) = ended {
        tracing::trace!(%error, "a connection ended badly");
    }
}

/// Ends when a connection that was never asked anything has had its time. One that was ends by itself: with the
/// answer that is on its way.
async fn nobody_asks(has_asked: &AtomicBool) {
    sleep(LAST_HEADERS).await;
    if has_asked.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio::sync::Semaphore;
    use tokio::task::JoinHandle;

    use super::*;

    /// A server with one route that says when it was entered and answers when it is let go.
    struct Slow {
        address: SocketAddr,
        entered: Arc<Semaphore>,
        release: Arc<Semaphore>,
        stop: CancellationToken,
        serving: JoinHandle<Result<(), Error>>,
    }

    async fn slow_server(deadline: Duration) -> Slow {
        let entered = Arc::new(Semaphore::new(0));
        let release = Arc::new(Semaphore::new(0));
        let (enter, wait) = (Arc::clone(&entered), Arc::clone(&release));
        let handler = move || async move {
            enter.add_permits(1);
            wait.acquire().await.unwrap().forget();
            "done"
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let router = Router::new().route("/", get(handler));
        let serving = tokio::spawn(serve(listener, router, stop.clone(), deadline));
        Slow { address, entered, release, stop, serving }
    }

    async fn start_request(address: SocketAddr) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        stream
    }

    #[tokio::test]
    async fn a_request_in_flight_is_answered_after_the_stop() {
        let slow = slow_server(Duration::from_secs(60)).await;
        let mut stream = start_request(slow.address).await;
        slow.entered.acquire().await.unwrap().forget();
        slow.stop.cancel();
        slow.release.add_permits(1);
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("done"), "{answer}");
        slow.serving.await.unwrap().unwrap();
        assert!(TcpStream::connect(slow.address).await.is_err());
    }

    #[tokio::test]
    async fn a_request_that_never_ends_does_not_hold_up_the_stop() {
        let slow = slow_server(Duration::from_millis(50)).await;
        let _stream = start_request(slow.address).await;
        slow.entered.acquire().await.unwrap().forget();
        slow.stop.cancel();
        let ended = slow.serving.await.unwrap();
        assert!(matches!(ended, Err(Error::DeadlineExceeded { .. })));
    }

    #[tokio::test]
    async fn an_idle_connection_does_not_hold_up_the_stop() {
        let slow = slow_server(Duration::from_secs(60)).await;
        let mut stream = start_request(slow.address).await;
        slow.release.add_permits(1);
        let mut first = [0; 15];
        stream.read_exact(&mut first).await.unwrap();
        slow.stop.cancel();
        slow.serving.await.unwrap().unwrap();
    }

    async fn send(address: SocketAddr, bytes: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        stream
    }

    /// They held their connections for ever.
    #[tokio::test(start_paused = true)]
    async fn whoever_does_not_finish_a_header_is_hung_up_on() {
        let slow = slow_server(Duration::from_secs(60)).await;
        for begun in [&b"GET / HTTP/1.1\r\nhost: x\r\n"[..], b"GE", b""] {
            let since = tokio::time::Instant::now();
            let mut stream = send(slow.address, begun).await;
            let mut answer = Vec::new();
            // The time-out is not an answer; whether the line is cut or closed is not said.
            drop(stream.read_to_end(&mut answer).await);
            assert!(
                answer.is_empty() && since.elapsed() >= HEADER_PATIENCE,
                "{answer:?} {:?}",
                since.elapsed()
            );
        }
    }

    /// It took all the time that a stop may take.
    #[tokio::test]
    async fn a_header_that_never_ends_does_not_hold_up_the_stop() {
        let slow = slow_server(Duration::from_secs(600)).await;
        let _half = send(slow.address, b"GET / HTTP/1.1\r\nhost: x\r\n").await;
        // Taken in order: the first has been attended to when the second is answered.
        let mut stream = start_request(slow.address).await;
        slow.release.add_permits(1);
        let mut first = [0; 15];
        stream.read_exact(&mut first).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
        let begun = tokio::time::Instant::now();
        slow.stop.cancel();
        slow.serving.await.unwrap().unwrap();
        assert!(begun.elapsed() < HEADER_PATIENCE, "{:?}", begun.elapsed());
    }

    /// An answer that comes in pieces is one in flight, however long it takes to begin.
    #[tokio::test]
    async fn an_answer_that_takes_longer_than_a_last_header_is_not_cut() {
        let slow = slow_server(Duration::from_secs(600)).await;
        let mut stream = start_request(slow.address).await;
        slow.entered.acquire().await.unwrap().forget();
        slow.stop.cancel();
        sleep(LAST_HEADERS * 2).await;
        slow.release.add_permits(1);
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("done"), "{answer}");
        slow.serving.await.unwrap().unwrap();
    }

    /// What a request of these bytes is answered with.
    async fn answer(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let mut answer = Vec::new();
        // The server may hang up on what it does not read.
        let _ = stream.write_all(request.as_bytes()).await;
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Without a name the check for rebound names was passed over, and of two names the first counted.
    #[tokio::test]
    async fn a_request_names_one_host() {
        let slow = slow_server(Duration::from_secs(60)).await;
        slow.release.add_permits(10);
        for (head, status) in [
            ("GET / HTTP/1.1\r\nconnection: close\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\nconnection: close\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nhost: a\r\nhost: a\r\nconnection: close\r\n\r\n", 400),
            ("GET http://evil.example/ HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n", 400),
            ("GET http://localhost/ HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n", 200),
            ("GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n", 200),
            // Probes of old load balancers: the protocol had no such header yet.
            ("GET / HTTP/1.0\r\n\r\n", 200),
            ("GET / HTTP/1.0\r\nhost: a\r\nhost: b\r\n\r\n", 400),
        ] {
            let answer = answer(slow.address, head).await;
            assert_eq!(answer.split(' ').nth(1), Some(status.to_string().as_str()), "{head}: {answer}");
            let is_problem = answer.contains("application/problem+json") && answer.contains("nosniff");
            assert_eq!(is_problem, status == 400, "{answer}");
        }
    }

    /// They could have 400 kB, for each of any number of connections.
    #[tokio::test]
    async fn a_header_has_at_most_32_kilobytes() {
        let slow = slow_server(Duration::from_secs(60)).await;
        slow.release.add_permits(10);
        let with = |bytes: usize| {
            let value = "x".repeat(bytes);
            format!("GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nfiller: {value}\r\n\r\n")
        };
        assert!(answer(slow.address, &with(32_000)).await.starts_with("HTTP/1.1 200"));
        let refused = answer(slow.address, &with(33_000)).await;
        assert!(refused.starts_with("HTTP/1.1 431") && refused.contains("32 kB"), "{refused}");
        // Whoever sends without end is hung up on; that may cut the answer.
        let refused = answer(slow.address, &with(500_000)).await;
        assert!(refused.is_empty() || refused.starts_with("HTTP/1.1 431"), "{refused}");
        let long =
            format!("GET /{} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n", "x".repeat(33_000));
        let refused = answer(slow.address, &long).await;
        assert!(refused.starts_with("HTTP/1.1 431"), "{refused}");
    }
}
