//! Jobs: the founding statement to the letter, plain SQL by people, priorities, delays, unique keys.

#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

mod common;

use common::{
    LONG, NOW, claim, dead, done, failed, ids, jobs, operator, order, settle, take, take_one, timeout,
};
use redrive_core::dead_letter::{DeadLetterQueue, Filter, Page, Refusal, Status};
use redrive_core::event::WorkId;
use redrive_core::failure::Failure;
use redrive_core::lease::{Lease, Settlement, Work};
use redrive_core::state::JobState;
use redrive_store::{Completed, Enqueued, Error, Jobs, JobsOptions, NewJob, WorkStore as _};
use redrive_testkit::{self as testkit, Backend, Client};
use std::collections::HashMap;

fn options() -> JobsOptions {
    JobsOptions::new("summarize")
}

async fn enqueue(jobs: &Jobs, job: NewJob) -> WorkId {
    match jobs.enqueue(vec![job]).await.unwrap()[0] {
        Enqueued::Added(id) => id,
        Enqueued::Duplicate => panic!("a duplicate"),
    }
}

async fn fail(jobs: &Jobs, claimed: (Lease, Work)) {
    let (lease, work) = claimed;
    let failed = failed(&work, &timeout());
    assert!(settle(jobs, vec![(lease, Settlement::Retry { after: NOW, failed })]).await.lost.is_empty());
}

/// status, retry_count, error_message, and which of started_at and completed_at are set.
async fn row(client: &mut Client, id: WorkId) -> String {
    let sql = format!(
        "SELECT status, retry_count, error_message, CASE WHEN started_at IS NULL THEN 0 ELSE 1 END, \
         CASE WHEN completed_at IS NULL THEN 0 ELSE 1 END FROM summarize_job_queue WHERE job_id = {id}"
    );
    let cells = client.rows(&sql).await.remove(0);
    cells.into_iter().map(|cell| cell.unwrap_or_else(|| "NULL".into())).collect::<Vec<_>>().join(" | ")
}

#[tokio::test]
async fn completed_jobs_are_deleted_where_they_are_not_kept_and_dead_ones_stay() {
    for database in testkit::backends(file!()).await {
        let jobs = jobs(&database, JobsOptions { completed: Completed::Delete, ..options() }).await;
        jobs.enqueue(vec![NewJob::new("a", "{}"), NewJob::new("b", "{}")]).await.unwrap();
        let mut claimed = take(&jobs, 10, LONG).await;
        let mut settled = done(vec![claimed.remove(0)]);
        settled.extend(dead(claimed, &timeout()));
        assert!(settle(&jobs, settled).await.lost.is_empty());
        let mut client = Client::connect(&database).await;
        assert_eq!(client.column("SELECT status FROM summarize_job_queue").await, ["dead_letter"]);
    }
}

#[tokio::test]
async fn a_failure_counts_retries_or_ends_in_dead_letter_as_the_founding_statement_says() {
    for database in testkit::backends(file!()).await {
        let jobs = jobs(&database, options()).await;
        let mut client = Client::connect(&database).await;
        let id = enqueue(&jobs, NewJob::new("article-1", "{}")).await;
        assert_eq!(row(&mut client, id).await, "pending | 0 | NULL | 0 | 0");
        for retry_count in 0..3 {
            let claimed = take_one(&jobs).await;
            let (_, work) = &claimed;
            assert_eq!((work.retry_count, work.max_retries), (retry_count, Some(3)));
            assert_eq!((work.event.key.as_str(), work.event.event_type.as_str()), ("article-1", "summarize"));
            assert_eq!(jobs.state(id).await.unwrap(), Some(JobState::Running));
            fail(&jobs, claimed).await;
            let expected = match retry_count {
                0 => "pending | 1 | after 5 s | 1 | 0",
                1 => "pending | 2 | after 5 s | 1 | 0",
                _ => "dead_letter | 3 | after 5 s | 1 | 1",
            };
            assert_eq!(row(&mut client, id).await, expected, "{:?}", database.backend);
        }
        assert!(take(&jobs, 10, LONG).await.is_empty(), "it does not starve the healthy ones");
        let letter = jobs.get(&id.to_string()).await.unwrap().unwrap();
        assert_eq!((letter.summary.attempts, letter.history.attempts().len()), (3, 3));
    }
}

