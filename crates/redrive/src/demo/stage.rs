//! The stage: a real `redrive serve` in this process, on a configuration of its own, in a temporary folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use redrive::config::{Config, Environment, Source};
use serde_json::{Value, json};
use sqlx::Connection as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use tokio::net::TcpListener;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::broker::{Broker, TOPIC};
use super::town::{LONG_ARTICLE, Town, Visit};
use crate::command::serve::serve_on;

/// Everything that plays.
pub(super) struct Stage {
    folder: tempfile::TempDir,
    pub(super) town: Arc<Town>,
    broker: Option<Broker>,
    /// Where redrive is.
    pub(super) address: String,
    /// Where the services are.
    pub(super) services: String,
    client: reqwest::Client,
    stop: CancellationToken,
    serving: JoinHandle<anyhow::Result<()>>,
}

/// The tables of the applications; a trigger is a rule that somebody forgot.
const TABLES: [&str; 2] = [
    "CREATE TABLE urls (short_url VARCHAR(255) NOT NULL PRIMARY KEY, long_url TEXT NOT NULL, \
     created_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')))",
    "CREATE TABLE decision_log (topic TEXT NOT NULL, partition INTEGER NOT NULL, \"offset\" INTEGER NOT NULL, \
     id TEXT NOT NULL, region TEXT NOT NULL, body TEXT NOT NULL, UNIQUE (topic, partition, \"offset\"))",
];
const RULES: [&str; 2] = [
    "CREATE TRIGGER no_long_urls BEFORE INSERT ON urls WHEN length(NEW.long_url) > 200 \
     BEGIN SELECT RAISE(ABORT, 'long_url is longer than 200'); END",
    "CREATE TRIGGER no_new_regions BEFORE INSERT ON decision_log WHEN NEW.region = 'eu-south' \
     BEGIN SELECT RAISE(ABORT, 'region eu-south is not known'); END",
];
const NO_RULES: [&str; 2] = ["DROP TRIGGER IF EXISTS no_long_urls", "DROP TRIGGER IF EXISTS no_new_regions"];

impl Stage {
    /// Sets the stage and starts everything; whoever plays on it is told of.
    pub(super) async fn set() -> anyhow::Result<(Self, UnboundedReceiver<Visit>)> {
        // Another part of the process may have installed it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().context("no temporary folder can be made: check TMPDIR")?;
        let (town, services, visitors) = Town::open().await?;
        let broker = Broker::start()?;
        let text = configuration(folder.path(), &services, broker.as_ref());
        let path = folder.path().join("redrive.toml");
        std::fs::write(&path, &text).with_context(|| format!("{} cannot be written", path.display()))?;
        std::fs::create_dir_all(folder.path().join("bucket"))?;
        let config =
            Config::load(&Source::of_text("the demo's configuration", &text), &Environment::default())?;
        execute(folder.path(), &TABLES).await?;
        execute(folder.path(), &RULES).await?;

        let listener = TcpListener::bind("127.0.0.1:0").await.context("no port is free on this machine")?;
        let address = format!("http://{}", listener.local_addr()?);
        let stop = CancellationToken::new();
        let until = stop.clone();
        let serving = tokio::spawn(async move { serve_on(listener, &config, until).await });
        let client =
            reqwest::Client::builder().no_proxy().build().context("the HTTP client cannot be made")?;
        Ok((Self { folder, town, broker, address, services, client, stop, serving }, visitors))
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Whether there is a broker, and so a Kafka pipeline.
    pub(super) fn has_kafka(&self) -> bool {
        self.broker.is_some()
    }

    /// Whether everything works.
    pub(super) async fn is_ready(&self) -> bool {
        let answer = self.client.get(format!("{}/api/v1/ready", self.address)).send().await;
        answer.is_ok_and(|answer| answer.status().is_success())
    }

    /// What is at this address of the API.
    pub(super) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        let answer = self.client.get(format!("{}/api/v1{path}", self.address)).send().await?;
        read(path, answer).await
    }

