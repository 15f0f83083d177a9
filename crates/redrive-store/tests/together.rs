//! Many workers and operators at one store: nothing is lost, nothing is done twice, nobody sees a
//! deadlock. (Oban #168, pg-boss #282, solid_queue #609, #531)

#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

mod common;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use common::{LONG, NOW, claim, event, failed, operator, order, outbox, timeout};
use redrive_core::dead_letter::{DeadLetterQueue, Filter, Page, Status};
use redrive_core::lease::Settlement;
use redrive_store::{Outbox, OutboxOptions, WorkStore as _};
use redrive_testkit as testkit;

const TASKS: u64 = 8;
const ROUNDS: u64 = 12;

/// How often each event, by its origin, was delivered.
type Delivered = Mutex<BTreeMap<i64, u32>>;

/// Appends, claims, settles in every way, extends, redrives and resolves, round after round.
async fn worker(outbox: Arc<Outbox>, delivered: Arc<Delivered>, task: u64) {
    let mut settled = Vec::new();
    let mut done = Vec::new();
    for round in 0..ROUNDS {
        outbox.append(vec![event(&format!("{task}")); 4]).await.unwrap();
        // A lease that is over at once invites the others to take over.
        let lease = if (task + round).is_multiple_of(4) { NOW } else { LONG };
        let turn = outbox.turn(&mut settled, Some(&claim(10, lease))).await.unwrap();
        count(&delivered, &mut done, &turn.lost);
        let mut claimed = turn.claimed;
        let mut leases: Vec<_> = claimed.iter_mut().map(|(lease, _)| lease).collect();
        // Backwards, against the order in which others settle.
        leases.reverse();
        outbox.extend(&mut leases, lease).await.unwrap();
        for (at, (lease, work)) in claimed.into_iter().enumerate() {
            let failed = failed(&work, &timeout());
            let settlement = match (at as u64 + round) % 5 {
                0 => Settlement::Retry { after: NOW, failed },
                1 => Settlement::Dead { failed },
                2 => Settlement::Release { after: NOW },
                _ => {
                    done.push((lease.work().0, work.event.origin.0));
                    Settlement::Done
                }
            };
            settled.push((lease, settlement));
        }
        operate(&outbox, task + round).await;
    }
    let turn = outbox.turn(&mut settled, None).await.unwrap();
    count(&delivered, &mut done, &turn.lost);
}

fn count(delivered: &Delivered, done: &mut Vec<(i64, i64)>, lost: &[redrive_core::event::WorkId]) {
    let mut delivered = delivered.lock().unwrap();
    for (id, origin) in done.drain(..) {
        if !lost.iter().any(|lost| lost.0 == id) {
            *delivered.entry(origin).or_default() += 1;
        }
    }
}

async fn operate(outbox: &Outbox, turn: u64) {
    let open = Filter { status: Some(Status::Open), ..Filter::default() };
    let letters = outbox.list(&open, Page::first(20)).await.unwrap().letters;
    let mut ids: Vec<String> = letters.into_iter().map(|letter| letter.id.local).collect();
    if turn.is_multiple_of(2) {
        ids.reverse();
    }
    match turn % 3 {
        0 => drop(outbox.resolve(&ids[..ids.len() / 4], &operator(), "enough").await.unwrap()),
        _ => drop(outbox.redrive(&ids, &order()).await.unwrap()),
    }
    if turn.is_multiple_of(7) {
        outbox.stats().await.unwrap();
        outbox.groups(10).await.unwrap();
    }
}

/// Delivers what is left, and sends back what is still dead.
async fn finish(outbox: &Outbox, delivered: &Delivered) {
    loop {
        let turn = outbox.turn(&mut Vec::new(), Some(&claim(1_000, LONG))).await.unwrap();
        let mut done: Vec<_> =
            turn.claimed.iter().map(|(lease, work)| (lease.work().0, work.event.origin.0)).collect();
        let turn = outbox.turn(&mut common::done(turn.claimed), None).await.unwrap();
        assert!(turn.lost.is_empty());
        let open = Filter { status: Some(Status::Open), ..Filter::default() };
        let letters = outbox.list(&open, Page::first(500)).await.unwrap().letters;
        let ids: Vec<String> = letters.into_iter().map(|letter| letter.id.local).collect();
        if done.is_empty() && ids.is_empty() {
            return;
        }
        count(delivered, &mut done, &[]);
        outbox.redrive(&ids, &order()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn workers_and_operators_together_lose_nothing_and_do_nothing_twice() {
    for database in testkit::backends(file!()).await {
        let outbox = Arc::new(outbox(&database, OutboxOptions::new("orders")).await);
        let delivered = Arc::new(Delivered::default());
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| tokio::spawn(worker(Arc::clone(&outbox), Arc::clone(&delivered), task)))
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        finish(&outbox, &delivered).await;
        let delivered = delivered.lock().unwrap().clone();
        let twice: Vec<_> = delivered.iter().filter(|(_, times)| **times > 1).collect();
        assert!(twice.is_empty(), "{:?}: delivered twice: {twice:?}", database.backend);
        let stats = outbox.stats().await.unwrap();
        let accounted = delivered.len() as u64 + stats.count(Status::Resolved);
        assert_eq!(accounted, TASKS * ROUNDS * 4, "{:?}: delivered or resolved", database.backend);
        assert_eq!((outbox.backlog().await.unwrap(), stats.waiting()), (0, 0));
    }
}
