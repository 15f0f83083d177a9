//! One `Database` per address, however many pipelines share it.

use std::collections::HashMap;

use redrive::config::DatabaseUrl;
use redrive_store::{Database, Error};

/// The databases that are in use.
#[derive(Default)]
pub(super) struct Databases {
    open: HashMap<DatabaseUrl, Database>,
}

impl Databases {
    /// The database at this address.
    pub(super) fn open(&mut self, url: &DatabaseUrl) -> Result<Database, Error> {
        if let Some(database) = self.open.get(url) {
            return Ok(database.clone());
        }
        let database = Database::open(url.expose())?;
        self.open.insert(url.clone(), database.clone());
        Ok(database)
    }

    /// The database at this address, if there is one.
    pub(super) fn open_optional(&mut self, url: Option<&DatabaseUrl>) -> Result<Option<Database>, Error> {
        url.map(|url| self.open(url)).transpose()
    }
}
