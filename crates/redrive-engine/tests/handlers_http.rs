//! The `http` handler against a real server on loopback.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, Response, StatusCode};
use axum::routing::post;
use jiff::Timestamp;
use redrive_core::event::{Event, WorkId};
use redrive_core::failure::{Class, Code, Failure};
use redrive_core::handler::Handler as _;
use redrive_engine::handlers::{HttpHandler, HttpOptions, Secret, SetupError, signature};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// A service that remembers what it got, and answers what the payload asks for.
#[derive(Clone, Default)]
struct Service {
    seen: Arc<Mutex<Vec<(HeaderMap, Bytes)>>>,
    peers: Arc<Mutex<HashSet<SocketAddr>>>,
}

impl Service {
    async fn start(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/orders", post(answer)).with_state(self.clone());
        let service = router.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { axum::serve(listener, service).await });
        format!("http://{address}/orders")
    }

    fn seen(&self) -> Vec<(HeaderMap, Bytes)> {
        self.seen.lock().unwrap().clone()
    }
}

/// A payload such as `503 retry-after=7 some text` is an instruction; any other is accepted.
async fn answer(
    State(service): State<Service>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    service.peers.lock().unwrap().insert(peer);
    service.seen.lock().unwrap().push((headers, body.clone()));
    let text = String::from_utf8_lossy(&body).into_owned();
    let mut words = text.split_whitespace();
    let status = words.next().and_then(|word| word.parse::<StatusCode>().ok()).unwrap_or(StatusCode::OK);
    let mut response = Response::builder().status(status);
    let mut said = String::new();
    for word in words {
        match word.split_once('=') {
            Some((name, value)) => response = response.header(name, value),
            None => said.push_str(word),
        }
    }
    response.body(Body::from(said)).unwrap()
}

fn event(payload: impl Into<Vec<u8>>) -> Event {
    Event {
        id: WorkId(7),
        origin: WorkId(3),
        event_type: "OrderCreated".into(),
        aggregate_type: "Order".into(),
        key: "order 42".into(),
        payload: payload.into(),
        created_at: Timestamp::UNIX_EPOCH,
        attempt: 2,
    }
}

fn options(url: &str) -> HttpOptions {
    HttpOptions {
        url: url.parse().unwrap(),
        timeout: Duration::from_secs(10),
        secret: None,
        headers: Vec::new(),
    }
}

async fn deliver(options: HttpOptions, event: Event) -> Result<(), Failure> {
    let handler = HttpHandler::new("orders", options).unwrap();
    handler.handle(&[event]).await.remove(0)
}

