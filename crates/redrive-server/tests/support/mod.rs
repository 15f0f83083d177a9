//! A site with real stores on SQLite, asked without a socket.
#![allow(dead_code, reason = "not every suite uses all of it")]

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Method, Request, StatusCode};
use redrive_core::backoff::Backoff;
use redrive_core::dead_letter::{DeadLetterQueue as _, Filter, Page, PipelineKind, Status};
use redrive_core::failure::Failure;
use redrive_core::lease::{Failed, Settlement};
use redrive_core::policy::Policy;
use redrive_engine::console::{Console, Desk, Pulse, Records};
use redrive_engine::{Pace, PersistOptions, Persister, Pipeline};
use redrive_server::{
    Access, Component, Doors, Gate, Grant, JobsDoor, Limits, Metrics, OutboxDoor, PersistDoor, Readiness,
    Role, Series, Site, router,
};
use redrive_store::{
    Claim, Database, FailedEvents, FailedEventsOptions, Jobs, JobsOptions, Outbox, OutboxOptions, Record,
    TakeOver, Target, TargetOptions, WorkStore as _,
};
use redrive_testkit::TestDatabase;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

/// One recorder per process.
pub(crate) static METRICS: LazyLock<Metrics> = LazyLock::new(|| Metrics::install().unwrap());

/// The largest body.
pub(crate) const MAX_BODY: usize = 100_000;

/// The outbox `orders`, the job queue `mails` and the persist pipeline `urls`, whose queue has room for 100.
pub(crate) struct Stand {
    pub(crate) router: Router,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) mails: Arc<Pipeline>,
    pub(crate) target: Arc<Target>,
    pub(crate) urls: Persister<Record>,
    pub(crate) console: Arc<Console>,
    pub(crate) pulse: Pulse,
    pub(crate) stop: CancellationToken,
    pub(crate) database: TestDatabase,
}

/// An answer as a client sees it.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    pub(crate) json: Value,
}

/// A site of this console, with which all is well.
pub(crate) fn site(console: Arc<Console>, access: Access, doors: Doors) -> Site {
    Site {
        readiness: Arc::new(Well),
        access,
        console,
        pulse: Pulse::default(),
        doors: Arc::new(doors),
        metrics: METRICS.clone(),
        series: Series::default(),
        stop: CancellationToken::new(),
    }
}

struct Well;

#[async_trait]
impl Readiness for Well {
    async fn check(&self) -> Vec<Component> {
        Vec::new()
    }
}

/// Somebody with this token.
pub(crate) fn grant(name: &str, role: Role, token: &str) -> Grant {
    Grant { name: name.to_owned(), role, sha256: Sha256::digest(token).into() }
}

impl Stand {
    /// With tables.
    pub(crate) async fn new() -> Self {
        let stand = Self::without_tables(&Gate::default(), redrive_testkit::sqlite());
        stand.outbox.migrate().await.unwrap();
        stand.jobs.migrate().await.unwrap();
        stand.target.migrate().await.unwrap();
        let connection = Database::open(&stand.database.url).unwrap();
        FailedEvents::new(connection.clone(), FailedEventsOptions::new("urls"))
            .unwrap()
            .migrate()
            .await
            .unwrap();
        Records::of(&connection).migrate().await.unwrap();
        stand
    }

    /// With tables that nobody made, behind a gate that this opens.
    pub(crate) fn without_tables(gate: &Gate, database: TestDatabase) -> Self {
        gate.open();
        Self::behind(gate, database)
    }

    /// With tables that nobody made, behind this gate.
    pub(crate) fn behind(gate: &Gate, database: TestDatabase) -> Self {
        Self::guarded(gate, database, Access::default())
    }

    /// The same, for these people only.
    pub(crate) fn guarded(gate: &Gate, database: TestDatabase, access: Access) -> Self {
        // First: what is counted before there is a recorder is not counted.
        LazyLock::force(&METRICS);
        let connection = Database::open(&database.url).unwrap();
        let outbox = Arc::new(Outbox::new(connection.clone(), OutboxOptions::new("orders")).unwrap());
        let target = Arc::new(Target::new(connection.clone(), &TargetOptions::new("urls")).unwrap());
        let failed = FailedEvents::new(connection.clone(), FailedEventsOptions::new("urls")).unwrap();
        let options = PersistOptions { queue: 100, ..PersistOptions::default() };
        let urls = Persister::builder(target.clone(), Arc::new(failed)).build(options);
        let jobs = Arc::new(Jobs::new(connection.clone(), JobsOptions::new("mails")).unwrap());
        let orders = Pipeline::new("orders", PipelineKind::Outbox, outbox.clone(), outbox.clone(), policy());
        let mails = Pipeline::new("mails", PipelineKind::Jobs, jobs.clone(), jobs.clone(), policy());
        let mails = Arc::new(mails.at(Pace { poll_interval: Duration::from_millis(50), ..Pace::default() }));
        let mut doors = Doors::default();
        let orders = Arc::new(orders);
        let records = Records::of(&connection);
        let intake = Desk { queue: records.intake.clone(), workers: None };
        let desks = [Desk::of(&orders), Desk::of(&mails), Desk::of(urls.pipeline()), intake];
        let console = Arc::new(Console::new(records, desks));
        doors.add_outbox(OutboxDoor::new(orders, outbox.clone(), gate.clone()));
        doors.add_jobs(JobsDoor::new(mails.clone(), jobs.clone(), gate.clone()));
        doors.add_persist(PersistDoor::new(urls.clone(), gate.clone()));
        let site = site(console.clone(), access, doors);
        let (pulse, stop) = (site.pulse.clone(), site.stop.clone());
        let router = router(site, Limits { body: MAX_BODY });
        Self { router, outbox, jobs, mails, target, urls, console, pulse, stop, database }
    }

