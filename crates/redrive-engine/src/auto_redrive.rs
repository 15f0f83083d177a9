//! Policies that redrive by themselves: per class or code, after a delay that grows, with a cap.
//!
//! They look for letters every few seconds, and read all that a rule may mean: so they rest in proportion to how
//! long that took. What they redrive is counted, logged and written into the audit log. A letter that a person
//! has closed or sent is left alone, as its queue says.
//!
//! What they redrive is followed: when nearly all of it fails again, the rule rests for some minutes (`fuse`), and
//! that is logged, written down and shown as `redrive_auto_redrive_suspended`.

mod followed;
mod fuse;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use metrics::{counter, gauge};
use redrive_core::backoff::Backoff;
use redrive_core::dead_letter::{
    Filter, MAX_PAGE, Operator, Order, Page, PipelineKind, Status, Summary, Unavailable,
};
use redrive_core::failure::Code;
use redrive_store::Audit;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use self::followed::{Followed, News};
use self::fuse::{Change, Fuse};
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

    fn filter(&self, status: Status, now: Timestamp) -> Filter {
        let (class, code) = match &self.matches {
            Matches::Class(class) => (Some(class.clone()), None),
            Matches::Code(code) => (None, Some(code.to_string())),
        };
        // Half of the first step is the earliest that jitter allows.
        let until = now.checked_sub(self.delay.initial() / 2).unwrap_or(now);
        // Those that have had their redrives are not read again and again.
        let redriven_below = Some(self.max_redrives);
        Filter { status: Some(status), code, class, until: Some(until), redriven_below, ..Filter::default() }
    }
}

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
    let office = Office { pipeline, audit, operator: Operator::new("auto-redrive") };
    let mut rules: Vec<Applied> = rules.into_iter().map(Applied::from).collect();
    rules.iter().for_each(|applied| office.show(&applied.rule, Rest::Over));
    let mut pause = interval;
    while stop.run_until_cancelled(sleep(pause)).await.is_some() {
        let begun = Instant::now();
        for applied in &mut rules {
            if let Err(error) = office.apply(applied, begun, &stop).await {
                tracing::warn!(%error, "a policy could not redrive");
            }
            if stop.is_cancelled() {
                return;
            }
        }
        pause = interval.max(begun.elapsed() * SHARE);
    }
}

/// A rule at work.
struct Applied {
    rule: Rule,
    fuse: Fuse,
    followed: Followed,
}

impl From<Rule> for Applied {
    fn from(rule: Rule) -> Self {
        Self { rule, fuse: Fuse::default(), followed: Followed::default() }
    }
}

/// Whether a rule rests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    Begun,
    Over,
}

/// Where the rules of one pipeline are applied.
struct Office {
    pipeline: Arc<Pipeline>,
    audit: Option<Arc<Audit>>,
    operator: Operator,
}

impl Office {
    /// Sees what became of the letters that the rule has sent, and sends those that are due, as many as may be.
    async fn apply(
        &self,
        applied: &mut Applied,
        begun: Instant,
        stop: &CancellationToken,
    ) -> Result<(), Unavailable> {
        // Nothing is changed by looking: a stop need not wait for it.
        let Some(followed) = stop.run_until_cancelled(self.follow(applied, begun)).await else {
            return Ok(());
        };
        followed?;
        let room = applied.fuse.room(applied.followed.unknown(), begun.into_std());
        if room == 0 {
            return Ok(());
        }
        let now = Timestamp::now();
        let looking = self.in_time(find_due(&self.pipeline, &applied.rule, room, now));
        let Some(due) = stop.run_until_cancelled(looking).await else { return Ok(()) };
        let due = due?;
        if due.is_empty() {
            return Ok(());
        }
        let order = Order::new(&self.operator, &format!("policy, {now}"));
        let sent = self.in_time(self.pipeline.letters.redrive(&due, &order)).await?.done;
        if !sent.is_empty() {
            self.tell_sent(&applied.rule, sent.len() as u64).await;
        }
        applied.fuse.sent(sent.len());
        applied.followed.add(sent);
        Ok(())
    }

