//! The transactional outbox: its letters, its operators, its order.

#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

mod common;

use common::{
    LONG, NOW, dead, done, event, failed, ids, operator, order, outbox, settle, take, take_one, timeout,
};
use jiff::Timestamp;
use redrive_core::dead_letter::{DeadLetterQueue, Filter, Operator, Origin, Page, Refusal, Status, Summary};
use redrive_core::event::{NewEvent, WorkId};
use redrive_core::failure::{Code, Failure};
use redrive_core::fingerprint::Fingerprint;
use redrive_core::lease::Settlement;
use redrive_core::state::OutboxState;
use redrive_store::{Error, Ordering, Outbox, OutboxOptions, Processed, WorkStore as _};
use redrive_testkit::{self as testkit, Client};

fn options() -> OutboxOptions {
    OutboxOptions::new("orders")
}

async fn open_letters(outbox: &Outbox) -> Vec<Summary> {
    let open = Filter { status: Some(Status::Open), ..Filter::default() };
    outbox.list(&open, Page::first(500)).await.unwrap().letters
}

/// Appends one event, and lets it die.
async fn bury(outbox: &Outbox, aggregate: &str) -> String {
    outbox.append(vec![event(aggregate)]).await.unwrap();
    let claimed = vec![take_one(outbox).await];
    settle(outbox, dead(claimed, &timeout())).await;
    open_letters(outbox).await.remove(0).id.local
}

#[tokio::test]
async fn a_letter_has_the_event_its_failure_and_the_retries_it_had() {
    for database in testkit::backends(file!()).await {
        let outbox = outbox(&database, options()).await;
        let event = NewEvent { payload: "{\"n\": \"\u{1F4A9}\"}".into(), ..event("42") };
        let id = outbox.append(vec![event.clone()]).await.unwrap()[0];
        for retries in 0..2 {
            let (lease, work) = take_one(&outbox).await;
            assert_eq!((work.retry_count, work.event.attempt), (retries, retries + 1));
            let failed = failed(&work, &timeout());
            settle(&outbox, vec![(lease, Settlement::Retry { after: NOW, failed })]).await;
        }
        let failure = Failure::permanent("UniqueViolation", "duplicate key 4711")
            .with_code(Code::SqlState("23505".into()));
        let claimed = vec![take_one(&outbox).await];
        settle(&outbox, dead(claimed, &failure)).await;

        let summary = open_letters(&outbox).await.remove(0);
        let letter = outbox.get(&summary.id.local).await.unwrap().unwrap();
        assert_eq!((&letter.summary, &letter.summary.failure), (&summary, &failure));
        assert_eq!(
            (summary.event_type.as_str(), summary.key.as_str(), summary.attempts),
            ("OrderCreated", "42", 3)
        );
        assert_eq!(summary.fingerprint, Fingerprint::of("orders", "OrderCreated", &failure));
        assert_eq!(letter.payload, event.payload.into_bytes());
        assert_eq!(letter.origin, Origin::Table { table: "outbox_event".into(), id: id.0 });
        let kinds: Vec<_> =
            letter.history.attempts().iter().map(|attempt| attempt.failure.kind.as_str()).collect();
        assert_eq!(kinds, ["Timeout", "Timeout", "UniqueViolation"]);
        assert!(letter.first_failed_at <= summary.failed_at && letter.resolution.is_none());

        let mut client = Client::connect(&database).await;
        let row = client
            .rows(
                "SELECT original_event_id, aggregate_type, retry_count, error_message, resolved_by \
                 FROM outbox_event_dlq WHERE NOT resolved",
            )
            .await;
        let row: Vec<Option<&str>> = row[0].iter().map(Option::as_deref).collect();
        let id = id.to_string();
        assert_eq!(row, [Some(id.as_str()), Some("Order"), Some("2"), Some("duplicate key 4711"), None]);
        assert_eq!(client.number("SELECT count(*) FROM outbox_event").await, 0, "the event is gone");
    }
}

