//! What earlier versions left behind is read and worked on by this one: the fixtures in `tests/fixtures`, made by the
//! versions that their README names.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use redrive_testkit::{Backend, Client, TestDatabase, mysql, postgres, sqlite};
use serde_json::{Value, json};
use sqlx::Connection as _;
use sqlx::sqlite::SqliteConnectOptions;
use support::{PATIENCE, Server, eventually, folder_with, redrive, text};
use tempfile::TempDir;

fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/v0").join(path)
}

fn read(path: &str) -> String {
    fs::read_to_string(fixture(path)).unwrap()
}

#[tokio::test]
async fn a_sqlite_of_version_0_is_read_and_worked_on() {
    is_read_and_worked_on(&sqlite()).await;
}

#[tokio::test]
async fn a_postgres_of_version_0_is_read_and_worked_on() {
    let Some(database) = postgres(file!()).await else { return };
    is_read_and_worked_on(&database).await;
}

#[tokio::test]
async fn a_mariadb_of_version_0_is_read_and_worked_on() {
    let Some(database) = mysql(file!()).await else { return };
    is_read_and_worked_on(&database).await;
}

async fn is_read_and_worked_on(database: &TestDatabase) {
    let name = match database.backend {
        Backend::Sqlite => "sqlite",
        Backend::Postgres => "postgres",
        Backend::MySql => "mysql",
    };
    Client::connect(database).await.run(&read(&format!("stores/{name}.sql"))).await;
    // What was leased was interrupted, which counts as an attempt: it is retried after a pause.
    let config = read("stores/redrive.toml").replace("30s", "100ms");
    let folder = folder_with(&format!("[server]\ndatabase = \"{}\"\n{config}", database.url));
    // Whatever failed then is delivered now.
    fs::write(folder.path().join("handler.sh"), "cat > /dev/null\n").unwrap();
    assert!(redrive(folder.path()).arg("migrate").status().unwrap().success());

    let known: Value = serde_json::from_str(&read(&format!("stores/{name}.json"))).unwrap();
    everything_is_read(folder.path(), &known);
    let server = Server::ready(folder.path());
    what_people_did_is_read(&server, &known);
    everything_is_worked_on(&server, &known);
    let books = said(folder.path(), &["verify"]);
    assert!(books.contains("the books balance"), "{books}");
}

/// Letters, operations and books are those that the earlier version read.
fn everything_is_read(folder: &Path, known: &Value) {
    let letters = said_json(folder, &["ls", "--limit", "500"]);
    assert_eq!(found(&letters["letters"], &known["letters"]), known["letters"]);
    let operations = said_json(folder, &["ops"]);
    assert_eq!(found(&operations["operations"], &known["operations"]), known["operations"]);
    let books = said_json(folder, &["verify"]);
    for book in books["pipelines"].as_array().unwrap() {
        let balance = &known["books"][book["pipeline"].as_str().unwrap()];
        assert_eq!(
            (&book["gap"], found_of(&book["balance"], balance)),
            (&json!(0), balance.clone()),
            "{book}"
        );
    }
}

fn what_people_did_is_read(server: &Server, known: &Value) {
    let audit = server.get("/api/v1/audit?limit=100").1;
    let notes: Vec<_> = audit["entries"].as_array().unwrap().iter().map(|entry| &entry["note"]).collect();
    assert!(notes.contains(&&json!("cancelled by phone")), "{audit}");
    let edited = letter(known, |letter| letter["status"] == "redriven" && letter["key"] == "2");
    let edited = server.get(&format!("/api/v1/dead-letters/{edited}")).1;
    assert_eq!(edited["edits"].as_array().unwrap().len(), 1, "{edited}");
    assert!(edited["edits"][0].to_string().contains("refuse"), "{edited}");
}

fn everything_is_worked_on(server: &Server, known: &Value) {
    let books = |pipeline: &str| known["books"][pipeline].clone();
    let number = |balance: &Value, name: &str| balance[name].as_u64().unwrap();

    // A letter of the earlier version, and what its operations had left to do.
    let open = letter(known, |letter| letter["status"] == "open" && letter["key"] == "30");
    assert_eq!(server.post(&format!("/api/v1/dead-letters/{open}/redrive"), &json!({})).0, 200);
    for operation in known["operations"].as_array().unwrap() {
        let path = format!("/api/v1/redrives/{}", operation["id"]);
        match operation["state"].as_str().unwrap() {
            "paused" => assert_eq!(server.post(&format!("{path}/resume"), &json!({})).0, 200),
            "running" => {}
            _ => continue,
        }
        eventually("a finished operation", || (server.get(&path).1["state"] == "finished").then_some(()));
    }
    settles(server, "orders", |now| {
        number(now, "in_flight") == 0 && number(now, "delivered") > number(&books("orders"), "in_flight")
    });

    // It was paused, and still is.
    assert_eq!(balance(server, "bills"), books("bills"));
    assert_eq!(server.post("/api/v1/pipelines/bills/resume", &json!({})).0, 200);
    settles(server, "bills", |now| now["delivered"] == 2);

    settles(server, "intake", |now| number(now, "in_flight") == 0 && number(now, "delivered") == 3);
    // Their keys are taken, then as now.
    settles(server, "urls", |now| number(now, "in_flight") + number(now, "parked") == 0);
    eventually("every job is completed", || {
        let (_, claimed) = server.post("/api/v1/jobs/mails/claim", &json!({"limit": 10, "wait": "1s"}));
        for job in claimed["jobs"].as_array()? {
            let path = format!("/api/v1/jobs/mails/{}/complete", job["id"]);
            assert_eq!(server.post(&path, &json!({"lease": job["lease"]})).0, 204);
        }
        (number(&balance(server, "mails"), "in_flight") == 0).then_some(())
    });
    let mails = books("mails");
    let completed = number(&mails, "in_flight") + number(&mails, "delivered");
    assert_eq!(balance(server, "mails")["delivered"], completed);
}

