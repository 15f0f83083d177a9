//! The servers that `./test` starts, taken away and brought back: what the suites that do so share.
#![allow(dead_code, reason = "each suite uses a part of it")]
#![allow(clippy::unwrap_used, reason = "it fails as the tests do")]

use redrive_testkit::{Client, TestDatabase, server};
use tokio::process::Command;

/// The database, if its server may be taken away by this suite.
pub(crate) fn restartable(database: Option<TestDatabase>, suite: &str) -> Option<TestDatabase> {
    let database = database?;
    server("REDRIVE_TEST_SERVICES", suite).map(|_| database)
}

/// After a crash, Postgres would sync the files of every database that any suite has made, one by one; that
/// takes longer than everything else in a suite. One that is too old for the setting does so.
pub(crate) async fn recovers_quickly(postgres: &TestDatabase) {
    let mut client = Client::connect(postgres).await;
    client.attempt("ALTER SYSTEM SET recovery_init_sync_method = 'syncfs'").await.ok();
}

/// Does this to the server.
pub(crate) async fn service(action: &str, name: &str) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/service");
    let done = Command::new(script).args([action, name]).output().await.unwrap();
    assert!(done.status.success(), "{action} {name}: {}", String::from_utf8_lossy(&done.stderr));
}