#[tokio::test]
async fn retry_from_dlq_makes_a_new_event_and_closes_the_letter_with_its_operator() {
    for database in testkit::backends(file!()).await {
        let outbox = outbox(&database, options()).await;
        let letter = bury(&outbox, "42").await;
        let before = outbox.get(&letter).await.unwrap().unwrap();
        assert_eq!(outbox.retry_from_dlq(&letter, &operator()).await.unwrap(), Ok(()));

        let (lease, work) = take_one(&outbox).await;
        let Origin::Table { id: origin, .. } = before.origin else { panic!("{:?}", before.origin) };
        assert_eq!((work.retry_count, work.interrupted, work.event.attempt), (0, false, 1));
        assert_eq!(work.event.origin, WorkId(origin), "receivers see the same event");
        assert_ne!(work.event.id, WorkId(origin));
        assert_eq!((work.event.key.as_str(), &work.event.payload), ("42", &before.payload));
        assert_eq!(work.history, before.history, "its attempts are not forgotten");

        let closed = outbox.get(&letter).await.unwrap().unwrap();
        let resolution = closed.resolution.unwrap();
        assert_eq!((closed.summary.status, closed.summary.redrive_count), (Status::Redriven, 1));
        assert_eq!(resolution.by, "alice");
        assert!(resolution.note.contains("alice"));

        settle(&outbox, dead(vec![(lease, work)], &timeout())).await;
        let again = open_letters(&outbox).await.remove(0);
        assert_eq!((again.redrive_count, again.attempts), (1, 1));
        let again = outbox.get(&again.id.local).await.unwrap().unwrap();
        assert_eq!(again.history.attempts().len(), 2);
    }
}

#[tokio::test]
async fn a_letter_is_resolved_by_hand_once_and_an_unknown_one_is_refused_clearly() {
    for database in testkit::backends(file!()).await {
        let outbox = outbox(&database, options()).await;
        let letter = bury(&outbox, "42").await;
        assert_eq!(outbox.resolve_manually(&letter, &operator(), "refunded").await.unwrap(), Ok(()));
        let resolution = outbox.get(&letter).await.unwrap().unwrap().resolution.unwrap();
        assert_eq!((resolution.by.as_str(), resolution.note.as_str()), ("alice", "refunded"));

        let bob = Operator::new("bob");
        let refused = outbox.resolve_manually(&letter, &bob, "me, too").await.unwrap();
        assert_eq!(refused, Err(Refusal::NotWaiting(letter.clone())));
        assert_eq!(outbox.retry_from_dlq(&letter, &bob).await.unwrap(), Err(Refusal::NotWaiting(letter)));
        for unknown in ["999", "-1", "x"] {
            let refusal = outbox.retry_from_dlq(unknown, &bob).await.unwrap().unwrap_err();
            assert_eq!(refusal, Refusal::Unknown(unknown.into()));
            assert!(refusal.to_string().contains("there is no letter"));
        }
        assert!(take(&outbox, 10, LONG).await.is_empty(), "nothing went back");
    }
}

#[tokio::test]
async fn without_order_the_events_of_an_aggregate_are_handed_out_together() {
    for database in testkit::backends(file!()).await {
        let outbox = outbox(&database, options()).await;
        outbox.append(vec![event("a"), event("a"), event("b")]).await.unwrap();
        assert_eq!(take(&outbox, 10, LONG).await.len(), 3);
    }
}

#[tokio::test]
async fn in_order_an_aggregate_has_one_event_out_and_the_next_comes_with_its_settlement() {
    for database in testkit::backends(file!()).await {
        for ordering in [Ordering::AggregateHold, Ordering::AggregateSkip] {
            let options = OutboxOptions {
                table: format!("o_{ordering:?}"),
                letters_table: format!("l_{ordering:?}"),
                ordering,
                ..options()
            };
            let outbox = outbox(&database, options).await;
            let other_type = NewEvent { aggregate_type: "Invoice".into(), ..event("a") };
            let events = vec![event("a"), event("a"), event("b"), event("a"), other_type];
            let all = outbox.append(events).await.unwrap();
            let first = take(&outbox, 10, LONG).await;
            assert_eq!(ids(&first), [all[0], all[2], all[4]]);
            assert!(take(&outbox, 10, LONG).await.is_empty());
            // The worker that delivers the first gets the second at once, not after its next pause.
            let turn = outbox.turn(&mut done(first), Some(&common::claim(10, LONG))).await.unwrap();
            assert_eq!(ids(&turn.claimed), [all[1]], "{:?}", database.backend);
            let (lease, work) = turn.claimed.into_iter().next().unwrap();
            let failed = failed(&work, &timeout());
            settle(&outbox, vec![(lease, Settlement::Retry { after: LONG, failed })]).await;
            assert!(take(&outbox, 10, LONG).await.is_empty(), "the third waits for the second's retry");
        }
    }
}