#[tokio::test]
async fn journals_and_a_spool_of_version_0_are_emptied() {
    let folder = folder_with(&read("disk/redrive.toml"));
    let data = folder.path().join("redrive-data");
    for kept in ["persist", "journal", "spool"] {
        copy(&fixture("disk").join(kept), &data.join(kept));
    }
    let spool = data.join("spool/clicks");
    let damaged = files(&spool, ".jsonl.gz").pop().unwrap();
    let damaged = (damaged.file_name().unwrap().to_owned(), fs::read(&damaged).unwrap());
    let server = Server::ready(folder.path());
    let stored = data.join("ingest/clicks");
    eventually("an empty spool", || files(&spool, ".jsonl.gz").is_empty().then_some(()));
    let pages = |of: &str, count: usize| (0..count).map(|n| format!("/{of}/{n}")).collect::<Vec<_>>();
    let wanted: BTreeSet<_> =
        [pages("2", 3), pages("3", 3), pages("journal", 5)].concat().into_iter().collect();
    eventually("every event in the store", || {
        let stored: BTreeSet<_> =
            files(&stored.join("RAW"), ".gz").iter().flat_map(|file| clicks(file)).collect();
        wanted.is_subset(&stored).then_some(())
    });
    assert_eq!(fs::read(stored.join("RAW_DLQ").join(damaged.0)).unwrap(), damaged.1);
    assert_eq!(files(&spool.join(".resolved"), ".jsonl.gz").len(), 1);
    let mut urls = open(&data.join("redrive.db")).await;
    redrive_testkit::eventually(PATIENCE, "every event in its table", async || {
        urls.number("SELECT count(*) FROM urls").await == 3
    })
    .await;
    drop(server);
    let books = said(folder.path(), &["verify"]);
    assert!(books.contains("the books balance"), "{books}");
}

/// The pages in a stored batch.
fn clicks(file: &Path) -> Vec<String> {
    let mut lines = String::new();
    flate2::read::MultiGzDecoder::new(fs::File::open(file).unwrap()).read_to_string(&mut lines).unwrap();
    let page = |line: &str| serde_json::from_str::<Value>(line).unwrap()["page"].as_str().unwrap().to_owned();
    lines.lines().map(page).collect()
}

#[cfg(feature = "kafka")]
mod kafka {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use rdkafka::config::ClientConfig;
    use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
    use rdkafka::message::{Header, OwnedHeaders};
    use rdkafka::mocking::MockCluster;
    use rdkafka::producer::{DefaultProducerContext, FutureProducer, FutureRecord};
    use rdkafka::{Offset, TopicPartitionList};

    use super::*;

