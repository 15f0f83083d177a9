//! What `redrive.toml` may say, and what is said about one that is wrong.

use std::time::Duration;

use proptest::prelude::*;
use redrive::config::{
    Backend, Channel, ColumnName, Config, Durability, Environment, Error, FailureClass, Handler, Letters,
    Mistakes, OnDead, OnFull, Ordering, Processed, Role, Source, reference,
};

fn load_with(text: &str, variables: &[(&str, &str)]) -> Result<Config, Error> {
    Config::load(&Source::of_text("redrive.toml", text), &Environment::of(variables.iter().copied()))
}

fn load(text: &str) -> Config {
    load_with(text, &[]).unwrap_or_else(|error| panic!("{error}"))
}

fn mistakes_with(text: &str, variables: &[(&str, &str)]) -> Mistakes {
    match load_with(text, variables) {
        Err(Error::Wrong(mistakes)) => mistakes,
        other => panic!("expected mistakes in {text:?}, got {other:?}"),
    }
}

fn mistakes(text: &str) -> Mistakes {
    mistakes_with(text, &[])
}

/// A file, and the (line, path, part of the message) of each mistake in it.
type Case = (&'static str, &'static [(usize, &'static str, &'static str)]);

const WRONG: &[Case] = &[
    ("[sever]\n", &[(1, "sever", "did you mean `server`?")]),
    ("colour = 1\n", &[(1, "colour", "expected `server`, `alerts`, `outbox`")]),
    ("server = 1\n", &[(1, "server", "found a number, expected a table")]),
    ("[server]\nlisten = 7070\n", &[(2, "server.listen", "found 7070, expected an IP address and a port")]),
    ("[server]\nlisten = \"localhost:7070\"\n", &[(2, "server.listen", "found \"localhost:7070\"")]),
    ("[server]\nlisten = \"0.0.0.0:80\"\n", &[(2, "server.listen", "no valid token")]),
    ("[server]\nlisten = \"[::]:80\"\ntokens = []\n", &[(2, "server.listen", "no valid token")]),
    ("[server]\ndata-dir = \"\"\n", &[(2, "server.data-dir", "expected a path that is not empty")]),
    ("[server]\ndatabase = \"oracle://db/x\"\n", &[(2, "server.database", "starts with oracle://")]),
    ("[server]\ndatabase = \"sqlite:\"\n", &[(2, "server.database", "the path of a file")]),
    ("[server]\nshutdown-deadline = \"0s\"\n", &[(2, "server.shutdown-deadline", "a duration above zero")]),
    ("[server]\nmax-body = \"64\"\n", &[(2, "server.max-body", "found \"64\", expected a size above zero")]),
    (
        "[server]\ntokens = [{ name = \"ops\", role = \"root\", sha256 = \"12\" }]\n",
        &[
            (2, "server.tokens[0].role", "found \"root\", expected \"viewer\", \"operator\" or \"admin\""),
            (2, "server.tokens[0].sha256", "found text, expected 64 hex digits"),
        ],
    ),
    (
        "[server]\ntokens = [{ role = \"admin\" }]\n",
        &[(2, "server.tokens[0].name", "missing"), (2, "server.tokens[0].sha256", "missing")],
    ),
    (
        "[server]\ntokens = [{ name = \"a\", role = \"admin\", sha256 = \"E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855\" }]\n",
        &[(2, "server.tokens[0].sha256", "the SHA-256 of an empty token")],
    ),
    (
        "[server]\ntokens = [{ name = \"a\", role = \"viewer\", sha256 = \"abababababababababababababababababababababababababababababababab\" }, { name = \"b\", role = \"admin\", sha256 = \"ABababababababababababababababababababababababababababababababab\" }]\n",
        &[(2, "server.tokens", "the token of \"b\" under another name")],
    ),
    ("[outbox.Orders]\n", &[(1, "outbox.Orders", "found the name \"Orders\", expected a-z")]),
    ("[outbox.\"a b\"]\n", &[(1, "outbox.\"a b\"", "found the name \"a b\"")]),
    ("[outbox]\norders = 3\n", &[(2, "outbox.orders", "found a number, expected a table")]),
    ("[jobs.intake]\n", &[(1, "jobs.intake", "the name `intake` stands for")]),
    ("[jobs.a]\ntable = \"shop.redrive_audit\"\n", &[(2, "jobs.a.table", "starts with redrive_")]),
    ("[outbox.a]\n[jobs.a]\n", &[(2, "jobs.a", "already taken by [outbox.a]")]),
    (
        "[outbox.a]\npoll-intervall = \"5s\"\n",
        &[(2, "outbox.a.poll-intervall", "did you mean `poll-interval`?")],
    ),
    ("[outbox.a]\npoll-interval = 5\n", &[(2, "outbox.a.poll-interval", "found 5, expected a duration")]),
    (
        "[outbox.a]\nbatch-size = 0\n",
        &[(2, "outbox.a.batch-size", "found 0, expected a whole number from 1")],
    ),
    ("[outbox.a]\nbatch-size = \"50\"\n", &[(2, "outbox.a.batch-size", "found \"50\", expected a whole")]),
    ("[outbox.a]\nmax-retry-count = -1\n", &[(2, "outbox.a.max-retry-count", "found -1, expected a whole")]),
    (
        "[outbox.a]\nretry = { factor = 0.9 }\n",
        &[(2, "outbox.a.retry.factor", "found 0.9, expected a number")],
    ),
    (
        "[outbox.a]\nretry = { initial = \"6m\" }\n",
        &[(2, "outbox.a.retry.initial", "found initial = \"6m\" above max = \"5m\"")],
    ),
    ("[outbox.a]\nretry = \"5s\"\n", &[(2, "outbox.a.retry", "found text, expected a table")]),
    (
        "[outbox.a]\nordering = \"total\"\n",
        &[(2, "outbox.a.ordering", "found \"total\", expected \"none\" or \"aggregate\"")],
    ),
    ("[outbox.a]\non-dead = \"stop\"\n", &[(2, "outbox.a.on-dead", "expected \"hold\" or \"skip\"")]),
    ("[outbox.a]\ntable = \"x; drop table y\"\n", &[(2, "outbox.a.table", "expected a table name")]),
    (
        "[outbox.a]\ntable = \"x\"\ndlq-table = \"x\"\n",
        &[(3, "outbox.a.dlq-table", "already used by `outbox.a.table`")],
    ),
    (
        "[outbox.a]\n[outbox.b]\ndlq-table = \"b_dlq\"\n",
        &[(2, "outbox.b.table", "already used by `outbox.a.table`")],
    ),
    ("[jobs.a]\nkeep-resolved = \"10s\"\n", &[(2, "jobs.a.keep-resolved", "shorter than 1h")]),
    (
        "[outbox.a]\nprocessed = \"delete\"\nkeep-processed = \"1d\"\n",
        &[(3, "outbox.a.keep-processed", "has no effect")],
    ),
    (
        "[outbox.a]\nhandlers.X = {}\n",
        &[(2, "outbox.a.handlers.X", "found none of `http`, `kafka` or `command`")],
    ),
    (
        "[outbox.a]\nhandlers.X = { http = \"http://h/\", command = [\"c\"] }\n",
        &[(2, "outbox.a.handlers.X.command", "found both `http` and `command`")],
    ),
    (
        "[outbox.a]\ndatabase = \"oracle://db/shop\"\n",
        &[(2, "outbox.a.database", "sqlite:, postgres://, postgresql://, mysql:// or mariadb://")],
    ),
    (
        "[outbox.a]\nhandlers.X = { http = \"orders\" }\n",
        &[(2, "outbox.a.handlers.X.http.url", "found \"orders\", expected an http:// or https:// address")],
    ),
    (
        "[outbox.a]\nhandlers.X = { http = { timeout = \"1s\" } }\n",
        &[(2, "outbox.a.handlers.X.http.url", "missing")],
    ),
    (
        "[outbox.a]\nhandlers.X = { http = { url = \"http://h/\", headers = { \"a b\" = \"c\" } } }\n",
        &[(2, "outbox.a.handlers.X.http.headers.\"a b\"", "no HTTP header")],
    ),
    (
        "[outbox.a]\nhandlers.X = { http = { url = \"http://h/\", headers = { Idempotency-Key = \"c\" } } }\n",
        &[(2, "outbox.a.handlers.X.http.headers.Idempotency-Key", "redrive sets itself")],
    ),
    (
        "[outbox.a]\nhandlers.X = { kafka = { brokers = \"h\", topic = \"t/t\" } }\n",
        &[
            (2, "outbox.a.handlers.X.kafka.brokers", "found \"h\", expected brokers"),
            (2, "outbox.a.handlers.X.kafka.topic", "found \"t/t\", expected a topic name"),
        ],
    ),
    (
        "[outbox.a]\nhandlers.X = { kafka = { brokers = \"h:1\", topic = \"t\", properties = { acks = \"0\" } } }\n",
        &[(2, "outbox.a.handlers.X.kafka.properties.acks", "our guarantees rest on")],
    ),
    ("[outbox.a]\nhandlers.X = { command = [] }\n", &[(2, "outbox.a.handlers.X.command", "not empty")]),
    (
        "[outbox.a]\nhandlers.X = { command = \"run\" }\n",
        &[(2, "outbox.a.handlers.X.command", "found \"run\", expected a list of texts")],
    ),
    ("[outbox.a]\nworkers = 0\n", &[(2, "outbox.a.workers", "found 0, expected a whole number from 1")]),
    (
        "[outbox.a]\nauto-redrive = [{ after = \"1m\" }]\n",
        &[(2, "outbox.a.auto-redrive[0]", "found none of `class` or `code`")],
    ),
    (
        "[outbox.a]\nauto-redrive = [{ class = \"transient\", code = \"http:503\" }]\n",
        &[(2, "outbox.a.auto-redrive[0].code", "found both `class` and `code`")],
    ),
    (
        "[jobs.a]\nauto-redrive = [{ code = \"503\" }, { class = \"odd\" }, { code = \"io:\" }]\n",
        &[
            (2, "jobs.a.auto-redrive[0].code", "found \"503\", expected a code such as \"http:503\""),
            (2, "jobs.a.auto-redrive[1].class", "found \"odd\", expected \"transient\""),
            (2, "jobs.a.auto-redrive[2].code", "found \"io:\", expected a code"),
        ],
    ),
    (
        "[jobs.a]\nauto-redrive = [{ class = \"transient\", after = \"2h\" }]\n",
        &[(2, "jobs.a.auto-redrive[0].after", "found after = \"2h\" above max-after = \"1h\"")],
    ),
    ("[jobs.a]\nhandler = {}\n", &[(2, "jobs.a.handler", "found none of")]),
    ("[jobs.a]\nmax-retry = 3\n", &[(2, "jobs.a.max-retry", "did you mean `max-retries`?")]),
    ("[jobs.1st]\n", &[(1, "jobs.1st.table", "the default \"1st_job_queue\" is no table name")]),
    (
        "[persist.a]\ndurability = \"disk\"\n",
        &[(2, "persist.a.durability", "expected \"journal\" or \"memory\"")],
    ),
    (
        "[persist.a]\ncolumns = { key = \"k\", payload = \"k\" }\n",
        &[(2, "persist.a.columns.payload", "the same column as `key`")],
    ),
    (
        "[persist.a]\ncolumns = { key = \"id\" }\n",
        &[(1, "persist.a.failed-columns.key", "found `id`, which `failed-table` has for itself")],
    ),
    (
        "[persist.a]\nvalues = { short_url = \"$.a\", total = \"total\" }\n",
        &[
            (2, "persist.a.values.total", "found \"total\", expected a path"),
            (2, "persist.a.values.short_url", "found a column of `columns`"),
        ],
    ),
    (
        "[persist.a]\ntable = \"failed_events\"\n",
        &[(1, "persist.a.failed-table", "the same table as `table`")],
    ),
    (
        "[persist.a.dlq]\ncleanup-cron = \"0 0 * * *\"\n",
        &[(2, "persist.a.dlq.cleanup-cron", "six cron fields")],
    ),
    (
        "[persist.a]\nmetrics-prefix = \"url-x\"\n",
        &[(2, "persist.a.metrics-prefix", "expected a-z, 0-9 and _")],
    ),
    (
        "[ingest.a]\nstore = \"bucket\"\n",
        &[(2, "ingest.a.store.url", "found \"bucket\", expected \"s3://bucket")],
    ),
    (
        "[ingest.a.store]\nurl = \"gs://b\"\nregion = \"eu\"\naccess-key = \"x\"\n",
        &[
            (3, "ingest.a.store.region", "`region` is no setting of a store whose `url` begins with `gs:`"),
            (4, "ingest.a.store.access-key", "is no setting of a store whose `url` begins with `gs:`"),
        ],
    ),
    (
        "[ingest.a.store]\nurl = \"s3://b\"\npath-style = \"yes\"\naccess-key-id = \"env:NOT_THERE\"\nsession-token = \"x\"\n",
        &[
            (3, "ingest.a.store.path-style", "expected true or false"),
            (4, "ingest.a.store.access-key-id", "`NOT_THERE` is not set"),
            (4, "ingest.a.store.access-key-id", "found `access-key-id` without `secret-access-key`"),
        ],
    ),
    (
        "[ingest.a]\nraw-prefix = \"RAW/dt={day_of_month}\"\n",
        &[(2, "ingest.a.raw-prefix", "{day_of_month} is not known; there are {date}")],
    ),
    (
        "[ingest.a]\nspool = { on-full = \"drop\", max-size = 1 }\n",
        &[
            (2, "ingest.a.spool.max-size", "found 1, expected a size"),
            (2, "ingest.a.spool.on-full", "expected \"evict-oldest\", \"reject\" or \"pause\""),
        ],
    ),
    ("[ingest.a]\ndlq-prefix = \"RAW\"\n", &[(2, "ingest.a.dlq-prefix", "the same prefix as `raw-prefix`")]),
    ("[kafka.a]\n", &[(1, "kafka.a.brokers", "missing"), (1, "kafka.a.sink", "missing")]),
    (
        "[kafka.a]\nbrokers = \"h:1\"\nsink = { columns = { id = \"$.id\" } }\nproperties.\"enable.auto.commit\" = \"true\"\n",
        &[(4, "kafka.a.properties.\"enable.auto.commit\"", "our guarantees rest on")],
    ),
    (
        "[kafka.a]\nbrokers = \"h:1\"\nsink = { columns = { id = \"id\" } }\n",
        &[
            (3, "kafka.a.sink.columns.id", "found \"id\", expected a path into the record"),
            (3, "kafka.a.sink.columns", "found no column"),
        ],
    ),
    (
        "[kafka.a]\nbrokers = \"h:1\"\ndlq-suffix = \"-parking\"\nsink = { columns = { id = \"$\" } }\n",
        &[(1, "kafka.a.parking-suffix", "the suffix of another topic")],
    ),
    (
        "[alerts]\nchannels = [{ pager = \"x\" }]\n",
        &[
            (2, "alerts.channels[0]", "found none of `slack`, `email` or `webhook`"),
            (2, "alerts.channels[0].pager", "unknown key `pager`"),
        ],
    ),
    ("[alerts]\nchannels = { slack = \"x\" }\n", &[(2, "alerts.channels", "found a table, expected a list")]),
    (
        "[alerts]\nchannels = [{ slack = \"env:NO_SUCH\" }]\n",
        &[(2, "alerts.channels[0].slack", "environment variable `NO_SUCH` is not set")],
    ),
    (
        "[alerts]\nchannels = [{ email = { smtp = \"smtp://h\", from = \"me\", to = [\"a@b\"] } }]\n",
        &[(2, "alerts.channels[0].email.from", "found no mail address")],
    ),
    ("[alerts]\nthreshold = 0\n", &[(2, "alerts.threshold", "from 1")]),
    // TOML itself.
    ("[server\nlisten = 1\n", &[(1, "", "unclosed table")]),
    ("[server]\nlisten = \n", &[(2, "", "not valid TOML")]),
    ("[server]\n[server]\n", &[(2, "", "duplicate key")]),
    (
        "[outbox.a]\nlease = 20s\nbatch-size = 0\n",
        &[(2, "", "string values must be quoted"), (3, "outbox.a.batch-size", "found 0")],
    ),
    (
        "[kafka.a]\nbrokers = \"h:1\"\ngroup = \"g\"\nsink.columns.id = \"$\"\n[kafka.b]\nbrokers = \"h:1\"\ngroup = \"g\"\nsink.columns.id = \"$\"\n",
        &[
            (7, "kafka.b.group", "consumer group `g` at these brokers is already used by `kafka.a.group`"),
            (
                5,
                "kafka.b.parking",
                "consumer group `g-parking` at these brokers is already used by `kafka.a.parking`",
            ),
        ],
    ),
    (
        "[kafka.a]\nbrokers = \"h:1\"\nparking.group = \"a-writer\"\nsink.columns.id = \"$\"\n",
        &[(3, "kafka.a.parking", "already used by `kafka.a.group`")],
    ),
    (
        "[kafka.a]\nbrokers = \"h:1\"\nsink.columns = { a = { path = \"$.a\", type = \"int\" }, b = { type = \"text\" }, c = { path = \"$\", need = true } }\n",
        &[
            (3, "kafka.a.sink.columns.a", "found a wrong `type`, expected \"any\", \"text\", \"integer\""),
            (3, "kafka.a.sink.columns.b", "found no `path`"),
            (3, "kafka.a.sink.columns.c", "unknown key `need`"),
            (3, "kafka.a.sink.columns", "found no column"),
        ],
    ),
    (
        "[kafka.a]\nbrokers = \"h:1\"\nsink = { http = \"http://h/\", table = \"t\", columns = { a = \"$\" } }\n",
        &[(3, "kafka.a.sink.table", "found beside `http`")],
    ),
    ("[kafka.a]\nbrokers = h:1\n[kafka.b]\nsink = {\n", &[(2, "", "not valid TOML"), (4, "", "unclosed")]),
];