#[tokio::test]
async fn on_hold_an_aggregate_waits_for_its_letter_and_a_redriven_event_keeps_its_place() {
    for database in testkit::backends(file!()).await {
        let ordering = Ordering::AggregateHold;
        let outbox = outbox(&database, OutboxOptions { ordering, ..options() }).await;
        let letter = bury(&outbox, "a").await;
        let later = outbox.append(vec![event("a"), event("b")]).await.unwrap();
        let healthy = take(&outbox, 10, LONG).await;
        assert_eq!(ids(&healthy), later[1..], "only its own aggregate is held");
        settle(&outbox, done(healthy)).await;

        outbox.retry_from_dlq(&letter, &operator()).await.unwrap().unwrap();
        let (lease, work) = take_one(&outbox).await;
        assert!(work.event.id > later[0] && work.event.origin < later[0], "newer, and yet before it");
        settle(&outbox, dead(vec![(lease, work)], &timeout())).await;
        assert!(take(&outbox, 10, LONG).await.is_empty(), "its second death holds them again");

        let again = open_letters(&outbox).await.remove(0).id.local;
        outbox.resolve_manually(&again, &operator(), "gave up").await.unwrap().unwrap();
        assert_eq!(ids(&take(&outbox, 10, LONG).await), later[..1]);
    }
}

#[tokio::test]
async fn on_skip_an_aggregate_passes_its_letter_and_a_redriven_event_comes_first() {
    for database in testkit::backends(file!()).await {
        let ordering = Ordering::AggregateSkip;
        let outbox = outbox(&database, OutboxOptions { ordering, ..options() }).await;
        let letter = bury(&outbox, "a").await;
        let later = outbox.append(vec![event("a"), event("a")]).await.unwrap();
        let passing = take(&outbox, 10, LONG).await;
        assert_eq!(ids(&passing), later[..1]);
        outbox.retry_from_dlq(&letter, &operator()).await.unwrap().unwrap();
        let turn = outbox.turn(&mut done(passing), Some(&common::claim(10, LONG))).await.unwrap();
        assert_eq!(turn.claimed.len(), 1);
        assert!(turn.claimed[0].1.event.origin < later[0], "the redriven one, before the last");
    }
}

#[tokio::test]
async fn where_an_order_is_kept_letters_go_back_one_portion_at_a_time() {
    for database in testkit::backends(file!()).await {
        let ordered = OutboxOptions { ordering: Ordering::AggregateSkip, ..options() };
        assert_eq!(outbox(&database, ordered).await.lanes(), 1);
        let expected = if database.backend == testkit::Backend::Postgres { 2 } else { 1 };
        assert_eq!(outbox(&database, options()).await.lanes(), expected);
    }
}

/// While a backlog is drained, claims begin where the first live event was a moment ago.
#[tokio::test]
async fn what_comes_in_below_a_backlog_is_not_passed_over() {
    for database in testkit::backends(file!()).await {
        let outbox = outbox(&database, options()).await;
        outbox.append((0..60).map(|key| event(&key.to_string())).collect()).await.unwrap();
        for _ in 0..3 {
            settle(&outbox, done(take(&outbox, 10, LONG).await)).await;
        }
        // As if its transaction had been open since before all others.
        outbox.append(vec![event("late")]).await.unwrap();
        let old = match database.backend {
            testkit::Backend::Sqlite => "'2001-01-01 00:00:00.000'",
            testkit::Backend::Postgres | testkit::Backend::MySql => "'2001-01-01 00:00:00'",
        };
        let mut client = Client::connect(&database).await;
        client.run(&format!("UPDATE outbox_event SET due_at = {old} WHERE aggregate_id = 'late'")).await;
        let mut keys = Vec::new();
        loop {
            let claimed = take(&outbox, 10, LONG).await;
            let is_last = claimed.len() < 10;
            keys.extend(claimed.iter().map(|(_, work)| work.event.key.clone()));
            settle(&outbox, done(claimed)).await;
            if is_last {
                break;
            }
        }
        keys.extend(take(&outbox, 10, LONG).await.into_iter().map(|(_, work)| work.event.key));
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 31, "{keys:?}");
        assert!(keys.contains(&"late".to_owned()));
    }
}

