//! What `deploy/` says is true of the binary: its metrics, its flags, its variables; and every alert is explained.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use redrive::config::{Config, Environment, Source};
use serde_json::{Value, json};
use support::{Server, eventually, folder, folder_with, redrive, text};

/// What Prometheus makes itself.
const FOREIGN: [&str; 1] = ["up"];
/// What a metric of ours starts with; a persist pipeline may have another prefix.
const MACROS: [&str; 6] =
    ["counter!(", "gauge!(", "histogram!(", "describe_counter!(", "describe_gauge!(", "describe_histogram!("];
/// Words of PromQL that are no metrics.
const WORDS: [&str; 7] = ["and", "or", "unless", "by", "without", "on", "ignoring"];

#[test]
fn every_metric_that_a_rule_or_a_panel_uses_is_one_of_ours() {
    let ours = registered();
    let used = used();
    assert!(used.len() > 10, "the expressions are not found any more: {used:?}");
    let unknown: Vec<_> = used.iter().filter(|name| !is_known(name, &ours)).collect();
    assert!(unknown.is_empty(), "deploy/ uses metrics that nobody records: {unknown:?}; there are {ours:?}");
}

#[test]
fn a_running_server_shows_the_metrics_that_are_used() {
    let folder = folder_with(
        "[outbox.orders]\nhandlers.Posted = { command = [\"true\"] }\nauto-redrive = [{ class = \"transient\" }]\n[jobs.mails]\n[persist.urls]\n[ingest.clicks]\n",
    );
    let server = Server::ready(folder.path());
    // Nobody handles it: a dead letter, and so an alert.
    let event = json!({"event_type": "Nobody", "aggregate_id": "1", "payload": 1});
    assert_eq!(server.post("/api/v1/outbox/orders/events", &event).0, 201);
    // The books are checked half a minute after the start; Kafka is not part of this server.
    let later = |name: &str| name.starts_with("redrive_kafka_") || name == "redrive_conservation_gap";
    let wanted: BTreeSet<String> = used().into_iter().filter(|name| !later(name)).collect();
    eventually("every metric that is used", || {
        let shown = shown(&server.metrics());
        wanted.iter().all(|name| is_known(name, &shown)).then_some(())
    });
    let metrics = server.metrics();
    let (shown, ours) = (shown(&metrics), registered());
    let unexplained: Vec<_> =
        shown.iter().filter(|name| !metrics.contains(&format!("# HELP {name} "))).collect();
    assert!(unexplained.is_empty(), "nobody says what these are: {unexplained:?}");
    let unseen: Vec<_> =
        shown.iter().filter(|name| !ours.contains(*name) && !name.starts_with("url_persistence_")).collect();
    assert!(unseen.is_empty(), "the search through the sources misses {unseen:?}");
}

#[test]
fn a_metric_that_does_not_exist_is_found_out() {
    let expression =
        r#"sum by (pipeline) (rate(redrive_evnts_total{outcome="dead"}[5m])) > 0 and on (x) up == 0"#;
    let names = metrics_in(expression);
    assert_eq!(names, BTreeSet::from(["redrive_evnts_total".to_owned(), "up".to_owned()]));
    assert!(!is_known("redrive_evnts_total", &registered()));
    assert!(is_known("redrive_attempt_seconds_bucket", &registered()));
    assert!(!is_known("redrive_backlog_bucket", &BTreeSet::new()));
}

#[test]
fn every_alert_says_how_bad_it_is_and_is_explained_in_the_operations_guide() {
    let rules = read("deploy/prometheus-rules.yml");
    assert_tidy(&rules);
    let alerts: Vec<&str> = rules.split("- alert: ").skip(1).collect();
    assert!(alerts.len() >= 8);
    let guide = read("docs/operations.md");
    for alert in &alerts {
        let name = alert.lines().next().unwrap().trim();
        for part in ["expr:", "severity:", "summary:"] {
            assert!(alert.contains(part), "{name} has no {part}");
        }
        let runbook = format!("runbook: docs/operations.md#{}", name.to_lowercase());
        assert!(alert.contains(&runbook), "{name} does not say `{runbook}`");
        assert!(
            guide.lines().any(|line| line == format!("### {name}")),
            "docs/operations.md has no `### {name}`"
        );
    }
    let named: BTreeSet<&str> = alerts.iter().map(|alert| alert.lines().next().unwrap().trim()).collect();
    let explained =
        guide.lines().filter_map(|line| line.strip_prefix("### ")).filter(|name| name.starts_with("Redrive"));
    for name in explained {
        assert!(named.contains(name), "docs/operations.md explains {name}, which is no alert");
    }
}

