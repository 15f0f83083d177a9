//! The bell of a pipeline: whoever has put work in rings it, and a worker looks at once.
//!
//! Nothing depends on it: a worker that nobody wakes looks by itself, at its poll interval.

use std::sync::Arc;
use std::time::Duration;

use redrive_store::Database;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

/// How long to wait before a database is listened to again.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Wakes the workers of a pipeline: there is something to do.
#[derive(Debug, Clone, Default)]
pub struct Bell(Arc<Notify>);

impl Bell {
    /// Wakes one worker; one that is busy looks again before it rests.
    pub fn ring(&self) {
        self.0.notify_one();
    }

    pub(crate) async fn rung(&self) {
        self.0.notified().await;
    }

    /// Rings at every notification of a database that has any; after a lost connection, too, since some may be
    /// missed. Ends when the database has nothing to say: it is not Postgres, or behind a pooler.
    pub(crate) async fn listen(&self, database: &Database, channel: &str) {
        let mut pause = FIRST_PAUSE;
        loop {
            let begun = Instant::now();
            if self.hear(database, channel).await.is_ok() {
                return;
            }
            self.ring();
            pause =
                if begun.elapsed() > LONGEST_PAUSE { FIRST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
            sleep(pause).await;
        }
    }

    async fn hear(&self, database: &Database, channel: &str) -> Result<(), ()> {
        let listener = database.listen(channel).await.map_err(|error| {
            tracing::debug!(%error, "cannot listen for notifications: polling goes on");
        })?;
        let Some(mut listener) = listener else { return Ok(()) };
        loop {
            self.ring();
            listener.heard().await.map_err(drop)?;
        }
    }
}
