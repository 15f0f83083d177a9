//! The ledger of operations and the audit log.

#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

mod common;

use common::{open, operator};
use redrive_core::dead_letter::{LetterId, Operator};
use redrive_store::{Audit, OperationState, Operations};
use redrive_testkit::{self as testkit, Client, TestDatabase};

async fn operations(database: &TestDatabase) -> Operations {
    let operations = Operations::new(open(database).await);
    operations.migrate().await.unwrap();
    operations
}

fn letters(range: std::ops::Range<u32>) -> Vec<LetterId> {
    range.map(|number| LetterId::new("orders", number)).collect()
}

const REQUEST: &str = r#"{"filter":{"q":"it's \\ \u0000 %"},"rate":10}"#;

#[tokio::test]
async fn an_operation_survives_as_it_was_confirmed() {
    for database in testkit::backends(file!()).await {
        let operations = operations(&database).await;
        let hostile = Operator::new("o'\\\"\u{1F4A9}\0");
        let id = operations.open("redrive", &hostile, "why\0 'not' \\", REQUEST).await.unwrap();
        assert!(operations.freeze(id, &letters(0..3)).await.unwrap());
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
        let other = operations.open("resolve", &operator(), "", "{}").await.unwrap();
        let newest: Vec<i64> = operations.list(10).await.unwrap().iter().map(|one| one.id).collect();
        assert_eq!(newest, [other, id]);
        assert_eq!(operations.list(1).await.unwrap().len(), 1);
        assert!(operations.get(999).await.unwrap().is_none());
    }
}

/// ServiceControl #660: a group that grew after the click was retried whole.
#[tokio::test]
async fn a_set_is_frozen_once_however_often_it_is_written_and_newcomers_stay_out() {
    for database in testkit::backends(file!()).await {
        let operations = operations(&database).await;
        let id = operations.open("redrive", &operator(), "", "{}").await.unwrap();
        assert!(operations.freeze(id, &letters(0..1_500)).await.unwrap());
        assert!(operations.freeze(id, &letters(700..2_000)).await.unwrap(), "again, after a crash");
        assert!(operations.freeze(id, &[]).await.unwrap());
        assert!(operations.freeze(id, &[LetterId::new("Orders", 1)]).await.unwrap(), "another pipeline");
        assert_eq!(operations.get(id).await.unwrap().unwrap().total, 2_001, "{:?}", database.backend);
        assert!(operations.become_state(id, OperationState::Running, "").await.unwrap());
        assert!(!operations.freeze(id, &letters(2_000..2_001)).await.unwrap(), "too late");
        assert!(!operations.freeze(999, &letters(0..1)).await.unwrap(), "no such operation");
        assert_eq!(operations.get(id).await.unwrap().unwrap().total, 2_001);
    }
}

#[tokio::test]
async fn every_change_of_state_is_guarded_by_the_table() {
    for database in testkit::backends(file!()).await {
        let operations = operations(&database).await;
        let mut client = Client::connect(&database).await;
        for from in OperationState::ALL {
            for to in OperationState::ALL {
                let id = operations.open("redrive", &operator(), "", "{}").await.unwrap();
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
        let id = operations.open("redrive", &operator(), "", "{}").await.unwrap();
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
        let id = first.open("redrive", &operator(), "", "{}").await.unwrap();
        let all = letters(0..1_200);
        first.freeze(id, &all).await.unwrap();
        first.become_state(id, OperationState::Running, "").await.unwrap();
        let next = first.next(id, 600).await.unwrap();
        assert_eq!(next, all[..600], "in the order of the set");
        let refusal = "it's \\ gone: \u{1F4A9}\0".to_owned();
        let marks: Vec<_> = next
            .into_iter()
            .enumerate()
            .map(|(at, letter)| (letter, (at % 3 == 0).then(|| refusal.clone())))
            .collect();
        first.mark(id, &marks).await.unwrap();
        first.mark(id, &[]).await.unwrap();
        drop(first);

        let second = operations(&database).await;
        assert_eq!(second.next(id, 5).await.unwrap(), all[600..605]);
        let operation = second.get(id).await.unwrap().unwrap();
        assert_eq!((operation.total, operation.done, operation.refused), (1_200, 400, 200));
        // What is marked stays as it was marked first; strangers are not in the set.
        second.mark(id, &[(all[0].clone(), None), (LetterId::new("other", 1), None)]).await.unwrap();
        assert_eq!(second.get(id).await.unwrap().unwrap().done, 400);
        let mut client = Client::connect(&database).await;
        let reason = "SELECT reason FROM redrive_operation_item WHERE letter_id = 'orders:0'";
        assert_eq!(client.column(reason).await, ["it's \\ gone: \u{1F4A9}\u{FFFD}"]);

        second.mark(id, &all.iter().map(|letter| (letter.clone(), None)).collect::<Vec<_>>()).await.unwrap();
        assert!(second.next(id, 5).await.unwrap().is_empty());
        assert_eq!(second.get(id).await.unwrap().unwrap().done, 1_000);
    }
}

#[tokio::test]
async fn two_operations_with_the_same_letters_do_not_mark_each_other() {
    for database in testkit::backends(file!()).await {
        let operations = operations(&database).await;
        let one = operations.open("redrive", &operator(), "", "{}").await.unwrap();
        let other = operations.open("redrive", &operator(), "", "{}").await.unwrap();
        for id in [one, other] {
            operations.freeze(id, &letters(0..2)).await.unwrap();
        }
        operations.mark(one, &[(letters(0..1).remove(0), None)]).await.unwrap();
        assert_eq!(operations.next(one, 9).await.unwrap(), letters(1..2));
        assert_eq!(operations.next(other, 9).await.unwrap(), letters(0..2));
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
