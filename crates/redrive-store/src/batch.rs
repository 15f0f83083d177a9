//! Settlements on their way into SQL: sorted by what they are, each kind as columns.
//!
//! Every batch is in the order of the numbers, so that two of them that meet in the database lock
//! their rows in the same order and one waits for the other.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::event::WorkId;
use redrive_core::failure::clean;
use redrive_core::lease::{Failed, Lease, Settlement};

use crate::error::Error;
use crate::row::Row;
use crate::value::{Column, Leases, Value};

/// The most failures, and the most of their text, that one statement carries: escaped twice it still fits into
/// the 16 MiB that MySQL takes at once.
const MAX_FAILURES: usize = 1_000;
const MAX_TEXT: usize = 1 << 20;

/// The longest delay or lease. A longer one would leave the range of the time columns, and its
/// statement would fail for the whole batch.
const MAX_DELAY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Settlements, sorted by what they are.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) open: Open,
    pub(crate) done: Leases,
    pub(crate) retry: Vec<Portion>,
    pub(crate) dead: Vec<Portion>,
    pub(crate) release: Vec<Portion>,
}

/// The columns of `batch_failures.sql`, as many rows as one statement carries.
pub(crate) type Portion = Arc<[Column]>;

impl Batch {
    pub(crate) fn of(settled: &[(Lease, Settlement)]) -> Self {
        let mut settled: Vec<_> = settled.iter().collect();
        settled.sort_unstable_by_key(|(lease, _)| key(lease));
        let mut done = Vec::new();
        let (mut retry, mut dead, mut release) =
            (Failures::default(), Failures::default(), Failures::default());
        for (lease, settlement) in &settled {
            match settlement {
                Settlement::Done => done.push(lease),
                Settlement::Retry { after, failed } => retry.push(lease, *after, Some(failed)),
                Settlement::Dead { failed } => dead.push(lease, Duration::ZERO, Some(failed)),
                Settlement::Suspect { after, failed } => release.push(lease, *after, Some(failed)),
                Settlement::Release { after } => release.push(lease, *after, None),
            }
        }
        Self {
            open: Open(settled.iter().map(|(lease, _)| key(lease)).collect()),
            done: Leases::of(done.into_iter()),
            retry: retry.finish(),
            dead: dead.finish(),
            release: release.finish(),
        }
    }

    pub(crate) fn is_all_done(&self) -> bool {
        !self.open.is_empty() && self.retry.is_empty() && self.dead.is_empty() && self.release.is_empty()
    }

    /// What is done, retried and dead, for one statement; none when it would not fit, or when something is
    /// handed back, which is rare.
    pub(crate) fn for_one_statement(&self) -> Option<[Value; 3]> {
        let retry = only(&self.retry)?;
        let dead = only(&self.dead)?;
        self.release
            .is_empty()
            .then(|| [Value::Leases(self.done.clone()), Value::Kept(retry), Value::Kept(dead)])
    }
}

/// The only portion, or an empty one.
fn only(portions: &[Portion]) -> Option<Portion> {
    match portions {
        [] => Some(Failures::default().columns()),
        [one] => Some(Arc::clone(one)),
        _ => None,
    }
}

fn key(lease: &Lease) -> (i64, i64) {
    (lease.work().0, lease.fence())
}

impl Leases {
    pub(crate) fn of<'a>(leases: impl Iterator<Item = &'a Lease>) -> Self {
        let mut keys: Vec<_> = leases.map(key).collect();
        keys.sort_unstable();
        keys.into_iter().collect()
    }

    /// Those of a batch of failures.
    pub(crate) fn of_failures(columns: &[Column]) -> Self {
        match columns {
            [Column::Ints(ids), Column::Ints(fences), ..] => {
                Self { ids: ids.clone(), fences: fences.clone() }
            }
            _ => Self::default(),
        }
    }
}

impl FromIterator<(i64, i64)> for Leases {
    fn from_iter<I: IntoIterator<Item = (i64, i64)>>(keys: I) -> Self {
        let (ids, fences) = keys.into_iter().unzip();
        Self { ids, fences }
    }
}