#[tokio::test]
async fn events_without_an_aggregate_wait_for_nobody() {
    for database in testkit::backends(file!()).await {
        let ordering = Ordering::AggregateHold;
        let outbox = outbox(&database, OutboxOptions { ordering, ..options() }).await;
        let none = NewEvent { aggregate_type: String::new(), aggregate_id: String::new(), ..event("") };
        outbox
            .append(vec![none.clone(), none.clone(), NewEvent { aggregate_type: "Order".into(), ..none }])
            .await
            .unwrap();
        let mut client = Client::connect(&database).await;
        client
            .run("INSERT INTO outbox_event (event_type, payload) VALUES ('Plain', 'x'), ('Plain', NULL)")
            .await;
        let claimed = take(&outbox, 10, LONG).await;
        assert_eq!(claimed.len(), 5);
        assert!(claimed.iter().all(|(_, work)| work.event.key.is_empty()));
        settle(&outbox, dead(claimed, &timeout())).await;
        outbox.append(vec![event("a")]).await.unwrap();
        assert_eq!(take(&outbox, 10, LONG).await.len(), 1, "their letters hold nobody");
        for letter in open_letters(&outbox).await {
            outbox.retry_from_dlq(&letter.id.local, &operator()).await.unwrap().unwrap();
        }
        assert_eq!(take(&outbox, 10, LONG).await.len(), 5);
    }
}

#[tokio::test]
async fn processed_events_are_purged_when_they_are_old_and_only_so_many_at_once() {
    for database in testkit::backends(file!()).await {
        let outbox = outbox(&database, options()).await;
        outbox.append(vec![event("a"); 6]).await.unwrap();
        let mut claimed = take(&outbox, 10, LONG).await;
        let waiting = claimed.split_off(5);
        settle(&outbox, done(claimed)).await;
        let future = Timestamp::now() + LONG;
        assert_eq!(outbox.purge_processed(Timestamp::now() - LONG, 100).await.unwrap(), 0, "too young");
        assert_eq!(outbox.purge_processed(future, 3).await.unwrap(), 3);
        assert_eq!(outbox.purge_processed(future, 100).await.unwrap(), 2);
        assert_eq!(outbox.backlog().await.unwrap(), 1, "what is out is not touched");
        assert!(settle(&outbox, done(waiting)).await.lost.is_empty());
    }
}

/// River #1302: the rescuer, or a late worker, overwrites what another has completed.
#[tokio::test]
async fn a_late_worker_cannot_bury_an_event_that_its_successor_delivered() {
    for database in testkit::backends(file!()).await {
        for processed in [Processed::Keep, Processed::Delete] {
            let table = format!("o_{processed:?}");
            let outbox = outbox(&database, OutboxOptions { table, processed, ..options() }).await;
            let id = outbox.append(vec![event("a")]).await.unwrap()[0];
            let late = take(&outbox, 1, NOW).await;
            let rescued = take(&outbox, 1, LONG).await;
            assert!(settle(&outbox, done(rescued)).await.lost.is_empty());
            assert_eq!(settle(&outbox, dead(late, &timeout())).await.lost, [id]);
            assert!(open_letters(&outbox).await.is_empty());
            let state = outbox.state(id).await.unwrap();
            assert_eq!(state, (processed == Processed::Keep).then_some(OutboxState::Processed));
        }
    }
}

