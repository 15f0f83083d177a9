//! The ledger of operations and the audit log.

#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

mod common;

use std::time::Duration;

use common::{open, operator};
use redrive_core::dead_letter::{LetterId, Operator};
use redrive_store::{Audit, Edits, NewOperation, Opened, OperationState, Operations, Portion, Sent};
use redrive_testkit::{self as testkit, Client, TestDatabase};

async fn operations(database: &TestDatabase) -> Operations {
    let operations = Operations::new(open(database).await);
    operations.migrate().await.unwrap();
    operations
}

fn portion(number: i64, range: std::ops::Range<u32>) -> Portion {
    let ids = range.map(|number| number.to_string()).collect();
    Portion { number, pipeline: "orders".into(), ids, followed: false, sent: false }
}

async fn opened(operations: &Operations) -> i64 {
    let operator = operator();
    let new = NewOperation { action: "redrive", operator: &operator, note: "", request: "{}", key: None };
    match operations.open(&new).await.unwrap() {
        Opened::New(id) => id,
        Opened::Known(id) => panic!("{id} was never opened"),
    }
}

const REQUEST: &str = r#"{"filter":{"q":"it's \\ \u0000 %"},"rate":10}"#;

#[tokio::test]
async fn an_operation_survives_as_it_was_confirmed() {
    for database in testkit::backends(file!()).await {
        let operations = operations(&database).await;
        let hostile = Operator::new("o'\\\"\u{1F4A9}\0");
        let note = "why\0 'not' \\";
        let new = NewOperation {
            action: "redrive",
            operator: &hostile,
            note,
            request: REQUEST,
            key: Some("k'1\0"),
        };
        let Opened::New(id) = operations.open(&new).await.unwrap() else { panic!("it is new") };
        assert!(operations.freeze(id, &[portion(0, 0..3)]).await.unwrap());
        let operation = operations.get(id).await.unwrap().unwrap();
        assert_eq!(
            (operation.id, operation.action.as_str(), operation.request.as_str()),
            (id, "redrive", REQUEST)
        );
        assert_eq!(
            (operation.operator.as_str(), operation.note.as_str()),
            (hostile.name(), "why\u{FFFD} 'not' \\")
        );
        assert_eq!((operation.state, operation.reason.as_str()), (OperationState::Freezing, ""));
        assert_eq!((operation.total, operation.done, operation.refused), (3, 0, 0));
        assert_eq!(operations.open(&new).await.unwrap(), Opened::Known(id), "the same request");
        let other = opened(&operations).await;
        assert_ne!(other, opened(&operations).await, "without a key each is its own");
        let newest: Vec<i64> = operations.list(None, 10).await.unwrap().iter().map(|one| one.id).collect();
        assert_eq!((newest.len(), newest[1], newest[2]), (3, other, id));
        assert_eq!(operations.list(Some(other), 10).await.unwrap().len(), 1);
        assert!(operations.get(999).await.unwrap().is_none());
    }
}

/// ServiceControl #660: a group that grew after the click was retried whole.
#[tokio::test]
async fn a_set_is_frozen_once_however_often_it_is_written_and_newcomers_stay_out() {
    for database in testkit::backends(file!()).await {
        let operations = operations(&database).await;
        let id = opened(&operations).await;
        assert!(operations.freeze(id, &[portion(0, 0..1_500)]).await.unwrap());
        assert!(operations.freeze(id, &[portion(0, 700..2_000)]).await.unwrap(), "again, after a crash");
        assert_eq!(operations.get(id).await.unwrap().unwrap().total, 1_500, "{:?}", database.backend);
        operations.thaw(id).await.unwrap();
        assert_eq!(operations.get(id).await.unwrap().unwrap().total, 0);
        assert!(operations.freeze(id, &[portion(0, 0..2)]).await.unwrap());
        assert!(operations.become_state(id, OperationState::Running, "").await.unwrap());
        assert!(!operations.freeze(id, &[portion(1, 2_000..2_001)]).await.unwrap(), "too late");
        operations.thaw(id).await.unwrap();
        assert!(!operations.freeze(999, &[portion(0, 0..1)]).await.unwrap(), "no such operation");
        assert_eq!(operations.get(id).await.unwrap().unwrap().total, 2, "what runs does not thaw");
    }
}