    /// Sends this to an address of the API.
    pub(super) async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let answer = self.client.post(format!("{}/api/v1{path}", self.address)).json(body).send().await?;
        read(path, answer).await
    }

    /// Orders are placed: in dollars, or in euros.
    pub(super) async fn place_orders(&self, count: u64, currency: &str) -> anyhow::Result<()> {
        let event = |number: u64| {
            json!({"event_type": "PaymentCaptured", "aggregate_type": "Order", "aggregate_id": number.to_string(),
                   "payload": {"order": number, "currency": currency, "total": format!("{}.99", number % 90 + 10)}})
        };
        self.post_all("/outbox/orders/events", count, &event).await
    }

    /// Articles are to be summarized; every so many of them is too long.
    pub(super) async fn publish_articles(&self, count: u64, long_every: u64) -> anyhow::Result<()> {
        let job = |number: u64| {
            let is_long = long_every > 0 && number.is_multiple_of(long_every);
            let payload = if is_long { LONG_ARTICLE } else { r#"{"words":900}"# };
            json!({"subject": format!("article-{number}"), "payload": payload})
        };
        self.post_all("/jobs/summaries", count, &job).await
    }

    /// Addresses are shortened; every so many of them is too long. `round` keeps their keys apart.
    pub(super) async fn shorten_urls(&self, round: u64, count: u64, long_every: u64) -> anyhow::Result<()> {
        let url = |number: u64| {
            let is_long = long_every > 0 && number.is_multiple_of(long_every);
            let path = if is_long { "x".repeat(300) } else { number.to_string() };
            json!({"key": format!("{round}-{number}"), "payload": format!("https://example.org/{path}")})
        };
        self.post_all("/persist/urls", count, &url).await
    }

    /// People click.
    pub(super) async fn click(&self, count: u64) -> anyhow::Result<()> {
        let click = |number: u64| json!({"click": number, "page": format!("/p/{}", number % 40)});
        self.post_all("/ingest/clicks", count, &click).await
    }

    /// Decisions are made; every so many of them in a region that nobody knows.
    pub(super) async fn decide(&self, round: u64, count: u64, odd_every: u64) -> anyhow::Result<()> {
        let Some(broker) = &self.broker else { return Ok(()) };
        let record = |number: u64| {
            let odd = odd_every > 0 && number.is_multiple_of(odd_every);
            let region = if odd { "eu-south" } else { "us-east" };
            (number.to_string(), json!({"id": format!("{round}-{number}"), "region": region}).to_string())
        };
        broker.send((1..=count).map(record).collect()).await
    }

    async fn post_all(&self, path: &str, count: u64, make: &dyn Fn(u64) -> Value) -> anyhow::Result<()> {
        let all: Vec<Value> = (1..=count).map(make).collect();
        for some in all.chunks(500) {
            self.post(path, &Value::from(some.to_vec())).await?;
        }
        Ok(())
    }

    /// The bucket is gone: a file is where a folder was, so whatever is written there fails.
    pub(super) fn lose_bucket(&self) -> anyhow::Result<()> {
        let (bucket, away) = self.bucket();
        std::fs::rename(&bucket, away)?;
        Ok(std::fs::write(bucket, "")?)
    }

    /// The bucket is back.
    pub(super) fn find_bucket(&self) -> anyhow::Result<()> {
        let (bucket, away) = self.bucket();
        std::fs::remove_file(&bucket)?;
        Ok(std::fs::rename(away, bucket)?)
    }

    fn bucket(&self) -> (PathBuf, PathBuf) {
        (self.folder.path().join("bucket"), self.folder.path().join("bucket-away"))
    }

    /// The tables lose the rules that somebody forgot.
    pub(super) async fn drop_rules(&self) -> anyhow::Result<()> {
        execute(self.folder.path(), &NO_RULES).await
    }

    /// And get them back, for whoever wants to play.
    pub(super) async fn restore_rules(&self) -> anyhow::Result<()> {
        execute(self.folder.path(), &RULES).await
    }

    /// How many rows the applications' tables have: urls and decisions.
    pub(super) async fn rows(&self) -> anyhow::Result<(u64, u64)> {
        let mut connection = connect(self.folder.path()).await?;
        let urls: i64 = sqlx::query_scalar("SELECT count(*) FROM urls").fetch_one(&mut connection).await?;
        let decisions: i64 =
            sqlx::query_scalar("SELECT count(*) FROM decision_log").fetch_one(&mut connection).await?;
        connection.close().await?;
        Ok((u64::try_from(urls)?, u64::try_from(decisions)?))
    }

    /// Stops everything.
    pub(super) async fn curtain(self) -> anyhow::Result<()> {
        self.stop.cancel();
        self.serving.await.context("the server ended in a defect")?
    }
}

