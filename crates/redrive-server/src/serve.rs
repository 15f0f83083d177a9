//! Serving until told to stop, and stopping in time.

use std::future::IntoFuture as _;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

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
    /// The socket failed.
    #[error("the HTTP server failed")]
    Io(#[from] std::io::Error),
}

/// Answers requests until `stop` is cancelled; then takes no more, finishes those in flight, and
/// returns within `deadline`.
///
/// # Errors
///
/// [`Error::DeadlineExceeded`] when requests were still running at the deadline, [`Error::Io`] when
/// the socket fails.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    stop: CancellationToken,
    deadline: Duration,
) -> Result<(), Error> {
    let stopped = stop.clone().cancelled_owned();
    let serving = axum::serve(listener, router).with_graceful_shutdown(stopped).into_future();
    let overdue = async {
        stop.cancelled().await;
        tokio::time::sleep(deadline).await;
    };
    tokio::select! {
        ended = serving => Ok(ended?),
        () = overdue => Err(Error::DeadlineExceeded { deadline }),
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
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
}