#[test]
fn every_mistake_is_named_with_its_line_and_what_would_be_right() {
    for (text, expected) in WRONG {
        let found = mistakes(text);
        let lines = found.to_string();
        assert_eq!(found.count(), expected.len(), "{text}\n{lines}");
        for (line, path, message) in *expected {
            let is_it = |mistake: &&redrive::config::Mistake| {
                mistake.line() == Some(*line)
                    && mistake.path() == *path
                    && mistake.message().contains(message)
            };
            assert!(found.iter().any(|mistake| is_it(&mistake)), "{line} {path} {message}\n{text}\n{lines}");
        }
    }
}

const FIVE: &str = r#"# Five different mistakes.
[server]
listen = "0.0.0.0:7070"

[outbox.orders]
poll-intervall = "5s"
batch-size = "many"
lease = 20s
handlers.OrderCreated = { http = "not an address" }
"#;

#[test]
fn five_different_mistakes_in_one_file_are_reported_at_once() {
    let expected = include_str!("golden/five_mistakes.txt");
    assert_eq!(format!("{}\n", mistakes(FIVE)), expected);
}

#[test]
fn variables_override_the_file_and_are_coerced() {
    let text = "[outbox.orders]\nbatch-size = 10\n[alerts]\nthreshold = 3\n";
    let config = load_with(
        text,
        &[
            ("REDRIVE__OUTBOX__ORDERS__BATCH_SIZE", "100"),
            ("REDRIVE__OUTBOX__ORDERS__RETRY__FACTOR", "1.5"),
            ("REDRIVE__OUTBOX__ORDERS__POLL_INTERVAL", "250ms"),
            ("REDRIVE__OUTBOX__ORDERS__HANDLERS__OrderCreated__HTTP", "http://127.0.0.1:1/"),
            ("REDRIVE__SERVER__LISTEN", "127.0.0.1:8080"),
            ("REDRIVE__JOBS__SEND_MAIL__HANDLER", "{ command = [\"./send\", \"-v\"] }"),
            ("REDRIVE__ALERTS__CHANNELS", "[{ webhook = \"env:HOOK\" }]"),
            ("HOOK", "https://hooks.example.com/1"),
            ("REDRIVE_CONFIG", "elsewhere.toml"),
        ],
    );
    let config = config.unwrap_or_else(|error| panic!("{error}"));
    let orders = &config.outboxes[0];
    assert_eq!(orders.batch_size.get(), 100);
    assert!((orders.retry.factor - 1.5).abs() < f64::EPSILON);
    assert_eq!(orders.poll_interval, Duration::from_millis(250));
    assert_eq!(orders.handlers[0].0, "OrderCreated");
    assert_eq!(orders.alert_threshold.get(), 3);
    assert_eq!(config.server.listen.port(), 8080);
    assert_eq!(config.jobs[0].name, "send-mail");
    assert!(matches!(&config.jobs[0].handler, Some(Handler::Command(run)) if run.command.len() == 2));
    assert!(
        matches!(&config.alerts.channels[0], Channel::Webhook(webhook) if webhook.url.expose().ends_with("/1") && webhook.secret.is_none())
    );
}