#[tokio::test]
async fn a_permanent_failure_ends_at_once_and_a_success_leaves_no_error() {
    for database in testkit::backends(file!()).await {
        let jobs = jobs(&database, options()).await;
        let mut client = Client::connect(&database).await;
        let id = enqueue(&jobs, NewJob::new("a", "{}")).await;
        let claimed = vec![take_one(&jobs).await];
        settle(&jobs, dead(claimed, &Failure::permanent("Refused", "no"))).await;
        assert_eq!(row(&mut client, id).await, "dead_letter | 1 | no | 1 | 1");
        let id = enqueue(&jobs, NewJob::new("b", "{}")).await;
        fail(&jobs, take_one(&jobs).await).await;
        let claimed = vec![take_one(&jobs).await];
        settle(&jobs, done(claimed)).await;
        assert_eq!(row(&mut client, id).await, "completed | 1 | NULL | 1 | 1");
    }
}

#[tokio::test]
async fn a_job_may_have_its_own_limit_and_one_without_any_has_the_queues() {
    for database in testkit::backends(file!()).await {
        let jobs = jobs(&database, JobsOptions { max_retries: 2, ..options() }).await;
        let own = NewJob { max_retries: Some(1), ..NewJob::new("own", "{}") };
        let own = enqueue(&jobs, own).await;
        fail(&jobs, take_one(&jobs).await).await;
        assert_eq!(jobs.state(own).await.unwrap(), Some(JobState::DeadLetter));
        let zero = enqueue(&jobs, NewJob { max_retries: Some(0), ..NewJob::new("zero", "{}") }).await;
        fail(&jobs, take_one(&jobs).await).await;
        assert_eq!(jobs.state(zero).await.unwrap(), Some(JobState::DeadLetter));
        let queues = enqueue(&jobs, NewJob::new("queues", "{}")).await;
        fail(&jobs, take_one(&jobs).await).await;
        fail(&jobs, take_one(&jobs).await).await;
        assert_eq!(jobs.state(queues).await.unwrap(), Some(JobState::DeadLetter));
    }
}

#[tokio::test]
async fn a_person_requeues_a_dead_job_with_plain_sql_and_its_next_death_shows() {
    for database in testkit::backends(file!()).await {
        let jobs = jobs(&database, options()).await;
        let mut client = Client::connect(&database).await;
        let requeue =
            "UPDATE summarize_job_queue SET status = 'pending', retry_count = 0 WHERE article_id = 'a'";
        let id = enqueue(&jobs, NewJob::new("a", "{}")).await;
        for round in 0..3 {
            let (lease, work) = take_one(&jobs).await;
            assert_eq!((lease.work(), work.retry_count), (id, 0));
            settle(&jobs, dead(vec![(lease, work)], &timeout())).await;
            assert_eq!(jobs.stats().await.unwrap().count(Status::Open), 1, "round {round}");
            // Also one that was closed before: its next death is a new letter, not a closed one.
            if round == 1 {
                let closed = jobs.resolve(&[id.to_string()], &operator(), "closed").await.unwrap();
                assert_eq!(closed.done.len(), 1);
            }
            client.run(requeue).await;
            assert_eq!(jobs.stats().await.unwrap().waiting(), 0);
        }
    }
}