    const PAYMENTS: &str = "CREATE TABLE payment_log (topic TEXT NOT NULL, partition INT NOT NULL,
        \"offset\" BIGINT NOT NULL, id TEXT NOT NULL, body TEXT NOT NULL, UNIQUE (topic, partition, \"offset\"))";

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn kafka_letters_of_version_0_are_read_and_go_back() {
        let broker: MockCluster<'_, DefaultProducerContext> = MockCluster::new(1).unwrap();
        for topic in ["decisions", "payments"] {
            for suffix in ["", "-dlq", "-parking", "-parking-dlq"] {
                broker.create_topic(&format!("{topic}{suffix}"), 1, 1).unwrap();
            }
        }
        let brokers = broker.bootstrap_servers();
        publish(&brokers).await;
        commit(&brokers);
        let (folder, mut log) = stored(&brokers).await;
        let server = Server::ready(folder.path());

        let letters = |pipeline: &str, status: &str| {
            let path = format!("/api/v1/dead-letters?pipeline={pipeline}&status={status}");
            server.get(&path).1["letters"].as_array().cloned().unwrap_or_default()
        };
        eventually("letters that waited on disk", || (letters("payments", "open").len() == 2).then_some(()));
        server.wait_metric(r#"redrive_kafka_spooled{pipeline="payments",rung="outgoing"} 0"#);
        redrive_testkit::eventually(PATIENCE, "the parked record", async || {
            log.number("SELECT count(*) FROM decision_log WHERE id = 'parked'").await == 1
        })
        .await;
        // Neither is open again, and none is there twice.
        eventually("letters that wait", || (letters("decisions", "open").len() == 3).then_some(()));
        assert_eq!(letters("decisions", "redriven").len(), 1);
        let id = letters("decisions", "open")[0]["id"].as_str().unwrap().to_owned();
        let edit = json!({"payload": {"id": "edited"}});
        assert_eq!(server.post(&format!("/api/v1/dead-letters/{id}/redrive"), &edit).0, 200);
        redrive_testkit::eventually(PATIENCE, "the redriven record", async || {
            log.number("SELECT count(*) FROM decision_log WHERE id = 'edited'").await == 1
        })
        .await;
        assert_eq!(letters("decisions", "open").len(), 2);
    }

    async fn publish(brokers: &str) {
        let producer: FutureProducer =
            ClientConfig::new().set("bootstrap.servers", brokers).create().unwrap();
        let bytes = |value: &Value| BASE64_STANDARD.decode(value.as_str().unwrap()).unwrap();
        for line in read("kafka/topics.jsonl").lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            let headers =
                line["headers"].as_array().unwrap().iter().fold(OwnedHeaders::new(), |headers, header| {
                    let value = bytes(&header["value"]);
                    headers.insert(Header { key: header["name"].as_str().unwrap(), value: Some(&value) })
                });
            let (key, value) = (bytes(&line["key"]), bytes(&line["value"]));
            let record = FutureRecord::to(line["topic"].as_str().unwrap()).partition(0).headers(headers);
            let record = record.key(&key).payload(&value).timestamp(line["timestamp"].as_i64().unwrap());
            let sent = producer.send(record, PATIENCE).await.unwrap();
            assert_eq!(json!(sent.offset), line["offset"]);
        }
    }

    /// The pipeline had read its topic to the end.
    fn commit(brokers: &str) {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", brokers)
            .set("group.id", "decisions-writer")
            .create()
            .unwrap();
        let (_, end) = consumer.fetch_watermarks("decisions", 0, PATIENCE).unwrap();
        let mut read = TopicPartitionList::new();
        read.add_partition_offset("decisions", 0, Offset::Offset(end)).unwrap();
        consumer.commit(&read, CommitMode::Sync).unwrap();
    }

    /// The folder of a server, and the database that its records are stored in.
    async fn stored(brokers: &str) -> (TempDir, Client) {
        let brokers = format!("]\nbrokers = \"{brokers}\"\n");
        let folder = folder_with(&read("kafka/redrive.toml").replace("]\n", &brokers));
        let data = folder.path().join("redrive-data");
        copy(&fixture("kafka/payments"), &data.join("kafka/payments"));
        open(&folder.path().join("payments.db")).await.run(PAYMENTS).await;
        let mut log = open(&data.join("redrive.db")).await;
        log.run(&read("kafka/store.sql")).await;
        (folder, log)
    }
}

/// A SQLite file, made if it is not there.
async fn open(path: &Path) -> Client {
    let options = SqliteConnectOptions::new().filename(path).create_if_missing(true);
    Client::Sqlite(sqlx::SqliteConnection::connect_with(&options).await.unwrap())
}

/// Of each of these, as much as is known of it.
fn found(these: &Value, known: &Value) -> Value {
    let (these, known) = (these.as_array().unwrap(), known.as_array().unwrap());
    these.iter().map(|one| found_of(one, &known[0])).collect()
}

fn found_of(one: &Value, known: &Value) -> Value {
    let names = known.as_object().unwrap().keys();
    names.map(|name| (name.clone(), one[name].clone())).collect::<serde_json::Map<_, _>>().into()
}

fn letter(known: &Value, is_it: impl Fn(&Value) -> bool) -> String {
    let letter = known["letters"].as_array().unwrap().iter().find(|letter| is_it(letter)).unwrap();
    letter["id"].as_str().unwrap().to_owned()
}

fn balance(server: &Server, pipeline: &str) -> Value {
    let books = server.get("/api/v1/books").1;
    let book = books["pipelines"].as_array().unwrap().iter().find(|book| book["pipeline"] == pipeline);
    book.unwrap()["balance"].clone()
}

#[track_caller]
fn settles(server: &Server, pipeline: &str, is_settled: impl Fn(&Value) -> bool) {
    eventually(pipeline, || is_settled(&balance(server, pipeline)).then_some(()));
}

fn said(folder: &Path, args: &[&str]) -> String {
    let output = redrive(folder).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn said_json(folder: &Path, args: &[&str]) -> Value {
    serde_json::from_str(&said(folder, &[args, &["--json"]].concat())).unwrap()
}

/// The files in a folder whose names end so, in order; none when it is not there.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.to_str().unwrap().ends_with(ending));
    files.sort();
    files
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), &to).unwrap();
            // A damaged file that has just changed could be one that somebody is still writing.
            fs::File::options().write(true).open(to).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        }
    }
}
