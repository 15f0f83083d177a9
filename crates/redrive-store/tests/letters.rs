//! Dead letters: one suite for every queue on every backend, and what only redrive's own have.

#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

mod common;

use std::time::Duration;

use common::{LONG, dead, done, failed_events, jobs, letters, order, outbox, settle, take, timeout};
use jiff::Timestamp;
use redrive_core::dead_letter::{DeadLetterQueue, Filter, Origin, Outcome, Page, PipelineKind, Status};
use redrive_core::failure::{Code, Failure};
use redrive_core::fingerprint::Fingerprint;
use redrive_store::conformance::{self, FailedEventsSubject, JobsSubject, LettersSubject, OutboxSubject};
use redrive_store::{Error, JobsOptions, Letters, NewLetter, OutboxOptions};
use redrive_testkit as testkit;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn letters_of_an_outbox_conform() {
    for database in testkit::backends(file!()).await {
        conformance::letters(&OutboxSubject(outbox(&database, OutboxOptions::new("orders")).await)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn letters_of_a_job_queue_conform() {
    for database in testkit::backends(file!()).await {
        let options = JobsOptions { max_retries: 1_000, ..JobsOptions::new("summarize") };
        conformance::letters(&JobsSubject(jobs(&database, options).await)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn letters_of_failed_events_conform() {
    for database in testkit::backends(file!()).await {
        conformance::letters(&FailedEventsSubject(failed_events(&database).await)).await;
    }
}

/// The pipeline's name is as hostile as a name can be: it becomes part of the statements.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn letters_of_redrives_own_conform_whatever_their_pipeline_is_called() {
    for database in testkit::backends(file!()).await {
        for pipeline in ["intake", "report.v1", "a\\' OR 1=1 -- {table} $1 ? \u{1F4A9}"] {
            conformance::letters(&LettersSubject(letters(&database, pipeline).await)).await;
        }
    }
}

fn letter(source: &str) -> NewLetter {
    NewLetter {
        source: source.into(),
        event_type: "OrderCreated".into(),
        key: "42".into(),
        payload: (0..=255).collect(),
        headers: vec![
            ("trace".into(), vec![0, 255, 39, 92]),
            (String::new(), vec![]),
            ("trace".into(), vec![1]),
        ],
        origin: Origin::Topic { topic: "orders".into(), partition: 3, offset: i64::MAX },
        target: Some("orders-http".into()),
        failure: Failure::permanent("Refused", "no").with_code(Code::Http(422)),
        attempts: 7,
        first_failed_at: Timestamp::UNIX_EPOCH,
        failed_at: "2026-01-02T03:04:05.678Z".parse().unwrap(),
    }
}

#[tokio::test]
async fn bytes_headers_and_origin_survive_byte_for_byte() {
    for database in testkit::backends(file!()).await {
        let store = letters(&database, "intake").await;
        let large = NewLetter { payload: vec![0xAB; 3 << 20], ..letter("large") };
        let empty = NewLetter { payload: vec![], headers: vec![], key: String::new(), ..letter("empty") };
        let all = [letter("a"), large, large_headers(), empty];
        assert_eq!(store.add(&all).await.unwrap(), all.len());
        let listing = store.list(&Filter::default(), Page::first(10)).await.unwrap();
        assert_eq!(listing.letters.len(), all.len());
        for summary in &listing.letters {
            let got = store.get(&summary.id.local).await.unwrap().unwrap();
            let sent = all.iter().find(|sent| sent.payload.len() == got.payload.len()).unwrap();
            assert!(got.payload == sent.payload && got.headers == sent.headers, "{}", sent.source);
            assert_eq!((&got.origin, got.summary.attempts), (&sent.origin, sent.attempts));
            assert_eq!((got.summary.failed_at, &got.summary.failure), (sent.failed_at, &sent.failure));
        }
    }
}

fn large_headers() -> NewLetter {
    let headers = vec![("x".repeat(1_000), vec![7; 100_000])];
    NewLetter { headers, payload: vec![1, 2, 3], ..letter("headers") }
}

#[tokio::test]
async fn a_letter_comes_in_once_however_often_it_is_read_and_by_however_many() {
    for database in testkit::backends(file!()).await {
        let store = letters(&database, "intake").await;
        assert_eq!(store.add(&[letter("t/0/1"), letter("t/0/2"), letter("t/0/1")]).await.unwrap(), 2);
        assert_eq!(store.add(&[letter("t/0/2"), letter("t/0/3")]).await.unwrap(), 1);
        assert_eq!(store.add(&[letter("t/0/3")]).await.unwrap(), 0);
        assert_eq!(store.add(&[]).await.unwrap(), 0);
        // Topics differ by case, and a space at the end is a character like any other.
        assert_eq!(store.add(&[letter("T/0/1"), letter("t/0/1 ")]).await.unwrap(), 2);

        let batch: Vec<NewLetter> = (0..50).map(|n| letter(&format!("together/{n}"))).collect();
        let backwards: Vec<NewLetter> = batch.iter().rev().cloned().collect();
        let (a, b, c) = tokio::join!(store.add(&batch), store.add(&backwards), store.add(&batch));
        assert_eq!(a.unwrap() + b.unwrap() + c.unwrap(), 50, "{:?}", database.backend);
        assert_eq!(store.stats().await.unwrap().count(Status::Open), 55);
    }
}

#[tokio::test]
async fn letters_of_two_pipelines_in_one_table_do_not_meet() {
    for database in testkit::backends(file!()).await {
        let (one, other) = (letters(&database, "one").await, letters(&database, "One").await);
        one.add(&[letter("a")]).await.unwrap();
        assert_eq!(other.add(&[letter("a")]).await.unwrap(), 1, "each has its own sources");
        let id = one.list(&Filter::default(), Page::first(10)).await.unwrap().letters.remove(0).id.local;
        assert!(other.get(&id).await.unwrap().is_none());
        assert_eq!(other.redrive(std::slice::from_ref(&id), &order()).await.unwrap().refused.len(), 1);
        assert_eq!(one.redrive(&[id], &order()).await.unwrap().done.len(), 1);
        assert!(take(&other, 10, LONG).await.is_empty());
        assert_eq!(take(&one, 10, LONG).await.len(), 1);
        assert_eq!(other.purge(Timestamp::now() + LONG).await.unwrap(), 0);
    }
}

#[tokio::test]
async fn a_redriven_letter_is_sent_and_then_closed_or_fails_with_its_latest_failure_shown() {
    for database in testkit::backends(file!()).await {
        let store = letters(&database, "intake").await;
        store.add(&[letter("a"), letter("b")]).await.unwrap();
        let listing = store.list(&Filter::default(), Page::first(10)).await.unwrap();
        let ids: Vec<String> = listing.letters.into_iter().map(|letter| letter.id.local).collect();
        store.redrive(&ids, &order()).await.unwrap();
        let mut claimed = take(&store, 10, LONG).await;
        assert_eq!(claimed[0].1.event.payload, letter("a").payload, "byte for byte");
        let second = claimed.split_off(1);
        settle(&store, done(claimed)).await;
        settle(&store, dead(second, &timeout())).await;
        let stats = store.stats().await.unwrap();
        assert_eq!((stats.count(Status::Redriven), stats.count(Status::Failed)), (1, 1));
        let failed = Filter { status: Some(Status::Failed), ..Filter::default() };
        let id = store.list(&failed, Page::first(1)).await.unwrap().letters.remove(0).id.local;
        let letter_again = store.get(&id).await.unwrap().unwrap();
        let summary = &letter_again.summary;
        assert_eq!((&summary.failure, summary.attempts, summary.redrive_count), (&timeout(), 8, 1));
        assert!(summary.failed_at > letter("b").failed_at, "it failed just now");
        let kinds: Vec<&str> =
            letter_again.history.attempts().iter().map(|attempt| attempt.failure.kind.as_str()).collect();
        assert_eq!(kinds, ["Refused", "Timeout"], "what it failed of before is not forgotten");
        let group = summary.fingerprint;
        assert_ne!(group, Fingerprint::of("intake", "OrderCreated", &letter("b").failure));
        assert_eq!(store.groups(10).await.unwrap()[0].fingerprint, group, "it is found among its like");
        let found = Filter { group: Some(group), ..Filter::default() };
        assert_eq!(store.count(&found).await.unwrap(), 1);
    }
}

/// What kept a record from its topic says nothing about the record.
#[tokio::test]
async fn a_record_that_could_not_be_published_keeps_the_failure_that_made_it_a_letter() {
    for database in testkit::backends(file!()).await {
        let store = Letters::new(common::open(&database).await, "logs", PipelineKind::Kafka);
        store.migrate().await.unwrap();
        store.add(&[letter("dlq:orders/3/1#0")]).await.unwrap();
        let id = store.list(&Filter::default(), Page::first(1)).await.unwrap().letters.remove(0).id.local;
        store.redrive(std::slice::from_ref(&id), &order()).await.unwrap();
        let taken = take(&store, 10, LONG).await;
        settle(&store, dead(taken, &timeout())).await;
        let kept = store.get(&id).await.unwrap().unwrap();
        assert_eq!(kept.summary.failure, letter("a").failure);
        assert_eq!(kept.history.attempts().last().unwrap().failure.kind, "Timeout");
    }
}

#[tokio::test]
async fn what_came_lately_is_found_whenever_it_failed() {
    for database in testkit::backends(file!()).await {
        let store = letters(&database, "intake").await;
        store.add(&[letter("a")]).await.unwrap();
        let since = |at: Timestamp| Filter { arrived_since: Some(at), ..Filter::default() };
        let found = async |filter| store.list(&filter, Page::first(10)).await.unwrap().letters.len();
        let now = Timestamp::now();
        assert_eq!((found(since(now - LONG)).await, found(since(now + LONG)).await), (1, 0));
    }
}

/// A rule found them again and again, and they kept it from those that it could send.
#[tokio::test]
async fn a_policy_does_not_find_what_has_nowhere_to_go() {
    for database in testkit::backends(file!()).await {
        let store = letters(&database, "intake").await;
        let without = NewLetter { target: None, ..letter("without") };
        store.add(&[letter("with"), without]).await.unwrap();
        let found = Filter { redriven_below: Some(3), ..Filter::default() };
        assert_eq!(store.list(&found, Page::first(10)).await.unwrap().letters.len(), 1);
    }
}

#[tokio::test]
async fn a_letter_that_cannot_be_kept_is_named_and_nothing_is_stored() {
    for database in testkit::backends(file!()).await {
        let store = letters(&database, "intake").await;
        let nul = NewLetter { key: "a\0b".into(), ..letter("b") };
        let long = NewLetter { event_type: "x".repeat(101), ..letter("b") };
        let empty = letter("");
        for bad in [nul, long, empty] {
            let error = store.add(&[letter("a"), bad]).await.unwrap_err();
            assert!(matches!(error, Error::Refused { item: 1, .. }), "{error}");
        }
        assert_eq!(store.stats().await.unwrap().waiting(), 0);
        // A message is not the sender's to choose: it is cleaned, not refused. (kestra #15647)
        let mut odd = letter("odd");
        odd.failure.message = format!("NUL \0 and {}", "long ".repeat(10_000));
        odd.failure.kind = "k\0".repeat(1_000);
        odd.failure.code = Some(Code::Other("c\0".repeat(1_000)));
        assert_eq!(store.add(&[odd]).await.unwrap(), 1);
        let before = Timestamp::now() - Duration::from_secs(1);
        assert_eq!(store.purge(before).await.unwrap(), 0);
    }
}

/// A topic says no more of a record than that it has it, until the record comes back as another letter.
#[tokio::test]
async fn a_redriven_record_that_comes_back_has_failed_again() {
    for database in testkit::backends(file!()).await {
        let store = Letters::new(common::open(&database).await, "logs", PipelineKind::Kafka);
        store.migrate().await.unwrap();
        store.add(&[letter("dlq:orders/3/1#0")]).await.unwrap();
        let id = store.list(&Filter::default(), Page::first(1)).await.unwrap().letters.remove(0).id.local;
        let ids = [id];
        store.redrive(&ids, &order()).await.unwrap();
        assert_eq!(store.outcomes(&ids).await.unwrap(), [Outcome::Pending]);
        let published = take(&store, 10, LONG).await;
        settle(&store, done(published)).await;
        assert_eq!(store.outcomes(&ids).await.unwrap(), [Outcome::HandedOver]);
        let other = Origin::Topic { topic: "orders".into(), partition: 3, offset: 2 };
        store.add(&[NewLetter { origin: other, ..letter("dlq:orders/3/2#0") }]).await.unwrap();
        assert_eq!(store.outcomes(&ids).await.unwrap(), [Outcome::HandedOver], "another record is another");
        store.add(&[letter("dlq:orders/3/1#1")]).await.unwrap();
        let outcomes = store.outcomes(&ids).await.unwrap();
        assert!(matches!(outcomes[..], [Outcome::Failed(_)]), "{outcomes:?}");
    }
}
