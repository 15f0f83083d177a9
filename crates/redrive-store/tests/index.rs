//! Where topics of letters are read to, and what their parking lot is done with.

#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

mod common;

use std::collections::BTreeSet;

use common::{LONG, dead, done, order, settle, take, timeout};
use jiff::Timestamp;
use redrive_core::dead_letter::{
    DeadLetterQueue as _, Filter, Operator, Origin, Page, PipelineKind, RedeliveryState, Status, Summary,
};
use redrive_core::failure::Failure;
use redrive_store::{Error, Left, Letters, NewLetter, Place, ReadLetter, Reading};
use redrive_testkit::{self as testkit, Backend, Client, TestDatabase};

const LOT: &str = "logs-parking";
const NOTE: &str = "the parking lot is done with it";

async fn store(database: &TestDatabase, pipeline: &str) -> Letters {
    let letters = Letters::new(common::open(database).await, pipeline, PipelineKind::Kafka);
    letters.migrate().await.unwrap();
    letters
}

fn letter(source: &str) -> NewLetter {
    NewLetter {
        source: source.into(),
        event_type: LOT.into(),
        key: source.into(),
        payload: b"{}".to_vec(),
        headers: Vec::new(),
        origin: Origin::Topic { topic: "logs".into(), partition: 0, offset: 0 },
        target: None,
        failure: Failure::transient("Database", "gone"),
        attempts: 3,
        first_failed_at: Timestamp::UNIX_EPOCH,
        failed_at: Timestamp::UNIX_EPOCH,
    }
}

/// Letters of one partition, at these offsets, each of another record; their keys are `topic/partition/offset`.
fn parked(topic: &str, partition: i32, offsets: impl IntoIterator<Item = i64>) -> Reading {
    let messages = offsets.into_iter().map(|offset| {
        let record = format!("{topic}/{partition}/{offset}");
        message(&record, Place::new(topic, partition, offset))
    });
    reading(messages)
}

/// A message of this record, which lies in a parking lot.
fn message(record: &str, at: Place) -> ReadLetter {
    let (letter, record) = (letter(record), record.to_owned());
    ReadLetter { letter, at, record, written: Some(5), redrives: 0, is_parked: true }
}

fn reading(messages: impl IntoIterator<Item = ReadLetter>) -> Reading {
    let letters: Vec<ReadLetter> = messages.into_iter().collect();
    let next = letters.iter().map(|read| Place { offset: read.at.offset + 1, ..read.at.clone() }).collect();
    Reading { letters, next }
}

async fn close(store: &Letters, topic: &str, partition: i32, before: i64) -> Left {
    let before = Place::new(topic, partition, before);
    store.close_parked(&before, &Operator::new("redrive"), NOTE).await.unwrap()
}

async fn of_status(store: &Letters, status: Status) -> Vec<Summary> {
    let filter = Filter { status: Some(status), ..Filter::default() };
    store.list(&filter, Page::first(100)).await.unwrap().letters
}

async fn keys(store: &Letters, status: Status) -> BTreeSet<String> {
    of_status(store, status).await.into_iter().map(|letter| letter.key).collect()
}

fn set<const N: usize>(keys: [&str; N]) -> BTreeSet<String> {
    keys.into_iter().map(str::to_owned).collect()
}

async fn places(store: &Letters) -> Vec<Place> {
    let mut places = store.places().await.unwrap();
    places.sort();
    places
}