    pub(crate) async fn post(&self, path: &str, body: impl Into<Body>) -> Answer {
        self.post_as("application/json", path, body).await
    }

    pub(crate) async fn post_as(&self, media: &str, path: &str, body: impl Into<Body>) -> Answer {
        let request = Request::builder().method(Method::POST).uri(path).header("content-type", media);
        self.ask(request.body(body.into()).unwrap()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask(Request::get(path).body(Body::empty()).unwrap()).await
    }

    /// Jobs that have died of this error, oldest first: `mails:1`, …
    pub(crate) async fn bury(&self, subjects: &[&str], error: &str) -> Vec<String> {
        let jobs: Vec<Value> =
            subjects.iter().map(|subject| json!({"subject": subject, "payload": subject})).collect();
        assert_eq!(self.post("/api/v1/jobs/mails", json!(jobs).to_string()).await.status, 201);
        let claimed = self.post("/api/v1/jobs/mails/claim", r#"{"limit": 1000}"#).await;
        let mut ids = Vec::new();
        for job in claimed.json["jobs"].as_array().unwrap() {
            let report =
                json!({"lease": job["lease"], "error": error, "class": "permanent", "kind": "Refused"});
            let failed =
                self.post(&format!("/api/v1/jobs/mails/{}/fail", job["id"]), report.to_string()).await;
            assert_eq!(failed.status, 204);
            ids.push(format!("mails:{}", job["id"]));
        }
        ids
    }

    /// Lets the one event of the outbox die, and says which letter it is.
    pub(crate) async fn kill_event(&self) -> String {
        let claim = Claim {
            worker: "test".to_owned(),
            limit: 10,
            lease: Duration::from_secs(3600),
            take_over: TakeOver::Never,
        };
        let mut claimed = self.outbox.turn(&mut Vec::new(), Some(&claim)).await.unwrap().claimed;
        let (lease, work) = claimed.remove(0);
        let failure = Failure::permanent("Refused", "card was declined");
        let failed = Failed::new("orders", &work, failure, jiff::Timestamp::now());
        let settled = self.outbox.turn(&mut vec![(lease, Settlement::Dead { failed })], None).await.unwrap();
        assert!(settled.lost.is_empty() && claimed.is_empty());
        let open = Filter { status: Some(Status::Open), ..Filter::default() };
        self.outbox.list(&open, Page::first(1)).await.unwrap().letters.remove(0).id.to_string()
    }

    pub(crate) async fn ask(&self, request: Request<Body>) -> Answer {
        let (parts, body) = self.router.clone().oneshot(request).await.unwrap().into_parts();
        let bytes = to_bytes(body, 10_000_000).await.unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let json = serde_json::from_str(&text).unwrap_or(Value::Null);
        Answer { status: parts.status, headers: parts.headers, text, json }
    }
}

impl Answer {
    /// Checks that it is a page with these parts.
    #[track_caller]
    pub(crate) fn assert_shows(&self, parts: &[&str]) {
        assert_eq!(self.status, StatusCode::OK, "{}", self.text);
        for part in parts {
            assert!(self.text.contains(part), "{part:?} in {}", self.text);
        }
    }

    /// Checks that it is a problem of this status, whose detail has these parts.
    #[track_caller]
    pub(crate) fn assert_problem(&self, status: u16, said: &[&str]) {
        assert_eq!(self.status.as_u16(), status, "{self:?}");
        assert_eq!(self.headers["content-type"], "application/problem+json");
        assert_eq!(self.json["status"], status);
        let detail = self.json["detail"].as_str().unwrap();
        for part in said {
            assert!(detail.contains(part), "{part:?} in {detail:?}");
        }
    }

    /// Checks which value a 422 is about.
    #[track_caller]
    pub(crate) fn assert_refused(&self, item: Option<usize>, field: &str, said: &str) {
        self.assert_problem(422, &[said]);
        assert_eq!(self.json["item"], item.map_or(Value::Null, Value::from), "{self:?}");
        assert_eq!(self.json["field"], field, "{self:?}");
    }
}

fn policy() -> Policy {
    let backoff = Backoff::new(Duration::from_millis(1), 1.0, Duration::from_millis(1)).unwrap();
    Policy::new(3, backoff)
}
