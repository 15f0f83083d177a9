//! A job that kills the server which handles it: a supervisor starts the server again, the job's attempts
//! are counted all the same, and it ends in `dead_letter`. The healthy jobs beside it are done.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

mod support;
mod survival;

use std::path::Path;
use std::time::Duration;

use redrive::config::{Config, Environment, Source};
use redrive_engine::Pace;
use redrive_store::{Database, Jobs, JobsOptions, NewJob, WorkStore as _};
use redrive_testkit::{Client, PATIENCE, TestDatabase, eventually, mysql, postgres, sqlite};
use support::folder_with;
use survival::Process;

/// Kills the server for a deadly payload, a moment after it has begun; does the others in a longer moment.
const HANDLER: &str = "if grep -q deadly; then sleep 0.1; kill -9 $PPID; else sleep 0.3; fi";
const HEALTHY: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_sqlite_a_job_that_kills_its_server_ends_in_dead_letter() {
    ends_in_dead_letter(sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres_a_job_that_kills_its_server_ends_in_dead_letter() {
    let Some(database) = postgres(file!()).await else { return };
    ends_in_dead_letter(database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_mariadb_a_job_that_kills_its_server_ends_in_dead_letter() {
    let Some(database) = mysql(file!()).await else { return };
    ends_in_dead_letter(database).await;
}

#[test]
fn a_dead_worker_is_replaced_within_thirty_seconds() {
    let text = Source::of_text("redrive.toml", "[outbox.orders]\n[jobs.mails]\n");
    let config = Config::load(&text, &Environment::of([])).unwrap();
    let (outbox, jobs, library) = (&config.outboxes[0], &config.jobs[0], Pace::default());
    for (lease, poll_interval) in [
        (outbox.lease, outbox.poll_interval),
        (jobs.lease, jobs.poll_interval),
        (library.lease, library.poll_interval),
    ] {
        assert!(lease + poll_interval <= Duration::from_secs(30));
    }
}

async fn ends_in_dead_letter(database: TestDatabase) {
    let jobs = queue(&database).await;
    let folder = folder_with(&configuration(&database));
    let deaths = supervise_until_done(folder.path(), &jobs).await;
    let mut client = Client::connect(&database).await;
    let dead = "SELECT concat(article_id, ' ', retry_count, ' ', error_kind) FROM mails_job_queue \
                WHERE status = 'dead_letter'";
    let log = std::fs::read_to_string(folder.path().join("server.log")).unwrap();
    assert_eq!(client.column(dead).await, ["deadly 3 Interrupted"], "{log}");
    // A death is not counted when the store had just taken half a lease for an answer, as it may on a busy machine.
    assert!(deaths >= 3, "it was tried {deaths} times: {log}");
    let healthy =
        "SELECT count(*) FROM mails_job_queue WHERE status = 'completed' AND article_id = 'healthy'";
    assert_eq!(client.number(healthy).await, HEALTHY as i64);
}

/// Starts the server again whenever it has died; returns how often that was.
async fn supervise_until_done(folder: &Path, jobs: &Jobs) -> usize {
    let mut deaths = 0;
    let mut server = Process::serve(folder, "server");
    eventually(PATIENCE, "every job has ended", || {
        if server.ended().is_some() {
            deaths += 1;
            server = Process::serve(folder, "server");
        }
        async { jobs.backlog().await.unwrap() == 0 }
    })
    .await;
    deaths
}

async fn queue(database: &TestDatabase) -> Jobs {
    let connections = Database::connect(&database.url).await.unwrap();
    let jobs = Jobs::new(connections, JobsOptions::new("mails")).unwrap();
    jobs.migrate().await.unwrap();
    let mut new = vec![NewJob::new("healthy", "fine"); HEALTHY];
    new.insert(1, NewJob::new("deadly", "deadly"));
    jobs.enqueue(new).await.unwrap();
    jobs
}

fn configuration(database: &TestDatabase) -> String {
    format!(
        "[jobs.mails]\n\
         database = \"{}\"\n\
         concurrency = 4\n\
         lease = \"3s\"\n\
         poll-interval = \"100ms\"\n\
         retry = {{ initial = \"100ms\", factor = 1.0, max = \"100ms\" }}\n\
         handler = {{ command = [\"sh\", \"-c\", \"{HANDLER}\"] }}\n",
        database.url
    )
}