#[test]
fn the_dashboard_can_be_imported() {
    let dashboard: Value = serde_json::from_str(&read("deploy/grafana-dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let numbers: BTreeSet<i64> = panels.iter().map(|panel| panel["id"].as_i64().unwrap()).collect();
    assert_eq!(numbers.len(), panels.len(), "each panel has a number of its own");
    for panel in panels {
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty() && panel["title"].as_str().is_some_and(|title| !title.is_empty()));
        for target in targets {
            assert!(is_balanced(target["expr"].as_str().unwrap()), "{target}");
        }
    }
}

#[test]
fn the_unit_starts_the_binary_with_flags_that_it_has_and_gives_it_time_to_stop() {
    let unit = read("deploy/redrive.service");
    let commands: Vec<&str> = settings(&unit, "ExecStartPre").chain(settings(&unit, "ExecStart")).collect();
    assert_eq!(commands.len(), 2);
    for command in commands {
        let words: Vec<&str> = command.split_whitespace().collect();
        assert!(words[0].ends_with("/redrive"), "{command}");
        assert_has_flags(words[1], &words[2..]);
    }
    let stop = settings(&unit, "TimeoutStopSec").next().unwrap().strip_suffix('s').unwrap();
    let deadline = defaults().server.shutdown_deadline.as_secs();
    assert!(stop.parse::<u64>().unwrap() > deadline, "a stop may take {deadline} s");
    for setting in ["DynamicUser=yes", "NoNewPrivileges=yes", "ProtectSystem=strict", "KillSignal=SIGTERM"] {
        assert!(unit.lines().any(|line| line == setting), "{setting}");
    }
    let variables: Vec<(String, String)> = settings(&unit, "Environment").map(pair).collect();
    assert_accepted("", &variables);
}

#[test]
fn the_image_and_the_compose_file_start_the_binary_with_what_it_knows() {
    let image = read("deploy/Dockerfile");
    let variables: Vec<(String, String)> =
        image.lines().filter_map(|line| line.strip_prefix("ENV ")).map(pair).collect();
    assert_accepted("", &variables);
    assert!(image.lines().any(|line| line.starts_with("USER ") && line != "USER root" && line != "USER 0"));
    assert!(image.contains("HEALTHCHECK") && image.contains("/api/v1/health"));

    let compose = read("deploy/compose.yaml");
    assert_tidy(&compose);
    let command = compose.lines().find_map(|line| line.trim().strip_prefix("command: ")).unwrap();
    let words: Vec<String> = serde_json::from_str(command).unwrap();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    assert_has_flags(words[0], &words[1..]);
    let variables: Vec<(String, String)> = compose
        .lines()
        .filter_map(|line| line.trim().split_once(": "))
        .filter(|(name, _)| name.starts_with("REDRIVE__"))
        .map(|(name, value)| (name.to_owned(), filled_in(value)))
        .collect();
    assert_eq!(variables.len(), 3);
    let config = assert_accepted(&read("deploy/compose.toml"), &variables);
    assert!(!config.server.listen.ip().is_loopback() && !config.server.tokens.is_empty());
}

/// The value of a line of YAML, with something in the place of each variable.
fn filled_in(value: &str) -> String {
    let mut value = value.trim_matches(|quote| quote == '"' || quote == '\'').to_owned();
    while let Some(start) = value.find("${") {
        let end = start + value[start..].find('}').unwrap();
        value.replace_range(start..=end, &"ab".repeat(32));
    }
    value
}

fn pair(text: &str) -> (String, String) {
    let (name, value) = text.trim().split_once('=').unwrap();
    (name.to_owned(), value.to_owned())
}

fn defaults() -> Config {
    assert_accepted("", &[])
}

#[track_caller]
fn assert_accepted(file: &str, variables: &[(String, String)]) -> Config {
    let variables = variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    Config::load(&Source::of_text("redrive.toml", file), &Environment::of(variables))
        .unwrap_or_else(|error| panic!("{error}"))
}

/// The subcommand has every flag that it is started with.
#[track_caller]
fn assert_has_flags(subcommand: &str, arguments: &[&str]) {
    let folder = folder();
    let help = redrive(folder.path()).args([subcommand, "--help"]).output().unwrap();
    assert!(help.status.success(), "there is no `redrive {subcommand}`");
    let help = text(&help.stdout);
    for flag in arguments.iter().filter(|argument| argument.starts_with('-')) {
        let known = help.split_whitespace().any(|word| word.trim_end_matches(',') == *flag);
        assert!(known, "redrive {subcommand} has no {flag}");
    }
}

fn settings<'a>(unit: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    unit.lines().filter_map(move |line| line.strip_prefix(name)?.strip_prefix('='))
}

