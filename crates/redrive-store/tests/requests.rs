//! Requests that have a key: carried out once, told the same again, in the transaction of their rows.

#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{jobs, operator, outbox};
use redrive_core::dead_letter::Operator;
use redrive_core::event::NewEvent;
use redrive_store::{
    Asked, Database, Enqueued, Error, JobsOptions, NewJob, OutboxOptions, RequestKey, Requests,
};
use redrive_testkit::{self as testkit, Client};

fn key(key: &str) -> RequestKey {
    RequestKey { operator: operator(), key: key.to_owned() }
}

fn event(id: usize) -> NewEvent {
    NewEvent {
        event_type: "OrderCreated".into(),
        aggregate_type: "Order".into(),
        aggregate_id: id.to_string(),
        payload: "{}".into(),
    }
}

async fn count(client: &mut Client, table: &str) -> String {
    client.column(&format!("SELECT count(*) FROM {table}")).await.remove(0)
}

#[tokio::test]
async fn events_and_jobs_that_are_sent_again_are_told_the_same_and_stored_once() {
    for database in testkit::backends(file!()).await {
        let outbox = outbox(&database, OutboxOptions::new("orders")).await;
        let events = [event(1), event(2)];
        let first = outbox.append_once(&events, &key("a")).await.unwrap();
        let again = outbox.append_once(&events, &key("a")).await.unwrap();
        assert_eq!((first.answer.len(), first.is_repeated, again.is_repeated), (2, false, true));
        assert_eq!(first.answer, again.answer, "{:?}", database.backend);
        let other = outbox.append_once(&[event(3)], &key("a")).await;
        assert!(matches!(other, Err(Error::OtherRequest(_))), "{other:?}");
        let somebody = RequestKey { operator: Operator::new("somebody else"), key: "a".into() };
        assert!(!outbox.append_once(&events, &somebody).await.unwrap().is_repeated);
        assert!(!outbox.append_once(&events, &key("b")).await.unwrap().is_repeated);

        let jobs = jobs(&database, JobsOptions::new("summarize")).await;
        let unique = NewJob { unique_key: Some("u".into()), ..NewJob::new("c", "{}") };
        let asked = [NewJob::new("a", "{}"), unique.clone(), unique];
        let first = jobs.enqueue_once(&asked, &key("a")).await.unwrap();
        let again = jobs.enqueue_once(&asked, &key("a")).await.unwrap();
        assert_eq!(
            (first.is_repeated, again.is_repeated),
            (false, true),
            "each pipeline has keys of its own"
        );
        assert_eq!(first.answer, again.answer);
        assert!(matches!(first.answer[..], [Enqueued::Added(_), Enqueued::Added(_), Enqueued::Duplicate]));

        let mut client = Client::connect(&database).await;
        assert_eq!(count(&mut client, "outbox_event").await, "6");
        assert_eq!(count(&mut client, "summarize_job_queue").await, "2");
    }
}

#[tokio::test]
async fn of_many_who_send_the_same_at_once_one_stores_it() {
    for database in testkit::backends(file!()).await {
        let outbox = Arc::new(outbox(&database, OutboxOptions::new("orders")).await);
        let sent: Vec<_> = (0..20)
            .map(|_| {
                let outbox = Arc::clone(&outbox);
                tokio::spawn(async move { outbox.append_once(&[event(1)], &key("a")).await.unwrap() })
            })
            .collect();
        let mut answers = Vec::new();
        for sent in sent {
            answers.push(sent.await.unwrap());
        }
        assert!(answers.iter().all(|answer| answer.answer == answers[0].answer), "{answers:?}");
        let new = answers.iter().filter(|answer| !answer.is_repeated).count();
        let mut client = Client::connect(&database).await;
        assert_eq!(
            (new, count(&mut client, "outbox_event").await.as_str()),
            (1, "1"),
            "{:?}",
            database.backend
        );
    }
}

/// The key is there if and only if the rows are.
#[tokio::test]
async fn what_was_refused_leaves_no_key() {
    for database in testkit::backends(file!()).await {
        let outbox = outbox(&database, OutboxOptions::new("orders")).await;
        let wrong = NewEvent { event_type: String::new(), ..event(1) };
        assert!(matches!(outbox.append_once(&[wrong], &key("a")).await, Err(Error::Refused { .. })));
        let mut client = Client::connect(&database).await;
        client.run("ALTER TABLE outbox_event RENAME TO elsewhere").await;
        outbox.append_once(&[event(1)], &key("a")).await.unwrap_err();
        client.run("ALTER TABLE elsewhere RENAME TO outbox_event").await;
        assert_eq!(count(&mut client, "redrive_request").await, "0", "{:?}", database.backend);
        assert!(!outbox.append_once(&[event(1)], &key("a")).await.unwrap().is_repeated);
    }
}

#[tokio::test]
async fn the_ledger_tells_new_begun_and_answered_apart_and_forgets_after_a_day() {
    for database in testkit::backends(file!()).await {
        let requests = Requests::new(Database::connect(&database.url).await.unwrap());
        requests.migrate().await.unwrap();
        let Asked::New(id) = requests.ask(&key("a"), "letter", 1).await.unwrap() else { panic!("it is new") };
        assert_eq!(requests.ask(&key("a"), "letter", 1).await.unwrap(), Asked::Begun(id));
        assert!(!requests.take_over(id, Duration::from_secs(60)).await.unwrap(), "it is under way");
        requests.withdraw(id).await.unwrap();
        let Asked::New(id) = requests.ask(&key("a"), "letter", 1).await.unwrap() else { panic!("it is new") };
        let mut client = Client::connect(&database).await;
        client.run("UPDATE redrive_request SET asked_at = '2020-01-01 00:00:00'").await;
        assert!(requests.take_over(id, Duration::from_secs(60)).await.unwrap(), "it was cut off");
        assert!(!requests.take_over(id, Duration::from_secs(60)).await.unwrap(), "by one only");
        requests.answer(id, "done").await.unwrap();
        requests.withdraw(id).await.unwrap();
        let asked = requests.ask(&key("a"), "letter", 1).await.unwrap();
        assert_eq!(asked, Asked::Answered("done".into()));
        let other = requests.ask(&key("a"), "letter", 2).await;
        assert!(matches!(other, Err(Error::OtherRequest(_))), "{other:?}");

        client.run("UPDATE redrive_request SET asked_at = '2020-01-01 00:00:00'").await;
        // Another process, whose first request tidies up.
        let requests = Requests::new(Database::connect(&database.url).await.unwrap());
        requests.ask(&key("b"), "letter", 1).await.unwrap();
        assert_eq!(count(&mut client, "redrive_request").await, "1", "{:?}", database.backend);
    }
}

/// Some were told that the key was that of another request: it had been taken back while they looked it up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_taken_back_meanwhile_is_nobody_elses() {
    for database in testkit::backends(file!()).await {
        let requests = Arc::new(Requests::new(Database::connect(&database.url).await.unwrap()));
        requests.migrate().await.unwrap();
        let asking = (0..20).map(|_| {
            let requests = Arc::clone(&requests);
            tokio::spawn(async move {
                for _ in 0..20 {
                    match requests.ask(&key("a"), "letter", 1).await {
                        // A victim of a deadlock leaves it there, which is as good.
                        Ok(Asked::New(id)) => drop(requests.withdraw(id).await),
                        Err(error) => assert!(!matches!(error, Error::OtherRequest(_)), "{error}"),
                        Ok(_) => {}
                    }
                }
            })
        });
        for asked in asking.collect::<Vec<_>>() {
            asked.await.unwrap();
        }
    }
}
