//! `redrive migrate`: tables for every pipeline, now or not at all.

use std::collections::{HashMap, HashSet};
use std::io::Write as _;
use std::sync::Arc;

use futures_util::future::join_all;
use redrive::config::{Config, DatabaseUrl};
use redrive_server::number::counted;
use redrive_store::{Error, Plan};

use super::{Failure, prepare_data_dir, runtime, stores};
use crate::wire::{Part, Stores};

/// What a look at the tables prints.
#[derive(Clone, Copy)]
enum Output {
    /// Every statement that would be run.
    Statements,
    /// One line per part.
    Verdict,
}

/// Migrates every part, and names each one that failed. While the tables of one cannot be used, none is changed.
pub(crate) fn run(config: &Config) -> Result<(), Failure> {
    prepare_data_dir(&config.server.data_dir)?;
    runtime()?.block_on(migrate(config))
}

/// Prints what [`run`] would do, and what is in its way; changes nothing.
pub(crate) fn dry_run(config: &Config) -> Result<(), Failure> {
    prepare_data_dir(&config.server.data_dir)?;
    runtime()?.block_on(look(config, Output::Statements))
}

/// Says of every part whether its database answers and its tables can be used, and changes nothing; and of every
/// object store whether it takes an object, gives it back and deletes it.
pub(crate) fn check(config: &Config) -> Result<(), Failure> {
    prepare_data_dir(&config.server.data_dir)?;
    runtime()?.block_on(async {
        let databases = look(config, Output::Verdict).await;
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
    let survey = Survey::of(config).await?;
    let mut failures = Failures::default();
    for part in &survey.parts {
        if let Ok(plan) = survey.plan(part).await
            && !plan.problems.is_empty()
        {
            failures.add(&tell_problems(part, plan)?);
        }
    }
    if failures.any() {
        return failures.end(survey.parts.len());
    }
    for part in &survey.parts {
        match survey.prepare(part).await {
            Ok(()) => say(&format!("ok: {}", title(part)))?,
            Err(error) => failures.complain(part, &error)?,
        }
    }
    failures.end(survey.parts.len())
}

async fn look(config: &Config, output: Output) -> Result<(), Failure> {
    let survey = Survey::of(config).await?;
    let (mut failures, mut printed) = (Failures::default(), HashSet::new());
    for part in &survey.parts {
        let plan = match survey.plan(part).await {
            Ok(plan) => plan,
            Err(error) => {
                failures.complain(part, &error)?;
                continue;
            }
        };
        match output {
            Output::Statements => print_statements(part, &plan, &mut printed)?,
            // What cannot be used is not ok, whatever else there would be to do.
            Output::Verdict if plan.problems.is_empty() && plan.unserved.is_empty() => {
                say(&format!("ok: {}", verdict(part, &plan)))?;
            }
            Output::Verdict => {}
        }
        for rows in &plan.unserved {
            complain(part, rows)?;
        }
        if !plan.problems.is_empty() {
            failures.add(&tell_problems(part, plan)?);
        }
    }
    failures.end(survey.parts.len())
}

fn verdict(part: &Part, plan: &Plan) -> String {
    match plan.statements.len() {
        0 => format!("{}: nothing to change", title(part)),
        count => format!(
            "{}: {} to run, see redrive migrate --dry-run",
            title(part),
            counted(count as u64, "statement")
        ),
    }
}

/// Parts share tables: a statement is printed once, so that what is printed can be run as it is.
fn print_statements(
    part: &Part,
    plan: &Plan,
    printed: &mut HashSet<(String, String)>,
) -> Result<(), Failure> {
    if plan.statements.is_empty() && plan.problems.is_empty() {
        return say(&format!("ok: {}", verdict(part, plan)));
    }
    if !plan.statements.is_empty() {
        say(&format!("-- {}", title(part)))?;
    }
    for statement in &plan.statements {
        if printed.insert((part.place().to_owned(), statement.clone())) {
            say(&format!("{statement};"))?;
        }
    }
    Ok(())
}

async fn print_grants(config: &Config, role: &str) -> Result<(), Failure> {
    let survey = Survey::of(config).await?;
    let mut failures = Failures::default();
    for part in &survey.parts {
        match survey.plan(part).await {
            Ok(plan) => {
                let none = if plan.grants.is_empty() { ": SQLite has no rights" } else { "" };
                say(&format!("-- {}{none}", title(part)))?;
                for grant in &plan.grants {
                    say(&grant.to(role))?;
                }
            }
            Err(error) => failures.complain(part, &error)?,
        }
    }
    failures.end(survey.parts.len())
}

/// The parts of a configuration, and which of their databases cannot be connected to.
///
/// Each database is tried once, all of them at the same time: parts share databases, and a server that is silent, or
/// of another kind, takes seconds to find out about.
struct Survey {
    parts: Vec<Part>,
    away: HashMap<DatabaseUrl, Arc<Error>>,
}

impl Survey {
    async fn of(config: &Config) -> Result<Self, Failure> {
        let parts = Stores::of(config).map_err(anyhow::Error::from)?.parts;
        let databases: HashMap<&DatabaseUrl, &Part> =
            parts.iter().map(|part| (part.address(), part)).collect();
        let pings = databases.iter().map(|(address, part)| async move {
            part.ping().await.err().map(|error| ((*address).clone(), Arc::new(error)))
        });
        let away = join_all(pings).await.into_iter().flatten().collect();
        Ok(Self { parts, away })
    }

    async fn plan(&self, part: &Part) -> Result<Plan, Arc<Error>> {
        self.reach(part)?;
        part.plan().await.map_err(Arc::new)
    }

    async fn prepare(&self, part: &Part) -> Result<(), Arc<Error>> {
        self.reach(part)?;
        part.prepare().await.map_err(Arc::new)
    }

    fn reach(&self, part: &Part) -> Result<(), Arc<Error>> {
        self.away.get(part.address()).map_or(Ok(()), |error| Err(Arc::clone(error)))
    }
}

/// The parts that cannot be migrated.
#[derive(Default)]
struct Failures {
    parts: usize,
    /// Those of them that a connection could be made to.
    refused: usize,
}

impl Failures {
    fn add(&mut self, error: &Error) {
        self.parts += 1;
        self.refused += usize::from(!error.is_unavailable());
    }

    fn complain(&mut self, part: &Part, error: &Error) -> Result<(), Failure> {
        self.add(error);
        complain(part, &error.to_string())
    }

    const fn any(&self) -> bool {
        self.parts > 0
    }

    /// As every command: a store that no connection can be made to is unavailable, a table that is refused is a
    /// failure.
    fn end(&self, of: usize) -> Result<(), Failure> {
        if !self.any() {
            return Ok(());
        }
        let said = format!(
            "{} of {of} cannot be migrated, see above. Run it again once that is corrected: what is there already \
             stays as it is",
            self.parts
        );
        Err(match self.refused {
            0 => Failure::Unavailable(said),
            _ => Failure::Other(anyhow::Error::msg(said)),
        })
    }
}

fn title(part: &Part) -> String {
    format!("{} {} ({})", part.kind(), part.name(), part.place())
}

fn tell_problems(part: &Part, plan: Plan) -> Result<Error, Failure> {
    for problem in &plan.problems {
        complain(part, problem)?;
    }
    Ok(Error::Unsuitable { problems: plan.problems })
}

fn say(line: &str) -> Result<(), Failure> {
    Ok(writeln!(std::io::stdout(), "{line}").map_err(anyhow::Error::from)?)
}

fn complain(part: &Part, what: &str) -> Result<(), Failure> {
    let (kind, name, place) = (part.kind(), part.name(), part.place());
    Ok(writeln!(std::io::stderr(), "error: {kind} {name} at {place}: {what}").map_err(anyhow::Error::from)?)
}
