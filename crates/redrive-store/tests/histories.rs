//! Random histories: whatever is done to a store, in whatever order, it ends where the model ends.
//!
//! The model is the in-memory store, which asks the state table. Both are driven through the same
//! steps; after each of them every piece of work is in the same state in both, the same settlements
//! were lost and the same work was claimed.

#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

mod common;

use std::future::Future;
use std::time::Duration;

use common::{LONG, NOW, failed, failed_events, jobs, letters, outbox, timeout};
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use redrive_core::event::WorkId;
use redrive_core::lease::{Lease, Settlement, Work};
use redrive_core::state::{Machine, Step};
use redrive_store::conformance::{
    FailedEventsSubject, JobsSubject, LettersSubject, MemorySubject, OutboxSubject, Subject,
};
use redrive_store::{Claim, JobsOptions, Memory, OutboxOptions, TakeOver, Turn};
use redrive_testkit::{self as testkit, Backend, TestDatabase};

/// Something that is done to a store. The numbers choose among what there is.
#[derive(Debug, Clone)]
enum Act {
    Append(usize),
    /// Claims everything that is due.
    Claim {
        lease: Duration,
        take_over: TakeOver,
    },
    /// Claims a part of what is due, and hands it back.
    ClaimSome(u32),
    /// Settles leases, stale or fresh, and perhaps claims everything in the same turn.
    Settle {
        leases: Vec<(usize, Kind)>,
        claim: Option<Duration>,
    },
    Extend {
        leases: Vec<usize>,
        by: Duration,
    },
    Redrive(usize),
    Resolve(usize),
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Done,
    Retry(Duration),
    Dead,
    Release(Duration),
}

impl Kind {
    /// What may be tried again at once is claimed in the same turn or in the next: there stores differ.
    fn beside(self, claim: Option<&Claim>) -> Self {
        match (self, claim) {
            (Self::Retry(_), Some(_)) => Self::Retry(LONG),
            (kind, _) => kind,
        }
    }

    fn settlement(self, work: &Work) -> Settlement {
        match self {
            Self::Done => Settlement::Done,
            Self::Retry(after) => Settlement::Retry { after, failed: failed(work, &timeout()) },
            Self::Dead => Settlement::Dead { failed: failed(work, &timeout()) },
            Self::Release(after) => Settlement::Release { after },
        }
    }
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let time = || prop_oneof![3 => Just(NOW), 1 => Just(LONG)];
    let kind = prop_oneof![
        2 => Just(Kind::Done),
        2 => time().prop_map(Kind::Retry),
        3 => Just(Kind::Dead),
        1 => time().prop_map(Kind::Release),
    ];
    let take_over = || prop_oneof![3 => Just(TakeOver::Expired), 1 => Just(TakeOver::Never)];
    let leases = proptest::collection::vec((any::<usize>(), kind), 0..5);
    let act = prop_oneof![
        3 => (1..4usize).prop_map(Act::Append),
        5 => (time(), take_over()).prop_map(|(lease, take_over)| Act::Claim { lease, take_over }),
        1 => (0..4u32).prop_map(Act::ClaimSome),
        6 => (leases, proptest::option::of(time())).prop_map(|(leases, claim)| Act::Settle { leases, claim }),
        1 => (proptest::collection::vec(any::<usize>(), 0..3), time())
            .prop_map(|(leases, by)| Act::Extend { leases, by }),
        3 => any::<usize>().prop_map(Act::Redrive),
        1 => any::<usize>().prop_map(Act::Resolve),
    ];
    proptest::collection::vec(act, 1..25)
}

/// A lease that was given out, and what for.
type Held = (Lease, Work);

/// A store and its model, and what is known about both.
struct Pair<'a, S: Subject> {
    model: MemorySubject<S::State>,
    store: &'a S,
    /// The numbers of the same work in the model and in the store, in the order of their creation.
    /// Where a redrive makes new work, the store's number shows when it is first claimed.
    work: Vec<(WorkId, Option<WorkId>)>,
    /// Leases on the same work, in the model and in the store.
    held: Vec<(Held, Held)>,
}

