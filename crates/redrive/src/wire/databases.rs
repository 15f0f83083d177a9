//! One `Database` per address, however many pipelines share it.

use std::collections::HashMap;

use redrive::config::{DatabaseUrl, SchemaName};
use redrive_store::{Database, Error};

/// The databases that are in use.
pub(super) struct Databases<'a> {
    open: HashMap<DatabaseUrl, Database>,
    /// Where redrive's own tables are.
    schema: Option<&'a SchemaName>,
}

impl<'a> Databases<'a> {
    /// None yet; redrive's own tables are in this schema of each.
    pub(super) fn new(schema: Option<&'a SchemaName>) -> Self {
        Self { open: HashMap::new(), schema }
    }

    /// The database at this address.
    pub(super) fn open(&mut self, url: &DatabaseUrl) -> Result<Database, Error> {
        if let Some(database) = self.open.get(url) {
            return Ok(database.clone());
        }
        let mut database = Database::open(url.expose())?;
        if let Some(schema) = self.schema {
            database = database.with_own_schema(schema.as_str())?;
        }
        self.open.insert(url.clone(), database.clone());
        Ok(database)
    }

    /// The database at this address, if there is one.
    pub(super) fn open_optional(&mut self, url: Option<&DatabaseUrl>) -> Result<Option<Database>, Error> {
        url.map(|url| self.open(url)).transpose()
    }
}
