//! What the sections share while they are read: defaults from `[server]` and `[alerts]`, and who
//! already took which name and which table.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::path::PathBuf;

use super::database::{Backend, DatabaseUrl};
use super::identifier::TableName;
use super::section::Section;

/// The surroundings of a pipeline.
pub(crate) struct Context {
    pub(crate) database: DatabaseUrl,
    pub(crate) data_dir: PathBuf,
    pub(crate) alert_threshold: NonZeroU32,
    names: HashMap<String, String>,
    tables: HashMap<(DatabaseUrl, TableName), String>,
    groups: HashMap<(String, String), String>,
}

/// The pipeline of letters that other services hand in.
const INTAKE: &str = "intake";

/// What the names of redrive's own tables start with.
const OWN_TABLES: &str = "redrive_";

/// Names appear in letter ids, file names and metrics.
const LONGEST_NAME: usize = 63;

impl Context {
    pub(crate) fn new(database: DatabaseUrl, data_dir: PathBuf, alert_threshold: NonZeroU32) -> Self {
        let (names, tables, groups) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { database, data_dir, alert_threshold, names, tables, groups }
    }

    /// Takes a name for a pipeline. One name means one pipeline whatever its kind, because the id of
    /// a letter is `<pipeline>:<local id>`.
    pub(crate) fn name(&mut self, section: &mut Section<'_>, name: &str) {
        if section.is_described() {
            return;
        }
        if !is_name(name) {
            section.refuse_whole(format!(
                "found the name \"{}\", expected a-z, 0-9, - and _, at most {LONGEST_NAME} of them",
                name.escape_debug()
            ));
        }
        if name == INTAKE {
            section.refuse_whole("the name `intake` stands for letters that are handed in; choose another");
        }
        if let Some(other) = self.names.insert(name.to_owned(), section.path().to_owned()) {
            section.refuse_whole(format!(
                "the name `{name}` is already taken by [{other}]; every pipeline needs its own, \
                 because the ids of its letters start with it"
            ));
        }
    }

    /// Reads the database of a pipeline.
    pub(crate) fn database(&self, section: &mut Section<'_>) -> DatabaseUrl {
        section.derived(
            "database",
            self.database.clone(),
            "`server.database`",
            "`sqlite:PATH`, `postgres://…` or `mysql://…`; `\"env:NAME\"` takes it from a variable.",
        )
    }

    /// Reads where a pipeline hears of new work, when its database cannot tell through a pooler.
    pub(crate) fn listen_database(
        &self,
        section: &mut Section<'_>,
        database: &DatabaseUrl,
    ) -> Option<DatabaseUrl> {
        let key = "listen-database";
        let listen: Option<DatabaseUrl> = section.optional(
            key,
            "The same Postgres without the pooler, to hear of new work at once; polling finds it otherwise.",
        );
        let is_postgres = |database: &DatabaseUrl| database.backend() == Backend::Postgres;
        if listen.as_ref().is_some_and(|listen| !is_postgres(listen) || !is_postgres(database)) {
            section.refuse(
                key,
                "expected a postgres:// address beside a postgres:// database; others do not notify",
            );
            return None;
        }
        listen
    }

    /// Reads how many workers claim side by side. SQLite has one writer at a time: more would only wait.
    pub(crate) fn workers(&self, section: &mut Section<'_>, database: &DatabaseUrl) -> NonZeroU32 {
        let default = match database.backend() {
            Backend::Sqlite => NonZeroU32::MIN,
            Backend::Postgres | Backend::MySql => NonZeroU32::MIN.saturating_add(1),
        };
        section.derived(
            "workers",
            default,
            "`2`, with SQLite `1`",
            "How many workers claim side by side, each over a connection of its own.",
        )
    }

    /// Takes a table for work. Two pipelines on one table would fight over its rows.
    pub(crate) fn table(
        &mut self,
        section: &mut Section<'_>,
        key: &str,
        database: &DatabaseUrl,
        table: &TableName,
    ) {
        if section.is_described() {
            return;
        }
        if table.as_str().rsplit('.').next().is_some_and(|name| name.starts_with(OWN_TABLES)) {
            section.refuse(
                key,
                "found a name that starts with redrive_, which our own tables do; choose another",
            );
        }
        let setting = format!("{}.{key}", section.path());
        if let Some(other) = self.tables.insert((database.clone(), table.clone()), setting) {
            section.refuse(
                key,
                format!(
                    "table `{}` of this database is already used by `{other}`; each needs a table of its own",
                    table.as_str()
                ),
            );
        }
    }

    /// Takes a consumer group. Two consumers in one would each get a part of the other's records.
    pub(crate) fn group(&mut self, section: &mut Section<'_>, key: &str, brokers: &str, group: &str) {
        if section.is_described() {
            return;
        }
        let setting = format!("{}.{key}", section.path());
        if let Some(other) = self.groups.insert((brokers.to_owned(), group.to_owned()), setting) {
            section.refuse(
                key,
                format!(
                    "consumer group `{group}` at these brokers is already used by `{other}`; each needs a group of its own, \
                     or it would get only a part of its records"
                ),
            );
        }
    }
}

fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(allowed)
}
