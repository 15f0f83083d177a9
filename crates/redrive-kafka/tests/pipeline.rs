//! The whole pipeline: a broker, a database, and us in between.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::prepare;
use common::stage::{
    Running, Sent, count, decision, lag, mock, options, poison, produce, produce_packed, read, real, sink,
    until,
};
use redrive_core::failure::Failure;
use redrive_kafka::headers;
use redrive_kafka::record::{Header, Position, Record};
use redrive_kafka::row::{Cell, Row};
use redrive_kafka::sink::{PostgresSink, Sink, Stored};
use redrive_testkit::{Client, TestDatabase};

async fn rows(client: &mut Client) -> i64 {
    client.number("SELECT COUNT(*) FROM decision_log").await
}

/// Records of every kind that goes wrong somewhere.
fn oddities() -> Vec<Sent> {
    let large = format!(r#"{{"id":"large","note":"{}"}}"#, "x".repeat(1_000_000));
    vec![
        Sent { key: Some(vec![0, 255]), ..Sent::text(0, r#"{"id":"keyed","amount":1}"#) },
        Sent::text(0, ""),
        Sent { key: Some(b"gone".to_vec()), ..Sent::default() },
        Sent::text(0, large),
        Sent::text(0, vec![b'{', 0xff, b'}']),
        Sent::text(0, "{\"id\":\"n\\u0000ul\"}"),
        Sent::text(0, r#"{"id":"big","amount":9007199254740993}"#),
        Sent {
            headers: vec![Header::new("trace", [0, 1]), Header { name: "none".into(), value: None }],
            ..Sent::text(0, "not json")
        },
        poison(0, 1),
        Sent::text(0, r#"{"id":"last","amount":2}"#),
    ]
}

async fn odd_records_are_stored_right_or_dead_lettered_whole(
    brokers: &str,
    topic: &str,
    database: &TestDatabase,
) {
    let mut client = prepare(database).await;
    let folder = tempfile::tempdir().unwrap();
    let sent = oddities();
    produce(brokers, topic, &sent).await;
    let options = options(brokers, topic, folder.path());
    let running = Running::start(options, sink(database));
    until("four rows", async || rows(&mut client).await == 4).await;
    until("no lag", async || lag(brokers, topic, &format!("{topic}-writer")).await == 0).await;
    let ids = client.column("SELECT id FROM decision_log ORDER BY id").await;
    assert_eq!(ids, ["big", "keyed", "large", "last"]);
    assert_eq!(
        client.number("SELECT amount FROM decision_log WHERE id = 'big'").await,
        9_007_199_254_740_993
    );

    let letters = read(brokers, &format!("{topic}-dlq")).await;
    let kinds: Vec<_> = letters.iter().map(|letter| headers::read(letter).failure.kind).collect();
    assert_eq!(kinds, ["NotJson", "Tombstone", "NotUtf8", "NulInText", "NotJson", "Database"]);
    for (letter, at) in letters.iter().zip([1, 2, 4, 5, 7, 8]) {
        let sent = &sent[at];
        assert_eq!((&letter.key, &letter.value), (&sent.key, &sent.value), "byte for byte");
        assert_eq!(headers::original(&letter.headers), sent.headers);
        let reading = headers::read(letter);
        assert_eq!(reading.origin.unwrap().to_string(), format!("{topic}/0/{at}"));
        assert_eq!(reading.attempts, 1);
        assert!(reading.failed_at.is_some());
    }
    assert_eq!(count(brokers, &format!("{topic}-parking")).await, 0);
    assert_eq!(running.pipeline.health().get(), Ok(()));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_records_on_the_broker_in_this_process() {
    let cluster = mock("odd", 1);
    odd_records_are_stored_right_or_dead_lettered_whole(
        &cluster.bootstrap_servers(),
        "odd",
        &redrive_testkit::sqlite(),
    )
    .await;
}

/// Whatever a producer packs its records with.
#[tokio::test(flavor = "multi_thread")]
async fn packed_records_are_read() {
    let Some((brokers, topic)) = real(file!(), 1).await else { return };
    let database = redrive_testkit::sqlite();
    let mut client = prepare(&database).await;
    let folder = tempfile::tempdir().unwrap();
    let codecs = ["none", "gzip", "snappy", "lz4", "zstd"];
    for (nth, codec) in codecs.into_iter().enumerate() {
        let records: Vec<_> = (nth * 100..(nth + 1) * 100).map(|id| decision(0, id)).collect();
        produce_packed(&brokers, &topic, codec, &records).await;
    }
    let running = Running::start(options(&brokers, &topic, folder.path()), sink(&database));
    until("every row", async || rows(&mut client).await == 500).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_records_on_real_servers() {
    let Some((brokers, topic)) = real(file!(), 1).await else { return };
    let Some(database) = redrive_testkit::postgres(file!()).await else { return };
    odd_records_are_stored_right_or_dead_lettered_whole(&brokers, &topic, &database).await;
}

/// Where the decisions among these lie, after they were produced one after the other.
fn positions(first: &[Sent], then: &[Sent]) -> Vec<String> {
    let mut next = [0_i64; 2];
    let mut positions = Vec::new();
    for sent in first.iter().chain(then) {
        let offset = &mut next[sent.partition as usize];
        if sent.value.as_ref().is_some_and(|value| value.starts_with(b"{\"id\":\"d")) {
            positions.push(format!("{}/{offset}", sent.partition));
        }
        *offset += 1;
    }
    positions.sort();
    positions
}

/// An outage and poison in one batch: no letter twice, healthy records stored in the end.
async fn an_outage_with_poison_in_the_same_batch(brokers: &str, topic: &str, database: &TestDatabase) {
    let mut client = prepare(database).await;
    let folder = tempfile::tempdir().unwrap();
    let mut sent: Vec<Sent> = (0..60).map(|id| decision(id % 2, id as usize)).collect();
    sent[10] = Sent::text(0, "not json");
    sent[21] = poison(1, 21);
    // The table is away: to the sink that is an outage, not the fault of any record.
    client.run("ALTER TABLE decision_log RENAME TO away").await;
    produce(brokers, topic, &sent).await;
    let options = options(brokers, topic, folder.path());
    let running = Running::start(options, sink(database));
    tokio::time::sleep(Duration::from_millis(300)).await;
    client.run("ALTER TABLE away RENAME TO decision_log").await;
    until("the check passes", async || running.pipeline.health().get().is_ok()).await;
    until("rows", async || rows(&mut client).await == 58).await;
    client.run("ALTER TABLE decision_log RENAME TO away").await;
    let more: Vec<Sent> = (60..120)
        .map(|id| if id == 75 { Sent::text(1, "{") } else { decision(id % 2, id as usize) })
        .collect();
    produce(brokers, topic, &more).await;
    until("parked", async || count(brokers, &format!("{topic}-parking")).await == 59).await;
    until("no lag", async || lag(brokers, topic, &format!("{topic}-writer")).await == 0).await;
    assert!(running.pipeline.health().get().unwrap_err().contains("the sink is not available"));
    client.run("ALTER TABLE away RENAME TO decision_log").await;
    until("all rows", async || rows(&mut client).await == 117).await;
    // What was parked is the record that it was in the stream, not a new one.
    let wanted: Vec<String> = positions(&sent, &more).into_iter().map(|at| format!("{topic}/{at}")).collect();
    let place = r#"SELECT topic || '/' || partition || '/' || "offset" FROM decision_log"#;
    let mut found = client.column(place).await;
    found.sort();
    assert_eq!(found, wanted);
    let parking = format!("{topic}-parking");
    until("nothing parked", async || lag(brokers, &parking, &format!("{topic}-writer-parking")).await == 0)
        .await;
    let letters = read(brokers, &format!("{topic}-dlq")).await;
    let mut origins: Vec<_> = letters.iter().map(|letter| headers::read(letter).failure.kind).collect();
    origins.sort();
    assert_eq!(origins, ["Database", "NotJson", "NotJson"], "each letter once");
    assert_eq!(count(brokers, &format!("{topic}-parking-dlq")).await, 0);
    let parked = read(brokers, &parking).await;
    assert!(parked.iter().all(|letter| headers::read(letter).attempts == 3), "1 s, 2 s, then parked");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_and_poison_on_the_broker_in_this_process() {
    let cluster = mock("outage", 2);
    an_outage_with_poison_in_the_same_batch(
        &cluster.bootstrap_servers(),
        "outage",
        &redrive_testkit::sqlite(),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_and_poison_on_real_servers() {
    let Some((brokers, topic)) = real(file!(), 2).await else { return };
    let Some(database) = redrive_testkit::postgres(file!()).await else { return };
    an_outage_with_poison_in_the_same_batch(&brokers, &topic, &database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_parking_lot_gives_up_goes_alone_to_its_own_dead_letters() {
    let Some((brokers, topic)) = real(file!(), 1).await else { return };
    let Some(database) = redrive_testkit::postgres(file!()).await else { return };
    let mut client = prepare(&database).await;
    client
        .run(
            "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             IF NEW.amount = 13 THEN RAISE lock_not_available USING MESSAGE = 'busy'; END IF; RETURN NEW; END $$; \
             CREATE TRIGGER slow BEFORE INSERT ON decision_log FOR EACH ROW EXECUTE FUNCTION slow()",
        )
        .await;
    let folder = tempfile::tempdir().unwrap();
    let sent: Vec<Sent> = (0..30).map(|id| decision(0, id)).collect();
    produce(&brokers, &topic, &sent).await;
    let running = Running::start(options(&brokers, &topic, folder.path()), sink(&database));
    until("all but one", async || rows(&mut client).await == 29).await;
    let dead = format!("{topic}-parking-dlq");
    until("the letter", async || count(&brokers, &dead).await == 1).await;
    let letter = read(&brokers, &dead).await.remove(0);
    let reading = headers::read(&letter);
    assert_eq!(reading.origin.unwrap().to_string(), format!("{topic}/0/13"));
    assert_eq!(reading.failure.message, "busy");
    assert_eq!(letter.value, sent[13].value);
    assert_eq!(reading.attempts, 3 + 4, "three in the stream, four in the parking lot");
    assert_eq!(count(&brokers, &format!("{topic}-dlq")).await, 0);
    running.stop().await;
}

/// A right that is lost while it runs: the stream is parked and held, and nothing is a dead letter.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_right_to_insert_is_an_outage() {
    let Some((brokers, topic)) = real(file!(), 1).await else { return };
    let Some(database) = redrive_testkit::postgres(file!()).await else { return };
    let mut client = prepare(&database).await;
    let user = format!("r{}", database.url.rsplit('/').next().unwrap());
    client
        .run(&format!("CREATE ROLE {user} LOGIN; GRANT SELECT, INSERT ON decision_log, account TO {user}"))
        .await;
    let url = database.url.replacen("redrive@", &format!("{user}@"), 1);
    let folder = tempfile::tempdir().unwrap();
    let as_user = Arc::new(PostgresSink::new(&url, common::table(), Duration::from_secs(5)).unwrap());
    let running = Running::start(options(&brokers, &topic, folder.path()), as_user);
    produce(&brokers, &topic, &[decision(0, 0)]).await;
    until("a row", async || rows(&mut client).await == 1).await;
    client.run(&format!("REVOKE INSERT ON decision_log FROM {user}")).await;
    let sent: Vec<Sent> = (1..30).map(|id| decision(0, id)).collect();
    produce(&brokers, &topic, &sent).await;
    until("parked", async || count(&brokers, &format!("{topic}-parking")).await == 29).await;
    let said = running.pipeline.health().get().unwrap_err();
    assert!(said.contains("permission denied for table decision_log"), "{said}");
    // Longer than all attempts of the parking lot take.
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(running.pipeline.health().get().is_err());
    client.run(&format!("GRANT INSERT ON decision_log TO {user}")).await;
    until("all rows", async || rows(&mut client).await == 30).await;
    until("it is well again", async || running.pipeline.health().get().is_ok()).await;
    for suffix in ["dlq", "parking-dlq"] {
        assert_eq!(count(&brokers, &format!("{topic}-{suffix}")).await, 0, "{suffix}");
    }
    running.stop().await;
}

/// A sink with a defect: it panics at some records.
struct Fragile(Arc<dyn Sink>);

impl Fragile {
    fn trip(rows: &[Row<'_>]) {
        let is_thirteen = |row: &Row<'_>| row.cells.contains(&Cell::Number("13".into()));
        assert!(!rows.iter().any(is_thirteen), "thirteen");
    }
}

#[async_trait::async_trait]
impl Sink for Fragile {
    async fn write(&self, rows: &[Row<'_>]) -> Result<(), Failure> {
        Self::trip(rows);
        self.0.write(rows).await
    }

    async fn store(&self, rows: &[Row<'_>]) -> Stored {
        Self::trip(rows);
        self.0.store(rows).await
    }

    async fn probe(&self) -> Result<(), Failure> {
        self.0.probe().await
    }
}

/// A panic of the sink ended the lane in silence: its partition stood still, and health knew nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_at_which_the_sink_panics_is_given_up_alone() {
    let cluster = mock("fragile", 1);
    let brokers = cluster.bootstrap_servers();
    let database = redrive_testkit::sqlite();
    let mut client = prepare(&database).await;
    let folder = tempfile::tempdir().unwrap();
    let sent: Vec<Sent> = (0..30).map(|id| decision(0, id)).collect();
    produce(&brokers, "fragile", &sent).await;
    let fragile = Arc::new(Fragile(sink(&database)));
    let running = Running::start(options(&brokers, "fragile", folder.path()), fragile);
    until("all but one", async || rows(&mut client).await == 29).await;
    until("the letter", async || count(&brokers, "fragile-parking-dlq").await == 1).await;
    let letter = headers::read(&read(&brokers, "fragile-parking-dlq").await[0]);
    assert_eq!(letter.origin.unwrap().to_string(), "fragile/0/13");
    assert_eq!(letter.failure.kind, "Panic");
    assert!(
        letter.failure.message.contains("the sink panicked") && letter.failure.message.contains("thirteen")
    );
    assert_eq!(count(&brokers, "fragile-dlq").await, 0);
    running.stop().await;
}

/// `redrive-origin` was believed from anybody: such a record was taken for one that is stored already, and
/// was nowhere.
async fn headers_that_a_producer_made_up_lose_no_record(brokers: &str, topic: &str, database: &TestDatabase) {
    let mut client = prepare(database).await;
    let folder = tempfile::tempdir().unwrap();
    produce(brokers, topic, &[decision(0, 0)]).await;
    let running = Running::start(options(brokers, topic, folder.path()), sink(database));
    until("a row", async || rows(&mut client).await == 1).await;
    let origin = Header::new("redrive-origin", format!("{topic}/0/0"));
    let stolen =
        common::stage::seal().headers(&Position::new(topic, 0, 0), None, decision(0, 0).value.as_deref());
    let original = vec![
        Header::new("kafka_dlt-original-topic", topic),
        Header::new("kafka_dlt-original-partition", 0_i32.to_be_bytes()),
        Header::new("kafka_dlt-original-offset", 0_i64.to_be_bytes()),
    ];
    let with = |headers: Vec<Header>, id: usize| Sent { headers, ..decision(0, id) };
    let forged = [with(vec![origin.clone()], 1), with(stolen.to_vec(), 2), with(original.clone(), 3)];
    produce(brokers, topic, &forged).await;
    // The same in the parking lot.
    until("four rows", async || rows(&mut client).await == 4).await;
    client.run("ALTER TABLE decision_log RENAME TO away").await;
    produce(brokers, topic, &[with(vec![origin], 4), with(stolen.to_vec(), 5), with(original, 6)]).await;
    until("parked", async || count(brokers, &format!("{topic}-parking")).await == 3).await;
    client.run("ALTER TABLE away RENAME TO decision_log").await;
    until("seven rows", async || rows(&mut client).await == 7).await;
    let places = client.column(r#"SELECT id || '@' || "offset" FROM decision_log ORDER BY id"#).await;
    assert_eq!(places, ["d0@0", "d1@1", "d2@2", "d3@3", "d4@4", "d5@5", "d6@6"]);
    let topics = client.column("SELECT DISTINCT topic FROM decision_log").await;
    assert_eq!(topics, [topic]);
    assert_eq!(count(brokers, &format!("{topic}-dlq")).await, 0);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn made_up_headers_on_the_broker_in_this_process() {
    let cluster = mock("forged", 1);
    let brokers = cluster.bootstrap_servers();
    headers_that_a_producer_made_up_lose_no_record(&brokers, "forged", &redrive_testkit::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn made_up_headers_on_real_servers() {
    let Some((brokers, topic)) = real(file!(), 1).await else { return };
    let Some(database) = redrive_testkit::postgres(file!()).await else { return };
    headers_that_a_producer_made_up_lose_no_record(&brokers, &topic, &database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_at_the_start_is_said_by_name() {
    let cluster = mock("start", 1);
    let brokers = cluster.bootstrap_servers();
    let database = redrive_testkit::sqlite();
    let folder = tempfile::tempdir().unwrap();
    let said = |running: &Running| running.pipeline.health().get().err().unwrap_or_default();

    let running = Running::start(options(&brokers, "nothing-here", folder.path()), sink(&database));
    until("unknown topic", async || said(&running).contains("topic nothing-here does not exist")).await;
    running.stop().await;

    Client::connect(&database).await.run("CREATE TABLE other (a)").await;
    let running = Running::start(options(&brokers, "start", folder.path()), sink(&database));
    until("missing table", async || said(&running).contains("decision_log does not exist")).await;
    // It is looked at again, and starts by itself.
    let mut client = prepare(&database).await;
    produce(&brokers, "start", &[decision(0, 1)]).await;
    until("a row", async || rows(&mut client).await == 1).await;
    running.stop().await;

    let running = Running::start(options("127.0.0.1:1", "start", folder.path()), sink(&database));
    until("no broker", async || said(&running).contains("no broker at 127.0.0.1:1 answers")).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_for_a_topic_with_fewer_partitions_arrive_all_the_same() {
    let cluster: common::stage::Mock = rdkafka::mocking::MockCluster::new(1).unwrap();
    for (topic, partitions) in [("few", 3), ("few-dlq", 1), ("few-parking", 1), ("few-parking-dlq", 1)] {
        cluster.create_topic(topic, partitions, 1).unwrap();
    }
    let brokers = cluster.bootstrap_servers();
    let database = redrive_testkit::sqlite();
    prepare(&database).await;
    let folder = tempfile::tempdir().unwrap();
    produce(&brokers, "few", &[Sent::text(0, "{"), Sent::text(1, "["), Sent::text(2, "}")]).await;
    let running = Running::start(options(&brokers, "few", folder.path()), sink(&database));
    until("letters", async || count(&brokers, "few-dlq").await == 3).await;
    let letters: Vec<Record> = read(&brokers, "few-dlq").await;
    let mut origins: Vec<i32> =
        letters.iter().map(|letter| headers::read(letter).origin.unwrap().partition).collect();
    origins.sort_unstable();
    assert_eq!(origins, [0, 1, 2]);
    assert_eq!(running.pipeline.on_disk(), (0, 0));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_program_in_the_parking_lots_group_is_named() {
    use rdkafka::consumer::{BaseConsumer, Consumer as _};

    let Some((brokers, topic)) = real(file!(), 1).await else { return };
    let database = redrive_testkit::sqlite();
    prepare(&database).await;
    let folder = tempfile::tempdir().unwrap();
    common::stage::create(&brokers, &format!("{topic}-parking"), 1).await;
    let other: BaseConsumer = rdkafka::config::ClientConfig::new()
        .set("bootstrap.servers", &brokers)
        .set("group.id", format!("{topic}-writer-parking"))
        .set("client.id", "reporting")
        .create()
        .unwrap();
    other.subscribe(&[&format!("{topic}-parking")]).unwrap();
    let (joined, has_joined) = tokio::sync::oneshot::channel();
    let (leave, left) = std::sync::mpsc::channel::<()>();
    let polling = tokio::task::spawn_blocking(move || {
        let mut joined = Some(joined);
        while left.try_recv().is_err() {
            other.poll(Duration::from_millis(100));
            if other.assignment().unwrap().count() > 0 {
                joined.take().map(|joined| joined.send(()));
            }
        }
    });
    has_joined.await.unwrap();
    let running = Running::start(options(&brokers, &topic, folder.path()), sink(&database));
    let said = || running.pipeline.health().get().err().unwrap_or_default();
    until("the other is named", async || said().contains("is also used by reporting")).await;
    assert!(
        said().contains(&format!("consumer group {topic}-writer-parking on topic {topic}-parking")),
        "{}",
        said()
    );
    leave.send(()).unwrap();
    polling.await.unwrap();
    until("it starts once the other has gone", async || running.pipeline.health().get().is_ok()).await;
    running.stop().await;
}