/// A delay or lease as the statements take it.
pub(crate) fn micros(duration: Duration) -> Value {
    Value::Int(whole_micros(duration))
}

pub(crate) fn whole_micros(duration: Duration) -> i64 {
    i64::try_from(duration.min(MAX_DELAY).as_micros()).unwrap_or(i64::MAX)
}

/// As much of the text as its column holds, without the NUL that Postgres refuses.
pub(crate) fn cut(text: &str, max: usize) -> String {
    match text.len() <= max && !text.contains('\0') {
        true => text.to_owned(),
        false => text.chars().filter(|c| *c != '\0').take(max).collect(),
    }
}

/// The leases of a batch that are not settled yet. A worker can hold two on the same work, when the
/// first ran out and it claimed the work again: at most one of them counts.
#[derive(Debug, Clone)]
pub(crate) struct Open(BTreeSet<(i64, i64)>);

impl Open {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> u64 {
        self.0.len() as u64
    }

    pub(crate) fn leases(&self) -> Leases {
        self.0.iter().copied().collect()
    }

    /// Strikes out what these rows, whose first column is a number, say is settled.
    pub(crate) fn settled(&mut self, rows: &[Row]) -> Result<(), Error> {
        for row in rows {
            let id = row.int(0)?;
            if let Some(latest) = self.0.range((id, i64::MIN)..=(id, i64::MAX)).next_back().copied() {
                self.0.remove(&latest);
            }
        }
        Ok(())
    }

    pub(crate) fn into_lost(self) -> Vec<WorkId> {
        self.0.into_iter().map(|(id, _)| WorkId(id)).collect()
    }
}

/// The columns of `batch_failures.sql`, in statements of at most [`MAX_FAILURES`].
#[derive(Debug, Default)]
struct Failures {
    finished: Vec<Portion>,
    text: usize,
    ids: Vec<i64>,
    leases: Vec<i64>,
    after: Vec<i64>,
    message: Vec<Option<String>>,
    class: Vec<Option<String>>,
    code: Vec<Option<String>>,
    kind: Vec<Option<String>>,
    fingerprint: Vec<Option<String>>,
    history: Vec<Option<String>>,
}

impl Failures {
    fn push(&mut self, lease: &Lease, after: Duration, failed: Option<&Failed>) {
        let failure = failed.map(|failed| &failed.failure);
        let code = failure.and_then(|failure| failure.code.as_ref());
        let history = failed.and_then(|failed| serde_json::to_string(&failed.history).ok());
        self.ids.push(lease.work().0);
        self.leases.push(lease.fence());
        self.after.push(whole_micros(after));
        self.message.push(failure.map(|failure| clean(&failure.message)));
        self.class.push(failure.map(|failure| failure.class.name().to_owned()));
        self.code.push(code.map(|code| cut(&code.to_string(), 100)));
        self.kind.push(failure.map(|failure| cut(&failure.kind, 255)));
        self.fingerprint.push(failed.map(|failed| failed.fingerprint.to_string()));
        self.text +=
            failure.map_or(0, |failure| failure.message.len()) + history.as_ref().map_or(0, String::len);
        self.history.push(history);
        if self.ids.len() == MAX_FAILURES || self.text >= MAX_TEXT {
            self.flush();
        }
    }

    fn finish(mut self) -> Vec<Portion> {
        self.flush();
        self.finished
    }

    fn flush(&mut self) {
        if self.ids.is_empty() {
            return;
        }
        let full = Self { finished: std::mem::take(&mut self.finished), ..Self::default() };
        let rows = std::mem::replace(self, full);
        self.finished.push(rows.columns());
    }

    fn columns(self) -> Portion {
        Arc::new([
            Column::Ints(self.ids),
            Column::Ints(self.leases),
            Column::Ints(self.after),
            Column::OptTexts(self.message),
            Column::OptTexts(self.class),
            Column::OptTexts(self.code),
            Column::OptTexts(self.kind),
            Column::OptTexts(self.fingerprint),
            Column::OptTexts(self.history),
        ])
    }
}
