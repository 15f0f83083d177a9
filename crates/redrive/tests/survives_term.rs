//! SIGTERM while handlers are busy: the server is gone within its deadline, what ended in time is settled,
//! and the rest is free for the next one at once, with nobody's attempts burnt.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

mod support;
mod survival;

use std::time::Duration;

use redrive_store::{Database, Jobs, JobsOptions, NewJob};
use redrive_testkit::{Client, PATIENCE, TestDatabase, backends, eventually};
use support::folder_with;
use survival::{Process, Receiver};
use tokio::sync::watch;

/// Runs out, for those that never end; what ends must be settled before that, also on a busy machine.
const DEADLINE: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_server_goes_within_its_deadline_and_leaves_nothing_held() {
    for database in backends(file!()).await {
        // Some end after the signal, some never, and more wait than can run at a time.
        let (is_stopping, stopping) = watch::channel(false);
        let receiver = Receiver::start(move |delivery| {
            let mut stopping = stopping.clone();
            async move {
                match delivery.body.as_str() {
                    "soon" => drop(stopping.wait_for(|is_so| *is_so).await.unwrap()),
                    _ => std::future::pending().await,
                }
                200
            }
        });
        let receiver = receiver.await;
        queue(&database, &["soon", "never", "soon", "never", "soon", "never"]).await;
        let folder = folder_with(&configuration(&database, &receiver));
        let mut server = Process::serve(folder.path(), "server");
        let busy = || async { receiver.distinct() == 4 };
        eventually(PATIENCE, "every slot is busy", busy).await;

        server.signal("TERM");
        let heard = || async { server.log().contains("stopping") };
        eventually(PATIENCE, "the server stops", heard).await;
        is_stopping.send_replace(true);
        eventually(PATIENCE, "the server has ended", || {
            let ended = server.ended().is_some();
            async move { ended }
        })
        .await;
        assert!(server.ended().unwrap().success(), "not within its deadline: {}", server.log());
        let mut client = Client::connect(&database).await;
        let jobs = "SELECT concat(status, retry_count) FROM mails_job_queue ORDER BY job_id";
        let left = ["completed0", "pending0", "completed0", "pending0", "pending0", "pending0"];
        assert_eq!(client.column(jobs).await, left, "{}", server.log());
        let held = "SELECT count(*) FROM mails_job_queue WHERE leased_by IS NOT NULL";
        assert_eq!(client.number(held).await, 0, "somebody still holds work");
    }
}

async fn queue(database: &TestDatabase, payloads: &[&str]) {
    let connections = Database::connect(&database.url).await.unwrap();
    let options = JobsOptions { table: "mails_job_queue".into(), ..JobsOptions::new("mails") };
    let jobs = Jobs::new(connections, options).unwrap();
    jobs.migrate().await.unwrap();
    let new = payloads.iter().map(|payload| NewJob::new("mail", *payload)).collect();
    jobs.enqueue(new).await.unwrap();
}

fn configuration(database: &TestDatabase, receiver: &Receiver) -> String {
    format!(
        "[server]\n\
         shutdown-deadline = \"{}s\"\n\
         [jobs.mails]\n\
         database = \"{}\"\n\
         concurrency = 4\n\
         workers = 1\n\
         handler = {{ http = \"http://{}/\" }}\n",
        DEADLINE.as_secs(),
        database.url,
        receiver.address
    )
}
