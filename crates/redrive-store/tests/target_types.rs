//! The target of a persist pipeline in a table of the user's own: parts of a JSON payload in columns of every type on
//! every store, defaults, computed columns, constraints, and what is refused before an event is saved.

#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

mod common;

use common::open;
use jiff::Timestamp;
use redrive_core::column::Column;
use redrive_store::{Error, Record, Target, TargetOptions};
use redrive_testkit::types::{self, Sample};
use redrive_testkit::{self as testkit, Backend, Client, TestDatabase};

fn record(key: &str, payload: impl Into<String>) -> Record {
    Record { key: key.into(), payload: payload.into(), created_at: Timestamp::UNIX_EPOCH }
}

/// The table `orders` with the key `id`, without a column for the payload.
fn options(values: Vec<Column>) -> TargetOptions {
    TargetOptions { key_column: "id".into(), payload_column: None, values, ..TargetOptions::new("orders") }
}

fn column(name: &str) -> Column {
    Column::new(name, &format!("$.{name}")).unwrap()
}

async fn target(database: &TestDatabase, values: Vec<Column>) -> Target {
    Target::new(open(database).await, &options(values)).unwrap()
}

async fn create(client: &mut Client, columns: &str) {
    client.run("DROP TABLE IF EXISTS orders").await;
    client.run(&format!("CREATE TABLE orders (id BIGINT NOT NULL PRIMARY KEY, {columns})")).await;
}

/// Types that can be written, and not compared.
fn is_opaque(sample: &Sample) -> bool {
    ["INET", "TIME"].contains(&sample.declared)
}

