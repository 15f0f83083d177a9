//! `redrive migrate`: tables for every pipeline, now or not at all.

use std::collections::HashSet;
use std::io::Write as _;

use redrive::config::Config;
use redrive_store::{Error, Plan};

use super::{Failure, prepare_data_dir, runtime, stores};
use crate::wire::{Part, Stores};

/// Migrates every part, and names each one that failed. While the tables of one cannot be used, none is changed.
pub(crate) fn run(config: &Config) -> Result<(), Failure> {
    prepare_data_dir(&config.server.data_dir)?;
    runtime()?.block_on(migrate(config))
}

/// Prints what [`run`] would do, and what is in its way; changes nothing.
pub(crate) fn dry_run(config: &Config) -> Result<(), Failure> {
    prepare_data_dir(&config.server.data_dir)?;
    runtime()?.block_on(look(config, true))
}

/// Says of every part whether its database answers and its tables can be used, and changes nothing; and of every
/// object store whether it takes an object, gives it back and deletes it.
pub(crate) fn check(config: &Config) -> Result<(), Failure> {
    prepare_data_dir(&config.server.data_dir)?;
    runtime()?.block_on(async {
        let databases = look(config, false).await;
        let stores = stores::check(config).await;
        databases.and(stores)
    })
}

/// Prints the statements that grant a role what `serve` needs; changes nothing.
pub(crate) fn grants(config: &Config, role: &str) -> Result<(), Failure> {
    prepare_data_dir(&config.server.data_dir)?;
    runtime()?.block_on(print_grants(config, role))
}

async fn migrate(config: &Config) -> Result<(), Failure> {
    let parts = parts(config)?;
    let mut unusable = Vec::new();
    for part in &parts {
        if let Ok(plan) = part.plan().await
            && !plan.problems.is_empty()
        {
            unusable.push(Error::Unsuitable { problems: tell_problems(part, &plan)? });
        }
    }
    if !unusable.is_empty() {
        return Err(failure(&unusable, parts.len()));
    }
    let mut failed = Vec::new();
    for part in &parts {
        match part.prepare().await {
            Ok(()) => say(&format!("ok: {}", title(part)))?,
            Err(error) => {
                complain(part, &error.to_string())?;
                failed.push(error);
            }
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(failure(&failed, parts.len())) }
}

async fn look(config: &Config, with_statements: bool) -> Result<(), Failure> {
    let parts = parts(config)?;
    let (mut failed, mut printed) = (Vec::new(), HashSet::new());
    for part in &parts {
        let plan = match part.plan().await {
            Ok(plan) => plan,
            Err(error) => {
                complain(part, &error.to_string())?;
                failed.push(error);
                continue;
            }
        };
        for rows in &plan.unserved {
            complain(part, rows)?;
        }
        if !plan.problems.is_empty() {
            failed.push(Error::Unsuitable { problems: tell_problems(part, &plan)? });
        }
        match plan.statements.len() {
            0 if plan.problems.is_empty() => say(&format!("ok: {}: nothing to change", title(part)))?,
            0 => {}
            _ if with_statements => {
                say(&format!("-- {}", title(part)))?;
                // Parts share tables; what is printed can be run as it is.
                for statement in
                    plan.statements.iter().filter(|it| printed.insert((part.place(), (*it).clone())))
                {
                    say(&format!("{statement};"))?;
                }
            }
            count => say(&format!(
                "ok: {}: {count} statements to run, see redrive migrate --dry-run",
                title(part)
            ))?,
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(failure(&failed, parts.len())) }
}

async fn print_grants(config: &Config, role: &str) -> Result<(), Failure> {
    let parts = parts(config)?;
    let mut failed = Vec::new();
    for part in &parts {
        match part.plan().await {
            Ok(plan) => {
                let none = if plan.grants.is_empty() { ": SQLite has no rights" } else { "" };
                say(&format!("-- {}{none}", title(part)))?;
                for grant in &plan.grants {
                    say(&grant.to(role))?;
                }
            }
            Err(error) => {
                complain(part, &error.to_string())?;
                failed.push(error);
            }
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(failure(&failed, parts.len())) }
}

fn parts(config: &Config) -> Result<Vec<Part>, Failure> {
    Ok(Stores::of(config).map_err(anyhow::Error::from)?.parts)
}

fn title(part: &Part) -> String {
    format!("{} {} ({})", part.kind(), part.name(), part.place())
}

fn tell_problems(part: &Part, plan: &Plan) -> Result<Vec<String>, Failure> {
    for problem in &plan.problems {
        complain(part, problem)?;
    }
    Ok(plan.problems.clone())
}

fn say(line: &str) -> Result<(), Failure> {
    Ok(writeln!(std::io::stdout(), "{line}").map_err(anyhow::Error::from)?)
}

fn complain(part: &Part, what: &str) -> Result<(), Failure> {
    let (kind, name, place) = (part.kind(), part.name(), part.place());
    Ok(writeln!(std::io::stderr(), "error: {kind} {name} at {place}: {what}").map_err(anyhow::Error::from)?)
}

/// As every command: a store that no connection can be made to is unavailable, a table that is refused is a failure.
fn failure(failed: &[Error], of: usize) -> Failure {
    let said = format!(
        "{} of {of} cannot be migrated, see above. Run it again once that is corrected: what is there already stays as \
         it is",
        failed.len()
    );
    match failed.iter().all(Error::is_unavailable) {
        true => Failure::Unavailable(said),
        false => Failure::Other(anyhow::Error::msg(said)),
    }
}
