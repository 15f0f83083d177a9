//! The service that servers deliver to.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;

/// A request of a handler.
#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    pub(crate) key: String,
    /// How often this key has arrived, this time included.
    pub(crate) time: u32,
    pub(crate) body: String,
}

type Answer = dyn Fn(Delivery) -> Pin<Box<dyn Future<Output = u16> + Send>> + Send + Sync;

/// A service that remembers how often each idempotency key arrived. It goes with the test's runtime.
#[derive(Clone)]
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    times: Mutex<HashMap<String, u32>>,
    answer: Box<Answer>,
}

impl Receiver {
    pub(crate) async fn start<F>(answer: impl Fn(Delivery) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = u16> + Send + 'static,
    {
        let answer = Box::new(move |delivery| Box::pin(answer(delivery)) as Pin<Box<_>>);
        let shared = Arc::new(Shared { times: Mutex::default(), answer });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", post(receive)).with_state(Arc::clone(&shared));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, shared }
    }

    /// How often each key arrived.
    pub(crate) fn times(&self) -> HashMap<String, u32> {
        self.shared.times.lock().unwrap().clone()
    }

    /// How many different keys arrived.
    pub(crate) fn distinct(&self) -> usize {
        self.shared.times.lock().unwrap().len()
    }
}

async fn receive(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: String) -> StatusCode {
    let key = headers["idempotency-key"].to_str().unwrap().to_owned();
    let time = {
        let mut times = shared.times.lock().unwrap();
        let time = times.entry(key.clone()).or_default();
        *time += 1;
        *time
    };
    StatusCode::from_u16((shared.answer)(Delivery { key, time, body }).await).unwrap()
}