#[test]
fn a_wrong_variable_is_named() {
    let variables = [
        ("REDRIVE__SERVER__LISTEN", "here"),
        ("REDRIVE__SERVER__LISTN", "x"),
        ("REDRIVE__SEVER__LISTEN", "x"),
    ];
    let text = mistakes_with("", &variables).to_string();
    for (name, _) in variables {
        assert!(text.contains(&format!("--> environment variable {name}\n")), "{text}");
    }
    assert!(text.contains("did you mean `listen`?"), "{text}");
}

#[test]
fn without_a_file_everything_is_embedded_under_redrive_data() {
    let config = load("");
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:7070");
    assert_eq!(config.server.data_dir.to_str(), Some("./redrive-data"));
    assert_eq!(config.server.database.expose(), "sqlite:./redrive-data/redrive.db");
    assert_eq!(config.server.shutdown_deadline, Duration::from_secs(10));
    assert!(config.server.tokens.is_empty());
    assert_eq!(config.pipelines().count(), 0);
    assert_eq!(config.alerts.threshold.get(), 10);
    assert_eq!(config.alerts.check_interval, Duration::from_secs(60));
    assert_eq!(config.alerts.report_interval, Duration::from_secs(600));
}

#[test]
fn the_database_follows_the_data_directory() {
    let config = load("[server]\ndata-dir = \"/var/lib/redrive\"\n[ingest.a]\n");
    assert_eq!(config.server.database.expose(), "sqlite:/var/lib/redrive/redrive.db");
    assert_eq!(config.ingests[0].spool.dir.to_str(), Some("/var/lib/redrive/spool/a"));
    assert_eq!(config.ingests[0].store.address, "file:///var/lib/redrive/ingest/a");
}

