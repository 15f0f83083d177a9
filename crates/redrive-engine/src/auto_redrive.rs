//! Policies that redrive by themselves: per class or code, after a delay that grows, with a cap.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use metrics::counter;
use redrive_core::backoff::Backoff;
use redrive_core::dead_letter::{Filter, Operator, Order, Page, Status, Summary, Unavailable};
use redrive_core::failure::Code;
use tokio_util::sync::CancellationToken;

use crate::pipeline::Pipeline;

/// Which letters a rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Matches {
    /// Failures of this class, by name.
    Class(String),
    /// Failures with this code.
    Code(Code),
}

/// A rule: these letters are redriven after a delay, so many times.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Which letters.
    pub matches: Matches,
    /// How long after the failure; longer each time.
    pub delay: Backoff,
    /// How many times at most.
    pub max_redrives: u32,
}

impl Rule {
    /// Whether the letter is due for a redrive by this rule.
    #[must_use]
    pub fn is_due(&self, letter: &Summary, now: Timestamp) -> bool {
        let meant = match &self.matches {
            Matches::Class(class) => letter.failure.class.name() == class,
            Matches::Code(code) => letter.failure.code.as_ref() == Some(code),
        };
        let delay = self.delay.delay(letter.redrive_count.saturating_add(1), letter.fingerprint.to_bits());
        let waited = now.duration_since(letter.failed_at);
        meant && letter.redrive_count < self.max_redrives && waited >= delay.try_into().unwrap_or_default()
    }

    fn filter(&self, now: Timestamp) -> Filter {
        let code = match &self.matches {
            Matches::Code(code) => Some(code.to_string()),
            Matches::Class(_) => None,
        };
        let class = match &self.matches {
            Matches::Class(class) => Some(class.clone()),
            Matches::Code(_) => None,
        };
        // Half of the first step is the earliest that jitter allows.
        let until = now.checked_sub(self.delay.initial() / 2).unwrap_or(now);
        // Those that have had their redrives are not read again and again.
        let redriven_below = Some(self.max_redrives);
        Filter {
            status: Some(Status::Open),
            code,
            class,
            until: Some(until),
            redriven_below,
            ..Filter::default()
        }
    }
}

/// The most letters that one look redrives, per rule: the rest comes with the next look.
const PER_LOOK: usize = 1_000;

/// Applies the rules until it is told to stop.
pub(crate) async fn apply(
    pipeline: Arc<Pipeline>,
    rules: Vec<Rule>,
    interval: Duration,
    stop: CancellationToken,
) {
    let operator = Operator::new("auto-redrive");
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(interval) => {}
        }
        for rule in &rules {
            match redrive(&pipeline, rule, &operator).await {
                Ok(0) => {}
                Ok(letters) => {
                    counter!("redrive_auto_redriven_total", "pipeline" => pipeline.name.clone())
                        .increment(letters);
                    tracing::info!(pipeline = %pipeline.name, letters, rule = ?rule.matches, "redriven by policy");
                    pipeline.bell.ring();
                }
                Err(error) => tracing::warn!(%error, "a policy could not redrive"),
            }
        }
    }
}

async fn redrive(pipeline: &Pipeline, rule: &Rule, operator: &Operator) -> Result<u64, Unavailable> {
    let now = Timestamp::now();
    let filter = rule.filter(now);
    let mut page = Page::first(500);
    let mut due = Vec::new();
    loop {
        let listing = pipeline.letters.list(&filter, page).await?;
        due.extend(
            listing
                .letters
                .iter()
                .filter(|letter| rule.is_due(letter, now))
                .map(|letter| letter.id.local.clone()),
        );
        match listing.next {
            Some(next) if due.len() < PER_LOOK => page = page.after(next),
            _ => break,
        }
    }
    if due.is_empty() {
        return Ok(0);
    }
    let order = Order::new(operator, &format!("policy, {now}"));
    Ok(pipeline.letters.redrive(&due, &order).await?.done.len() as u64)
}