/// Taken for nothing, they would never have been sent, and the operation would have said that it is finished.
#[tokio::test]
async fn ids_that_cannot_be_read_are_an_error_and_not_nothing() {
    for database in testkit::backends(file!()).await {
        let operations = operations(&database).await;
        let id = opened(&operations).await;
        assert!(operations.freeze(id, &[portion(0, 0..3)]).await.unwrap());
        assert_eq!(operations.next(id, 1).await.unwrap(), [portion(0, 0..3)]);
        Client::connect(&database).await.run("UPDATE redrive_operation_portion SET ids = '[\"1'").await;
        let error = operations.next(id, 1).await.unwrap_err();
        assert!(!error.is_unavailable(), "it makes no sense to ask again: {error}");
    }
}

#[tokio::test]
async fn every_change_of_state_is_guarded_by_the_table() {
    for database in testkit::backends(file!()).await {
        let operations = operations(&database).await;
        let mut client = Client::connect(&database).await;
        for from in OperationState::ALL {
            for to in OperationState::ALL {
                let id = opened(&operations).await;
                client
                    .run(&format!("UPDATE redrive_operation SET state = '{}' WHERE id = {id}", from.name()))
                    .await;
                let moved = operations.become_state(id, to, "it's why").await.unwrap();
                assert_eq!(moved, from.can_become(to), "{from:?} to {to:?}");
                let now = operations.get(id).await.unwrap().unwrap();
                assert_eq!(now.state, if moved { to } else { from });
                assert_eq!(now.reason, if moved { "it's why" } else { "" });
            }
        }
        assert!(!operations.become_state(999, OperationState::Running, "").await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_who_finish_an_operation_one_did_it() {
    for database in testkit::backends(file!()).await {
        let operations = operations(&database).await;
        let id = opened(&operations).await;
        operations.become_state(id, OperationState::Running, "").await.unwrap();
        let finish = || operations.become_state(id, OperationState::Finished, "");
        let (a, b, c) = tokio::join!(finish(), finish(), finish());
        assert_eq!([a, b, c].into_iter().filter(|won| *won.as_ref().unwrap()).count(), 1);
    }
}

#[tokio::test]
async fn a_restart_goes_on_where_it_was() {
    for database in testkit::backends(file!()).await {
        let first = operations(&database).await;
        let id = opened(&first).await;
        let followed = Portion { followed: true, ..portion(0, 0..2) };
        first.freeze(id, &[followed.clone(), portion(1, 2..5)]).await.unwrap();
        first.freeze(id, &[portion(2, 5..9)]).await.unwrap();
        first.become_state(id, OperationState::Running, "").await.unwrap();
        assert_eq!(first.next(id, 1).await.unwrap(), std::slice::from_ref(&followed));
        let one = Sent { done: 1, ids: vec![followed.ids[1].clone()], refused: 1, ..Sent::default() };
        first.sent(id, &followed, &one).await.unwrap();
        drop(first);

        let second = operations(&database).await;
        let sent = second.next(id, 1).await.unwrap().remove(0);
        assert_eq!((sent.number, sent.sent), (0, true), "it was sent, and is still followed");
        assert_eq!(sent.ids, followed.ids[1..], "the one that was refused is not");
        second.settled(id, 0, 1).await.unwrap();
        let mut next = second.next(id, 2).await.unwrap();
        assert_eq!(next, [portion(1, 2..5), portion(2, 5..9)]);
        let next = next.remove(0);
        let refusals = vec!["it's \\ gone: \u{1F4A9}\0".to_owned(); 50];
        second
            .sent(id, &next, &Sent { done: 1, refused: 2, refusals: refusals.clone(), ..Sent::default() })
            .await
            .unwrap();
        // What is marked stays as it was marked first.
        second.sent(id, &next, &Sent { done: 3, ..Sent::default() }).await.unwrap();
        let operation = second.get(id).await.unwrap().unwrap();
        assert_eq!((operation.total, operation.done, operation.refused, operation.failed), (9, 2, 3, 1));
        let kept = second.refusals(id).await.unwrap();
        assert_eq!((kept.len(), kept[0].as_str()), (20, "it's \\ gone: \u{1F4A9}\u{FFFD}"));
        assert_eq!(second.next(id, 2).await.unwrap(), [portion(2, 5..9)]);
        second.sent(id, &portion(2, 5..9), &Sent { done: 4, ..Sent::default() }).await.unwrap();
        assert!(second.next(id, 2).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn one_instance_at_a_time_works_on_an_operation() {
    for database in testkit::backends(file!()).await {
        let operations = operations(&database).await;
        let id = opened(&operations).await;
        let long = Duration::from_secs(600);
        assert!(operations.hold(id, "a", long).await.unwrap());
        assert!(operations.hold(id, "a", long).await.unwrap(), "again, to hold it longer");
        assert!(!operations.hold(id, "b", long).await.unwrap(), "{:?}", database.backend);
        operations.let_go("a").await.unwrap();
        assert!(operations.hold(id, "b", Duration::from_micros(1)).await.unwrap());
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(operations.hold(id, "a", long).await.unwrap(), "who says nothing any more has lost it");
        assert_eq!(operations.active().await.unwrap().len(), 1);
        operations.become_state(id, OperationState::Cancelled, "").await.unwrap();
        assert!(!operations.hold(id, "a", long).await.unwrap(), "there is nothing left to do");
        assert!(operations.active().await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn an_edit_keeps_what_the_letter_was() {
    for database in testkit::backends(file!()).await {
        let edits = Edits::new(open(&database).await);
        edits.migrate().await.unwrap();
        let letter = LetterId::new("orders", 1);
        edits.record(&letter, &operator(), b"\0\xff was", b"is").await.unwrap();
        edits.record(&letter, &operator(), b"is", b"").await.unwrap();
        let of = edits.of(&letter).await.unwrap();
        assert_eq!(
            (of.len(), of[0].edited.as_slice(), of[1].original.as_slice()),
            (2, &b""[..], &b"\0\xff was"[..])
        );
        assert_eq!(of[0].operator, "alice");
        assert!(edits.of(&LetterId::new("orders", 2)).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn the_audit_log_says_who_did_what_to_how_many_and_why() {
    for database in testkit::backends(file!()).await {
        let audit = Audit::new(open(&database).await);
        audit.migrate().await.unwrap();
        let hostile = "'; DROP TABLE redrive_audit; -- \\ \u{1F4A9}\u{202E}";
        for number in 0..5 {
            audit.record(&operator(), "redrive", &format!("orders:{number}"), number, hostile).await.unwrap();
        }
        audit.record(&Operator::new(hostile), "resolve", &"x".repeat(20_000), u64::MAX, "\0").await.unwrap();
        let all = audit.list(None, 100).await.unwrap();
        assert_eq!(all.len(), 6);
        assert!(all.windows(2).all(|two| two[0].id > two[1].id && two[0].at >= two[1].at), "newest first");
        assert_eq!((all[0].operator.as_str(), all[0].note.as_str()), (hostile, "\u{FFFD}"));
        let entry = &all[1];
        assert_eq!((entry.operator.as_str(), entry.action.as_str()), ("alice", "redrive"));
        assert_eq!((entry.subject.as_str(), entry.count, entry.note.as_str()), ("orders:4", 4, hostile));
        let older = audit.list(Some(entry.id), 2).await.unwrap();
        assert_eq!(older, all[2..4]);
        audit.migrate().await.unwrap();
        assert_eq!(audit.list(None, 100).await.unwrap().len(), 6);
    }
}
