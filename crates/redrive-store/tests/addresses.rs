//! Addresses that a person has to correct: the message says what is wrong with them.

#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

use redrive_store::{Database, Deadlines, Error, Reason};
use redrive_testkit::{self as testkit, Client, PATIENCE, TestDatabase};

/// The error at an address, which must not wait for its deadline.
async fn error_at(url: &str) -> Error {
    let deadlines = Deadlines { connect: 10 * PATIENCE, ..Deadlines::default() };
    let connecting = async { Database::open_with(url, deadlines)?.ping().await };
    let error =
        tokio::time::timeout(PATIENCE, connecting).await.expect("it waits for its deadline").unwrap_err();
    let said = format!("{error} {error:?}");
    for leak in [".c\"", ".c:", "line", "routine", "wrong-secret"] {
        assert!(!said.contains(leak), "{leak} in {said}");
    }
    error
}

fn host_of(url: &str) -> &str {
    url.split_once('@').unwrap().1.split_once('/').unwrap().0
}

fn says(error: &Error, reason: Reason, words: &[&str]) {
    assert_eq!(error.reason(), reason, "{error}");
    let text = error.to_string();
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
    assert!(!text.contains("try again"), "trying again does not help: {text}");
}

fn mysql_with(database: &TestDatabase, user: &str, name: &str) -> String {
    format!("mysql://{user}@{}/{name}", host_of(&database.url))
}

#[tokio::test]
async fn a_wrong_password_is_named_as_such() {
    let Some(database) = testkit::mysql(file!()).await else { return };
    let error = error_at(&mysql_with(&database, "redrive:wrong-secret", "redrive")).await;
    says(&error, Reason::CredentialsRefused, &["password", "redrive"]);
}

#[tokio::test]
async fn a_user_that_does_not_exist_is_named_as_such() {
    let Some(database) = testkit::postgres(file!()).await else { return };
    let url = database.url.replace("redrive@", "nobody_here:wrong-secret@");
    says(&error_at(&url).await, Reason::CredentialsRefused, &["user", "nobody_here"]);
}

#[tokio::test]
async fn a_database_that_does_not_exist_is_named_as_such() {
    for database in testkit::servers(file!()).await {
        let (front, _) = database.url.rsplit_once('/').unwrap();
        says(
            &error_at(&format!("{front}/no_such_place")).await,
            Reason::DatabaseMissing,
            &["database", "no_such_place", "create it"],
        );
    }
}

#[tokio::test]
async fn a_database_that_the_user_may_not_enter_is_named_as_such() {
    let Some(database) = testkit::mysql(file!()).await else { return };
    let mut client = Client::connect(&database).await;
    client.run("CREATE USER IF NOT EXISTS stranger@'127.0.0.1' IDENTIFIED BY 'stranger'").await;
    let error = error_at(&mysql_with(&database, "stranger:stranger", "redrive")).await;
    says(&error, Reason::CredentialsRefused, &["stranger", "redrive"]);
}

#[tokio::test]
async fn a_server_of_another_kind_is_noticed() {
    let (Some(postgres), Some(mysql)) = (testkit::postgres(file!()).await, testkit::mysql(file!()).await)
    else {
        return;
    };
    let error = error_at(&format!("mysql://redrive@{}/redrive", host_of(&postgres.url))).await;
    says(&error, Reason::WrongServer, &["Postgres server", "postgres://"]);
    for parameters in ["", "?sslmode=disable"] {
        let url = format!("postgres://redrive@{}/redrive{parameters}", host_of(&mysql.url));
        says(&error_at(&url).await, Reason::WrongServer, &["MySQL or MariaDB server", "mysql://"]);
    }
}

#[tokio::test]
async fn a_file_that_is_no_database_is_named_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("notes.db");
    std::fs::write(&text, "these are my notes, and no database at all. ".repeat(40)).unwrap();
    says(
        &error_at(&format!("sqlite:{}", text.display())).await,
        Reason::FileUnusable,
        &["not a SQLite database"],
    );
    let nowhere = folder.path().join("missing/folder/x.db");
    says(
        &error_at(&format!("sqlite:{}", nowhere.display())).await,
        Reason::FileUnusable,
        &["cannot be opened", "folder"],
    );
}
