//! What a redriven letter says about what became of it, in every store.

#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

mod common;

use common::{dead, done, event, failed_events, jobs, letters, order, outbox, settle, take_one, timeout};
use jiff::Timestamp;
use redrive_core::dead_letter::{
    DeadLetterQueue, Filter, Letter, LetterId, Origin, Page, Redelivery, RedeliveryState, Status,
};
use redrive_store::{
    Completed, FailedEvent, JobsOptions, NewJob, NewLetter, Outbox, OutboxOptions, Processed, WorkStore,
};
use redrive_testkit as testkit;

fn options() -> OutboxOptions {
    OutboxOptions::new("orders")
}

async fn shown(queue: &dyn DeadLetterQueue, letter: &str) -> Letter {
    queue.get(letter).await.unwrap().unwrap()
}

async fn redelivery(queue: &dyn DeadLetterQueue, letter: &str) -> Redelivery {
    shown(queue, letter).await.redelivery.unwrap()
}

async fn redrive(queue: &dyn DeadLetterQueue, letter: &str) {
    assert_eq!(queue.redrive(&[letter.to_owned()], &order()).await.unwrap().done, [letter]);
}

/// The letter that waits for somebody.
async fn waiting(queue: &dyn DeadLetterQueue) -> LetterId {
    let all = queue.list(&Filter::default(), Page::first(500)).await.unwrap().letters;
    let waits = |status| matches!(status, Status::Open | Status::Failed);
    all.into_iter().find(|letter| waits(letter.status)).unwrap().id
}

async fn die(store: &dyn WorkStore) {
    settle(store, dead(vec![take_one(store).await], &timeout())).await;
}

async fn deliver(store: &dyn WorkStore) {
    settle(store, done(vec![take_one(store).await])).await;
}

async fn bury(outbox: &Outbox) -> LetterId {
    outbox.append(vec![event("42")]).await.unwrap();
    die(outbox).await;
    waiting(outbox).await
}

/// Nothing said what became of a redriven letter, nor which letter it had failed again as.
#[tokio::test]
async fn a_redriven_letter_says_when_it_was_delivered_or_which_letter_it_failed_again_as() {
    for database in testkit::backends(file!()).await {
        let outbox = outbox(&database, options()).await;
        let first = bury(&outbox).await;
        assert_eq!(shown(&outbox, &first.local).await.redelivery, None);
        redrive(&outbox, &first.local).await;
        let pending = redelivery(&outbox, &first.local).await;
        assert_eq!((pending.state, pending.at, pending.letter), (RedeliveryState::Pending, None, None));

        die(&outbox).await;
        let second = waiting(&outbox).await;
        let failed = redelivery(&outbox, &first.local).await;
        assert_eq!((failed.state, &failed.letter), (RedeliveryState::Failed, &Some(second.clone())));
        let letter = shown(&outbox, &second.local).await;
        assert_eq!(failed.at, Some(letter.summary.failed_at));
        assert_eq!(letter.redriven_from, Some(first.clone()));
        assert_eq!(letter.redelivery, None, "nobody has redriven it yet");

        redrive(&outbox, &second.local).await;
        deliver(&outbox).await;
        let delivered = redelivery(&outbox, &second.local).await;
        assert_eq!((delivered.state, delivered.letter), (RedeliveryState::Delivered, None));
        assert!(delivered.at.is_some_and(|at| at >= letter.summary.failed_at), "{:?}", delivered.at);
        let first = shown(&outbox, &first.local).await;
        assert_eq!(first.redelivery.unwrap().letter, Some(second), "each names the next");
        assert_eq!(first.redriven_from, None);
    }
}

#[tokio::test]
async fn a_redriven_letter_was_delivered_also_where_delivered_events_are_deleted() {
    for database in testkit::backends(file!()).await {
        let outbox = outbox(&database, OutboxOptions { processed: Processed::Delete, ..options() }).await;
        let letter = bury(&outbox).await;
        redrive(&outbox, &letter.local).await;
        deliver(&outbox).await;
        let delivered = redelivery(&outbox, &letter.local).await;
        assert_eq!((delivered.state, delivered.letter), (RedeliveryState::Delivered, None));
    }
}

/// Where a letter keeps its id: it dies, is redriven, dies again, is redriven, and is delivered.
async fn in_its_place<S: DeadLetterQueue + WorkStore>(store: &S, id: &str) {
    let own = LetterId::new(DeadLetterQueue::pipeline(store), id);
    assert_eq!(shown(store, id).await.redelivery, None);
    redrive(store, id).await;
    let pending = redelivery(store, id).await;
    assert_eq!((pending.state, pending.at, pending.letter), (RedeliveryState::Pending, None, None));
    die(store).await;
    let failed = redelivery(store, id).await;
    assert_eq!((failed.state, failed.letter), (RedeliveryState::Failed, Some(own)));
    assert!(failed.at.is_some());
    redrive(store, id).await;
    deliver(store).await;
    let letter = shown(store, id).await;
    let delivered = letter.redelivery.unwrap();
    assert_eq!((delivered.state, delivered.letter), (RedeliveryState::Delivered, None));
    assert!(delivered.at >= failed.at, "{:?}", delivered.at);
    assert_eq!(letter.redriven_from, None, "it is the same letter");
}

/// A redriven job was answered with 404.
#[tokio::test]
async fn a_redriven_job_is_shown_with_what_became_of_it() {
    for database in testkit::backends(file!()).await {
        let jobs = jobs(&database, JobsOptions::new("summarize")).await;
        jobs.enqueue(vec![NewJob::new("a", "{}")]).await.unwrap();
        die(&jobs).await;
        let id = waiting(&jobs).await.local;
        in_its_place(&jobs, &id).await;
        assert_eq!(shown(&jobs, &id).await.summary.status, Status::Redriven);
        let listed = jobs.list(&Filter::default(), Page::first(10)).await.unwrap().letters;
        assert!(listed.is_empty(), "a completed job is no dead letter: {listed:?}");
    }
}

#[tokio::test]
async fn a_job_that_was_never_a_letter_is_not_shown_as_one() {
    for database in testkit::backends(file!()).await {
        let jobs = jobs(&database, JobsOptions { completed: Completed::Keep, ..JobsOptions::new("a") }).await;
        jobs.enqueue(vec![NewJob::new("a", "{}")]).await.unwrap();
        assert_eq!(jobs.get("1").await.unwrap(), None);
        deliver(&jobs).await;
        assert_eq!(jobs.get("1").await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_redriven_failed_event_is_shown_with_what_became_of_it() {
    for database in testkit::backends(file!()).await {
        let failed = failed_events(&database).await;
        let now = Timestamp::now();
        failed.append(&[FailedEvent::new("a", "{}", now, now, timeout())]).await.unwrap();
        die(&failed).await;
        let id = waiting(&failed).await.local;
        in_its_place(&failed, &id).await;
    }
}

#[tokio::test]
async fn a_redriven_letter_of_another_service_is_shown_with_what_became_of_it() {
    for database in testkit::backends(file!()).await {
        let letters = letters(&database, "intake").await;
        let now = Timestamp::now();
        let letter = NewLetter {
            source: "billing/7".into(),
            event_type: "PaymentDone".into(),
            key: "7".into(),
            payload: b"{}".to_vec(),
            headers: vec![],
            origin: Origin::Service { name: "billing".into() },
            target: Some("billing".into()),
            failure: timeout(),
            attempts: 1,
            first_failed_at: now,
            failed_at: now,
        };
        letters.add(&[letter]).await.unwrap();
        let id = waiting(&letters).await.local;
        in_its_place(&letters, &id).await;
    }
}