#[test]
fn every_default_is_the_founding_one() {
    let config = load(
        "[outbox.o]\n[jobs.summarize]\n[persist.p]\n[ingest.i]\n\
         [kafka.decision-logs]\nbrokers = \"h:1\"\nsink.columns.body = \"$\"\n",
    );
    let second = Duration::from_secs(1);

    let outbox = &config.outboxes[0];
    assert_eq!((outbox.table.as_str(), outbox.dlq_table.as_str()), ("outbox_event", "outbox_event_dlq"));
    assert_eq!((outbox.poll_interval, outbox.batch_size.get(), outbox.max_retry_count), (5 * second, 50, 5));
    assert_eq!((outbox.retry.initial, outbox.retry.max), (5 * second, 300 * second));
    assert_eq!((outbox.ordering, outbox.on_dead), (Ordering::None, OnDead::Hold));
    assert_eq!((outbox.concurrency.get(), outbox.lease), (16, 20 * second));
    assert_eq!((outbox.workers.get(), outbox.auto_redrive.len()), (1, 0));
    assert_eq!((outbox.processed, outbox.keep_processed), (Processed::Keep, None));
    assert_eq!((outbox.alert_threshold.get(), outbox.handler_timeout), (10, 30 * second));

    let jobs = &config.jobs[0];
    assert_eq!((jobs.table.as_str(), jobs.subject_column.as_str()), ("summarize_job_queue", "article_id"));
    assert_eq!((jobs.max_retries, jobs.timeout, jobs.concurrency.get()), (3, 60 * second, 4));
    assert!(jobs.handler.is_none());

    let persist = &config.persists[0];
    let payload = persist.columns.payload.as_ref().map(ColumnName::as_str);
    assert_eq!((persist.columns.key.as_str(), payload), ("short_url", Some("long_url")));
    let failed = &persist.failed_columns;
    assert_eq!((failed.key.as_str(), failed.payload.as_str()), ("short_url", "long_url"));
    assert_eq!((persist.failed_table.as_str(), persist.durability), ("failed_events", Durability::Journal));
    assert_eq!((persist.retry.attempts, persist.retry.backoff.initial), (3, Duration::from_millis(100)));
    assert_eq!(
        (persist.retry.backoff.factor.to_string(), persist.retry.backoff.max),
        ("2".to_owned(), 10 * second)
    );
    assert_eq!((persist.dlq.initial_delay, persist.dlq.fixed_delay), (60 * second, 300 * second));
    assert_eq!((persist.dlq.max_retry_count.get(), persist.dlq.cleanup_cron.as_str()), (3, "0 0 0 * * ?"));
    assert_eq!(persist.dlq.keep_resolved, 7 * 86_400 * second);
    assert_eq!(persist.metrics_prefix, "url_persistence");

    let ingest = &config.ingests[0];
    assert_eq!((ingest.raw_prefix.as_str(), ingest.dlq_prefix.as_str()), ("RAW", "RAW_DLQ"));
    assert_eq!((ingest.batch.max_events.get(), ingest.batch.max_delay), (5000, second));
    assert_eq!((ingest.spool.max_age, ingest.spool.max_size.bytes()), (72 * 3600 * second, 1 << 30));
    assert_eq!((ingest.spool.on_full, ingest.spool.scan.get()), (OnFull::EvictOldest, 1000));

    let kafka = &config.kafkas[0];
    assert_eq!((kafka.topic.as_str(), kafka.group.as_str()), ("decision-logs", "decision-logs-writer"));
    assert_eq!((kafka.batch.max_records.get(), kafka.batch.max_delay), (500, Duration::from_millis(500)));
    assert_eq!(
        (kafka.retry.attempts, kafka.retry.backoff.initial, kafka.retry.backoff.max),
        (2, second, 2 * second)
    );
    let suffixes = [&kafka.dlq_suffix, &kafka.parking_suffix, &kafka.parking_dlq_suffix];
    assert_eq!(suffixes, ["-dlq", "-parking", "-parking-dlq"]);
    let redrive::config::KafkaPlace::Table { table, .. } = &kafka.sink.place else { panic!("a table") };
    assert_eq!(table.as_str(), "decision_logs");
    assert_eq!(kafka.parking.group, "decision-logs-writer-parking");
    assert_eq!(
        (kafka.parking.retry.attempts, kafka.parking.retry.backoff.initial),
        (5, Duration::from_secs(30))
    );
}