#[tokio::test]
async fn a_place_moves_forward_only_and_is_that_of_its_pipeline_topic_and_partition() {
    for database in testkit::backends(file!()).await {
        let (store, other) = (store(&database, "logs").await, store(&database, "a\\' -- {table} $1 ?").await);
        assert_eq!(places(&store).await, [], "a new store has read nothing");
        let at = |next: &[(&str, i32, i64)]| Reading {
            next: next.iter().map(|(topic, partition, at)| Place::new(topic, *partition, *at)).collect(),
            ..Reading::default()
        };
        store.add_read(&at(&[("a", 1, 7), ("a", 0, 3), ("b", 0, i64::MAX), ("a", 0, 2)])).await.unwrap();
        store.add_read(&at(&[("a", 0, 2), ("a", 1, 8), ("A", 0, 1)])).await.unwrap();
        store.add_read(&Reading::default()).await.unwrap();
        let expected = [("A", 0, 1), ("a", 0, 3), ("a", 1, 8), ("b", 0, i64::MAX)];
        let expected = expected.map(|(topic, partition, at)| Place::new(topic, partition, at));
        assert_eq!(places(&store).await, expected, "{:?}", database.backend);
        assert_eq!(places(&other).await, []);

        other.add_read(&at(&[("a", 0, 1)])).await.unwrap();
        store.begin_again("a", 0).await.unwrap();
        assert_eq!(places(&store).await.len(), 3);
        assert_eq!(places(&other).await, [Place::new("a", 0, 1)], "each has its own");
        store.add_read(&at(&[("a", 0, 1)])).await.unwrap();
        assert!(places(&store).await.contains(&Place::new("a", 0, 1)), "it begins again");
    }
}

