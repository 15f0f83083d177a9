//! Hearing of new work from a database that can tell.

use futures_util::future::BoxFuture;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};

use crate::database::PATIENCE;
use crate::dialect::Dialect;
use crate::error::Error;

/// A connection to Postgres that waits for notifications.
#[derive(Debug)]
pub struct Listener(PgListener);

impl Listener {
    pub(crate) fn connect<'a>(
        options: &'a PgConnectOptions,
        channel: &'a str,
    ) -> BoxFuture<'a, Result<Self, sqlx::Error>> {
        Box::pin(async move {
            let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(PATIENCE);
            let pool = pool.connect_with(options.clone()).await?;
            let mut listener = PgListener::connect_with(&pool).await?;
            listener.listen(channel).await?;
            Ok(Self(listener))
        })
    }

    /// Waits for the next notification. A lost connection counts as one, since some may be missed, and is made
    /// anew by the next call.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when it cannot be made anew.
    pub fn heard(&mut self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let heard = self.0.try_recv().await.map(drop);
            heard.map_err(|source| Error::from_driver(Dialect::Postgres, source))
        })
    }
}
