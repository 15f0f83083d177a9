//! `failed_events`: the operators' queries, the order of retries, what is reclaimed and cleaned up.

#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

mod common;

use std::time::Duration;

use common::{
    LONG, NOW, dead, done, failed, failed_events, ids, open, order, settle, take, take_one, timeout,
};
use jiff::Timestamp;
use redrive_core::dead_letter::{DeadLetterQueue, Status};
use redrive_core::event::WorkId;
use redrive_core::lease::Settlement;
use redrive_core::state::FailedEventState;
use redrive_store::{Error, FailedEvent, FailedEvents, FailedEventsOptions};
use redrive_testkit::{self as testkit, Client};

fn event(key: &str, failed_at: i64) -> FailedEvent {
    let created = Timestamp::from_millisecond(1_700_000_000_123).unwrap();
    let failed_at = Timestamp::from_millisecond(failed_at).unwrap();
    FailedEvent::new(key, "https://example.org/?q='%_\\", created, failed_at, timeout())
}

async fn state(failed: &FailedEvents, id: WorkId) -> FailedEventState {
    failed.state(id).await.unwrap().unwrap()
}

#[tokio::test]
async fn the_operators_queries_work_as_they_are_written() {
    for database in testkit::backends(file!()).await {
        let failed = failed_events(&database).await;
        let all = failed.append(&[event("c", 3_000), event("a", 1_000), event("b", 2_000)]).await.unwrap();
        let mut client = Client::connect(&database).await;
        let pending =
            client.rows("SELECT * FROM failed_events WHERE status = 'PENDING' ORDER BY failed_at;").await;
        let founding: Vec<Vec<Option<&str>>> =
            pending.iter().map(|row| row[..8].iter().map(Option::as_deref).collect()).collect();
        let id = all[1].to_string();
        assert_eq!(
            founding[0],
            [
                Some(id.as_str()),
                Some("a"),
                Some("https://example.org/?q='%_\\"),
                Some("1700000000123"),
                Some("1000"),
                Some("0"),
                Some("after 5 s"),
                Some("PENDING"),
            ],
            "the founding columns, in their order"
        );
        assert_eq!(pending.len(), 3);
        settle(&failed, dead(take(&failed, 2, LONG).await, &timeout())).await;
        let failed =
            client.rows("SELECT * FROM failed_events WHERE status = 'FAILED' ORDER BY failed_at;").await;
        let keys: Vec<_> = failed.iter().map(|row| row[1].as_deref().unwrap()).collect();
        assert_eq!(keys, ["a", "b"]);
    }
}

#[tokio::test]
async fn the_oldest_failure_is_retried_first_and_keeps_its_times() {
    for database in testkit::backends(file!()).await {
        let failed = failed_events(&database).await;
        failed.append(&[event("c", 3_000), event("a", 1_000), event("b", 2_000)]).await.unwrap();
        for key in ["a", "b", "c"] {
            let claimed = take(&failed, 1, LONG).await;
            let (_, work) = &claimed[0];
            assert_eq!((work.event.key.as_str(), work.event.event_type.as_str()), (key, "urls"));
            assert_eq!(work.event.created_at.as_millisecond(), 1_700_000_000_123);
        }
    }
}

#[tokio::test]
async fn an_expired_processing_row_is_reclaimed_and_its_first_holder_is_refused() {
    for database in testkit::backends(file!()).await {
        let failed = failed_events(&database).await;
        let id = failed.append(&[event("a", 1_000)]).await.unwrap()[0];
        let first = take(&failed, 1, NOW).await;
        assert_eq!(state(&failed, id).await, FailedEventState::Processing);
        let second = take(&failed, 1, LONG).await;
        assert!(second[0].1.interrupted);
        assert_eq!(settle(&failed, done(first)).await.lost, [id]);
        assert!(settle(&failed, done(second)).await.lost.is_empty());
        assert_eq!(state(&failed, id).await, FailedEventState::Resolved);
    }
}

#[tokio::test]
async fn after_its_retries_an_event_needs_a_person_who_can_send_it_back() {
    for database in testkit::backends(file!()).await {
        let failed_events = failed_events(&database).await;
        let id = failed_events.append(&[event("a", 1_000)]).await.unwrap()[0];
        for retry in 0..2 {
            let (lease, work) = take_one(&failed_events).await;
            assert_eq!(work.retry_count, retry);
            let failed = failed(&work, &timeout());
            settle(&failed_events, vec![(lease, Settlement::Retry { after: NOW, failed })]).await;
        }
        let claimed = vec![take_one(&failed_events).await];
        settle(&failed_events, dead(claimed, &timeout())).await;
        assert_eq!(state(&failed_events, id).await, FailedEventState::Failed);
        let letter = failed_events.get(&id.to_string()).await.unwrap().unwrap();
        assert_eq!((letter.summary.status, letter.history.attempts().len()), (Status::Failed, 4));
        failed_events.redrive(&[id.to_string()], &order()).await.unwrap();
        let (_, work) = take_one(&failed_events).await;
        assert_eq!(work.retry_count, 0);
    }
}

