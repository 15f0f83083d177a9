//! `POST /api/v1/ingest/{name}`: every form of a body, and everything that is refused.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

mod support;

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use redrive_engine::alerts::Silence;
use redrive_engine::console::{Console, Records};
use redrive_engine::ingest::{Ingest, IngestOptions};
use redrive_server::{Access, Doors, IngestDoor, Limits, router};
use redrive_spool::journal::JournalOptions;
use redrive_spool::target::Patience;
use redrive_spool::{Journal, Target};
use redrive_store::Database;
use serde_json::{Value, json};
use support::site;
use tempfile::TempDir;
use tower::ServiceExt as _;

const MAX_BODY: usize = 10_000;
const LINES: &str = "application/x-ndjson";

/// The pipeline `estat`; nobody works, so that what was accepted is in the journal.
struct Stand {
    router: Router,
    folder: TempDir,
}

impl Stand {
    fn new() -> Self {
        Self::with(|options| options)
    }

    fn with(change: impl FnOnce(IngestOptions) -> IngestOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = format!("file://{}", folder.path().join("store").display());
        let target = Target::open(&store, "RAW", "RAW_DLQ", &Patience::default()).unwrap();
        let options = change(IngestOptions::new(folder.path()));
        let ingest = Ingest::open("estat", options, target, Arc::new(Silence)).unwrap();
        let mut doors = Doors::default();
        doors.add_ingest(IngestDoor::new(ingest, MAX_BODY));
        let records = Records::of(&Database::open("sqlite::memory:").unwrap());
        let site = site(Arc::new(Console::new(records, [])), Access::default(), doors);
        Self { router: router(site, Limits { body: MAX_BODY }), folder }
    }

    /// With a ledger for keys, in this folder.
    async fn with_ledger() -> Self {
        let mut stand = Self::new();
        let address = format!("sqlite://{}", stand.folder.path().join("ledger.db").display());
        let records = Records::of(&Database::connect(&address).await.unwrap());
        records.migrate().await.unwrap();
        let store = format!("file://{}", stand.folder.path().join("store").display());
        let target = Target::open(&store, "RAW", "RAW_DLQ", &Patience::default()).unwrap();
        stand.router = Router::new();
        let ingest =
            Ingest::open("estat", IngestOptions::new(stand.folder.path()), target, Arc::new(Silence))
                .unwrap();
        let mut doors = Doors::default();
        doors.add_ingest(IngestDoor::new(ingest, MAX_BODY));
        let site = site(Arc::new(Console::new(records, [])), Access::default(), doors);
        stand.router = router(site, Limits { body: MAX_BODY });
        stand
    }

