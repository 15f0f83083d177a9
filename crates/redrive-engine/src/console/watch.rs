//! What the console does by itself: the first census, and the books now and then.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::books::Balance;
use redrive_core::dead_letter::{PipelineKind, Unavailable};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{Console, Desk};

/// When letters are counted first: tables may have to be made before.
const FIRST_LOOK: Duration = Duration::from_millis(500);
/// When the books are checked first, and how often: it looks at every row.
const FIRST_VERIFY: Duration = Duration::from_secs(30);
const VERIFY_EVERY: Duration = Duration::from_secs(600);
/// It takes at most one part in this many of the time.
const VERIFY_SHARE: u32 = 100;

impl Console {
    /// Takes the first census of every pipeline, so that nobody waits for it.
    pub async fn look_around(self: Arc<Self>, stop: CancellationToken) {
        let mut pause = FIRST_LOOK;
        while stop.run_until_cancelled(sleep(pause)).await.is_some() {
            let looked = stop.run_until_cancelled(self.overviews()).await;
            if looked.is_none_or(|overviews| overviews.iter().all(|overview| overview.stats.is_some())) {
                return;
            }
            pause = (pause * 2).min(VERIFY_EVERY);
        }
    }

    /// Where everything is that each pipeline ever accepted; what a store said that does not answer.
    pub async fn verify(&self) -> Vec<(String, PipelineKind, Result<Balance, String>)> {
        let asked = self.desks.values().map(|desk| desk.queue.balance());
        let answers = futures_util::future::join_all(asked).await;
        let balance = |(desk, answer): (&Desk, Result<Balance, Unavailable>)| {
            let answer = answer.map_err(|error| error.source.to_string());
            (desk.queue.pipeline().to_owned(), desk.queue.kind(), answer)
        };
        self.desks.values().zip(answers).map(balance).collect()
    }

    /// Checks the books now and then, and shows what is missing as `redrive_conservation_gap`.
    pub async fn keep_verifying(self: Arc<Self>, stop: CancellationToken) {
        let mut pause = FIRST_VERIFY;
        while stop.run_until_cancelled(sleep(pause)).await.is_some() {
            let begun = Instant::now();
            let Some(answers) = stop.run_until_cancelled(self.verify()).await else { return };
            for (pipeline, _, answer) in answers {
                if let Ok(balance) = answer {
                    show_gap(&pipeline, balance);
                }
            }
            pause = VERIFY_EVERY.max(begun.elapsed() * VERIFY_SHARE);
        }
    }
}

fn show_gap(pipeline: &str, balance: Balance) {
    let gap = balance.gap();
    metrics::gauge!("redrive_conservation_gap", "pipeline" => pipeline.to_owned()).set(gap as f64);
    if gap != 0 {
        tracing::error!(pipeline, gap, ?balance, "the books do not balance");
    }
}