#[test]
fn servers_have_two_workers_and_sqlite_has_one() {
    let of = |database: &str| load(&format!("[jobs.a]\ndatabase = \"{database}\"\n")).jobs[0].workers.get();
    assert_eq!((of("sqlite:a.db"), of("postgres://h/a"), of("mysql://h/a")), (1, 2, 2));
}

#[test]
fn rules_for_automatic_redrives_are_read() {
    let rules = "auto-redrive = [{ class = \"transient\" }, { code = \"http:503\", after = \"1m\", factor = 3.0, \
                 max-after = \"5m\", max-redrives = 9 }]\n";
    let config = load(&format!("[outbox.o]\n{rules}"));
    let [first, second] = config.outboxes[0].auto_redrive.as_slice() else { panic!("two rules") };
    assert_eq!(first.letters, Letters::Class(FailureClass::Transient));
    assert_eq!((first.after, first.max_after), (Duration::from_secs(600), Duration::from_secs(3600)));
    assert_eq!((first.factor.to_string(), first.max_redrives), ("2".to_owned(), 3));
    assert_eq!(second.letters, Letters::Code("http:503".parse().unwrap()));
    assert_eq!((second.after, second.max_redrives), (Duration::from_secs(60), 9));
    assert_eq!(load(&format!("[intake]\n{rules}")).intake.auto_redrive, config.outboxes[0].auto_redrive);
}