#[tokio::test]
async fn a_person_requeues_a_running_job_and_its_old_worker_is_refused() {
    for database in testkit::backends(file!()).await {
        let jobs = jobs(&database, options()).await;
        let mut client = Client::connect(&database).await;
        let id = enqueue(&jobs, NewJob::new("a", "{}")).await;
        let old = take(&jobs, 1, NOW).await;
        let (mut lease, work) = old.into_iter().next().unwrap();
        client
            .run("UPDATE summarize_job_queue SET status = 'pending', retry_count = 0 WHERE article_id = 'a'")
            .await;
        assert_eq!(jobs.extend(&mut [&mut lease], LONG).await.unwrap(), [id], "nor can it extend");
        assert_eq!(settle(&jobs, dead(vec![(lease, work)], &timeout())).await.lost, [id]);
        assert_eq!(jobs.state(id).await.unwrap(), Some(JobState::Pending));
        let (_, work) = take_one(&jobs).await;
        assert!(!work.interrupted, "a person's requeue is no failed attempt");
    }
}

#[tokio::test]
async fn lower_priorities_run_first_and_delayed_jobs_later() {
    for database in testkit::backends(file!()).await {
        let jobs = jobs(&database, options()).await;
        let job = |subject: &str, priority, delay| NewJob { priority, delay, ..NewJob::new(subject, "{}") };
        jobs.enqueue(vec![
            job("rule", 0, NOW),
            job("low", i16::MAX, NOW),
            job("urgent", i16::MIN, NOW),
            job("later", i16::MIN, LONG),
            job("never", 0, std::time::Duration::MAX),
        ])
        .await
        .unwrap();
        let mut order = Vec::new();
        loop {
            let claimed = take(&jobs, 1, LONG).await;
            let Some((_, work)) = claimed.first() else { break };
            order.push(work.event.key.clone());
        }
        assert_eq!(order, ["urgent", "rule", "low"], "{:?}", database.backend);
        let mut client = Client::connect(&database).await;
        client.run("UPDATE summarize_job_queue SET due_at = created_at WHERE article_id = 'later'").await;
        assert_eq!(take_one(&jobs).await.1.event.key, "later");
    }
}

/// Thousands in one call: each is told its own number, or that another has its key.
#[tokio::test]
async fn many_unique_jobs_are_told_apart() {
    for database in testkit::backends(file!()).await {
        let jobs = jobs(&database, options()).await;
        let about = |n: usize| format!("a{}", n % 1_200);
        let job = |n: usize| NewJob { unique_key: Some(about(n)), ..NewJob::new(about(n), "{}") };
        jobs.enqueue(vec![job(7)]).await.unwrap();
        let enqueued = jobs.enqueue((0..2_500).map(job).collect()).await.unwrap();
        let claimed = take(&jobs, 5_000, LONG).await;
        assert_eq!(claimed.len(), 1_200);
        let subjects: HashMap<_, _> =
            claimed.into_iter().map(|(lease, work)| (lease.work(), work.event.key)).collect();
        for (n, enqueued) in enqueued.into_iter().enumerate() {
            match enqueued {
                Enqueued::Added(id) => assert_eq!(subjects[&id], about(n)),
                Enqueued::Duplicate => assert!(n == 7 || n >= 1_200, "job {n} has a key of its own"),
            }
        }
    }
}