#[tokio::test]
async fn the_service_gets_the_payload_and_the_envelope() {
    let service = Service::default();
    let url = service.start().await;
    let headers = vec![("Authorization".to_owned(), Secret::new("Bearer s3cr3t"))];
    deliver(HttpOptions { headers, ..options(&url) }, event(r#" {"id":1}"#)).await.unwrap();
    let (headers, body) = service.seen().remove(0);
    assert_eq!(body, r#" {"id":1}"#);
    for (name, value) in [
        ("idempotency-key", "orders:3"),
        ("redrive-event-id", "7"),
        ("redrive-event-type", "OrderCreated"),
        ("redrive-key", "order%2042"),
        ("redrive-attempt", "2"),
        ("content-type", "application/json"),
        ("authorization", "Bearer s3cr3t"),
    ] {
        assert_eq!(headers.get(name).map(|value| value.to_str().unwrap()), Some(value), "{name}");
    }
    assert!(!headers.contains_key("redrive-signature"));
}

#[tokio::test]
async fn any_bytes_are_delivered_as_they_are() {
    let service = Service::default();
    let url = service.start().await;
    let payload = b"\x00\xff\xfe{\r\n\r\nGET / HTTP/1.1".to_vec();
    let hostile =
        Event { key: "a\r\nx-evil: 1\0".into(), event_type: "Ż\u{1b}[2J".into(), ..event(payload.clone()) };
    deliver(options(&url), hostile).await.unwrap();
    let (headers, body) = service.seen().remove(0);
    assert_eq!(body, payload);
    assert_eq!(headers["content-type"], "application/octet-stream");
    assert_eq!(headers["redrive-key"], "a%0D%0Ax-evil:%201%00");
    assert!(!headers.contains_key("x-evil"));
}

#[tokio::test]
async fn a_signed_request_can_be_verified_by_its_receiver() {
    let service = Service::default();
    let url = service.start().await;
    let secret = Secret::new("s3cr3t");
    deliver(HttpOptions { secret: Some(secret.clone()), ..options(&url) }, event("[1]")).await.unwrap();
    let (headers, body) = service.seen().remove(0);
    let value = &headers["redrive-signature"];
    let time = value.to_str().unwrap().strip_prefix("t=").and_then(|rest| rest.split_once(',')).unwrap().0;
    let at = Timestamp::from_second(time.parse().unwrap()).unwrap();
    assert!(Timestamp::now().duration_since(at).as_secs() < 60);
    assert_eq!(*value, signature::sign(&secret, at, &body));
}

#[tokio::test]
async fn the_answer_decides_what_kind_of_failure_it_is() {
    let service = Service::default();
    let url = service.start().await;
    let throttled = |seconds| Class::Throttled { retry_after: Duration::from_secs(seconds) };
    for (answer, class) in [
        ("408", Class::Transient),
        ("425", Class::Transient),
        ("429", Class::Transient),
        ("429 retry-after=7", throttled(7)),
        ("503 retry-after=120", throttled(120)),
        ("500", Class::Transient),
        ("410", Class::Permanent),
        ("422", Class::Permanent),
        ("404", Class::Permanent),
    ] {
        let failure = deliver(options(&url), event(answer)).await.unwrap_err();
        let status = answer[..3].parse().unwrap();
        assert_eq!((failure.class, failure.code), (class, Some(Code::Http(status))), "{answer}");
    }
    for answer in ["200", "201", "202", "204"] {
        assert_eq!(deliver(options(&url), event(answer)).await, Ok(()), "{answer}");
    }
}

#[tokio::test]
async fn a_batch_has_one_outcome_for_each_event_in_order() {
    let service = Service::default();
    let handler = HttpHandler::new("orders", options(&service.start().await)).unwrap();
    let batch: Vec<_> = (0..40).map(|number| event(if number % 3 == 0 { "422" } else { "200" })).collect();
    let outcomes = handler.handle(&batch).await;
    let failed: Vec<_> = (0..40).filter(|&number| outcomes[number].is_err()).collect();
    assert_eq!(failed, (0..40).step_by(3).collect::<Vec<_>>());
}

#[tokio::test]
async fn connections_are_kept() {
    let service = Service::default();
    let handler = HttpHandler::new("orders", options(&service.start().await)).unwrap();
    for _ in 0..20 {
        assert_eq!(handler.handle(&[event("200 fine")]).await, [Ok(())]);
        assert!(handler.handle(&[event("422 wrong")]).await[0].is_err());
    }
    assert_eq!(service.peers.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let service = Service::default();
    let url = service.start().await;
    let failure = deliver(options(&url), event(format!("307 location={url}"))).await.unwrap_err();
    assert_eq!((failure.class, failure.code), (Class::Permanent, Some(Code::Http(307))));
    assert_eq!(service.seen().len(), 1);
}

#[tokio::test]
async fn what_the_service_said_is_in_the_message_but_not_all_of_it() {
    let service = Service::default();
    let url = service.start().await;
    let failure = deliver(options(&url), event("422 sku-unknown")).await.unwrap_err();
    let host = url.strip_prefix("http://").unwrap().split('/').next().unwrap();
    assert_eq!(failure.message, format!("{host} answered 422 Unprocessable Entity: sku-unknown"));
    let failure = deliver(options(&url), event(format!("422 {}", "x".repeat(1_000_000)))).await.unwrap_err();
    assert!(failure.message.len() < 1200, "{}", failure.message.len());
}

#[tokio::test]
async fn an_endless_answer_does_not_hold_the_worker() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 4096]).await;
        let head = b"HTTP/1.1 500 Oops\r\ntransfer-encoding: chunked\r\n\r\n";
        stream.write_all(head).await.unwrap();
        while stream.write_all(b"400\r\n").await.is_ok() {
            let _ = stream.write_all(&[b'x'; 0x400]).await;
            let _ = stream.write_all(b"\r\n").await;
        }
    });
    let failure = deliver(options(&url), event("{}")).await.unwrap_err();
    assert_eq!((failure.class, failure.code), (Class::Transient, Some(Code::Http(500))));
    assert!(failure.message.len() < 1200);
}