#[test]
fn the_example_file_is_right_and_shows_every_kind() {
    let config = load(include_str!("../../../redrive.example.toml"));
    let kinds: Vec<_> = config.pipelines().collect();
    let expected = [
        ("outbox", "orders"),
        ("jobs", "summarize"),
        ("persist", "urls"),
        ("ingest", "estat"),
        ("kafka", "decision-logs"),
    ];
    assert_eq!(kinds, expected);
    assert_eq!(config.server.tokens[0].role, Role::Operator);
    assert_eq!(config.outboxes[0].database.backend(), Backend::Postgres);
    assert_eq!(config.outboxes[0].handlers.len(), 3);
    assert_eq!(config.alerts.channels.len(), 2);
}

#[test]
fn secrets_are_in_no_message_and_in_no_debug() {
    let wrong = r#"
[server]
databse = "postgres://me:hunter2@db/x"
tokens = [{ name = 3, role = "admin", sha256 = "hunter2" }]
[outbox.a]
database = "oracle://me:hunter2@db/x"
handlers.A = { http = { url = "http://me:hunter2@h/", sekret = "hunter2", headers = { "x y" = "hunter2" } } }
handlers.B = { http = "ftp://h/?token=hunter2", secret = "hunter2" }
[outbox.b]
database = "postgres://me:hunter2@db
[alerts]
channels = [{ email = { smtp = "smtp://me:hunter2@h", from = 3, to = ["a@b"] } }, { slack = "hunter2" }, { webhook = 3, hook = "hunter2" }]
"#;
    let variables = [("REDRIVE__JOBS__J__DATABASE", "redis://me:hunter2@db/x")];
    let report = mistakes_with(wrong, &variables);
    assert!(report.count() >= 10, "{report}");
    assert!(!report.to_string().contains("hunter2"), "{report}");

    let right = r#"
[outbox.a]
database = "postgres://me:hunter2@db/x"
handlers.A = { http = { url = "http://h/", secret = "hunter2", headers = { authorization = "hunter2" } } }
[alerts]
channels = [{ email = { smtp = "smtp://me:hunter2@h", from = "a@b", to = ["a@b"] } }, { slack = "env:HOOK" }]
"#;
    let config = load_with(right, &[("HOOK", "https://h/hunter2")]).unwrap();
    assert!(!format!("{config:?}").contains("hunter2"));
}

