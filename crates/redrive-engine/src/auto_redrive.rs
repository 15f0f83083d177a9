//! Policies that redrive by themselves: per class or code, after a delay that grows, with a cap.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use metrics::counter;
use redrive_core::backoff::Backoff;
use redrive_core::dead_letter::{Filter, Operator, Order, Page, Status, Summary, Unavailable};
use redrive_core::failure::Code;
use redrive_store::Audit;
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

impl fmt::Display for Matches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Class(class) => write!(f, "class {class}"),
            Self::Code(code) => write!(f, "code {code}"),
        }
    }
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
    audit: Option<Arc<Audit>>,
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
                    if let Some(audit) = &audit {
                        write_down(audit, &operator, &pipeline.name, rule, letters).await;
                    }
                }
                Err(error) => tracing::warn!(%error, "a policy could not redrive"),
            }
        }
    }
}

/// What was done is done, whether or not it can be written down now.
async fn write_down(audit: &Audit, operator: &Operator, pipeline: &str, rule: &Rule, letters: u64) {
    let note = format!("by policy: {}", rule.matches);
    if let Err(error) = audit.record(operator, "redrive", pipeline, letters, &note).await {
        tracing::error!(pipeline, letters, note, %error, "redriven by policy, but not in the audit log");
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

#[cfg(test)]
mod tests {
    use redrive_core::dead_letter::PipelineKind;
    use redrive_core::event::NewEvent;
    use redrive_core::failure::Failure;
    use redrive_core::lease::{Failed, Settlement};
    use redrive_core::policy::Policy;
    use redrive_store::{Claim, Database, Outbox, OutboxOptions, TakeOver, WorkStore as _};

    use super::*;

    /// Letters went back by policy, and the audit log knew nothing of it.
    #[tokio::test]
    async fn what_a_policy_redrives_is_in_the_audit_log() {
        let database = redrive_testkit::sqlite();
        let connections = Database::connect(&database.url).await.unwrap();
        let outbox = Arc::new(Outbox::new(connections.clone(), OutboxOptions::new("orders")).unwrap());
        outbox.migrate().await.unwrap();
        let audit = Arc::new(Audit::new(connections));
        audit.migrate().await.unwrap();
        let event = NewEvent {
            event_type: "A".into(),
            aggregate_type: String::new(),
            aggregate_id: "1".into(),
            payload: "{}".into(),
        };
        outbox.append(vec![event]).await.unwrap();
        let (worker, lease) = ("test".to_owned(), Duration::from_secs(60));
        let claim = Claim { worker, limit: 1, lease, take_over: TakeOver::Never };
        let (lease, work) = outbox.turn(&mut Vec::new(), Some(&claim)).await.unwrap().claimed.remove(0);
        let failure = Failure::transient("Timeout", "no answer");
        let failed = Failed::new("orders", &work, failure, Timestamp::now());
        outbox.turn(&mut vec![(lease, Settlement::Dead { failed })], None).await.unwrap();

        let backoff = Backoff::new(Duration::from_millis(1), 1.0, Duration::from_millis(1)).unwrap();
        let kind = PipelineKind::Outbox;
        let pipeline = Pipeline::new("orders", kind, outbox.clone(), outbox.clone(), Policy::new(1, backoff));
        let rule = Rule { matches: Matches::Class("transient".into()), delay: backoff, max_redrives: 1 };
        let stop = CancellationToken::new();
        let applying = tokio::spawn(apply(
            Arc::new(pipeline),
            vec![rule],
            Some(Arc::clone(&audit)),
            Duration::from_millis(5),
            stop.clone(),
        ));
        let written = || async { !audit.list(None, 10).await.unwrap().is_empty() };
        redrive_testkit::eventually(Duration::from_secs(10), "it is written down", written).await;
        stop.cancel();
        applying.await.unwrap();
        let entries = audit.list(None, 10).await.unwrap();
        let entry = &entries[0];
        assert_eq!((entries.len(), entry.operator.as_str(), entry.count), (1, "auto-redrive", 1));
        assert_eq!((entry.subject.as_str(), entry.note.as_str()), ("orders", "by policy: class transient"));
    }
}
