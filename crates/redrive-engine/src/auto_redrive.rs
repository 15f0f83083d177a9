//! Policies that redrive by themselves: per class or code, after a delay that grows, with a cap.
//!
//! They look for letters every few seconds, and read all that a rule may mean: so they rest in proportion to how
//! long that took. What they redrive is counted, logged and written into the audit log. A letter that a person
//! has closed or sent is left alone, as its queue says.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use metrics::counter;
use redrive_core::backoff::Backoff;
use redrive_core::dead_letter::{Filter, MAX_PAGE, Operator, Order, Page, Status, Summary, Unavailable};
use redrive_core::failure::Code;
use redrive_store::Audit;
use tokio::time::{Instant, sleep, timeout};
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
        // By its number: letters of one group do not come back together.
        let delay = self.delay.delay(letter.redrive_count.saturating_add(1), letter.number().cast_unsigned());
        let waited = now.duration_since(letter.failed_at);
        let due = delay.try_into().is_ok_and(|delay: SignedDuration| waited >= delay);
        meant && letter.redrive_count < self.max_redrives && due
    }

    fn filter(&self, now: Timestamp) -> Filter {
        let (class, code) = match &self.matches {
            Matches::Class(class) => (Some(class.clone()), None),
            Matches::Code(code) => (None, Some(code.to_string())),
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
/// Looks take at most one part in this many of the time.
const SHARE: u32 = 20;
/// When an answer of the store is given up: a server that vanished without a word never sends one.
const GIVE_UP: Duration = Duration::from_secs(60);

/// Applies the rules until it is told to stop.
pub(crate) async fn apply(
    pipeline: Arc<Pipeline>,
    rules: Vec<Rule>,
    audit: Option<Arc<Audit>>,
    interval: Duration,
    stop: CancellationToken,
) {
    let operator = Operator::new("auto-redrive");
    let mut pause = interval;
    while stop.run_until_cancelled(sleep(pause)).await.is_some() {
        let begun = Instant::now();
        for rule in &rules {
            let now = Timestamp::now();
            // Nothing is changed by looking: a stop need not wait for it.
            let Some(due) =
                stop.run_until_cancelled(in_time(&pipeline, find_due(&pipeline, rule, now))).await
            else {
                return;
            };
            let order = Order::new(&operator, &format!("policy, {now}"));
            match redrive(&pipeline, due, &order).await {
                Ok(0) => {}
                Ok(letters) => tell(&pipeline, rule, letters, &operator, audit.as_deref()).await,
                Err(error) => tracing::warn!(%error, "a policy could not redrive"),
            }
        }
        pause = interval.max(begun.elapsed() * SHARE);
    }
}

async fn redrive(
    pipeline: &Pipeline,
    due: Result<Vec<String>, Unavailable>,
    order: &Order,
) -> Result<u64, Unavailable> {
    let due = due?;
    if due.is_empty() {
        return Ok(0);
    }
    let acted = in_time(pipeline, pipeline.letters.redrive(&due, order)).await?;
    Ok(acted.done.len() as u64)
}

/// The letters that are due now, newest first.
async fn find_due(pipeline: &Pipeline, rule: &Rule, now: Timestamp) -> Result<Vec<String>, Unavailable> {
    let filter = rule.filter(now);
    let mut page = Page::first(MAX_PAGE);
    let mut due = Vec::new();
    loop {
        let listing = pipeline.letters.list(&filter, page).await?;
        let letters = listing.letters.into_iter().filter(|letter| rule.is_due(letter, now));
        due.extend(letters.map(|letter| letter.id.local));
        match listing.next {
            Some(next) if due.len() < PER_LOOK => page = page.after(next),
            _ => return Ok(due),
        }
    }
}

async fn in_time<T>(
    pipeline: &Pipeline,
    call: impl Future<Output = Result<T, Unavailable>>,
) -> Result<T, Unavailable> {
    timeout(GIVE_UP, call).await.unwrap_or_else(|_| {
        let source = format!("no answer within {GIVE_UP:?}").into();
        Err(Unavailable { pipeline: pipeline.name.clone(), source })
    })
}

/// What was done is done, whether or not it can be written down now.
async fn tell(pipeline: &Pipeline, rule: &Rule, letters: u64, operator: &Operator, audit: Option<&Audit>) {
    let (name, note) = (&pipeline.name, format!("by policy: {}", rule.matches));
    counter!("redrive_auto_redriven_total", "pipeline" => name.clone()).increment(letters);
    tracing::info!(pipeline = %name, letters, rule = %rule.matches, "redriven by policy");
    pipeline.bell.ring();
    let Some(audit) = audit else { return };
    if let Err(error) = audit.record(operator, "redrive", name, letters, &note).await {
        tracing::error!(pipeline = %name, letters, note, %error, "redriven by policy, but not in the audit log");
    }
}

#[cfg(test)]
mod tests {
    use redrive_core::dead_letter::{LetterId, PipelineKind};
    use redrive_core::event::NewEvent;
    use redrive_core::failure::Failure;
    use redrive_core::fingerprint::Fingerprint;
    use redrive_core::lease::{Failed, Settlement};
    use redrive_core::policy::Policy;
    use redrive_store::{Claim, Database, Outbox, OutboxOptions, TakeOver, WorkStore as _};

    use super::*;

    fn letter(number: i64) -> Summary {
        let failure = Failure::transient("Timeout", "no answer");
        Summary {
            id: LetterId::new("orders", number),
            kind: PipelineKind::Outbox,
            event_type: "A".into(),
            key: "1".into(),
            fingerprint: Fingerprint::of("orders", "A", &failure),
            failure,
            attempts: 6,
            failed_at: Timestamp::UNIX_EPOCH,
            status: Status::Open,
            redrive_count: 0,
        }
    }

    fn transient(delay: Duration) -> Rule {
        let delay = Backoff::new(delay, 1.0, delay).unwrap();
        Rule { matches: Matches::Class("transient".into()), delay, max_redrives: 1 }
    }

    /// All of a group came back in the same moment, to a service that was just getting up.
    #[test]
    fn letters_of_one_group_do_not_come_back_together() {
        let rule = transient(Duration::from_secs(1_000));
        let due = |second| {
            let now = Timestamp::from_second(second).unwrap();
            (0..100).filter(|number| rule.is_due(&letter(*number), now)).count()
        };
        assert_eq!((due(499), due(1_000)), (0, 100));
        assert!((20..=80).contains(&due(750)), "{}", due(750));
    }

    /// It was due at once: a delay that is too long for the clock counted as none.
    #[test]
    fn a_delay_without_end_never_ends() {
        let now = "2200-01-01T00:00:00Z".parse().unwrap();
        assert!(!transient(Duration::MAX).is_due(&letter(1), now));
    }

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