#[test]
fn the_reference_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(written == reference(), "stale: run `redrive check --reference > docs/configuration.md`");
}

/// Text that looks enough like our file to get deep into the readers.
fn toml_like() -> impl Strategy<Value = String> {
    let header =
        prop_oneof!["\\[(server|alerts)\\]", "\\[(outbox|jobs|persist|ingest|kafka)\\.[a-z\"é]{1,3}\\]"];
    let key = prop_oneof![
        "(listen|database|tokens|channels|retry|handlers|handler|batch|spool|sink|columns|dlq|table)",
        "handlers\\.[A-Z]",
        "[a-z.\"é-]{1,6}",
    ];
    let value = prop_oneof![
        "[0-9]{1,40}",
        "-?[0-9]{1,3}\\.[0-9]{1,3}",
        "\"[a-z0-9:/.@é\\\\]{0,8}\"?",
        "\\[?\\{? ?(http|kafka|email|slack|initial|max) = \"?[a-z0-9:/]{0,8}\"? ?\\}?\\]?",
        "(true|nan|inf|1979-05-27|\"\"\"|'''|\\[|\\{|#)",
        any::<String>(),
    ];
    let line =
        prop_oneof![1 => header, 4 => (key, value).prop_map(|(key, value)| format!("{key} = {value}"))];
    proptest::collection::vec(line, 0..12).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn no_text_makes_it_panic(text in toml_like(), variable in any::<String>()) {
        let variables = [("REDRIVE__OUTBOX__A__HANDLERS__B", variable.as_str()), ("REDRIVE__SERVER__LISTEN__", "")];
        if let Err(error) = load_with(&text, &variables) {
            prop_assert!(!error.to_string().is_empty());
        }
    }
}