    async fn follow(&self, applied: &mut Applied, now: Instant) -> Result<(), Unavailable> {
        let ids = applied.followed.ids();
        if ids.is_empty() {
            return Ok(());
        }
        let outcomes = self.in_time(self.pipeline.letters.outcomes(&ids)).await?;
        for news in applied.followed.learn(&outcomes) {
            let change = match news {
                News::GotThrough => applied.fuse.note_success(),
                News::FailedAgain => applied.fuse.note_failure(now.into_std()),
            };
            match change {
                Change::None => {}
                Change::Blown(pause) => self.tell_suspended(&applied.rule, pause).await,
                Change::Mended => self.tell_resumed(&applied.rule).await,
            }
        }
        Ok(())
    }

    async fn in_time<T>(&self, call: impl Future<Output = Result<T, Unavailable>>) -> Result<T, Unavailable> {
        timeout(GIVE_UP, call).await.unwrap_or_else(|_| {
            let source = format!("no answer within {GIVE_UP:?}").into();
            Err(Unavailable { pipeline: self.pipeline.name.clone(), source })
        })
    }

    async fn tell_sent(&self, rule: &Rule, letters: u64) {
        let (name, matches) = (&self.pipeline.name, &rule.matches);
        counter!("redrive_auto_redriven_total", "pipeline" => name.clone()).increment(letters);
        tracing::info!(pipeline = %name, letters, rule = %matches, "redriven by policy");
        self.pipeline.bell.ring();
        self.write_down("redrive", letters, &format!("by policy: {matches}")).await;
    }

    async fn tell_suspended(&self, rule: &Rule, pause: Duration) {
        let (name, matches, minutes) = (&self.pipeline.name, &rule.matches, pause.as_secs() / 60);
        tracing::warn!(pipeline = %name, rule = %matches, minutes, "a policy rests: its letters fail again when they are redriven");
        self.show(rule, Rest::Begun);
        let note = format!(
            "policy {matches} rests for {minutes} minutes: its letters fail again when they are redriven"
        );
        self.write_down("suspend", 0, &note).await;
    }

    async fn tell_resumed(&self, rule: &Rule) {
        let (name, matches) = (&self.pipeline.name, &rule.matches);
        tracing::info!(pipeline = %name, rule = %matches, "a policy goes on: a letter got through");
        self.show(rule, Rest::Over);
        self.write_down("resume", 0, &format!("policy {matches} goes on: a letter got through")).await;
    }

    fn show(&self, rule: &Rule, rest: Rest) {
        let labels = [("pipeline", self.pipeline.name.clone()), ("rule", rule.matches.to_string())];
        let rests = u8::from(rest == Rest::Begun);
        gauge!("redrive_auto_redrive_suspended", &labels).set(f64::from(rests));
    }

    /// What was done is done, whether or not it can be written down now.
    async fn write_down(&self, action: &str, letters: u64, note: &str) {
        let (Some(audit), name) = (&self.audit, &self.pipeline.name) else { return };
        if let Err(error) = audit.record(&self.operator, action, name, letters, note).await {
            tracing::error!(pipeline = %name, letters, note, %error, "done by policy, but not in the audit log");
        }
    }
}

/// So many of the letters that are due now, newest first.
async fn find_due(
    pipeline: &Pipeline,
    rule: &Rule,
    most: usize,
    now: Timestamp,
) -> Result<Vec<String>, Unavailable> {
    let mut due = Vec::new();
    for status in sendable(pipeline.kind) {
        let filter = rule.filter(*status, now);
        let mut page = Page::first(MAX_PAGE);
        while due.len() < most {
            let listing = pipeline.letters.list(&filter, page).await?;
            let letters = listing.letters.into_iter().filter(|letter| rule.is_due(letter, now));
            due.extend(letters.map(|letter| letter.id.local));
            let Some(next) = listing.next else { break };
            page = page.after(next);
        }
    }
    due.truncate(most);
    Ok(due)
}

/// Which letters a rule may send. One that was handed in is `failed` after its first redrive, where others are open
/// again: how often it is sent, its rule says.
const fn sendable(kind: PipelineKind) -> &'static [Status] {
    match kind {
        PipelineKind::Intake => &[Status::Open, Status::Failed],
        _ => &[Status::Open],
    }
}

#[cfg(test)]
mod tests {
    use redrive_core::dead_letter::LetterId;
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

    /// An outbox with so many letters of class `transient`, and the log of what is done to them.
    struct Stage {
        _database: redrive_testkit::TestDatabase,
        outbox: Arc<Outbox>,
        office: Office,
        audit: Arc<Audit>,
    }