#[tokio::test]
async fn a_refused_connection_is_an_outage_and_shows_no_secrets() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let url = format!("http://me:hunter2@{address}/hooks/s3cr3t?token=s3cr3t");
    let handler = HttpHandler::new("orders", options(&url)).unwrap();
    let failure = handler.handle(&[event("{}")]).await.remove(0).unwrap_err();
    let code = Some(Code::Io("ConnectionRefused".into()));
    assert_eq!((failure.class, &failure.code, &*failure.kind), (Class::Transient, &code, "Connection"));
    assert!(failure.message.contains(&address.to_string()));
    for shown in [failure.to_string(), format!("{handler:?}")] {
        assert!(!shown.contains("hunter2") && !shown.contains("s3cr3t"), "{shown}");
    }
}

#[tokio::test]
async fn a_connection_that_breaks_is_an_outage() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 64]).await;
        }
    });
    let failure = deliver(options(&url), event("{}")).await.unwrap_err();
    assert_eq!((failure.class, &*failure.kind), (Class::Transient, "Connection"));
    assert!(matches!(failure.code, Some(Code::Io(_))), "{failure}");
}

#[tokio::test]
async fn a_name_that_nobody_knows_and_a_server_without_tls_are_outages() {
    let plain = Service::default().start().await.replace("http://", "https://");
    for url in ["http://no-such-host.invalid/", &plain] {
        let failure = deliver(options(url), event("{}")).await.unwrap_err();
        assert_eq!((failure.class, &*failure.kind), (Class::Transient, "Connection"), "{failure}");
    }
}

#[tokio::test]
async fn a_service_that_does_not_answer_in_time_is_not_an_outage() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let silent = tokio::spawn(async move { (listener.accept().await, std::future::pending::<()>().await) });
    let timeout = Duration::from_millis(300);
    let failure = deliver(HttpOptions { timeout, ..options(&url) }, event("{}")).await.unwrap_err();
    assert_eq!((failure.class, failure.code, &*failure.kind), (Class::Unclassified, None, "Timeout"));
    silent.abort();
}

#[test]
fn settings_that_cannot_work_are_refused_at_the_start() {
    let with = |name: &str, value: &str| {
        let headers = vec![(name.to_owned(), Secret::new(value))];
        HttpHandler::new("orders", HttpOptions { headers, ..options("http://127.0.0.1/") }).map(drop)
    };
    for name in ["redrive-attempt", "Idempotency-Key", "Content-Length"] {
        assert!(matches!(with(name, "1"), Err(SetupError::ReservedHeader { .. })), "{name}");
    }
    let error = with("x-token", "s3cr3t\r\nx-evil: 1").unwrap_err();
    assert!(matches!(error, SetupError::Header { .. }) && !error.to_string().contains("s3cr3t"));
    assert!(matches!(with("not a name", "1"), Err(SetupError::Header { .. })));
    let error = HttpHandler::new("orders", options("ftp://me:s3cr3t@127.0.0.1/")).unwrap_err();
    assert!(matches!(error, SetupError::Address { .. }) && !error.to_string().contains("s3cr3t"));
}