async fn read(path: &str, answer: reqwest::Response) -> anyhow::Result<Value> {
    let status = answer.status();
    let text = answer.text().await?;
    ensure!(status.is_success(), "{path} answered {status}: {text}");
    Ok(serde_json::from_str(&text).unwrap_or(Value::Null))
}

async fn connect(folder: &Path) -> anyhow::Result<SqliteConnection> {
    let options = SqliteConnectOptions::new()
        .filename(folder.join("apps.db"))
        .create_if_missing(true)
        .journal_mode(sqlx::sqlite::SqliteJournalMode::Wal)
        .busy_timeout(Duration::from_secs(20));
    Ok(SqliteConnection::connect_with(&options).await?)
}

async fn execute(folder: &Path, statements: &'static [&'static str]) -> anyhow::Result<()> {
    let mut connection = connect(folder).await?;
    for statement in statements {
        sqlx::query(*statement).execute(&mut connection).await?;
    }
    Ok(connection.close().await?)
}

/// Quick retries and short pauses: a demo's minute is short.
fn configuration(folder: &Path, services: &str, broker: Option<&Broker>) -> String {
    let folder = folder.display();
    let kafka = broker.map_or_else(String::new, |broker| {
        format!(
            r#"
[kafka.decisions]
brokers = "{}"
topic = "{TOPIC}"
group = "decisions-writer"
batch = {{ max-records = 500, max-delay = "100ms" }}
retry = {{ attempts = 1, initial = "100ms", factor = 2.0, max = "1s" }}
sink = {{ database = "sqlite:{folder}/apps.db", table = "decision_log", columns = {{ id = "$.id", region = "$.region", body = "$" }} }}
"#,
            broker.address()
        )
    });
    format!(
        r#"[server]
data-dir = "{folder}/data"
database = "sqlite:{folder}/data/redrive.db"

[outbox.orders]
poll-interval = "200ms"
batch-size = 200
max-retry-count = 2
retry = {{ initial = "100ms", factor = 2.0, max = "400ms" }}
handlers.PaymentCaptured = {{ http = "{services}/bank" }}

[jobs.summaries]
poll-interval = "200ms"
max-retries = 2
concurrency = 8
retry = {{ initial = "100ms", factor = 2.0, max = "400ms" }}
handler = {{ http = "{services}/summaries" }}

[persist.urls]
database = "sqlite:{folder}/apps.db"
table = "urls"
dlq = {{ initial-delay = "500ms", fixed-delay = "500ms", max-retry-count = 1 }}

[ingest.clicks]
store = "file://{folder}/bucket"
batch = {{ max-events = 200, max-delay = "100ms" }}
recovery = {{ interval = "500ms" }}
{kafka}
[intake]
targets.crm = {{ http = "{services}/crm" }}

[alerts]
threshold = 10
check-interval = "1s"
channels = [{{ webhook = "{services}/pager" }}]
"#
    )
}