/// Faktory #99, NexJob #143: an attempt that killed its worker is not counted, so it never ends.
#[tokio::test]
async fn an_event_that_kills_its_worker_says_so_at_every_claim() {
    for database in testkit::backends(file!()).await {
        let outbox = outbox(&database, options()).await;
        outbox.append(vec![event("a")]).await.unwrap();
        assert!(!take(&outbox, 1, NOW).await[0].1.interrupted);
        for _ in 0..2 {
            assert!(take(&outbox, 1, NOW).await[0].1.interrupted, "nobody settled the last one");
        }
        let (lease, work) = take_one(&outbox).await;
        let failed = failed(&work, &Failure::interrupted());
        settle(&outbox, vec![(lease, Settlement::Retry { after: NOW, failed })]).await;
        let (_, work) = take_one(&outbox).await;
        assert_eq!(
            (work.interrupted, work.retry_count),
            (false, 1),
            "and when it is counted, it is counted once"
        );
    }
}

/// An expired lease that nobody has taken over is still good, also in the turn that claims anew.
#[tokio::test]
async fn a_turn_settles_an_expired_lease_before_it_claims() {
    for database in testkit::backends(file!()).await {
        let outbox = outbox(&database, options()).await;
        let all = outbox.append(vec![event("a"), event("b")]).await.unwrap();
        let expired = take(&outbox, 1, NOW).await;
        let turn = outbox.turn(&mut done(expired), Some(&common::claim(10, LONG))).await.unwrap();
        assert_eq!((turn.lost, ids(&turn.claimed)), (vec![], all[1..].to_vec()), "{:?}", database.backend);
        assert_eq!(outbox.state(all[0]).await.unwrap(), Some(OutboxState::Processed));
    }
}

#[tokio::test]
async fn two_leases_on_one_event_in_one_batch_count_once() {
    for database in testkit::backends(file!()).await {
        let outbox = outbox(&database, options()).await;
        let id = outbox.append(vec![event("a")]).await.unwrap()[0];
        let stale = take(&outbox, 1, NOW).await;
        let fresh = take(&outbox, 1, LONG).await;
        let both = done(fresh).into_iter().chain(done(stale)).collect();
        assert_eq!(settle(&outbox, both).await.lost, [id], "{:?}", database.backend);
        assert_eq!(outbox.state(id).await.unwrap(), Some(OutboxState::Processed));
    }
}

#[tokio::test]
async fn an_event_that_cannot_be_kept_is_named_and_nothing_is_stored() {
    for database in testkit::backends(file!()).await {
        let outbox = outbox(&database, options()).await;
        let bad = [
            NewEvent { payload: "a\0".into(), ..event("a") },
            NewEvent { event_type: "x".repeat(101), ..event("a") },
            NewEvent { aggregate_id: "x".repeat(256), ..event("a") },
            NewEvent { event_type: String::new(), ..event("a") },
        ];
        for bad in bad {
            let error = outbox.append(vec![event("a"), event("a"), bad]).await.unwrap_err();
            assert!(matches!(error, Error::Refused { item: 2, .. }), "{error}");
        }
        assert_eq!(outbox.backlog().await.unwrap(), 0);
        assert!(outbox.append(vec![]).await.unwrap().is_empty());
    }
}

/// MySQL takes 16 MiB at once, and closes the connection on more.
#[tokio::test]
async fn a_batch_larger_than_a_packet_goes_in_and_its_deaths_come_out() {
    if let Some(database) = testkit::mysql(file!()).await {
        let outbox = outbox(&database, options()).await;
        let large = NewEvent { payload: "x".repeat(3 << 20), ..event("large") };
        let mut events = vec![large; 7];
        events.extend(vec![event("small"); 300]);
        let all = outbox.append(events).await.unwrap();
        assert!(all.is_sorted() && all.len() == 307);
        settle(&outbox, done(take(&outbox, 7, LONG).await)).await;
        // Control characters take six bytes each in JSON, and seven where they are quoted twice.
        let long = Failure::transient("\u{1}".repeat(255), "\u{1}".repeat(8_000));
        assert!(settle(&outbox, dead(take(&outbox, 300, LONG).await, &long)).await.lost.is_empty());
        assert_eq!(outbox.stats().await.unwrap().waiting(), 300);
    }
}

