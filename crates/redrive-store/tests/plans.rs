//! The plans of the statements that run all the time: dead and delivered rows never slow a claim.

#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

mod common;

use common::{failed_events, jobs, letters, outbox};
use redrive_store::{JobsOptions, OutboxOptions};
use redrive_testkit::{self as testkit, Backend, Client, TestDatabase};

/// Enough that a scan would cost more than an index, in everybody's arithmetic.
const MANY: u32 = 20_000;

/// Leases and failures, as Postgres takes them.
const LEASES: (&str, &str) = ("bigint[], bigint[]", "'{1,2}', '{1,1}'");
const FAILURES: (&str, &str) = (
    "bigint[], bigint[], bigint[], text[], text[], text[], text[], text[], text[]",
    "'{1,2}', '{1,1}', '{0,0}', '{m,m}', '{c,c}', '{d,d}', '{k,k}', '{f,f}', '{h,h}'",
);

/// Fills a table: `select` has a row for each `n`.
async fn fill(client: &mut Client, backend: Backend, insert: &str, select: &str, rows: u32) {
    let numbers = format!("WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {rows})");
    if backend == Backend::MySql {
        client.run("SET max_recursive_iterations = 1000000").await;
        client.run(&format!("INSERT INTO {insert} {numbers} SELECT {select} FROM s")).await;
    } else {
        client.run(&format!("{numbers} INSERT INTO {insert} SELECT {select} FROM s")).await;
    }
}

async fn analyze(client: &mut Client, backend: Backend, table: &str) {
    match backend {
        Backend::MySql => client.run(&format!("ANALYZE TABLE {table}")).await,
        _ => client.run(&format!("ANALYZE {table}")).await,
    }
}

