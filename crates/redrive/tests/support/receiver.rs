//! A service that the http handler posts to: it remembers everything, and fails as told.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use tokio::runtime::Runtime;

/// A request that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Delivery {
    pub(crate) key: String,
    pub(crate) attempt: String,
    pub(crate) body: String,
}

/// What the service answers: by the body, with a status and after a while.
type Temper = fn(&str) -> (u16, Duration);

#[derive(Clone)]
struct Shared {
    seen: Arc<Mutex<Vec<Delivery>>>,
    temper: Temper,
}

/// A service on a free port. It goes with the test.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Delivery>>>,
    _runtime: Runtime,
}

impl Receiver {
    pub(crate) fn start(temper: Temper) -> Self {
        let runtime = Runtime::new().unwrap();
        let shared = Shared { seen: Arc::default(), temper };
        let seen = Arc::clone(&shared.seen);
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", post(receive)).with_state(shared);
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self { address, seen, _runtime: runtime }
    }

    /// What arrived so far, in order.
    pub(crate) fn seen(&self) -> Vec<Delivery> {
        self.seen.lock().unwrap().clone()
    }

    /// How often a body arrived.
    pub(crate) fn count(&self, body: &str) -> usize {
        self.seen.lock().unwrap().iter().filter(|delivery| delivery.body == body).count()
    }
}

async fn receive(State(shared): State<Shared>, headers: HeaderMap, body: String) -> StatusCode {
    let header =
        |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
    let (status, wait) = (shared.temper)(&body);
    let delivery = Delivery { key: header("idempotency-key"), attempt: header("redrive-attempt"), body };
    shared.seen.lock().unwrap().push(delivery);
    tokio::time::sleep(wait).await;
    StatusCode::from_u16(status).unwrap()
}