#[tokio::test]
async fn letters_and_their_place_are_stored_together_or_not_at_all() {
    for database in testkit::backends(file!()).await {
        let store = store(&database, "logs").await;
        let mut refused = parked(LOT, 0, [0, 1]);
        refused.letters[1].letter.key = "a\0b".into();
        let error = store.add_read(&refused).await.unwrap_err();
        assert!(matches!(error, Error::Refused { item: 1, .. }), "{error}");
        let mut no_topic = parked(LOT, 0, [0]);
        no_topic.next[0].topic = "t".repeat(250);
        assert!(matches!(store.add_read(&no_topic).await, Err(Error::Refused { .. })));
        assert_eq!((places(&store).await, store.stats().await.unwrap().waiting()), (vec![], 0));

        // The last statement of the transaction fails: what came before it never happened.
        let mut client = Client::connect(&database).await;
        client.run("ALTER TABLE redrive_index_place RENAME TO away").await;
        store.add_read(&parked(LOT, 0, [0, 1])).await.unwrap_err();
        assert_eq!(store.stats().await.unwrap().waiting(), 0, "{:?}", database.backend);
        client.run("ALTER TABLE away RENAME TO redrive_index_place").await;
        assert_eq!(close(&store, LOT, 0, 9).await, Left::Nothing, "nor is anything parked");

        assert_eq!(store.add_read(&parked(LOT, 0, [0, 1])).await.unwrap(), 2);
        assert_eq!(
            store.add_read(&parked(LOT, 0, [0, 1])).await.unwrap(),
            0,
            "again, as after a lost answer"
        );
        assert_eq!(places(&store).await, [Place::new(LOT, 0, 2)]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_instances_read_the_same_topics_into_one_store() {
    for database in testkit::backends(file!()).await {
        let (one, other) = (store(&database, "logs").await, store(&database, "logs").await);
        let read = async |store: &Letters| {
            let mut added = 0;
            for from in (0..60).step_by(6) {
                let mut reading = parked(LOT, 0, from..from + 6);
                let second = parked(LOT, 1, from..from + 6);
                reading.letters.extend(second.letters);
                reading.next.extend(second.next);
                added += store.add_read(&reading).await.unwrap();
                close(store, LOT, 0, from).await;
            }
            added
        };
        let (first, second) = tokio::join!(read(&one), read(&other));
        assert_eq!(first + second, 120, "{:?}: each letter once", database.backend);
        assert_eq!(places(&one).await, [Place::new(LOT, 0, 60), Place::new(LOT, 1, 60)]);
        while close(&one, LOT, 0, 60).await == Left::More {}
        let stats = one.stats().await.unwrap();
        assert_eq!((stats.count(Status::Resolved), stats.count(Status::Open)), (60, 60));
    }
}

#[tokio::test]
async fn what_a_parking_lot_is_done_with_is_closed_and_nothing_else() {
    for database in testkit::backends(file!()).await {
        let (store, other) = (store(&database, "logs").await, store(&database, "Logs").await);
        store.add_read(&parked(LOT, 0, 0..4)).await.unwrap();
        store.add_read(&parked(LOT, 1, 0..2)).await.unwrap();
        store.add_read(&parked("old-parking", 0, 0..2)).await.unwrap();
        store.add(&[letter("logs-dlq/0/0")]).await.unwrap();
        other.add_read(&parked(LOT, 0, 0..2)).await.unwrap();

        assert_eq!(close(&store, LOT, 0, 0).await, Left::Waiting);
        assert_eq!(keys(&store, Status::Resolved).await, set([]));
        assert_eq!(close(&store, LOT, 0, 3).await, Left::Waiting);
        let closed = of_status(&store, Status::Resolved).await;
        let expected = set(["logs-parking/0/0", "logs-parking/0/1", "logs-parking/0/2"]);
        assert_eq!(keys(&store, Status::Resolved).await, expected, "{:?}", database.backend);
        let whole = store.get(&closed[0].id.local).await.unwrap().unwrap();
        let resolution = format!("{:?}", whole.resolution);
        assert!(resolution.contains("redrive") && resolution.contains(NOTE), "{resolution}");
        assert_eq!(close(&store, LOT, 0, 4).await, Left::Nothing);
        assert_eq!(close(&store, LOT, 7, 4).await, Left::Nothing, "of a partition without letters");
        let open = set([
            "logs-parking/1/0",
            "logs-parking/1/1",
            "old-parking/0/0",
            "old-parking/0/1",
            "logs-dlq/0/0",
        ]);
        assert_eq!(keys(&store, Status::Open).await, open);
        assert_eq!(keys(&other, Status::Open).await.len(), 2, "another pipeline's");
    }
}

#[tokio::test]
async fn a_parked_letter_that_somebody_has_dealt_with_stays_as_it_is() {
    for database in testkit::backends(file!()).await {
        let store = store(&database, "logs").await;
        store.add_read(&parked(LOT, 0, 0..5)).await.unwrap();
        let ids: Vec<String> =
            of_status(&store, Status::Open).await.into_iter().map(|l| l.id.local).collect();
        let mut ids = ids;
        ids.sort_by_key(|id| id.parse::<i64>().unwrap());
        store.resolve(&ids[..1], &Operator::new("alice"), "seen").await.unwrap();
        store.redrive(&ids[1..2], &order()).await.unwrap();
        settle(&store, common::done(take(&store, 1, LONG).await)).await;
        store.redrive(&ids[2..3], &order()).await.unwrap();
        settle(&store, dead(take(&store, 1, LONG).await, &timeout())).await;
        store.redrive(&ids[3..4], &order()).await.unwrap();
        Client::connect(&database)
            .await
            .run(&format!("DELETE FROM redrive_letter WHERE id = {}", ids[4]))
            .await;

        assert_eq!(close(&store, LOT, 0, 5).await, Left::Nothing);
        let state = async |id: &str| store.get(id).await.unwrap().map(|letter| letter.summary.status);
        assert_eq!(state(&ids[0]).await, Some(Status::Resolved));
        let kept = format!("{:?}", store.get(&ids[0]).await.unwrap().unwrap().resolution);
        assert!(kept.contains("alice") && kept.contains("seen"), "{kept}");
        assert_eq!(state(&ids[1]).await, Some(Status::Redriven));
        assert_eq!(state(&ids[2]).await, Some(Status::Resolved), "a redrive that failed left it waiting");
        assert_eq!(state(&ids[3]).await, Some(Status::Retrying));
        assert_eq!(state(&ids[4]).await, None);
    }
}

#[tokio::test]
async fn a_letter_that_was_parked_twice_is_closed_by_the_first_and_a_letter_from_before_by_reading_it_again()
{
    for database in testkit::backends(file!()).await {
        let store = store(&database, "logs").await;
        let twice = [3, 8].map(|offset| message("logs/0/7", Place::new(LOT, 0, offset)));
        assert_eq!(store.add_read(&reading(twice)).await.unwrap(), 1);
        assert_eq!(close(&store, LOT, 0, 4).await, Left::Waiting);
        assert_eq!(store.stats().await.unwrap().count(Status::Resolved), 1);
        assert_eq!(close(&store, LOT, 0, 9).await, Left::Nothing);

        // It is here without being known as parked, or as a letter of its record.
        store.add(&[letter("logs-parking/0/20")]).await.unwrap();
        assert_eq!(store.add_read(&parked(LOT, 0, [20])).await.unwrap(), 0);
        assert_eq!(close(&store, LOT, 0, 21).await, Left::Nothing);
        assert_eq!(store.stats().await.unwrap().waiting(), 0);
    }
}

/// The group's offsets were reset, and 13 records failed again: the console kept showing the 13 old, resolved letters.
#[tokio::test]
async fn a_record_that_fails_again_after_its_letter_was_closed_is_a_new_letter_that_links_to_it() {
    for database in testkit::backends(file!()).await {
        let store = store(&database, "logs").await;
        let messages = |offsets: std::ops::Range<i64>| {
            let at = |offset: i64| {
                message(&format!("w:logs/0/{}", offset % 13), Place::new("logs-dlq", 0, offset))
            };
            reading(offsets.map(at))
        };
        assert_eq!(store.add_read(&messages(0..13)).await.unwrap(), 13);
        assert_eq!(
            store.add_read(&messages(13..26)).await.unwrap(),
            0,
            "they are open: published again by a crash"
        );
        let ids: Vec<String> =
            of_status(&store, Status::Open).await.into_iter().map(|l| l.id.local).collect();
        store.resolve(&ids, &Operator::new("alice"), "seen").await.unwrap();
        assert_eq!(store.add_read(&messages(0..26)).await.unwrap(), 0, "read before");
        assert_eq!(store.add_read(&messages(26..39)).await.unwrap(), 13, "{:?}", database.backend);
        assert_eq!(of_status(&store, Status::Open).await.len(), 13);
        let mut client = Client::connect(&database).await;
        let links = "SELECT COUNT(*) FROM redrive_letter AS t JOIN redrive_letter AS p ON p.id = t.previous_id \
                     WHERE p.record_key = t.record_key AND p.state = 'resolved' AND t.state = 'open'";
        assert_eq!(client.number(links).await, 13);
        assert_eq!(client.number("SELECT COUNT(*) FROM redrive_letter WHERE previous_id IS NULL").await, 13);

        // The same in one reading, as in a store that is new: what closed the first is not known there.
        let again = |redrives: u32, offset: i64| ReadLetter {
            redrives,
            ..message("w:logs/0/77", Place::new("logs-dlq", 0, offset))
        };
        assert_eq!(store.add_read(&reading([again(0, 50), again(1, 51), again(1, 52)])).await.unwrap(), 2);
        let linked = "SELECT COUNT(*) FROM redrive_letter AS t JOIN redrive_letter AS p ON p.id = t.previous_id \
                      WHERE t.record_key = 'w:logs/0/77' AND p.record_key = t.record_key";
        assert_eq!(client.number(linked).await, 1);
    }
}

/// It said "sent back to work", and nothing could ever become of it.
#[tokio::test]
async fn a_letter_that_did_not_come_from_the_topic_is_refused_when_it_is_redriven() {
    for database in testkit::backends(file!()).await {
        let letters = Letters::of_topic(common::open(&database).await, "logs", "logs");
        letters.migrate().await.unwrap();
        let origin = Origin::Topic { topic: "orders".into(), partition: 0, offset: 0 };
        letters.add(&[letter("a"), NewLetter { origin, ..letter("b") }]).await.unwrap();
        let ids: Vec<String> =
            of_status(&letters, Status::Open).await.into_iter().map(|letter| letter.id.local).collect();
        let acted = letters.redrive(&ids, &order()).await.unwrap();
        assert_eq!((acted.done.len(), acted.refused.len()), (1, 1), "{:?}: {acted:?}", database.backend);
        let why = acted.refused[0].to_string();
        assert!(why.contains("its record did not come from topic logs"), "{why}");
        assert_eq!(keys(&letters, Status::Open).await, set(["b"]));
    }
}

#[tokio::test]
async fn a_redriven_record_that_fails_again_is_shown_as_that_at_both_letters() {
    for database in testkit::backends(file!()).await {
        let store = store(&database, "logs").await;
        let first = message("w:logs/0/7", Place::new("logs-dlq", 0, 0));
        let again = ReadLetter { redrives: 1, ..message("w:logs/0/7", Place::new("logs-dlq", 0, 1)) };
        store.add_read(&reading([first])).await.unwrap();
        let id = of_status(&store, Status::Open).await[0].id.clone();
        store.redrive(std::slice::from_ref(&id.local), &order()).await.unwrap();
        settle(&store, common::done(take(&store, 1, LONG).await)).await;
        let shown = async |id: &str| store.get(id).await.unwrap().unwrap();
        assert_eq!(shown(&id.local).await.redelivery.unwrap().state, RedeliveryState::HandedOver);
        store.add_read(&reading([again])).await.unwrap();
        let second = of_status(&store, Status::Open).await[0].id.clone();
        let redelivery = shown(&id.local).await.redelivery.unwrap();
        assert_eq!(redelivery.state, RedeliveryState::Failed, "{:?}", database.backend);
        assert_eq!((redelivery.letter, redelivery.at), (Some(second.clone()), Some(Timestamp::UNIX_EPOCH)));
        assert_eq!(shown(&second.local).await.redriven_from, Some(id));
    }
}

/// Two consumer groups, or two connectors, share a topic of letters: what both failed was one letter.
#[tokio::test]
async fn each_group_that_fails_a_record_has_a_letter() {
    for database in testkit::backends(file!()).await {
        let store = store(&database, "logs").await;
        let of = |group: &str, offset: i64| ReadLetter {
            letter: letter("logs-dlq:logs/0/7@5#0"),
            ..message(&format!("{group}:logs/0/7"), Place::new("logs-dlq", 0, offset))
        };
        assert_eq!(store.add_read(&reading([of("a", 0), of("b", 1), of("a", 2)])).await.unwrap(), 2);
        assert_eq!(
            store.add_read(&reading([of("b", 3), of("c", 4)])).await.unwrap(),
            1,
            "{:?}",
            database.backend
        );
    }
}

#[tokio::test]
async fn letters_of_a_parking_topic_that_is_gone_stay_open() {
    for database in testkit::backends(file!()).await {
        let store = store(&database, "logs").await;
        store.add_read(&parked(LOT, 0, [0, 1])).await.unwrap();
        store.begin_again(LOT, 0).await.unwrap();
        // Its successor has other letters in the same places.
        let reading = reading([message("logs/0/77", Place::new(LOT, 0, 0))]);
        store.add_read(&reading).await.unwrap();
        assert_eq!(close(&store, LOT, 0, 2).await, Left::Nothing);
        assert_eq!(keys(&store, Status::Resolved).await, set(["logs/0/77"]));
        assert_eq!(keys(&store, Status::Open).await, set(["logs-parking/0/0", "logs-parking/0/1"]));
    }
}

#[tokio::test]
async fn many_parked_letters_are_closed_in_portions() {
    for database in testkit::backends(file!()).await {
        let store = store(&database, "logs").await;
        store.add_read(&parked(LOT, 0, 0..1_200)).await.unwrap();
        assert_eq!(close(&store, LOT, 0, 1_100).await, Left::More);
        let stats = store.stats().await.unwrap();
        assert_eq!(stats.count(Status::Resolved), 500, "{:?}", database.backend);
        assert_eq!(close(&store, LOT, 0, 1_100).await, Left::More);
        assert_eq!(close(&store, LOT, 0, 1_100).await, Left::Waiting);
        assert_eq!(store.stats().await.unwrap().count(Status::Open), 100);
        let mut client = Client::connect(&database).await;
        assert_eq!(client.number("SELECT COUNT(*) FROM redrive_parked_letter").await, 100);
    }
}

/// Letters in a parking lot for hours must not make each look at them read them all.
#[tokio::test]
async fn parked_letters_are_found_through_their_indexes() {
    for database in testkit::backends(file!()).await {
        let store = store(&database, "logs").await;
        for from in (0..5_000).step_by(1_000) {
            store.add_read(&parked(LOT, 0, from..from + 1_000)).await.unwrap();
        }
        let mut client = Client::connect(&database).await;
        for table in ["redrive_letter", "redrive_parked_letter"] {
            let table =
                if database.backend == Backend::MySql { format!("TABLE {table}") } else { table.into() };
            client.run(&format!("ANALYZE {table}")).await;
        }
        let plan = plan(&database, &mut client, &store.done_statement()).await;
        let bad: &[&str] = match database.backend {
            Backend::Sqlite => &["SCAN", "TEMP B-TREE", "AUTOMATIC"],
            Backend::Postgres => &["Seq Scan", "Sort", "Hash"],
            Backend::MySql => &["filesort", " ALL ", "temporary"],
        };
        for index in ["redrive_parked_letter_place", "redrive_letter_source"] {
            assert!(plan.contains(index), "{:?} does not use {index}:\n{plan}", database.backend);
        }
        for bad in bad {
            assert!(!plan.contains(bad), "{:?}: {bad}:\n{plan}", database.backend);
        }
    }
}

async fn plan(database: &TestDatabase, client: &mut Client, text: &str) -> String {
    let rows = match database.backend {
        Backend::Sqlite => client.rows(&format!("EXPLAIN QUERY PLAN {text}")).await,
        Backend::Postgres => {
            client.run("SET plan_cache_mode = force_generic_plan").await;
            client.run(&format!("PREPARE p(text, bigint, bigint) AS {text}")).await;
            client.rows(&format!("EXPLAIN EXECUTE p('{LOT}', 0, 50)")).await
        }
        Backend::MySql => {
            let values = [format!("'{LOT}'"), "0".into(), "50".into()];
            let text = values.iter().fold(text.to_owned(), |text, value| text.replacen('?', value, 1));
            client.rows(&format!("EXPLAIN {text}")).await
        }
    };
    let line = |row: Vec<Option<String>>| {
        row.into_iter().map(Option::unwrap_or_default).collect::<Vec<_>>().join(" ")
    };
    rows.into_iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Whoever looked at the letter that was sent back saw nothing of the one that it had become.
#[tokio::test]
async fn a_redriven_record_that_comes_back_is_linked_to_its_letter_both_ways() {
    for database in testkit::backends(file!()).await {
        let store = store(&database, "logs").await;
        store.add_read(&reading([message("group:logs/0/1", Place::new(LOT, 0, 0))])).await.unwrap();
        let first = of_status(&store, Status::Open).await.remove(0).id;
        store.redrive(std::slice::from_ref(&first.local), &order()).await.unwrap();
        settle(&store, done(take(&store, 10, LONG).await)).await;
        let sent = store.get(&first.local).await.unwrap().unwrap().redelivery.unwrap();
        assert_eq!((sent.state, sent.letter), (RedeliveryState::HandedOver, None));
        assert!(sent.at.is_some(), "when the topic took it");

        let letter = letter("again");
        let again = ReadLetter { letter, redrives: 1, ..message("group:logs/0/1", Place::new(LOT, 0, 7)) };
        assert_eq!(store.add_read(&reading([again])).await.unwrap(), 1);
        let second = of_status(&store, Status::Open).await.remove(0).id;
        let failed = store.get(&first.local).await.unwrap().unwrap().redelivery.unwrap();
        assert_eq!((failed.state, failed.letter), (RedeliveryState::Failed, Some(second.clone())));
        let second = store.get(&second.local).await.unwrap().unwrap();
        assert_eq!((second.redriven_from, second.redelivery), (Some(first), None));
    }
}