/// No YAML reader is in the tree: what is most often wrong is looked for by hand.
#[track_caller]
fn assert_tidy(yaml: &str) {
    for (number, line) in (1..).zip(yaml.lines()) {
        let indent = line.len() - line.trim_start().len();
        assert!(!line.contains('\t'), "line {number}: a tab");
        assert!(line.trim().is_empty() || indent.is_multiple_of(2), "line {number}: {indent} spaces");
        let content = line.trim_start();
        if !content.starts_with('#') && !line.contains("expr") {
            assert!(
                is_balanced(content) && content.matches('"').count().is_multiple_of(2),
                "line {number}: {line}"
            );
        }
    }
}

fn is_balanced(text: &str) -> bool {
    let mut open = Vec::new();
    for character in text.chars() {
        match character {
            '(' | '[' | '{' => open.push(character),
            ')' if open.pop() != Some('(') => return false,
            ']' if open.pop() != Some('[') => return false,
            '}' if open.pop() != Some('{') => return false,
            _ => {}
        }
    }
    open.is_empty()
}

/// Every metric that `deploy/` uses.
fn used() -> BTreeSet<String> {
    let mut expressions = expressions_of_rules(&read("deploy/prometheus-rules.yml"));
    let dashboard: Value = serde_json::from_str(&read("deploy/grafana-dashboard.json")).unwrap();
    expressions_of_panels(&dashboard, &mut expressions);
    let names = expressions.iter().flat_map(|expression| metrics_in(expression));
    names.filter(|name| !FOREIGN.contains(&name.as_str())).collect()
}

/// `expr: …`, on its line or folded below it.
fn expressions_of_rules(rules: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = rules.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(rest) = line.trim_start().strip_prefix("expr: ") else { continue };
        if rest != ">-" {
            found.push(rest.to_owned());
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        let mut folded = String::new();
        while let Some(more) = lines.next_if(|next| next.len() - next.trim_start().len() > indent) {
            folded.push_str(more.trim());
            folded.push(' ');
        }
        found.push(folded);
    }
    found
}

fn expressions_of_panels(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str() {
                    Some(text) if name == "expr" => found.push(text.to_owned()),
                    Some(text) if text.starts_with("label_values(") => {
                        found.extend(text["label_values(".len()..].split(',').next().map(str::to_owned));
                    }
                    _ => expressions_of_panels(value, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| expressions_of_panels(value, found)),
        _ => {}
    }
}

/// The metrics in an expression: names that are no function, no label and no word of the language.
fn metrics_in(expression: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut rest = expression;
    let mut last = "";
    while let Some(first) = rest.chars().next() {
        let length =
            rest.find(|next: char| !(next.is_ascii_alphanumeric() || next == '_')).unwrap_or(rest.len());
        let (name, after) = rest.split_at(length);
        rest = match first {
            _ if first.is_ascii_alphabetic() || first == '_' => {
                // `rate(…)`, or `sum by (…) (…)`.
                let is_function =
                    ["(", "by ", "without "].iter().any(|next| after.trim_start().starts_with(next));
                if !is_function && !WORDS.contains(&name) {
                    found.insert(name.to_owned());
                }
                last = name;
                after
            }
            '"' => after_next(&rest[1..], '"'),
            '{' => after_next(rest, '}'),
            '[' => after_next(rest, ']'),
            // A list of labels.
            '(' if ["by", "without", "on", "ignoring"].contains(&last) => after_next(rest, ')'),
            _ if length > 0 => after,
            _ => &rest[first.len_utf8()..],
        };
        if !first.is_whitespace() && !first.is_ascii_alphabetic() && first != '_' {
            last = "";
        }
    }
    found
}

fn after_next(text: &str, end: char) -> &str {
    text.split_once(end).map_or("", |(_, after)| after)
}

/// A histogram is asked for by its parts.
fn is_known(name: &str, names: &BTreeSet<String>) -> bool {
    let whole = ["_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part));
    names.contains(name) || whole.is_some_and(|whole| names.contains(whole))
}

/// The metrics that a server shows.
fn shown(metrics: &str) -> BTreeSet<String> {
    let types = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

/// The metrics that the code records or describes, by the names in its sources.
fn registered() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for file in sources(&root().join("crates")) {
        let source = fs::read_to_string(file).unwrap();
        let source = source.split("#[cfg(test)]").next().unwrap();
        for name in MACROS {
            for (at, _) in source.match_indices(name) {
                let argument = source[at + name.len()..].trim_start();
                found.extend(
                    argument.strip_prefix('"').and_then(|text| text.split('"').next()).map(str::to_owned),
                );
            }
        }
    }
    assert!(found.contains("redrive_events_total"), "the macros are not found any more: {found:?}");
    found
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("tests") {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
