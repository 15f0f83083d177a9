//! Every sink against a real database: the same batches, the same poison.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::routing::post;
use common::{COLUMNS, decoder, good, prepare, record, sink_at, table};
use proptest::strategy::{Just, Strategy, ValueTree as _};
use proptest::test_runner::TestRunner;
use redrive_core::failure::{Class, Code};
use redrive_kafka::record::Record;
use redrive_kafka::row::Row;
use redrive_kafka::sink::{
    HttpSink, HttpSinkOptions, Isolation, MySqlSink, PostgresSink, Sink, SinkTable, Stored, bisect_exhausted,
};
use redrive_testkit::{Backend, Client, PATIENCE, TestDatabase};

fn sink(database: &TestDatabase) -> Arc<dyn Sink> {
    sink_at(database.backend, &database.url, table(), PATIENCE)
}

fn rows(records: &[Record]) -> Vec<Row<'_>> {
    let decoder = decoder();
    records.iter().map(|record| decoder.decode(record).unwrap()).collect()
}

async fn offsets(client: &mut Client, backend: Backend) -> Vec<String> {
    let quote = if backend == Backend::MySql { '`' } else { '"' };
    client.column(&format!("SELECT {quote}offset{quote} FROM decision_log ORDER BY 1")).await
}

#[tokio::test]
async fn good_rows_are_stored_once_however_often_they_come() {
    for database in redrive_testkit::backends_and_pooled(file!()).await {
        let mut client = prepare(&database).await;
        let sink = sink(&database);
        sink.check().await.unwrap();
        sink.probe().await.unwrap();
        let records: Vec<Record> = (0..100).map(good).collect();
        let rows = rows(&records);
        assert_eq!(sink.store(&rows[..60]).await, Stored::default());
        // A rebalance: half of the batch is there already.
        assert_eq!(sink.store(&rows[30..]).await, Stored::default());
        assert_eq!(sink.store(&rows).await, Stored::default());
        assert_eq!(sink.write(&rows).await, Ok(()));
        assert_eq!(offsets(&mut client, database.backend).await.len(), 100);
    }
}