#[tokio::test]
async fn a_unique_key_is_taken_while_its_job_lives() {
    for database in testkit::backends(file!()).await {
        let jobs = jobs(&database, options()).await;
        let unique = |key: &str| NewJob { unique_key: Some(key.into()), ..NewJob::new("a", "{}") };
        let plain = NewJob::new("plain", "{}");
        let enqueued = jobs
            .enqueue(vec![
                plain.clone(),
                unique("k"),
                plain.clone(),
                unique("k"),
                unique("K"),
                unique("k "),
                plain,
            ])
            .await
            .unwrap();
        let added = |at: usize| matches!(enqueued[at], Enqueued::Added(_));
        assert_eq!((0..7).map(added).collect::<Vec<_>>(), [true, true, true, false, true, true, true]);
        let mut numbers: Vec<_> = enqueued
            .iter()
            .filter_map(|one| if let Enqueued::Added(id) = one { Some(*id) } else { None })
            .collect();
        numbers.sort_unstable();
        assert_eq!(numbers.len(), 6);
        let claimed = take(&jobs, 100, LONG).await;
        assert_eq!(ids(&claimed), numbers, "the numbers are the jobs' own");
        assert_eq!(jobs.enqueue(vec![unique("k")]).await.unwrap(), [Enqueued::Duplicate], "while it runs");
        settle(&jobs, done(claimed)).await;
        assert!(
            matches!(jobs.enqueue(vec![unique("k")]).await.unwrap()[0], Enqueued::Added(_)),
            "then it is free"
        );
        let claimed = vec![take_one(&jobs).await];
        let id = claimed[0].0.work();
        settle(&jobs, dead(claimed, &timeout())).await;
        assert!(
            matches!(jobs.enqueue(vec![unique("k")]).await.unwrap()[0], Enqueued::Added(_)),
            "death frees it"
        );
        let acted = jobs.redrive(&[id.to_string()], &order()).await.unwrap();
        assert_eq!(acted.done.len(), 1, "a redriven job gives its key up, and does not clash with its heir");
        assert_eq!(jobs.backlog().await.unwrap(), 2);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_who_enqueue_the_same_keys_at_once_one_wins_each() {
    for database in testkit::backends(file!()).await {
        let jobs = std::sync::Arc::new(jobs(&database, options()).await);
        let tasks: Vec<_> = (0..8)
            .map(|task| {
                let jobs = std::sync::Arc::clone(&jobs);
                tokio::spawn(async move {
                    // In different orders, which is how deadlocks are made.
                    let mut keys: Vec<u32> = (0..10).collect();
                    keys.rotate_left(task);
                    if task % 2 == 0 {
                        keys.reverse();
                    }
                    let unique =
                        |key| NewJob { unique_key: Some(format!("key-{key}")), ..NewJob::new("a", "{}") };
                    jobs.enqueue(keys.into_iter().map(unique).collect()).await.unwrap()
                })
            })
            .collect();
        let mut won = 0;
        for task in tasks {
            won += task.await.unwrap().iter().filter(|one| matches!(one, Enqueued::Added(_))).count();
        }
        assert_eq!((won, jobs.backlog().await.unwrap()), (10, 10), "{:?}", database.backend);
    }
}

#[tokio::test]
async fn a_failed_row_of_another_program_is_a_letter_with_a_group_and_can_be_redriven() {
    for database in testkit::backends(file!()).await {
        let jobs = jobs(&database, options()).await;
        let mut client = Client::connect(&database).await;
        client
            .run(
                "INSERT INTO summarize_job_queue (article_id, status, retry_count, error_message) \
                 VALUES ('x', 'failed', 3, 'timeout after 30 s'), ('y', 'failed', 3, 'timeout after 31 s'), \
                 ('z', 'failed', 3, NULL)",
            )
            .await;
        let stats = jobs.stats().await.unwrap();
        assert_eq!((stats.count(Status::Failed), stats.waiting()), (3, 3));
        let groups = jobs.groups(10).await.unwrap();
        assert_eq!(groups.iter().map(|group| group.count).collect::<Vec<_>>(), [2, 1]);
        let members = Filter { group: Some(groups[0].fingerprint), ..Filter::default() };
        let members = jobs.list(&members, Page::first(10)).await.unwrap().letters;
        assert_eq!(members.len(), 2, "the group lists what it counts");
        let ids: Vec<String> = members.into_iter().map(|letter| letter.id.local).collect();
        assert_eq!(jobs.redrive(&ids, &order()).await.unwrap().done.len(), 2);
        assert_eq!(take(&jobs, 10, LONG).await.len(), 2);
        assert_eq!(
            jobs.redrive(&ids[..1], &order()).await.unwrap().refused,
            [Refusal::NotWaiting(ids[0].clone())]
        );
    }
}

#[tokio::test]
async fn a_redriven_job_starts_over_with_its_history() {
    for database in testkit::backends(file!()).await {
        let jobs = jobs(&database, options()).await;
        let id = enqueue(&jobs, NewJob::new("a", "{}")).await;
        for _ in 0..3 {
            fail(&jobs, take_one(&jobs).await).await;
        }
        assert_eq!(jobs.redrive(&[id.to_string()], &order()).await.unwrap().done.len(), 1);
        let mut client = Client::connect(&database).await;
        assert_eq!(row(&mut client, id).await, "pending | 0 | after 5 s | 1 | 0");
        let (_, work) = take_one(&jobs).await;
        assert_eq!((work.retry_count, work.history.attempts().len()), (0, 3));
    }
}

#[tokio::test]
async fn a_job_that_cannot_be_kept_is_named_and_nothing_is_stored() {
    for database in testkit::backends(file!()).await {
        let jobs = jobs(&database, options()).await;
        let good = NewJob::new("a", "{}");
        let bad = [
            NewJob::new("", "{}"),
            NewJob::new("a", "\0"),
            NewJob { unique_key: Some("x".repeat(256)), ..good.clone() },
        ];
        for bad in bad {
            let error = jobs.enqueue(vec![good.clone(), bad]).await.unwrap_err();
            assert!(matches!(error, Error::Refused { item: 1, .. }), "{error}");
        }
        assert_eq!(jobs.backlog().await.unwrap(), 0);
    }
}

/// Rows that another program wrote without our care must not stop the queue for everybody.
#[tokio::test]
async fn an_odd_row_of_another_program_is_claimed_like_any_other_and_ends() {
    for database in testkit::backends(file!()).await {
        let mut client = Client::connect(&database).await;
        let id = match database.backend {
            Backend::Sqlite => "INTEGER PRIMARY KEY",
            Backend::Postgres => "BIGSERIAL PRIMARY KEY",
            Backend::MySql => "BIGINT AUTO_INCREMENT PRIMARY KEY",
        };
        let time = if database.backend == Backend::MySql { "DATETIME" } else { "TIMESTAMP" };
        client
            .run(&format!(
                "CREATE TABLE summarize_job_queue (job_id {id}, article_id VARCHAR(50), status VARCHAR(20), \
                 retry_count INT, max_retries INT, error_message TEXT, created_at {time}, started_at {time}, \
                 completed_at {time})"
            ))
            .await;
        client.run("INSERT INTO summarize_job_queue (article_id, status) VALUES ('odd', 'pending'), (NULL, 'pending')").await;
        let jobs = jobs(&database, JobsOptions { max_retries: 2, ..options() }).await;
        for _ in 0..2 {
            let claimed = take(&jobs, 10, LONG).await;
            assert_eq!(claimed.len(), 2, "{:?}", database.backend);
            assert_eq!(claimed[0].1.max_retries, Some(2));
            for one in claimed {
                fail(&jobs, one).await;
            }
        }
        assert!(take(&jobs, 10, LONG).await.is_empty(), "without a limit of their own they have the queue's");
        assert_eq!(jobs.stats().await.unwrap().count(Status::Open), 2);
        assert_eq!(jobs.list(&Filter::default(), Page::first(10)).await.unwrap().letters.len(), 2);
    }
}

/// A claim of nothing passed for a full batch, so the next one began behind the rows that were leased, and what came back
/// in the same turn was not seen.
#[tokio::test]
async fn a_claim_of_nothing_hides_no_work_from_the_next() {
    for database in testkit::backends(file!()).await {
        let jobs = jobs(&database, options()).await;
        enqueue(&jobs, NewJob::new("article-7", "{}")).await;
        let (lease, _) = take_one(&jobs).await;
        assert!(take(&jobs, 0, LONG).await.is_empty());
        let mut release = vec![(lease, Settlement::Release { after: NOW })];
        let turn = jobs.turn(&mut release, Some(&claim(1, LONG))).await.unwrap();
        assert_eq!(turn.claimed.len(), 1, "{:?}", database.backend);
    }
}