#[tokio::test]
async fn what_was_resolved_a_week_ago_is_cleaned_up_whoever_resolved_it() {
    for database in testkit::backends(file!()).await {
        let failed = failed_events(&database).await;
        let now = Timestamp::now();
        let events: Vec<_> = (0..5).map(|n| event(&format!("k{n}"), now.as_millisecond())).collect();
        let all = failed.append(&events).await.unwrap();
        settle(&failed, done(take(&failed, 3, LONG).await)).await;
        let mut client = Client::connect(&database).await;
        let sql = |sql: &str, id: WorkId| format!("{sql} WHERE id = {id}");
        // One was saved eight days ago, another that long ago by a person with plain SQL.
        let saved = "UPDATE failed_events SET resolved_at = '2026-01-01 00:00:00', failed_at = 1767200000000";
        client.run(&sql(saved, all[0])).await;
        let old = (now - Duration::from_secs(8 * 86_400)).as_millisecond();
        let by_hand = format!("UPDATE failed_events SET status = 'RESOLVED', failed_at = {old}");
        client.run(&sql(&by_hand, all[3])).await;
        let week = Duration::from_secs(7 * 86_400);
        let cut: Timestamp = "2026-01-09T00:00:00Z".parse().unwrap();
        assert_eq!(failed.purge(cut.min(now - week)).await.unwrap(), 1);
        assert_eq!(failed.purge(now - week).await.unwrap(), 1);
        assert_eq!(failed.state(all[0]).await.unwrap(), None);
        assert_eq!(failed.state(all[3]).await.unwrap(), None);
        assert_eq!(state(&failed, all[1]).await, FailedEventState::Resolved, "a fresh one stays");
        assert_eq!(state(&failed, all[4]).await, FailedEventState::Pending, "and what waits stays");
    }
}

#[tokio::test]
async fn a_purge_of_more_than_one_statements_worth_takes_them_all() {
    for database in testkit::backends(file!()).await {
        let failed = failed_events(&database).await;
        let events: Vec<_> = (0..2_345).map(|n| event(&format!("k{n}"), n)).collect();
        let all = failed.append(&events).await.unwrap();
        assert!(all.is_sorted() && all.len() == events.len());
        let claimed = take(&failed, 10_000, LONG).await;
        assert_eq!(ids(&claimed), all);
        settle(&failed, done(claimed)).await;
        assert_eq!(failed.purge(Timestamp::now() + LONG).await.unwrap(), 2_345);
    }
}

#[tokio::test]
async fn any_table_of_keys_and_payloads_will_do() {
    for database in testkit::backends(file!()).await {
        let options = FailedEventsOptions {
            table: "lost_orders".into(),
            key_column: "order_no".into(),
            payload_column: "body".into(),
            ..FailedEventsOptions::new("orders")
        };
        let failed = FailedEvents::new(open(&database).await, options).unwrap();
        failed.migrate().await.unwrap();
        failed.append(&[event("42", 1)]).await.unwrap();
        let mut client = Client::connect(&database).await;
        assert_eq!(client.column("SELECT order_no FROM lost_orders WHERE body LIKE 'https%'").await, ["42"]);
        assert_eq!(take_one(&failed).await.1.event.key, "42");
    }
}

/// A clock in nanoseconds where milliseconds belong: one such row must not stop the others.
#[tokio::test]
async fn a_row_with_impossible_times_is_claimed_and_listed_like_any_other() {
    for database in testkit::backends(file!()).await {
        let failed = failed_events(&database).await;
        failed.append(&[event("good", 1_000)]).await.unwrap();
        let mut client = Client::connect(&database).await;
        for time in [i64::MAX, 1_700_000_000_000_000_000, -1, i64::MIN] {
            client
                .run(&format!(
                    "INSERT INTO failed_events (short_url, long_url, created_at, failed_at) VALUES ('odd', '', {time}, {time})"
                ))
                .await;
        }
        let claimed = take(&failed, 10, LONG).await;
        assert_eq!(claimed.len(), 5, "{:?}", database.backend);
        settle(&failed, dead(claimed, &timeout())).await;
        assert_eq!(failed.stats().await.unwrap().waiting(), 5);
        let page = redrive_core::dead_letter::Page::first(10);
        assert_eq!(failed.list(&Default::default(), page).await.unwrap().letters.len(), 5);
    }
}

#[tokio::test]
async fn an_event_that_cannot_be_kept_is_named_and_nothing_is_stored() {
    for database in testkit::backends(file!()).await {
        let failed = failed_events(&database).await;
        for bad in [event("", 1), event("a\0", 1), event(&"x".repeat(256), 1)] {
            let error = failed.append(&[event("a", 1), bad]).await.unwrap_err();
            assert!(matches!(error, Error::Refused { item: 1, .. }), "{error}");
        }
        assert_eq!(failed.stats().await.unwrap().waiting(), 0);
        assert!(failed.append(&[]).await.unwrap().is_empty());
    }
}