    async fn post(&self, path: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> (StatusCode, Value) {
        let mut request = Request::post(format!("/api/v1/ingest/{path}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.router.clone().oneshot(request.body(body.into()).unwrap()).await.unwrap();
        let status = response.status();
        if status == StatusCode::SERVICE_UNAVAILABLE {
            assert_eq!(response.headers()["retry-after"], "5");
        }
        let bytes = to_bytes(response.into_body(), 1_000_000).await.unwrap();
        (status, serde_json::from_slice(&bytes).unwrap())
    }

    /// What is on disk, whoever sent it.
    fn accepted(self) -> String {
        drop(self.router);
        accepted(&self.folder.path().join("journal"))
    }
}

fn accepted(journal: &Path) -> String {
    let journal = Journal::open(journal, JournalOptions::default()).unwrap();
    let records = journal.reader().read(usize::MAX, usize::MAX).unwrap();
    records.iter().map(|record| String::from_utf8(record.payload[1..].to_vec()).unwrap()).collect()
}

#[tokio::test]
async fn one_value_an_array_and_lines_are_accepted_and_on_disk() {
    let stand = Stand::new();
    let json = [("content-type", "application/json; charset=utf-8")];
    let lines = [("content-type", LINES)];
    assert_eq!(
        stand.post("estat", &json, "{\n \"a\": 1\n}").await,
        (StatusCode::ACCEPTED, json!({"accepted": 1}))
    );
    assert_eq!(stand.post("estat", &json, "[{\"b\":2},3]").await.1, json!({"accepted": 2}));
    assert_eq!(stand.post("estat", &lines, "{\"c\":3}\n\n{\"d\":4}").await.1, json!({"accepted": 2}));
    assert_eq!(stand.post("estat", &json, "[]").await.1, json!({"accepted": 0}));
    assert_eq!(stand.accepted(), "{\"a\": 1}\n{\"b\":2}\n3\n{\"c\":3}\n{\"d\":4}\n");
}

#[tokio::test]
async fn gzip_and_zstd_are_unpacked_and_bounded() {
    let stand = Stand::new();
    let gzip = |text: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    };
    let zstd = |text: &[u8]| zstd::encode_all(text, 3).unwrap();
    let bomb = vec![b' '; 50_000_000];
    let good = b"{\"a\":1}\n";
    for (packing, packed, bomb) in [("gzip", gzip(good), gzip(&bomb)), ("zstd", zstd(good), zstd(&bomb))] {
        assert!(bomb.len() < MAX_BODY * 10);
        let headers = [("content-type", LINES), ("content-encoding", packing)];
        assert_eq!(stand.post("estat", &headers, packed.clone()).await.1, json!({"accepted": 1}));
        let bomb = &bomb[..bomb.len().min(MAX_BODY)];
        assert_eq!(
            stand.post("estat", &headers, bomb.to_vec()).await.0,
            StatusCode::PAYLOAD_TOO_LARGE,
            "{packing}"
        );
        let (status, problem) = stand.post("estat", &headers, packed[..packed.len() - 4].to_vec()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(problem["detail"].as_str().unwrap().starts_with("The body cannot be unpacked"), "{problem}");
    }
    assert_eq!(stand.accepted(), "{\"a\":1}\n{\"a\":1}\n");
}

#[tokio::test]
async fn a_wrong_line_is_named_and_the_others_are_accepted_only_on_request() {
    let stand = Stand::new();
    let headers = [("content-type", LINES)];
    let body = "{\"a\":1}\nnonsense\n{\"b\":2}\n";
    let (status, problem) = stand.post("estat", &headers, body).await;
    assert_eq!((status, &problem["line"]), (StatusCode::BAD_REQUEST, &json!(2)));
    assert!(problem["detail"].as_str().unwrap().starts_with("Line 2 is not JSON: "), "{problem}");
    let (status, answer) = stand.post("estat?invalid=skip", &headers, body).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    assert_eq!((&answer["accepted"], &answer["rejected"][0]["line"]), (&json!(2), &json!(2)));
    assert_eq!(stand.accepted(), "{\"a\":1}\n{\"b\":2}\n");
}

/// Path, headers, body; status and what is said.
type Case = (&'static str, &'static [(&'static str, &'static str)], String, u16, &'static str);

#[tokio::test]
async fn what_cannot_be_taken_is_refused_with_what_to_do() {
    let stand = Stand::new();
    const JSON: (&str, &str) = ("content-type", "application/json");
    let cases: [Case; 6] = [
        ("nothing", &[JSON], "{}".to_owned(), 404, "Known here: estat"),
        ("estat", &[], "{}".to_owned(), 415, "application/x-ndjson"),
        ("estat", &[("content-type", "text/plain")], "{}".to_owned(), 415, "application/json"),
        ("estat", &[JSON, ("content-encoding", "br")], "{}".to_owned(), 415, "gzip or zstd"),
        ("estat", &[JSON], " ".repeat(MAX_BODY + 1), 413, "server.max-body"),
        ("estat", &[JSON], "{\"a\":".to_owned(), 400, "Line 1 is not JSON"),
    ];
    for (path, headers, body, status, said) in cases {
        let (answered, problem) = stand.post(path, headers, body).await;
        assert_eq!(answered, status, "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(said), "{problem}");
    }
    assert_eq!(stand.accepted(), "");
}

#[tokio::test]
async fn a_full_queue_and_a_full_journal_are_503_with_a_time_to_come_back() {
    let queue = Stand::with(|options| IngestOptions { queue: 2_048, ..options });
    let headers = [("content-type", LINES)];
    let line = format!("\"{}\"\n", "x".repeat(1_500));
    assert_eq!(queue.post("estat", &headers, line.clone()).await.0, StatusCode::ACCEPTED);
    let (status, problem) = queue.post("estat", &headers, line.clone()).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(problem["detail"].as_str().unwrap().contains("its queue is full"), "{problem}");

    let journal = Stand::with(|options| {
        let dir = options.spool.with_file_name("journal");
        let small = JournalOptions { max_size: 2_000, ..JournalOptions::default() };
        IngestOptions { journal: Some((dir, small)), ..options }
    });
    assert_eq!(journal.post("estat", &headers, line.clone()).await.0, StatusCode::ACCEPTED);
    let (status, problem) = journal.post("estat", &headers, line).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("its disk is full") && !detail.contains("/tmp"), "{problem}");
}

/// A client whose connection broke sent its events again, and they were there twice.
#[tokio::test]
async fn a_body_that_is_sent_again_with_its_key_comes_in_once() {
    let stand = Stand::with_ledger().await;
    let headers = [("content-type", LINES), ("idempotency-key", "k")];
    let body = "{\"a\":1}\nwrong\n";
    let first = stand.post("estat?invalid=skip", &headers, body).await;
    assert_eq!((first.0, &first.1["accepted"]), (StatusCode::ACCEPTED, &json!(1)));
    let again = stand.post("estat?invalid=skip", &headers, body).await;
    assert_eq!(again, first);
    let (status, problem) = stand.post("estat", &headers, "{\"a\":2}\n").await;
    assert_eq!((status.as_u16(), &problem["field"]), (422, &json!("Idempotency-Key")), "{problem}");
    let (status, problem) = stand.post("estat?invalid=skip", &headers[1..], body).await;
    assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE, "{problem}");
    let good = [("content-type", LINES), ("idempotency-key", "good")];
    assert_eq!(stand.post("estat?invalid=skip", &good, "{\"a\":2}\n").await.0, StatusCode::ACCEPTED);
    let (status, problem) = stand.post("estat", &good, "{\"a\":2}\n").await;
    assert_eq!(status.as_u16(), 422, "what is done with wrong lines is part of the request: {problem}");
    let twice = [("content-type", LINES), ("idempotency-key", "x"), ("idempotency-key", "y")];
    let (status, problem) = stand.post("estat", &twice, "{\"a\":9}\n").await;
    assert_eq!((status.as_u16(), &problem["field"]), (422, &json!("Idempotency-Key")), "{problem}");
    stand.post("estat", &[("content-type", LINES)], "{\"a\":3}\n").await;
    assert_eq!(stand.accepted(), "{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n");
}

/// Nobody can say whether it came in before: it does not come in now, and the sender still has it.
#[tokio::test]
async fn a_key_without_a_ledger_is_not_guessed_about() {
    let stand = Stand::new();
    let headers = [("content-type", LINES), ("idempotency-key", "k")];
    let (status, problem) = stand.post("estat", &headers, "{\"a\":1}\n").await;
    assert!(status.is_server_error(), "{problem}");
    assert_eq!(stand.accepted(), "");
}