/// db-scheduler #433: a worker whose clock is wrong claims too early or never. Ours is never asked:
/// a lease of an hour ends an hour from now by the store's clock, wherever the delay comes from.
#[tokio::test]
async fn times_are_the_stores_and_an_endless_lease_or_delay_is_just_long() {
    for database in testkit::backends(file!()).await {
        let outbox = outbox(&database, options()).await;
        outbox.append(vec![event("a"); 3]).await.unwrap();
        let forever = std::time::Duration::MAX;
        let mut claimed = take(&outbox, 2, forever).await;
        let (mut lease, _) = claimed.remove(0);
        assert!(lease.until() > Timestamp::now() + LONG);
        assert!(outbox.extend(&mut [&mut lease], forever).await.unwrap().is_empty());
        let (other, work) = claimed.remove(0);
        let retry = Settlement::Retry { after: forever, failed: failed(&work, &timeout()) };
        let settlements = vec![(lease, Settlement::Release { after: forever }), (other, retry)];
        assert!(settle(&outbox, settlements).await.lost.is_empty(), "{:?}", database.backend);
        assert_eq!(take(&outbox, 10, LONG).await.len(), 1);
        let mut client = Client::connect(&database).await;
        let ahead = client.number("SELECT count(*) FROM outbox_event WHERE due_at > CURRENT_TIMESTAMP").await;
        assert_eq!(ahead, 3);
    }
}

/// Appends in a transaction of the application's own, on whichever driver it uses.
async fn append_in(
    outbox: &Outbox,
    client: &mut Client,
    events: Vec<NewEvent>,
) -> Result<Vec<WorkId>, Error> {
    match client {
        Client::Sqlite(connection) => outbox.append_in(&mut *connection, events).await,
        Client::Postgres(connection) => outbox.append_in(&mut *connection, events).await,
        Client::MySql(connection) => outbox.append_in(&mut *connection, events).await,
    }
}

#[tokio::test]
async fn events_in_the_applications_transaction_share_its_fate() {
    for database in testkit::backends(file!()).await {
        let outbox = outbox(&database, options()).await;
        let mut client = Client::connect(&database).await;
        client.run("CREATE TABLE business (id INT)").await;
        for (end, expected) in [("ROLLBACK", 0), ("COMMIT", 1_500)] {
            client.run("BEGIN").await;
            client.run("INSERT INTO business VALUES (1)").await;
            let ids = append_in(&outbox, &mut client, vec![event("a"); 1_500]).await.unwrap();
            assert!(ids.len() == 1_500 && ids.is_sorted(), "their numbers, in the same order");
            client.run(end).await;
            assert_eq!(outbox.backlog().await.unwrap(), expected, "{:?} {end}", database.backend);
        }
        let bad = vec![event("a"), NewEvent { payload: "\0".into(), ..event("a") }];
        let error = append_in(&outbox, &mut client, bad).await.unwrap_err();
        assert!(matches!(error, Error::Refused { item: 1, .. }), "{error}");
        let elsewhere = testkit::sqlite();
        let mut other = Client::connect(&elsewhere).await;
        if database.backend != testkit::Backend::Sqlite {
            let error = append_in(&outbox, &mut other, vec![event("a")]).await.unwrap_err();
            assert!(matches!(error, Error::Setting(_)), "{error}");
        }
    }
}

/// A ramp that followed it was told that all was well.
#[tokio::test]
async fn the_letter_of_an_event_that_is_under_way_is_not_purged() {
    for database in testkit::backends(file!()).await {
        let outbox = outbox(&database, OutboxOptions::new("orders")).await;
        outbox.append(vec![event("a")]).await.unwrap();
        settle(&outbox, dead(take(&outbox, 1, LONG).await, &timeout())).await;
        let letter = outbox.ids(&Filter::default(), None, 10).await.unwrap().ids;
        assert_eq!(outbox.redrive(&letter, &order()).await.unwrap().done.len(), 1);
        let later = Timestamp::now() + LONG;
        assert_eq!(outbox.purge(later).await.unwrap(), 0, "{:?}", database.backend);
        settle(&outbox, done(take(&outbox, 1, LONG).await)).await;
        assert_eq!(outbox.purge(later).await.unwrap(), 1, "{:?}", database.backend);
    }
}