fn request(limit: u32, lease: Duration, take_over: TakeOver) -> Claim {
    Claim { worker: "history".into(), limit, lease, take_over }
}

impl<'a, S: Subject> Pair<'a, S> {
    /// The store may have been used before: what it still holds is finished first.
    async fn new(store: &'a S) -> Self {
        let claim = request(100_000, LONG, TakeOver::Expired);
        let left = store.store().turn(&mut Vec::new(), Some(&claim)).await.unwrap().claimed;
        store.store().turn(&mut common::done(left), None).await.unwrap();
        Self { model: MemorySubject(Memory::new()), store, work: Vec::new(), held: Vec::new() }
    }

    async fn act(&mut self, act: &Act) {
        match act {
            Act::Append(count) => self.append(*count).await,
            Act::Claim { lease, take_over } => {
                self.turn(&[], Some(request(100_000, *lease, *take_over))).await;
            }
            Act::ClaimSome(limit) => self.claim_some(*limit).await,
            Act::Settle { leases, claim } => {
                self.turn(leases, claim.map(|lease| request(100_000, lease, TakeOver::Expired))).await;
            }
            Act::Extend { leases, by } => self.extend(leases, *by).await,
            Act::Redrive(at) => self.operate(*at, Step::Redrive).await,
            Act::Resolve(at) => self.operate(*at, Step::Resolve).await,
        }
    }

    async fn append(&mut self, count: usize) {
        let (model, store) = (self.model.add(count).await, self.store.add(count).await);
        assert!(store.len() == count && store.is_sorted());
        self.work.extend(model.into_iter().zip(store.into_iter().map(Some)));
    }

    async fn turn(&mut self, leases: &[(usize, Kind)], claim: Option<Claim>) {
        let (mut in_model, mut in_store) = (Vec::new(), Vec::new());
        for (at, kind) in leases {
            if self.held.is_empty() {
                break;
            }
            let kind = kind.beside(claim.as_ref());
            let ((one, work), (other, same)) = self.held.swap_remove(at % self.held.len());
            in_model.push((one, kind.settlement(&work)));
            in_store.push((other, kind.settlement(&same)));
        }
        let model = self.model.store().turn(&mut in_model, claim.as_ref()).await.unwrap();
        let store = self.store.store().turn(&mut in_store, claim.as_ref()).await.unwrap();
        assert!(in_store.is_empty());
        self.compare(model, store);
    }

    /// The same was lost; as much was claimed, and it is the same as far as that is known.
    fn compare(&mut self, model: Turn, store: Turn) {
        let mut lost: Vec<WorkId> = model.lost.iter().map(|id| self.in_store(*id).unwrap()).collect();
        lost.sort_unstable();
        assert_eq!(store.lost, lost, "lost");
        assert_eq!(
            store.claimed.len(),
            model.claimed.len(),
            "claimed: {:?} {:?}",
            store.claimed,
            model.claimed
        );
        for (one, other) in model.claimed.into_iter().zip(store.claimed) {
            let id = other.0.work();
            let known = self.work.iter_mut().find(|(model, _)| *model == one.0.work()).unwrap();
            assert_eq!(*known.1.get_or_insert(id), id, "claimed");
            assert_eq!(other.1.interrupted, one.1.interrupted, "interrupted {id}");
            assert_eq!(other.1.retry_count, one.1.retry_count, "retry count of {id}");
            self.held.push((one, other));
        }
    }

    async fn claim_some(&self, limit: u32) {
        let claim = request(limit, LONG, TakeOver::Never);
        let model = self.model.store().turn(&mut Vec::new(), Some(&claim)).await.unwrap().claimed;
        let store = self.store.store().turn(&mut Vec::new(), Some(&claim)).await.unwrap().claimed;
        assert_eq!(store.len(), model.len(), "as much as there is, and no more than was asked for");
        let release = |claimed: Vec<Held>| {
            claimed.into_iter().map(|(lease, _)| (lease, Settlement::Release { after: NOW })).collect()
        };
        self.model.store().turn(&mut release(model), None).await.unwrap();
        for (lease, _) in &store {
            let state = self.store.state(lease.work()).await.unwrap();
            assert!(state.next(Step::Succeed).is_some(), "what was claimed is held");
        }
        self.store.store().turn(&mut release(store), None).await.unwrap();
    }

