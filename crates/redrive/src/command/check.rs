//! `redrive check`: is the configuration right, and what does it say?

use std::fmt::Write as _;
use std::io::Write as _;

use redrive::config::{Config, Source};

/// Prints what a right configuration says; a wrong one does not get here.
pub(crate) fn run(source: &Source, config: &Config) -> anyhow::Result<()> {
    std::io::stdout().write_all(summary(source, config).as_bytes())?;
    Ok(())
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
