//! Hearing of new work from a database that can tell.

use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};

use crate::deadlines::within;
use crate::dialect::Dialect;
use crate::error::Error;

/// A connection to Postgres that waits for notifications. As everything that talks to a driver, it is in a box, to
/// be compiled, and dropped, in this crate alone.
#[derive(Debug)]
pub struct Listener(Box<dyn Notified>);

trait Notified: Send + std::fmt::Debug {
    fn next(&mut self) -> BoxFuture<'_, Result<(), sqlx::Error>>;
}

impl Notified for PgListener {
    fn next(&mut self) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        Box::pin(async { self.try_recv().await.map(drop) })
    }
}

impl Listener {
    pub(crate) fn connect<'a>(
        options: PgConnectOptions,
        channel: &'a str,
        deadline: Duration,
    ) -> BoxFuture<'a, Result<Self, sqlx::Error>> {
        Box::pin(async move {
            let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(deadline);
            let connecting = async {
                let pool = pool.connect_with(options).await?;
                let mut listener = PgListener::connect_with(&pool).await?;
                listener.listen(channel).await?;
                Ok(listener)
            };
            let listener = within(deadline, connecting).await?;
            Ok(Self(Box::new(listener)))
        })
    }

    /// Waits for the next notification. A lost connection counts as one, since some may be missed, and is made
    /// anew by the next call.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when it cannot be made anew.
    pub async fn heard(&mut self) -> Result<(), Error> {
        self.0.next().await.map_err(|source| Error::from_driver(Dialect::Postgres, source))
    }
}