    async fn extend(&mut self, leases: &[usize], by: Duration) {
        let chosen: Vec<usize> =
            (0..self.held.len()).filter(|at| leases.iter().any(|n| n % self.held.len() == *at)).collect();
        let (mut in_model, mut in_store) = (Vec::new(), Vec::new());
        for (at, ((one, _), (other, _))) in self.held.iter_mut().enumerate() {
            if chosen.contains(&at) {
                in_model.push(one);
                in_store.push(other);
            }
        }
        let model = self.model.store().extend(&mut in_model, by).await.unwrap();
        let store = self.store.store().extend(&mut in_store, by).await.unwrap();
        let model: Vec<_> = model.into_iter().map(|id| self.in_store(id).unwrap()).collect();
        assert_eq!(store, model, "not extended");
    }

    async fn operate(&mut self, at: usize, step: Step) {
        if self.work.is_empty() {
            return;
        }
        let (in_model, Some(in_store)) = self.work[at % self.work.len()] else { return };
        let (model, store) = match step {
            Step::Redrive => (self.model.redrive(in_model).await, self.store.redrive(in_store).await),
            _ => (self.model.resolve(in_model).await, self.store.resolve(in_store).await),
        };
        assert_eq!(store, model, "{step:?} of {in_store}");
        // Where the letter is closed by its redrive, the model has made new work.
        let next = WorkId(self.work.len() as i64 + 1);
        if self.model.state(next).await.is_some() {
            self.work.push((next, None));
        }
    }

    async fn check(&self) {
        for (in_model, in_store) in &self.work {
            let Some(in_store) = in_store else { continue };
            let (model, store) = (self.model.state(*in_model).await, self.store.state(*in_store).await);
            assert_eq!(store, model, "the state of {in_store}");
        }
    }

    fn in_store(&self, model: WorkId) -> Option<WorkId> {
        self.work.iter().find(|(id, _)| *id == model).and_then(|(_, id)| *id)
    }
}

/// Runs this many random histories against the store.
async fn histories<S: Subject>(store: &S, cases: u32) {
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let run = |acts: Vec<Act>| -> Result<(), TestCaseError> {
        let history = async {
            let mut pair = Pair::new(store).await;
            for act in &acts {
                pair.act(act).await;
                pair.check().await;
            }
        };
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(history));
        Ok(())
    };
    if let Err(error) = runner.run(&acts(), run) {
        panic!("{}: {error}", S::State::NAME);
    }
}

/// Servers answer more slowly than a file.
fn cases(database: &TestDatabase) -> u32 {
    if database.backend == Backend::Sqlite { 40 } else { 10 }
}

async fn on_every_backend<F: Future<Output = ()>>(run: impl Fn(TestDatabase) -> F) {
    for database in testkit::backends(file!()).await {
        run(database).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outbox_does_what_the_model_does() {
    on_every_backend(async |database| {
        let outbox = outbox(&database, OutboxOptions::new("orders")).await;
        histories(&OutboxSubject(outbox), cases(&database)).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_queue_does_what_the_model_does() {
    on_every_backend(async |database| {
        let options = JobsOptions { max_retries: 1_000, ..JobsOptions::new("summarize") };
        let jobs = jobs(&database, options).await;
        histories(&JobsSubject(jobs), cases(&database)).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_events_do_what_the_model_does() {
    on_every_backend(async |database| {
        let failed = failed_events(&database).await;
        histories(&FailedEventsSubject(failed), cases(&database)).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn letters_do_what_the_model_does() {
    on_every_backend(async |database| {
        let letters = letters(&database, "intake").await;
        histories(&LettersSubject(letters), cases(&database)).await;
    })
    .await;
}