fn statement(statements: &[(&'static str, String)], name: &str) -> String {
    let (_, text) = statements.iter().find(|(of, _)| *of == name).unwrap_or_else(|| panic!("no {name}"));
    text.clone()
}

/// What the database says it will do; the plan that it would keep for a prepared statement.
async fn plan(database: &TestDatabase, client: &mut Client, name: &str, text: &str) -> String {
    let rows = match database.backend {
        Backend::Sqlite => client.rows(&format!("EXPLAIN QUERY PLAN {text}")).await,
        Backend::Postgres => {
            let (types, values) = match name {
                // With where they begin: two numbers, or three for jobs.
                "claim" | "turn" => {
                    let jobs = text.contains("priority");
                    let (types, values) = if jobs { ("bigint, ", "0, ") } else { ("", "") };
                    let (types, values) = (
                        format!("text, bigint, boolean, bigint, {types}bigint, bigint"),
                        format!("'w', 1, true, 50, {values}0, 0"),
                    );
                    match name {
                        "claim" => (types, values),
                        _ => (
                            format!("{}, {}, {}, {types}", LEASES.0, FAILURES.0, FAILURES.0),
                            format!("{}, {}, {}, {values}", LEASES.1, FAILURES.1, FAILURES.1),
                        ),
                    }
                }
                "done" => (LEASES.0.into(), LEASES.1.into()),
                "extend" => (format!("{}, bigint", LEASES.0), format!("{}, 1", LEASES.1)),
                "backlog" => (String::new(), String::new()),
                _ => (FAILURES.0.into(), FAILURES.1.into()),
            };
            let (types, values) = if types.is_empty() {
                (String::new(), String::new())
            } else {
                (format!("({types})"), format!("({values})"))
            };
            client.run("SET plan_cache_mode = force_generic_plan").await;
            client.run(&format!("PREPARE p{types} AS {text}")).await;
            let rows = client.rows(&format!("EXPLAIN EXECUTE p{values}")).await;
            client.run("DEALLOCATE p").await;
            rows
        }
        Backend::MySql => {
            let values: &[&str] = match name {
                "claim" => &["1", "true", "50"],
                "take" => &["'[[1],[2]]'", "'w'", "1"],
                "extend" => &["'[[1,1],[2,1]]'", "1"],
                "done" | "held" | "dead" => &["'[[1,1],[2,1]]'"],
                "backlog" => &[],
                _ => &["'[[1,1,0,\"m\",\"c\",\"d\",\"k\",\"f\",\"h\"]]'"],
            };
            let text = values.iter().fold(text.to_owned(), |text, value| text.replacen('?', value, 1));
            client.rows(&format!("EXPLAIN {text}")).await
        }
    };
    let line = |row: Vec<Option<String>>| {
        row.into_iter().map(Option::unwrap_or_default).collect::<Vec<_>>().join(" ")
    };
    rows.into_iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The claim walks the index of what is due, in its order, and reads no other row.
fn assert_walks_index(backend: Backend, plan: &str, index: &str) {
    assert!(plan.contains(index), "{backend:?} does not use {index}:\n{plan}");
    let bad: &[&str] = match backend {
        Backend::Sqlite => &["SCAN e\n", "TEMP B-TREE", "AUTOMATIC"],
        Backend::Postgres => &["Seq Scan", "Sort", "Bitmap"],
        Backend::MySql => &["filesort", " ALL ", "temporary"],
    };
    for bad in bad {
        assert!(!format!("{plan}\n").contains(bad), "{backend:?}: {bad}:\n{plan}");
    }
}

/// A settlement finds its rows by their numbers.
fn assert_by_number(backend: Backend, table: &str, plan: &str) {
    let found = match backend {
        Backend::Sqlite => {
            plan.contains("SEARCH t USING INTEGER PRIMARY KEY")
                || plan.contains("SEARCH d USING INTEGER PRIMARY KEY")
        }
        Backend::Postgres => {
            plan.contains(&format!("using {table}_pkey")) && !plan.contains(&format!("Seq Scan on {table}"))
        }
        Backend::MySql => plan.contains(" PRIMARY ") && !plan.contains(" t ALL "),
    };
    assert!(found, "{backend:?}:\n{plan}");
}

async fn assert_plans(
    database: &TestDatabase,
    statements: &[(&'static str, String)],
    table: &str,
    index: &str,
) {
    let mut client = Client::connect(database).await;
    for name in ["claim", "turn"] {
        if statements.iter().any(|(of, _)| *of == name) {
            let plan = plan(database, &mut client, name, &statement(statements, name)).await;
            assert_walks_index(database.backend, &plan, index);
        }
    }
    for (name, text) in statements {
        if !["claim", "turn", "backlog"].contains(name) {
            let plan = plan(database, &mut client, name, text).await;
            assert_by_number(database.backend, table, &plan);
        }
    }
    let backlog = plan(database, &mut client, "backlog", &statement(statements, "backlog")).await;
    let scan = match database.backend {
        Backend::Sqlite => !backlog.contains("INDEX"),
        Backend::Postgres => backlog.contains("Seq Scan"),
        Backend::MySql => backlog.contains(" ALL "),
    };
    assert!(!scan, "{:?}: counting what waits reads only that:\n{backlog}", database.backend);
}

#[tokio::test]
async fn an_outbox_with_many_processed_events_and_letters_is_claimed_through_its_index() {
    for database in testkit::backends(file!()).await {
        let outbox = outbox(&database, OutboxOptions::new("orders")).await;
        let mut client = Client::connect(&database).await;
        let event = "outbox_event (event_type, aggregate_type, aggregate_id, payload, processed)";
        fill(&mut client, database.backend, event, "'T', 'A', n, '{}', n > 1000", MANY).await;
        analyze(&mut client, database.backend, "outbox_event").await;
        assert_plans(&database, &outbox.statement_texts().await.unwrap(), "outbox_event", "outbox_event_due")
            .await;
    }
}

#[tokio::test]
async fn a_queue_with_many_dead_and_completed_jobs_is_claimed_through_its_index() {
    for database in testkit::backends(file!()).await {
        let jobs = jobs(&database, JobsOptions::new("summarize")).await;
        let mut client = Client::connect(&database).await;
        let status =
            "CASE WHEN n <= 1000 THEN 'pending' WHEN n <= 10000 THEN 'dead_letter' ELSE 'completed' END";
        let job = "summarize_job_queue (article_id, status)";
        fill(&mut client, database.backend, job, &format!("n, {status}"), MANY).await;
        analyze(&mut client, database.backend, "summarize_job_queue").await;
        let (table, index) = ("summarize_job_queue", "summarize_job_queue_due");
        assert_plans(&database, &jobs.statement_texts().await.unwrap(), table, index).await;
    }
}

#[tokio::test]
async fn failed_events_are_claimed_through_their_index_and_settled_by_their_numbers() {
    for database in testkit::backends(file!()).await {
        let failed = failed_events(&database).await;
        let mut client = Client::connect(&database).await;
        let status = "CASE WHEN n <= 500 THEN 'PENDING' WHEN n <= 1000 THEN 'PROCESSING' \
                      WHEN n <= 10000 THEN 'FAILED' ELSE 'RESOLVED' END";
        let event = "failed_events (short_url, long_url, created_at, failed_at, status)";
        fill(&mut client, database.backend, event, &format!("n, '', n, n, {status}"), MANY).await;
        analyze(&mut client, database.backend, "failed_events").await;
        assert_plans(
            &database,
            &failed.statement_texts().await.unwrap(),
            "failed_events",
            "failed_events_live",
        )
        .await;
    }
}

#[tokio::test]
async fn letters_are_claimed_through_their_index_and_settled_by_their_numbers() {
    for database in testkit::backends(file!()).await {
        let letters = letters(&database, "intake").await;
        let mut client = Client::connect(&database).await;
        let state = "CASE WHEN n <= 500 THEN 'queued' WHEN n <= 1000 THEN 'sending' \
                     WHEN n <= 10000 THEN 'open' ELSE 'redriven' END";
        let letter = "redrive_letter (pipeline, kind, source, event_type, event_key, payload, headers, origin, \
                      error_message, error_class, error_kind, fingerprint, first_failed_at, failed_at, state)";
        let time = "'2026-01-01 00:00:00'";
        let time =
            if database.backend == Backend::Postgres { format!("timestamp {time}") } else { time.into() };
        let values = format!(
            "'intake', 'intake', CAST(n AS CHAR(9)), 'T', 'k', '', '', '', '', '', '', '', {time}, {time}, {state}"
        );
        fill(&mut client, database.backend, letter, &values, MANY).await;
        analyze(&mut client, database.backend, "redrive_letter").await;
        assert_plans(
            &database,
            &letters.statement_texts().await.unwrap(),
            "redrive_letter",
            "redrive_letter_due",
        )
        .await;
    }
}

/// As many due as there are rows: only the order can save the claim from reading them all.
#[tokio::test]
async fn a_large_backlog_is_claimed_in_the_order_of_the_index_and_settled_by_number() {
    for database in testkit::backends(file!()).await {
        let outbox = outbox(&database, OutboxOptions::new("orders")).await;
        let mut client = Client::connect(&database).await;
        fill(&mut client, database.backend, "outbox_event (event_type, payload)", "'T', '{}'", MANY).await;
        analyze(&mut client, database.backend, "outbox_event").await;
        let statements = outbox.statement_texts().await.unwrap();
        let claim = plan(&database, &mut client, "claim", &statement(&statements, "claim")).await;
        assert_walks_index(database.backend, &claim, "outbox_event_due");
        // The statistics know of no leased row: settling must not trust them.
        let done = plan(&database, &mut client, "done", &statement(&statements, "done")).await;
        assert_by_number(database.backend, "outbox_event", &done);
    }
}