    impl Stage {
        async fn with_letters(many: usize) -> Self {
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
            outbox.append(vec![event; many]).await.unwrap();
            let kind = PipelineKind::Outbox;
            let policy = Policy::new(1, millisecond());
            let pipeline = Arc::new(Pipeline::new("orders", kind, outbox.clone(), outbox.clone(), policy));
            let operator = Operator::new("auto-redrive");
            let office = Office { pipeline, audit: Some(Arc::clone(&audit)), operator };
            let stage = Self { _database: database, outbox, office, audit };
            assert_eq!(stage.works(|_| true).await, many);
            stage
        }

        /// Does everything that there is to do, and says how much; what fails is dead.
        async fn works(&self, fails: impl Fn(usize) -> bool) -> usize {
            let (worker, lease) = ("test".to_owned(), Duration::from_secs(600));
            let claim = Claim { worker, limit: 10_000, lease, take_over: TakeOver::Never };
            let claimed = self.outbox.turn(&mut Vec::new(), Some(&claim)).await.unwrap().claimed;
            let settle = |(at, (lease, work)): (usize, (_, _))| {
                let failure = Failure::transient("Timeout", "no answer");
                let failed = Failed::new("orders", &work, failure, Timestamp::now());
                (lease, if fails(at) { Settlement::Dead { failed } } else { Settlement::Done })
            };
            let mut settled: Vec<_> = claimed.into_iter().enumerate().map(settle).collect();
            let many = settled.len();
            self.outbox.turn(&mut settled, None).await.unwrap();
            many
        }

        /// The actions in the audit log, oldest first, with how many letters each was about.
        async fn written(&self) -> Vec<(String, u64)> {
            let entries = self.audit.list(None, 100).await.unwrap();
            entries.into_iter().rev().map(|entry| (entry.action, entry.count)).collect()
        }
    }

    fn millisecond() -> Backoff {
        Backoff::new(Duration::from_millis(1), 1.0, Duration::from_millis(1)).unwrap()
    }

    fn endless() -> Rule {
        let max_redrives = 1_000;
        Rule { matches: Matches::Class("transient".into()), delay: millisecond(), max_redrives }
    }

    /// A service that was down was called 1,500 times in 45 seconds.
    #[tokio::test]
    async fn a_rule_whose_letters_keep_failing_rests_and_tries_a_few_before_it_goes_on() {
        let stage = Stage::with_letters(700).await;
        let (mut applied, stop, begun) = (Applied::from(endless()), CancellationToken::new(), Instant::now());
        let minute = Duration::from_secs(60);
        let mut calls = Vec::new();
        // Two minutes of rest, five probes, four minutes of rest, five probes: and one of those gets through.
        for (minutes, fails) in [(0, true), (0, true), (1, true), (2, true), (4, true), (8, false), (8, true)]
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
            stage.office.apply(&mut applied, begun + minute * minutes, &stop).await.unwrap();
            calls.push(stage.works(|at| fails || at > 0).await);
        }
        assert_eq!(calls, [300, 0, 0, 5, 0, 5, 699]);
        let written = stage.written().await;
        let actions: Vec<&str> = written.iter().map(|(action, _)| action.as_str()).collect();
        assert_eq!(actions, ["redrive", "suspend", "redrive", "suspend", "redrive", "resume", "redrive"]);
    }

    /// Letters went back by policy, and the audit log knew nothing of it.
    #[tokio::test]
    async fn what_a_policy_redrives_is_in_the_audit_log() {
        let stage = Stage::with_letters(1).await;
        let rule = Rule { max_redrives: 1, ..endless() };
        let stop = CancellationToken::new();
        let applying = tokio::spawn(apply(
            Arc::clone(&stage.office.pipeline),
            vec![rule],
            Some(Arc::clone(&stage.audit)),
            Duration::from_millis(5),
            stop.clone(),
        ));
        let audit = &stage.audit;
        let written = || async { !audit.list(None, 10).await.unwrap().is_empty() };
        redrive_testkit::eventually(redrive_testkit::PATIENCE, "it is written down", written).await;
        stop.cancel();
        applying.await.unwrap();
        let entries = audit.list(None, 10).await.unwrap();
        let entry = &entries[0];
        assert_eq!((entries.len(), entry.operator.as_str(), entry.count), (1, "auto-redrive", 1));
        assert_eq!((entry.subject.as_str(), entry.note.as_str()), ("orders", "by policy: class transient"));
    }
}
