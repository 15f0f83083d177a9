//! `redrive check`: is the configuration right, and what does it say?

use std::fmt::Write as _;
use std::io::Write as _;

use redrive::config::{Config, Handler, Source};

use super::Failure;
use crate::wire::kafka;

/// Prints what a right configuration says; a wrong one does not get here. What librdkafka does not accept is a mistake
/// here only: a server works without the pipeline that it is in.
pub(crate) fn run(source: &Source, config: &Config) -> Result<(), Failure> {
    let refused = refused(config);
    if !refused.is_empty() {
        return Err(Failure::Usage(refused.join("\nerror: ")));
    }
    let written = std::io::stdout().write_all(summary(source, config).as_bytes());
    written.map_err(|error| Failure::Other(error.into()))
}

/// What librdkafka does not accept, by section.
fn refused(config: &Config) -> Vec<String> {
    let pipelines = config
        .kafkas
        .iter()
        .filter_map(|kafka| Some(format!("kafka.{}.properties: {}", kafka.name, kafka::refused(kafka)?)));
    let of_outbox = config.outboxes.iter().flat_map(|outbox| {
        let handlers = outbox.handlers.iter().map(|(_, handler)| handler);
        handlers.filter_map(|handler| {
            Some(format!("outbox.{}.handlers: {}", outbox.name, refused_handler(handler)?))
        })
    });
    let targets =
        config.intake.targets.iter().filter_map(|(name, handler)| {
            Some(format!("intake.targets.{name}: {}", refused_handler(handler)?))
        });
    pipelines.chain(of_outbox).chain(targets).collect()
}

fn refused_handler(handler: &Handler) -> Option<String> {
    let Handler::Kafka(handler) = handler else { return None };
    kafka::refused_handler(handler).map(|refused| refused.to_string())
}

/// Prints every setting there is.
pub(crate) fn print_reference() -> anyhow::Result<()> {
    std::io::stdout().write_all(redrive::config::reference().as_bytes())?;
    Ok(())
}

fn summary(source: &Source, config: &Config) -> String {
    let server = &config.server;
    let count = config.pipelines().count();
    let noun = if count == 1 { "pipeline" } else { "pipelines" };
    let mut text = format!("ok: {}: {count} {noun}\n", source.name());
    for (kind, name) in config.pipelines() {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {kind:<8} {name}");
    }
    let targets: Vec<&str> = config.intake.targets.iter().map(|(name, _)| name.as_str()).collect();
    let targets = if targets.is_empty() { "no targets".to_owned() } else { targets.join(", ") };
    let _ = writeln!(text, "  {:<8} letters of other services; redriven to: {targets}", "intake");
    let _ =
        writeln!(text, "  {:<8} http://{}, state in {}", "server", server.listen, server.data_dir.display());
    let _ = writeln!(text, "  {:<8} {}", "database", server.database);
    text
}