#[tokio::test]
async fn poison_is_named_and_its_neighbours_are_stored() {
    for database in redrive_testkit::backends_and_pooled(file!()).await {
        let mut client = prepare(&database).await;
        let sink = sink(&database);
        let mut records: Vec<Record> = (0..300).map(good).collect();
        let poison = [0, 7, 8, 99, 150, 151, 299];
        for at in poison {
            let bad = format!(r#"{{"id":"id-{at}","amount":-1}}"#);
            records[at] = record(at as i64, bad);
        }
        records[150] = record(150, r#"{"id":"much-too-long-for-it","amount":1}"#);
        records[151] = record(151, r#"{"id":"id-3","amount":1}"#);
        let stored = sink.store(&rows(&records)).await;
        assert_eq!(stored.poison.iter().map(|(index, _)| *index).collect::<Vec<_>>(), poison);
        assert!(stored.undecided.is_empty() && stored.cause.is_none(), "{stored:?}");
        assert!(stored.poison.iter().all(|(_, failure)| !failure.class.is_retryable()), "{stored:?}");
        assert_eq!(offsets(&mut client, database.backend).await.len(), 300 - poison.len());
        // The same batch again: what is stored is stored, what is poison is poison.
        assert_eq!(sink.store(&rows(&records)).await.poison.len(), poison.len());
    }
}

#[tokio::test]
async fn numbers_texts_and_times_arrive_as_they_were_sent() {
    for database in redrive_testkit::backends_and_pooled(file!()).await {
        let mut client = prepare(&database).await;
        let sink = sink(&database);
        let text = r#"{"id":"\u00e9\\\t\n'","ts":1767323045123,"amount":9007199254740993,"n":12345678901234567890.5}"#;
        assert_eq!(sink.store(&rows(&[record(0, text)])).await, Stored::default());
        assert_eq!(client.column("SELECT id FROM decision_log").await, ["\u{e9}\\\t\n'"]);
        assert_eq!(client.number("SELECT amount FROM decision_log").await, 9_007_199_254_740_993);
        let body = client.column("SELECT body FROM decision_log").await.remove(0);
        assert!(body.contains("12345678901234567890.5"), "{body}");
        let time = client.column("SELECT decided_at FROM decision_log").await.remove(0);
        assert!(time.contains("2026-01-02") && time.contains("03:04:05.123"), "{time}");
    }
}

#[tokio::test]
async fn what_a_table_lacks_is_said_by_name() {
    for database in redrive_testkit::backends_and_pooled(file!()).await {
        prepare(&database).await;
        let complaint = async |table: SinkTable| {
            let sink = sink_at(database.backend, &database.url, table, PATIENCE);
            sink.check().await.unwrap_err()
        };
        let missing = complaint(SinkTable::new("decision_logs", &["id"]).unwrap()).await;
        assert!(missing.contains("decision_logs does not exist"), "{missing}");
        let missing = complaint(SinkTable::new("decision_log", &["id", "verdict"]).unwrap()).await;
        assert!(missing.contains("has no column verdict"), "{missing}");
        let swapped = SinkTable::new("decision_log", &["id"]).unwrap();
        let missing = complaint(swapped.with_position("topic", "partition", "amount").unwrap()).await;
        assert!(missing.contains("CREATE UNIQUE INDEX"), "{missing}");
    }
}

/// A part of an index that is an expression has no name: the look at the table panicked, and nothing started.
#[tokio::test]
async fn an_index_over_an_expression_does_not_hinder() {
    let database = redrive_testkit::sqlite();
    let mut client = prepare(&database).await;
    client.run("CREATE UNIQUE INDEX by_name ON decision_log (lower(id))").await;
    sink(&database).check().await.unwrap();
    client.run("DROP TABLE decision_log; CREATE TABLE decision_log (topic, partition, \"offset\", id, decided_at, amount, account, body)").await;
    client
        .run("CREATE UNIQUE INDEX by_place ON decision_log (topic, partition, \"offset\", lower(id))")
        .await;
    let missing = sink(&database).check().await.unwrap_err();
    assert!(missing.contains("CREATE UNIQUE INDEX"), "{missing}");
}

#[tokio::test]
async fn a_sink_that_is_away_decides_nothing() {
    let records: Vec<Record> = (0..5).map(good).collect();
    let url = "postgres://nobody@127.0.0.1:1/nothing";
    let stored = PostgresSink::new(url, table(), PATIENCE).unwrap().store(&rows(&records)).await;
    assert_eq!(stored.undecided, [0, 1, 2, 3, 4]);
    assert!(stored.cause.unwrap().class.is_retryable());
    let url = "mysql://nobody@127.0.0.1:1/nothing";
    let stored = MySqlSink::new(url, table(), PATIENCE).unwrap().store(&rows(&records)).await;
    assert_eq!((stored.undecided.len(), stored.poison.len()), (5, 0));
}

#[tokio::test]
async fn a_locked_table_decides_nothing_and_leaves_no_statement_behind() {
    let Some(database) = redrive_testkit::postgres(file!()).await else { return };
    let mut client = prepare(&database).await;
    let sink = PostgresSink::new(&database.url, table(), Duration::from_millis(200)).unwrap();
    let records: Vec<Record> = (0..5).map(good).collect();
    assert_eq!(sink.store(&rows(&records[..1])).await, Stored::default());
    client.run("BEGIN; LOCK TABLE decision_log IN ACCESS EXCLUSIVE MODE").await;
    let stored = sink.store(&rows(&records)).await;
    assert_eq!(stored.undecided.len(), 5);
    assert_eq!(stored.cause.unwrap().code, Some(Code::SqlState("55P03".into())));
    client.run("COMMIT").await;
    assert_eq!(sink.store(&rows(&records)).await, Stored::default());
}

#[tokio::test]
async fn a_record_that_fails_alone_for_a_passing_reason_takes_no_neighbour_with_it() {
    let Some(database) = redrive_testkit::postgres(file!()).await else { return };
    let mut client = prepare(&database).await;
    client
        .run(
            "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             IF NEW.amount = 13 THEN RAISE lock_not_available USING MESSAGE = 'busy'; END IF; RETURN NEW; END $$; \
             CREATE TRIGGER slow BEFORE INSERT ON decision_log FOR EACH ROW EXECUTE FUNCTION slow()",
        )
        .await;
    let sink = PostgresSink::new(&database.url, table(), PATIENCE).unwrap();
    let mut records: Vec<Record> = (0..40).map(good).collect();
    records[20] = record(20, r#"{"id":"x","amount":-1}"#);
    let stored = sink.store(&rows(&records)).await;
    assert!(!stored.undecided.is_empty(), "{stored:?}");
    let stored = bisect_exhausted(&sink, &rows(&records)).await;
    assert_eq!(stored.undecided, [13]);
    assert_eq!(stored.poison.len(), 1);
    assert_eq!(stored.poison[0].0, 20);
    assert_eq!(offsets(&mut client, Backend::Postgres).await.len(), 38);
}

/// Records that break every rule there is, and good ones, with ids that clash.
fn batches() -> impl Strategy<Value = Vec<String>> {
    let value = proptest::prop_oneof![
        6 => (0..40_u32).prop_map(|id| format!(r#"{{"id":"i{id}","amount":1,"account":"a"}}"#)),
        4 => proptest::num::u32::ANY.prop_map(|id| format!(r#"{{"id":"u{id}","amount":2}}"#)),
        1 => Just(r#"{"id":"neg","amount":-1}"#.to_owned()),
        1 => Just(r#"{"amount":3}"#.to_owned()),
        1 => Just(r#"{"id":"far-too-long-an-id","amount":3}"#.to_owned()),
        1 => Just(r#"{"id":"word","amount":"many"}"#.to_owned()),
        1 => Just(r#"{"id":"nobody","account":"z"}"#.to_owned()),
        1 => Just("{\"id\":\"nul\",\"note\":\"\\u0000\"}".to_owned()),
        1 => Just(r#"{"id":"half","note":"\ud800"}"#.to_owned()),
        1 => Just(r#"{"id":"big","amount":99999999999999999999}"#.to_owned()),
    ];
    proptest::collection::vec(value, 0..120)
}

/// The quick ways and plain bisecting store the same rows and name the same poison.
#[tokio::test]
async fn quick_isolation_equals_bisecting_record_for_record() {
    let Some(database) = redrive_testkit::postgres(file!()).await else { return };
    let mut client = prepare(&database).await;
    let quick = PostgresSink::new(&database.url, table(), PATIENCE).unwrap();
    let plain = PostgresSink::new(&database.url, table(), PATIENCE).unwrap().isolating_by(Isolation::Bisect);
    let mut runner = TestRunner::deterministic();
    for round in 0..30 {
        let values = batches().new_tree(&mut runner).unwrap().current();
        let deferred = round % 5 == 4;
        let timing = if deferred { "DEFERRABLE INITIALLY DEFERRED" } else { "NOT DEFERRABLE" };
        client
            .run(&format!(
                "ALTER TABLE decision_log DROP CONSTRAINT decision_log_account_fkey, \
                 ADD CONSTRAINT decision_log_account_fkey FOREIGN KEY (account) REFERENCES account {timing}"
            ))
            .await;
        let records: Vec<Record> =
            values.iter().enumerate().map(|(at, value)| record(at as i64, value.as_str())).collect();
        let rows = rows(&records);
        let mut results = Vec::new();
        for sink in [&quick, &plain] {
            client.run("TRUNCATE decision_log").await;
            // Some are there already, as after a rebalance.
            if round % 3 == 1 {
                sink.store(&rows[..rows.len() / 3]).await;
            }
            let stored = sink.store(&rows).await;
            let causes: Vec<_> =
                stored.poison.iter().map(|(index, failure)| (*index, failure.code.clone())).collect();
            assert!(stored.undecided.is_empty(), "{stored:?}");
            results.push((offsets(&mut client, Backend::Postgres).await, causes));
        }
        assert_eq!(results[0], results[1], "round {round}: {values:#?}");
    }
}

#[tokio::test]
async fn without_the_right_to_make_a_function_poison_is_found_all_the_same() {
    let Some(database) = redrive_testkit::postgres(file!()).await else { return };
    let mut client = prepare(&database).await;
    let name = database.url.rsplit('/').next().unwrap();
    let role = format!("r{}", name);
    client
        .run(&format!(
            "CREATE ROLE {role} LOGIN; REVOKE TEMP ON DATABASE {name} FROM PUBLIC; \
             GRANT SELECT, INSERT ON decision_log TO {role}; GRANT SELECT ON account TO {role}"
        ))
        .await;
    let url = database.url.replacen("redrive@", &format!("{role}@"), 1);
    let sink = PostgresSink::new(&url, table(), PATIENCE).unwrap();
    let mut records: Vec<Record> = (0..50).map(good).collect();
    for at in [3, 5, 7, 9, 11, 13] {
        records[at] = record(at as i64, r#"{"id":"x","amount":-1}"#);
    }
    let stored = sink.store(&rows(&records)).await;
    assert_eq!(stored.poison.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [3, 5, 7, 9, 11, 13]);
    assert_eq!(offsets(&mut client, Backend::Postgres).await.len(), 44);
}

/// A user of the database who may only read the table, and the address with which to come as that user.
async fn reader(client: &mut Client, database: &TestDatabase) -> (String, String) {
    let name = format!("r{}", database.url.rsplit('/').next().unwrap());
    match database.backend {
        Backend::Postgres => {
            let sql = format!("CREATE ROLE {name} LOGIN; GRANT SELECT ON decision_log, account TO {name}");
            client.run(&sql).await;
            let url = database.url.replacen("redrive@", &format!("{name}@"), 1);
            (name, url)
        }
        Backend::MySql => {
            // No name of a user is longer than 32 letters.
            let name = format!("'{}'@'127.0.0.1'", &name[name.len().saturating_sub(30)..]);
            client.run(&format!("CREATE USER {name} IDENTIFIED BY 'pw'")).await;
            client.run(&format!("GRANT SELECT ON decision_log TO {name}")).await;
            let user = name.split('\'').nth(1).unwrap();
            (name.clone(), database.url.replacen("redrive:redrive@", &format!("{user}:pw@"), 1))
        }
        Backend::Sqlite => unreachable!("it has no users"),
    }
}

/// A lost right sent the whole stream to the dead letters.
#[tokio::test]
async fn a_right_that_is_missing_is_held_against_no_record() {
    for database in redrive_testkit::servers(file!()).await {
        let mut client = prepare(&database).await;
        let (user, url) = reader(&mut client, &database).await;
        let sink = sink_at(database.backend, &url, table(), PATIENCE);
        let mut records: Vec<Record> = (0..20).map(good).collect();
        records[3] = record(3, r#"{"id":"x","amount":-1}"#);
        let rows = rows(&records);
        let stored = sink.store(&rows).await;
        let cause = stored.cause.clone().unwrap_or_else(|| panic!("{stored:?}"));
        assert!(cause.class.is_retryable() && cause.message.contains("denied"), "{cause}");
        assert_eq!((stored.poison.len(), stored.undecided.len()), (0, 20), "{stored:?}");
        // The parking lot asks before it starts, and so holds what it has.
        assert!(sink.probe().await.is_err());
        let said = sink.check().await.unwrap_err();
        assert!(said.contains("cannot be written to") && said.contains("denied"), "{said}");
        client.run(&format!("GRANT INSERT ON decision_log TO {user}")).await;
        sink.check().await.unwrap();
        sink.probe().await.unwrap();
        let stored = sink.store(&rows).await;
        assert_eq!(stored.poison.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [3], "{stored:?}");
        assert!(stored.undecided.is_empty());
        assert_eq!(offsets(&mut client, database.backend).await.len(), 19);
    }
}

#[tokio::test]
async fn a_view_that_takes_no_rows_is_held_against_no_record() {
    let database = redrive_testkit::sqlite();
    let mut client = prepare(&database).await;
    client
        .run("ALTER TABLE decision_log RENAME TO base; CREATE VIEW decision_log AS SELECT * FROM base")
        .await;
    let sink = sink(&database);
    let records: Vec<Record> = (0..5).map(good).collect();
    let stored = sink.store(&rows(&records)).await;
    assert_eq!((stored.poison.len(), stored.undecided.len()), (0, 5), "{stored:?}");
    assert!(sink.probe().await.is_err());
}

/// The table is there, and is another one than it was: nobody's records are to blame.
#[tokio::test]
async fn a_table_that_changed_is_held_against_no_record() {
    for database in redrive_testkit::backends_and_pooled(file!()).await {
        let mut client = prepare(&database).await;
        let sink = sink(&database);
        let records: Vec<Record> = (0..20).map(good).collect();
        assert_eq!(sink.store(&rows(&records[..5])).await, Stored::default());
        assert_eq!(sink.store(&rows(&records[..5])).await, Stored::default());
        client.run("ALTER TABLE decision_log RENAME COLUMN amount TO sum").await;
        let stored = sink.store(&rows(&records[5..])).await;
        assert_eq!((stored.poison.len(), stored.undecided.len()), (0, 15), "{stored:?}");
        assert!(sink.probe().await.is_err());
        client.run("ALTER TABLE decision_log RENAME COLUMN sum TO amount").await;
        if database.backend == Backend::Postgres {
            // Another type than the one that was known, and one that COPY meets first.
            client.run("ALTER TABLE decision_log ALTER COLUMN account TYPE varchar(20)").await;
            client.run("ALTER TABLE decision_log ALTER COLUMN amount TYPE numeric").await;
        }
        sink.probe().await.unwrap();
        assert_eq!(sink.store(&rows(&records)).await, Stored::default());
        assert_eq!(offsets(&mut client, database.backend).await.len(), 20);
    }
}

/// Row-level security and triggers report single rows with the codes of lost rights.
#[tokio::test]
async fn a_row_that_a_policy_or_a_trigger_refuses_fails_alone() {
    let Some(database) = redrive_testkit::postgres(file!()).await else { return };
    let mut client = prepare(&database).await;
    let (user, url) = reader(&mut client, &database).await;
    client
        .run(&format!(
            "GRANT INSERT ON decision_log TO {user}; ALTER TABLE decision_log ENABLE ROW LEVEL SECURITY; \
             CREATE POLICY p ON decision_log USING (true) WITH CHECK (amount <> 7); \
             CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.amount = 11 THEN \
             RAISE insufficient_privilege USING MESSAGE = 'not eleven'; END IF; RETURN NEW; END $$; \
             CREATE TRIGGER no BEFORE INSERT ON decision_log FOR EACH ROW EXECUTE FUNCTION no()"
        ))
        .await;
    let records: Vec<Record> = (0..20).map(good).collect();
    for url in [&url, &database.url] {
        client.run("TRUNCATE decision_log").await;
        let sink = PostgresSink::new(url, table(), PATIENCE).unwrap();
        let stored = sink.store(&rows(&records)).await;
        assert!(stored.undecided.is_empty(), "{stored:?}");
        // The owner is above policies.
        let poison: &[usize] = if *url == database.url { &[11] } else { &[7, 11] };
        assert_eq!(stored.poison.iter().map(|(at, _)| *at).collect::<Vec<_>>(), poison, "{stored:?}");
    }
}

async fn receive(body: String) -> (StatusCode, String) {
    let body: serde_json::Value = serde_json::from_str(&body).unwrap();
    let records = body["records"].as_array().unwrap();
    let ids: Vec<&str> = records.iter().map(|record| record["columns"]["id"].as_str().unwrap()).collect();
    if ids.contains(&"down") {
        return (StatusCode::SERVICE_UNAVAILABLE, "later".into());
    }
    if ids.contains(&"refused") {
        return (StatusCode::UNPROCESSABLE_ENTITY, "no".into());
    }
    let failed: Vec<_> = ids.iter().enumerate().filter(|(_, id)| **id == "named").map(|(at, _)| at).collect();
    let failed: Vec<_> =
        failed.iter().map(|at| serde_json::json!({"index": at, "message": "not this one"})).collect();
    (StatusCode::OK, serde_json::json!({ "failed": failed }).to_string())
}

/// A service that answers 200 with this body, of so many bytes as it says, and closes.
async fn answering(body: &'static str, length: usize) -> HttpSink {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = Vec::new();
            while !request.ends_with(b"]}") {
                let mut piece = [0; 1024];
                let many = stream.read(&mut piece).await.unwrap();
                request.extend_from_slice(&piece[..many]);
            }
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
            // Whoever asked may have heard enough.
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    let options = HttpSinkOptions { url, timeout: PATIENCE, headers: Vec::new() };
    HttpSink::new(&options, COLUMNS.map(str::to_owned).to_vec()).unwrap()
}

/// An answer that could not be read counted as success: records were lost.
#[tokio::test]
async fn an_answer_that_cannot_be_read_is_no_success() {
    let records: Vec<Record> = (0..3).map(good).collect();
    for (body, cut_off, why) in [
        (r#"{"failed":[{"index":0"#, 10, "broke off"),
        ("", 30, "broke off"),
        (r#"{"failed":[{"index":0"#, 0, "cannot be read"),
        (r#"{"failed":[{"index":"0"}]}"#, 0, "cannot be read"),
        (r#"{"failed":[0]}"#, 0, "cannot be read"),
        (r#"{"failed":2}"#, 0, "cannot be read"),
        (r#"{"failed":[{"index":7}]}"#, 0, "of 3 that it was sent"),
    ] {
        let stored = answering(body, body.len() + cut_off).await.store(&rows(&records)).await;
        let (poison, undecided) = (stored.poison.as_slice(), stored.undecided.as_slice());
        assert_eq!((poison, undecided), (&[][..], &[0, 1, 2][..]), "{body}");
        let cause = stored.cause.unwrap();
        assert!(cause.class.is_retryable() && cause.message.contains(why), "{body}: {cause}");
    }
    let endless: &str = "x".repeat(9 << 20).leak();
    let stored = answering(endless, endless.len()).await.store(&rows(&records)).await;
    assert!(stored.cause.is_some_and(|cause| cause.message.contains("more than 8388608 bytes")));
    for body in ["", "OK", r#"{"stored": 3}"#, r#"{"failed":null}"#, r#"{"failed":[]}"#] {
        let stored = answering(body, body.len()).await.store(&rows(&records)).await;
        assert_eq!(stored, Stored::default(), "{body}");
    }
}

#[tokio::test]
async fn a_service_names_its_poison_or_is_bisected() {
    let app = axum::Router::new().route("/", post(receive));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    let options =
        HttpSinkOptions { url, timeout: PATIENCE, headers: vec![("x-key".into(), "secret".into())] };
    let sink = HttpSink::new(&options, COLUMNS.map(str::to_owned).to_vec()).unwrap();
    let batch = |ids: &[&str]| -> Vec<Record> {
        let value = |id: &&str| format!(r#"{{"id":"{id}","amount":9007199254740993}}"#);
        ids.iter().enumerate().map(|(at, id)| record(at as i64, value(id))).collect()
    };
    sink.probe().await.unwrap();
    let records = batch(&["a", "named", "b"]);
    let stored = sink.store(&rows(&records)).await;
    assert_eq!(stored.poison.len(), 1);
    assert_eq!((stored.poison[0].0, stored.poison[0].1.message.as_str()), (1, "not this one"));
    let records = batch(&["a", "b", "refused", "c"]);
    let stored = sink.store(&rows(&records)).await;
    assert_eq!(stored.poison[0].0, 2);
    assert_eq!(stored.poison[0].1.code, Some(Code::Http(422)));
    let records = batch(&["a", "down"]);
    let stored = sink.store(&rows(&records)).await;
    assert_eq!((stored.poison.len(), stored.undecided.len()), (0, 2));
    assert_eq!(stored.cause.unwrap().class, Class::Transient);
}