#[tokio::test]
async fn a_part_of_the_payload_arrives_in_a_column_of_every_type_and_repeats_are_known() {
    let mut wrong = Vec::new();
    for database in testkit::backends_and_pooled(file!()).await {
        let mut client = Client::connect(&database).await;
        types::prepare(&mut client).await;
        for Sample { declared, json, expected } in types::accepted(database.backend) {
            create(&mut client, &format!("v {declared}, version INT NOT NULL DEFAULT 1")).await;
            let target = target(&database, vec![column("v")]).await;
            let migrated = target.migrate().await;
            if is_opaque(&Sample { declared, json, expected }) {
                assert!(migrated.unwrap_err().to_string().contains("orders.v is of the type"));
                continue;
            }
            migrated.unwrap();
            let event = record("7", format!(r#"{{"v":{json}}}"#));
            let saved = target.save(std::slice::from_ref(&event)).await;
            let again = target.save(&[event]).await;
            let found = types::shown(&mut client, "orders", declared).await;
            let other = target.save(&[record("7", r#"{"v":null}"#)]).await.unwrap();
            let is_named = |(_, failure): &(usize, redrive_core::failure::Failure)| {
                failure.message.contains("value of v")
            };
            let is_saved =
                matches!((&saved, &again), (Ok(first), Ok(second)) if first.is_empty() && second.is_empty());
            if !is_saved || found.as_deref() != Some(*expected) || !other.first().is_some_and(is_named) {
                let case = format!("{:?} {declared}", database.backend);
                wrong.push(format!(
                    "{case}: {json} is {found:?}, expected {expected:?}; {saved:?} {again:?} {other:?}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn a_part_that_its_column_cannot_hold_fails_alone_with_its_path_and_column() {
    let mut wrong = Vec::new();
    for database in testkit::backends_and_pooled(file!()).await {
        let mut client = Client::connect(&database).await;
        types::prepare(&mut client).await;
        for Sample { declared, json, expected } in types::refused(database.backend) {
            create(&mut client, &format!("v {declared}")).await;
            let target = target(&database, vec![column("v")]).await;
            let batch = [record("1", "{}"), record("2", format!(r#"{{"v":{json}}}"#)), record("3", "{}")];
            let unsaved = target.save(&batch).await.unwrap();
            let count = client.number("SELECT count(*) FROM orders").await;
            let said = unsaved.first().map_or("", |(_, failure)| failure.message.as_str());
            let is_named = [expected, "$.v is", "column v"].iter().all(|part| said.contains(*part));
            if !is_named || count != 2 || unsaved.len() != 1 || unsaved[0].0 != 1 {
                wrong.push(format!("{:?} {declared} {json}: {unsaved:?}, {count} rows", database.backend));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The order table of a shop, as each store would have it.
fn shop(backend: Backend) -> &'static str {
    match backend {
        Backend::Postgres => {
            "customer UUID NOT NULL, total NUMERIC(12, 2) CHECK (total >= 0), status mood, created TIMESTAMPTZ, \
             body JSONB, owner INT REFERENCES owner (id), name VARCHAR(5), version INT NOT NULL DEFAULT 1, \
             search TSVECTOR GENERATED ALWAYS AS (to_tsvector('simple', coalesce(body::text, ''))) STORED, \
             n BIGINT GENERATED ALWAYS AS IDENTITY"
        }
        Backend::MySql => {
            "customer BINARY(16) NOT NULL, total DECIMAL(12, 2) CHECK (total >= 0), status ENUM('happy', 'sad'), \
             created DATETIME(6), body JSON, owner INT, name VARCHAR(5), version INT NOT NULL DEFAULT 1, \
             shown VARCHAR(20) AS (concat(total, ' EUR')) VIRTUAL, FOREIGN KEY (owner) REFERENCES owner (id)"
        }
        Backend::Sqlite => {
            "customer UUID NOT NULL, total NUMERIC CHECK (total >= 0), status TEXT CHECK (status IN ('happy', 'sad')), \
             created DATETIME, body JSON, owner INT REFERENCES owner (id), name TEXT CHECK (length(name) <= 5), \
             version INT NOT NULL DEFAULT 1, shown TEXT AS (total || ' EUR') VIRTUAL"
        }
    }
}

async fn shop_target(database: &TestDatabase) -> (Client, Target) {
    let mut client = Client::connect(database).await;
    types::prepare(&mut client).await;
    client.run("CREATE TABLE owner (id INT PRIMARY KEY)").await;
    client.run("INSERT INTO owner VALUES (1)").await;
    create(&mut client, shop(database.backend)).await;
    let values = vec![
        Column::new("customer", "$.customer.id").unwrap().required(),
        column("total"),
        column("status"),
        column("created"),
        column("owner"),
        column("name"),
    ];
    let options = TargetOptions { payload_column: Some("body".into()), ..options(values) };
    let target = Target::new(open(database).await, &options).unwrap();
    target.migrate().await.unwrap();
    (client, target)
}

const CUSTOMER: &str = r#""customer":{"id":"6f2e6f0e-4c2f-4e0b-9c68-0a2f4b1b7a11"}"#;

fn order(key: usize, rest: &str) -> Record {
    record(&key.to_string(), format!(r#"{{{CUSTOMER},"created":"2026-01-02T03:04:05Z"{rest}}}"#))
}

#[tokio::test]
async fn orders_are_saved_in_a_table_with_rules_of_its_own() {
    for database in testkit::backends_and_pooled(file!()).await {
        let (mut client, target) = shop_target(&database).await;
        let orders: Vec<Record> =
            (0..2_500).map(|n| order(n, &format!(r#","total":{n}.25,"status":"happy","owner":1"#))).collect();
        assert_eq!(target.save(&orders).await.unwrap(), []);
        assert_eq!(target.save(&orders[2_000..]).await.unwrap(), []);
        assert_eq!(client.number("SELECT count(*) FROM orders WHERE version = 1").await, 2_500);
        assert_eq!(client.column("SELECT total FROM orders WHERE id = 7").await, ["7.25"]);
        // Another total, another customer, another status: named by column.
        let mut changed = orders[..4].to_vec();
        changed[1] = order(1, r#","total":9,"status":"happy","owner":1"#);
        changed[3] = order(3, r#","total":3.25,"status":"sad","owner":1"#);
        let conflicts = target.save(&changed).await.unwrap();
        let messages: Vec<_> =
            conflicts.iter().map(|(at, failure)| (*at, failure.message.as_str())).collect();
        assert_eq!(messages.len(), 2, "{:?}: {messages:?}", database.backend);
        assert!(messages[0].0 == 1 && messages[0].1.contains("value of body, total"), "{messages:?}");
        assert!(messages[1].0 == 3 && messages[1].1.contains("value of body, status"), "{messages:?}");
    }
}

#[tokio::test]
async fn what_is_malformed_is_named_beside_the_others_with_path_and_column() {
    for database in testkit::backends_and_pooled(file!()).await {
        let (mut client, target) = shop_target(&database).await;
        let batch = [
            order(1, ""),
            record("2", "{"),
            record("3", r#"{"customer":{}}"#),
            record("four", format!("{{{CUSTOMER}}}")),
            order(5, r#","name":"a\u0000b""#),
            order(6, r#","total":"x""#),
            order(7, ""),
        ];
        let unsaved = target.save(&batch).await.unwrap();
        let messages: Vec<_> = unsaved.iter().map(|(at, failure)| (*at, failure.message.as_str())).collect();
        let expected = [
            // The payload has a column, too, whose type is JSON.
            (1, "the payload must be JSON"),
            (2, "$.customer.id is missing: the column customer requires it"),
            (3, "the key \"four\" must be a whole number"),
            (4, "$.name has a NUL at byte 1: the column name cannot keep it"),
            (5, "$.total is \"x\": it must be a number: the column total"),
        ];
        for ((at, said), (index, part)) in messages.iter().zip(expected) {
            assert!(*at == index && said.contains(part), "{:?}: {messages:?}", database.backend);
        }
        assert_eq!((messages.len(), client.number("SELECT count(*) FROM orders").await), (5, 2));
        assert!(unsaved.iter().all(|(_, failure)| !failure.class.is_retryable()), "{unsaved:?}");
    }
}

#[tokio::test]
async fn a_constraint_of_the_table_is_blamed_on_its_row() {
    for database in testkit::backends_and_pooled(file!()).await {
        let (_client, target) = shop_target(&database).await;
        for bad in [r#","total":-1"#, r#","owner":2"#] {
            let failure = target.save(&[order(1, bad)]).await.unwrap_err().failure();
            assert!(!failure.class.is_retryable(), "{:?}: {failure}", database.backend);
            let code = failure.code.as_ref().unwrap();
            assert!(redrive_core::classify::blame::blames_record(code), "{:?}: {failure}", database.backend);
        }
        assert_eq!(target.save(&[order(1, "")]).await.unwrap(), []);
    }
}

#[tokio::test]
async fn columns_that_cannot_be_used_are_refused_by_name_and_nothing_is_made() {
    for database in testkit::backends_and_pooled(file!()).await {
        let mut client = Client::connect(&database).await;
        let problems = async |values: Vec<Column>| target(&database, values).await.plan().await.unwrap();
        let plan = problems(vec![column("total")]).await;
        assert!(plan.statements.is_empty(), "{plan:?}");
        assert!(plan.problems[0].contains("orders does not exist: create it, with id, total"), "{plan:?}");
        let refused = target(&database, vec![column("total")]).await.migrate().await.unwrap_err();
        assert!(matches!(refused, Error::Unsuitable { .. }), "{refused}");

        let computed = match database.backend {
            Backend::Postgres => {
                "twice INT GENERATED ALWAYS AS (total * 2) STORED, n INT GENERATED ALWAYS AS IDENTITY, place POINT"
            }
            Backend::MySql => "twice INT AS (total * 2) VIRTUAL, n INT DEFAULT 1, place POINT",
            Backend::Sqlite => "twice INT AS (total * 2) VIRTUAL, n INT DEFAULT 1",
        };
        create(&mut client, &format!("total INT, tenant INT NOT NULL, {computed}")).await;
        let plan = problems(vec![column("total")]).await;
        assert!(plan.problems.join("\n").contains("orders.tenant is NOT NULL without a default"), "{plan:?}");
        let all = ["total", "tenant", "twice", "n", "missing", "place"].map(column).to_vec();
        let said = problems(all).await.problems.join("\n");
        let mut parts = vec!["orders.twice is computed by the database", "orders has no column missing"];
        if database.backend != Backend::Sqlite {
            parts.push("orders.place is of the type point");
        }
        if database.backend == Backend::Postgres {
            parts.push("orders.n is GENERATED ALWAYS AS IDENTITY");
        }
        for part in parts {
            assert!(said.contains(part), "{:?}: {part} in {said}", database.backend);
        }
        let plan = problems(vec![column("total"), column("tenant")]).await;
        assert!(plan.statements.is_empty() && plan.problems.is_empty(), "{plan:?}");
    }
}

#[tokio::test]
async fn a_key_above_2_63_and_one_that_is_a_decimal_are_messages_apart_from_their_neighbours() {
    for database in testkit::servers(file!()).await {
        let mut client = Client::connect(&database).await;
        let key = match database.backend {
            Backend::MySql => "BIGINT UNSIGNED",
            _ => "NUMERIC(20, 0)",
        };
        client.run(&format!("CREATE TABLE orders (id {key} PRIMARY KEY, v INT)")).await;
        let target = target(&database, vec![column("v")]).await;
        target.migrate().await.unwrap();
        let of = |key: &str, v: u32| record(key, format!(r#"{{"v":{v}}}"#));
        let (one, other) = ("18446744073709551615", "18446744073709551614");
        assert_eq!(target.save(&[of(one, 1), of(other, 2)]).await.unwrap(), []);
        assert_eq!(target.save(&[of(one, 1), of(other, 2)]).await.unwrap(), [], "{:?}", database.backend);
        let conflicts = target.save(&[of(one, 1), of(other, 1)]).await.unwrap();
        assert_eq!(conflicts.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [1], "{:?}", database.backend);
        assert!(target.find(one).await.unwrap_err().to_string().contains("keeps no payload"));
    }
}

/// What a column can hold is known from the table as it is, not as it was at the start.
#[tokio::test]
async fn a_column_that_is_made_wider_takes_the_value_without_a_restart() {
    for database in testkit::backends_and_pooled(file!()).await {
        let mut client = Client::connect(&database).await;
        create(&mut client, "v INT").await;
        let target = target(&database, vec![column("v")]).await;
        let event = record("1", r#"{"v":"a text"}"#);
        assert_eq!(
            target.save(std::slice::from_ref(&event)).await.unwrap().len(),
            1,
            "{:?}",
            database.backend
        );
        create(&mut client, "v VARCHAR(40)").await;
        assert_eq!(target.save(&[event]).await.unwrap(), [], "{:?}", database.backend);
    }
}

#[tokio::test]
async fn settings_that_say_a_column_twice_or_nothing_are_refused() {
    let database = testkit::sqlite();
    let open = open(&database).await;
    let odd = Column::new("a b", "$.a").unwrap();
    for values in [vec![], vec![column("id")], vec![column("a"), column("a")], vec![odd]] {
        assert!(matches!(Target::new(open.clone(), &options(values)), Err(Error::Setting(_))));
    }
}
