//! The console: lists over several pipelines, single actions, and operations that are carried out.
#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::backoff::Backoff;
use redrive_core::dead_letter::{
    DeadLetterQueue as _, Filter, LetterId, Operator, Origin, Page, PipelineKind, Refusal, Status,
};
use redrive_core::event::{Event, NewEvent};
use redrive_core::failure::Failure;
use redrive_core::handler::Handler;
use redrive_core::policy::Policy;
use redrive_engine::console::{Action, Canary, Console, ConsoleError, Desk, Records, Request, Runner};
use redrive_engine::{Engine, Pace, Pipeline, Route, Routes, WatchOptions};
use redrive_store::{
    Database, Jobs, JobsOptions, Letters, NewJob, NewLetter, Operation, OperationState, Outbox, OutboxOptions,
};
use redrive_testkit::{PATIENCE, TestDatabase, eventually};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Refuses everything until it is mended; remembers what it delivered.
#[derive(Default)]
struct Bank {
    mended: AtomicBool,
    delivered: Mutex<Vec<String>>,
}

#[async_trait]
impl Handler for Bank {
    async fn handle(&self, batch: &[Event]) -> Vec<Result<(), Failure>> {
        batch.iter().map(|event| self.take(event)).collect()
    }
}

impl Bank {
    fn take(&self, event: &Event) -> Result<(), Failure> {
        if !self.mended.load(Ordering::Relaxed) {
            return Err(Failure::permanent("Declined", format!("order {} was declined", event.key)));
        }
        self.delivered.lock().unwrap().push(event.key.clone());
        Ok(())
    }

    fn delivered(&self) -> Vec<String> {
        self.delivered.lock().unwrap().clone()
    }
}

/// An outbox and a job queue whose handlers refuse everything, and a console over both.
struct Shop {
    database: TestDatabase,
    outbox: Arc<Outbox>,
    jobs: Arc<Jobs>,
    bank: Arc<Bank>,
    console: Arc<Console>,
    engine: Engine,
}

fn order(key: usize) -> NewEvent {
    NewEvent {
        event_type: "OrderCreated".into(),
        aggregate_type: "Order".into(),
        aggregate_id: key.to_string(),
        payload: format!("{{\"order\":{key}}}"),
    }
}

fn ops() -> Operator {
    Operator::new("ops")
}

fn of_orders() -> Filter {
    Filter { pipeline: Some("orders".into()), ..Filter::default() }
}

fn redrive() -> Request {
    Request::new(Action::Redrive, of_orders())
}

impl Shop {
    async fn open(database: TestDatabase) -> Self {
        let connections = Database::connect(&database.url).await.unwrap();
        let outbox = Arc::new(Outbox::new(connections.clone(), OutboxOptions::new("orders")).unwrap());
        let jobs = Arc::new(Jobs::new(connections.clone(), JobsOptions::new("mails")).unwrap());
        outbox.migrate().await.unwrap();
        jobs.migrate().await.unwrap();
        let records = Records::of(&connections);
        records.migrate().await.unwrap();
        let bank = Arc::new(Bank::default());
        let backoff = Backoff::new(Duration::from_millis(10), 1.0, Duration::from_millis(10)).unwrap();
        let route = || Route::new("bank", bank.clone());
        let routes = Routes::ByType(HashMap::from([("OrderCreated".to_owned(), route())]));
        let policy = || Policy::new(3, backoff);
        let pace = || Pace { poll_interval: Duration::from_millis(50), batch_size: 500, ..Pace::default() };
        let orders = Pipeline::new("orders", PipelineKind::Outbox, outbox.clone(), outbox.clone(), policy());
        let orders = Arc::new(orders.handled_by(routes).at(pace()));
        let mails = Pipeline::new("mails", PipelineKind::Jobs, jobs.clone(), jobs.clone(), policy());
        let mails = Arc::new(mails.handled_by(Routes::All(route())).at(pace()));
        let engine = Engine::new();
        engine.start(&orders, WatchOptions::default());
        engine.start(&mails, WatchOptions::default());
        let console = Arc::new(Console::new(records, [Desk::of(&orders), Desk::of(&mails)]));
        Self { database, outbox, jobs, bank, console, engine }
    }

    /// Lets so many orders die.
    async fn bury(&self, orders: usize) {
        let before = self.waiting().await;
        self.outbox.append((0..orders).map(order).collect()).await.unwrap();
        let dead = || async { self.waiting().await == before + orders as u64 };
        eventually(PATIENCE, "the orders are dead", dead).await;
    }

    /// Lets so many mails die.
    async fn bury_mails(&self, mails: usize) {
        self.jobs.enqueue((0..mails).map(|n| NewJob::new(n.to_string(), "{}")).collect()).await.unwrap();
        let dead = || async { self.jobs.stats().await.unwrap().waiting() == mails as u64 };
        eventually(PATIENCE, "the mails are dead", dead).await;
    }

    /// Every letter that waits, of both pipelines.
    async fn letters(&self) -> Vec<LetterId> {
        let page = self.console.list(&Filter::default(), 100, None).await.unwrap();
        let waits = |status| matches!(status, Status::Open | Status::Failed);
        page.letters.into_iter().filter(|letter| waits(letter.status)).map(|letter| letter.id).collect()
    }

    async fn waiting(&self) -> u64 {
        self.outbox.stats().await.unwrap().waiting()
    }

    fn mend(&self) {
        self.bank.mended.store(true, Ordering::Relaxed);
    }

    fn run(&self) -> (CancellationToken, JoinHandle<()>) {
        let stop = CancellationToken::new();
        (stop.clone(), tokio::spawn(Runner::new(Arc::clone(&self.console)).run(stop)))
    }

    async fn reaches(&self, id: i64, state: OperationState) -> Operation {
        let there = || async { self.console.operation(id).await.unwrap().state == state };
        eventually(PATIENCE, &format!("operation {id} is {}", state.name()), there).await;
        self.console.operation(id).await.unwrap()
    }

    async fn delivers(&self, orders: usize) {
        let delivered = || async { self.bank.delivered().len() >= orders };
        eventually(PATIENCE, "the orders are delivered", delivered).await;
        let distinct: BTreeSet<String> = self.bank.delivered().into_iter().collect();
        assert_eq!((distinct.len(), self.bank.delivered().len()), (orders, orders), "each once");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_sends_every_letter_once_and_newcomers_stay_out() {
    for database in redrive_testkit::backends_and_pooled(file!()).await {
        let shop = Shop::open(database).await;
        shop.bury(250).await;
        let request = Request { rate: Some(100), ..redrive() };
        assert_eq!(shop.console.preview(&request).await.unwrap().total(), 250);
        let started = shop.console.start(&request, &ops(), Some("key-1")).await.unwrap();
        let again = shop.console.start(&request, &ops(), Some("key-1")).await.unwrap();
        assert_eq!(started.id, again.id, "the same request is the same operation");
        let (stop, runner) = shop.run();
        let frozen = || async { shop.console.operation(started.id).await.unwrap().total == 250 };
        eventually(PATIENCE, "the set is frozen", frozen).await;
        shop.outbox.append((250..255).map(order).collect()).await.unwrap();
        let newcomers = Filter { key: Some("254".into()), ..of_orders() };
        let dead = || async { shop.outbox.count(&newcomers).await.unwrap() == 1 };
        eventually(PATIENCE, "newcomers are dead, too", dead).await;
        shop.mend();
        let ended = shop.reaches(started.id, OperationState::Finished).await;
        assert_eq!((ended.total, ended.done + ended.refused, ended.refused), (250, 250, 0), "{ended:?}");
        stop.cancel();
        runner.await.unwrap();
        assert_eq!(shop.outbox.count(&newcomers).await.unwrap(), 1, "they stay out");
        let audit = shop.console.audit(None, 10).await.unwrap();
        assert_eq!((audit[0].action.as_str(), audit[0].count), ("finish", 250));
        assert_eq!((audit[1].action.as_str(), audit[1].operator.as_str()), ("redrive", "ops"));
        shop.engine.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ramp_stops_itself_while_the_fault_lasts_and_succeeds_once_it_is_mended() {
    for database in redrive_testkit::backends_and_pooled(file!()).await {
        let shop = Shop::open(database).await;
        shop.bury(60).await;
        let (stop, runner) = shop.run();
        let request = Request { canary: Some(Canary::default()), ..redrive() };
        let id = shop.console.start(&request, &ops(), None).await.unwrap().id;
        let stopped = shop.reaches(id, OperationState::Stopped).await;
        assert_eq!((stopped.total, stopped.done, stopped.failed), (60, 1, 1), "one was tried");
        assert!(
            stopped.reason.contains("failed again") && stopped.reason.contains("was declined"),
            "{stopped:?}"
        );
        let untouched = || async { shop.waiting().await == 60 };
        eventually(PATIENCE, "59 are untouched and one is a new letter", untouched).await;

        shop.mend();
        shop.console.turn(id, OperationState::Running, &ops()).await.unwrap();
        let ended = shop.reaches(id, OperationState::Finished).await;
        assert_eq!((ended.done, ended.refused), (60, 0));
        shop.delivers(59).await;
        assert_eq!(shop.waiting().await, 1, "the one that failed again waits for another operation");
        stop.cancel();
        runner.await.unwrap();
        shop.engine.stop().await;
    }
}

/// A step waited for the outcome of letters that it had not sent, or took what others did to them for its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ramp_follows_only_what_it_sent() {
    for database in redrive_testkit::backends_and_pooled(file!()).await {
        let shop = Shop::open(database).await;
        shop.bury(3).await;
        shop.bury_mails(3).await;
        shop.mend();
        let ids = shop.letters().await;
        let canary = Canary { steps: vec![1, 1], patience: PATIENCE, ..Canary::default() };
        let request = Request {
            ids: ids.clone(),
            canary: Some(canary),
            ..Request::new(Action::Redrive, Filter::default())
        };
        let id = shop.console.start(&request, &ops(), None).await.unwrap().id;
        for pipeline in ["orders", "mails"] {
            let first = ids.iter().find(|id| id.pipeline == pipeline).unwrap();
            shop.console.resolve(first, &ops(), "dealt with", None).await.unwrap();
        }
        let (stop, runner) = shop.run();
        let ended = shop.reaches(id, OperationState::Finished).await;
        assert_eq!((ended.total, ended.done, ended.refused, ended.failed), (6, 4, 2, 0), "{ended:?}");
        stop.cancel();
        runner.await.unwrap();
        shop.engine.stop().await;
    }
}

/// Mail 2 was looked up as order 2, which had failed again long before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_ramp_each_letter_is_looked_up_in_its_own_pipeline() {
    for database in redrive_testkit::backends_and_pooled(file!()).await {
        let shop = Shop::open(database).await;
        shop.bury(3).await;
        shop.bury_mails(3).await;
        let (stop, runner) = shop.run();
        let before = shop.console.start(&redrive(), &ops(), None).await.unwrap().id;
        shop.reaches(before, OperationState::Finished).await;
        let again = || async { shop.waiting().await == 3 };
        eventually(PATIENCE, "the orders have failed again", again).await;
        shop.mend();
        let canary = Some(Canary { steps: vec![1], ..Canary::default() });
        let request = Request { all: true, canary, ..Request::new(Action::Redrive, Filter::default()) };
        let id = shop.console.start(&request, &ops(), None).await.unwrap().id;
        let ended = shop.reaches(id, OperationState::Finished).await;
        assert_eq!((ended.total, ended.done, ended.refused), (6, 6, 0), "{ended:?}");
        stop.cancel();
        runner.await.unwrap();
        shop.engine.stop().await;
    }
}

/// Eight that followed a paused pipeline kept a ninth from freezing, and what died meanwhile came into its set.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_that_wait_for_a_pipeline_hold_up_nobody() {
    for database in redrive_testkit::backends_and_pooled(file!()).await {
        let shop = Shop::open(database).await;
        shop.bury_mails(10).await;
        shop.bury(1).await;
        shop.console.set_paused("mails", true, &ops()).await.unwrap();
        let (stop, runner) = shop.run();
        let mails = shop.letters().await.into_iter().filter(|id| id.pipeline == "mails");
        for mail in mails {
            let ids = vec![mail];
            let canary = Some(Canary::default());
            let request = Request { ids, canary, ..Request::new(Action::Redrive, Filter::default()) };
            let id = shop.console.start(&request, &ops(), None).await.unwrap().id;
            let follows = || async { shop.console.operation(id).await.unwrap().done == 1 };
            eventually(PATIENCE, "it follows a mail", follows).await;
        }
        let id = shop.console.start(&redrive(), &ops(), None).await.unwrap().id;
        let ended = shop.reaches(id, OperationState::Finished).await;
        assert_eq!((ended.total, ended.done), (1, 1), "{ended:?}");
        stop.cancel();
        runner.await.unwrap();
        shop.engine.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_is_what_was_there_at_the_confirmation_however_late_it_is_frozen() {
    for database in redrive_testkit::backends_and_pooled(file!()).await {
        let shop = Shop::open(database).await;
        shop.bury(3).await;
        let id = shop.console.start(&redrive(), &ops(), None).await.unwrap().id;
        let dropped = shop.console.start(&redrive(), &ops(), None).await.unwrap().id;
        tokio::time::sleep(Duration::from_millis(5)).await;
        shop.bury(5).await;
        shop.console.turn(dropped, OperationState::Cancelled, &ops()).await.unwrap();
        shop.mend();
        let (stop, runner) = shop.run();
        let ended = shop.reaches(id, OperationState::Finished).await;
        assert_eq!((ended.total, ended.done), (3, 3), "{ended:?}");
        assert_eq!(shop.console.operation(dropped).await.unwrap().total, 0, "cancelled before it began");
        stop.cancel();
        runner.await.unwrap();
        assert_eq!(shop.waiting().await, 5, "those that died meanwhile wait");
        shop.engine.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_is_paused_resumed_and_cancelled() {
    for database in redrive_testkit::backends_and_pooled(file!()).await {
        let shop = Shop::open(database).await;
        shop.bury(100).await;
        shop.mend();
        let (stop, runner) = shop.run();
        let request = Request { rate: Some(10), ..redrive() };
        let id = shop.console.start(&request, &ops(), None).await.unwrap().id;
        let some = || async { shop.console.operation(id).await.unwrap().done >= 10 };
        eventually(PATIENCE, "some were sent", some).await;
        shop.console.turn(id, OperationState::Paused, &ops()).await.unwrap();
        // What was under way is sent within a second; from then on nothing is.
        tokio::time::sleep(Duration::from_millis(1_200)).await;
        let paused = shop.console.operation(id).await.unwrap();
        assert_eq!((paused.state, paused.reason.as_str()), (OperationState::Paused, "by ops"));
        tokio::time::sleep(Duration::from_millis(1_200)).await;
        let later = shop.console.operation(id).await.unwrap();
        assert!(later.done == paused.done && later.done < 100, "{later:?}");
        shop.console.turn(id, OperationState::Running, &ops()).await.unwrap();
        let more = || async { shop.console.operation(id).await.unwrap().done > paused.done };
        eventually(PATIENCE, "it goes on", more).await;
        shop.console.turn(id, OperationState::Cancelled, &ops()).await.unwrap();
        let again = shop.console.turn(id, OperationState::Running, &ops()).await;
        assert!(matches!(again, Err(ConsoleError::WrongState { .. })), "{again:?}");
        stop.cancel();
        runner.await.unwrap();
        let cancelled = shop.console.operation(id).await.unwrap();
        assert_eq!(shop.waiting().await, 100 - cancelled.done, "what was not sent waits");
        shop.engine.stop().await;
    }
}

/// It was paused, started, cancelled, and whoever asked was told that it was not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_done_is_done_though_it_cannot_be_written_down() {
    for database in redrive_testkit::backends_and_pooled(file!()).await {
        let shop = Shop::open(database).await;
        shop.bury(1).await;
        redrive_testkit::Client::connect(&shop.database).await.run("DROP TABLE redrive_audit").await;
        shop.console.set_paused("orders", true, &ops()).await.unwrap();
        let id = shop.console.start(&redrive(), &ops(), None).await.unwrap().id;
        shop.console.turn(id, OperationState::Cancelled, &ops()).await.unwrap();
        let again = shop.console.start(&redrive(), &ops(), None).await.unwrap().id;
        let (stop, runner) = shop.run();
        shop.reaches(again, OperationState::Finished).await;
        stop.cancel();
        runner.await.unwrap();
        shop.engine.stop().await;
    }
}

/// A restart in the middle of an incident resumed what somebody had paused, and other instances never heard of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_is_for_every_instance_and_outlives_them() {
    for database in redrive_testkit::backends_and_pooled(file!()).await {
        let shop = Shop::open(database).await;
        let (stop, runner) = shop.run();
        let connections = Database::connect(&shop.database.url).await.unwrap();
        let backoff = Backoff::new(Duration::from_millis(10), 1.0, Duration::from_millis(10)).unwrap();
        let kind = PipelineKind::Jobs;
        let mails =
            Pipeline::new("mails", kind, shop.jobs.clone(), shop.jobs.clone(), Policy::new(3, backoff));
        let elsewhere = Console::new(Records::of(&connections), [Desk::of(&mails)]);
        elsewhere.set_paused("mails", true, &ops()).await.unwrap();
        let is_paused = async || shop.console.overview("mails").await.unwrap().paused;
        eventually(PATIENCE, "the others follow", async || is_paused().await == Some(true)).await;
        assert_eq!(shop.console.overview("orders").await.unwrap().paused, Some(false));

        let restarted = Console::new(Records::of(&connections), [Desk::of(&mails)]);
        mails.switch.resume();
        restarted.follow_pauses().await;
        assert!(mails.switch.is_paused(), "after a restart, too");

        shop.console.set_paused("mails", false, &ops()).await.unwrap();
        restarted.follow_pauses().await;
        assert_eq!((mails.switch.is_paused(), is_paused().await), (false, Some(false)));

        // Two who switch at once: both instances end as the last one said, whoever was told first.
        for last in [true, false] {
            shop.console.set_paused("mails", !last, &ops()).await.unwrap();
            restarted.set_paused("mails", last, &ops()).await.unwrap();
            eventually(PATIENCE, "both agree", async || {
                restarted.follow_pauses().await;
                is_paused().await == Some(last) && mails.switch.is_paused() == last
            })
            .await;
        }
        stop.cancel();
        runner.await.unwrap();
        shop.engine.stop().await;
    }
}

/// The database that it is written down in may be what is in trouble.
#[tokio::test]
async fn a_pause_works_though_it_cannot_be_written_down_and_is_written_later() {
    let shop = Shop::open(redrive_testkit::sqlite()).await;
    let mut client = redrive_testkit::Client::connect(&shop.database).await;
    client.run("ALTER TABLE redrive_pause RENAME TO elsewhere").await;
    shop.console.set_paused("mails", true, &ops()).await.unwrap();
    client.run("ALTER TABLE elsewhere RENAME TO redrive_pause").await;
    assert!(client.column("SELECT pipeline FROM redrive_pause").await.is_empty());
    shop.console.follow_pauses().await;
    assert_eq!(client.column("SELECT pipeline FROM redrive_pause").await, ["mails"]);
    assert_eq!(shop.console.overview("mails").await.unwrap().paused, Some(true));
    shop.engine.stop().await;
}

/// It paused or cancelled what others were carrying out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_lacks_a_pipeline_leaves_the_operation_to_one_that_has_it() {
    for database in redrive_testkit::backends_and_pooled(file!()).await {
        let shop = Shop::open(database).await;
        shop.bury(3).await;
        shop.mend();
        let request = Request { rate: Some(1), ..redrive() };
        let id = shop.console.start(&request, &ops(), None).await.unwrap().id;
        let connections = Database::connect(&shop.database.url).await.unwrap();
        let mails_only = Desk { queue: shop.jobs.clone(), workers: None };
        let elsewhere = Arc::new(Console::new(Records::of(&connections), [mails_only]));
        let leave = CancellationToken::new();
        let other = tokio::spawn(Runner::new(elsewhere).run(leave.clone()));
        let said = || async {
            shop.console.operation(id).await.unwrap().reason.contains("an instance that has orders")
        };
        eventually(PATIENCE, "it says what it waits for", said).await;
        assert_eq!(shop.console.operation(id).await.unwrap().state, OperationState::Freezing);
        let (stop, runner) = shop.run();
        let ended = shop.reaches(id, OperationState::Finished).await;
        assert_eq!((ended.done, ended.reason.as_str()), (3, ""));
        shop.delivers(3).await;
        for (stop, runner) in [(leave, other), (stop, runner)] {
            stop.cancel();
            runner.await.unwrap();
        }
        shop.engine.stop().await;
    }
}

/// It was sent as far as it was frozen, and told as finished.
#[tokio::test]
async fn a_set_that_is_being_frozen_cannot_be_sent_by_resuming_it() {
    let shop = Shop::open(redrive_testkit::sqlite()).await;
    let id = shop.console.start(&redrive(), &ops(), None).await.unwrap().id;
    let resumed = shop.console.turn(id, OperationState::Running, &ops()).await;
    assert!(matches!(resumed, Err(ConsoleError::WrongState { .. })), "{resumed:?}");
    assert_eq!(shop.console.operation(id).await.unwrap().state, OperationState::Freezing);
    shop.engine.stop().await;
}

/// Operation 1 of a ledger that was made anew was told that its letters were sent: by operation 1 of the old one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_is_not_taken_for_one_of_another_ledger() {
    for database in redrive_testkit::backends_and_pooled(file!()).await {
        let shop = Shop::open(database).await;
        shop.bury_mails(2).await;
        let mails = Filter { pipeline: Some("mails".into()), ..Filter::default() };
        for number in 1..=2 {
            let ledger = redrive_testkit::sqlite();
            let records = Records::of(&Database::connect(&ledger.url).await.unwrap());
            records.migrate().await.unwrap();
            let desk = Desk { queue: shop.jobs.clone(), workers: None };
            let console = Arc::new(Console::new(records, [desk]));
            if number == 2 {
                shop.mend();
            }
            let asked = Request::new(Action::Redrive, mails.clone());
            let id = console.start(&asked, &ops(), None).await.unwrap().id;
            let stop = CancellationToken::new();
            let runner = tokio::spawn(Runner::new(console.clone()).run(stop.clone()));
            let over = || async { console.operation(id).await.unwrap().state == OperationState::Finished };
            eventually(PATIENCE, "the operation is finished", over).await;
            assert_eq!((id, console.operation(id).await.unwrap().done), (1, 2));
            stop.cancel();
            runner.await.unwrap();
            if number == 1 {
                let dead = || async { shop.jobs.stats().await.unwrap().waiting() == 2 };
                eventually(PATIENCE, "they are dead again", dead).await;
            }
        }
        shop.delivers(2).await;
        shop.engine.stop().await;
    }
}

/// A request that came again after another one had sent the letter as well, sent it once more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_repetition_of_a_request_sends_nothing() {
    for database in redrive_testkit::backends_and_pooled(file!()).await {
        let shop = Shop::open(database).await;
        shop.bury_mails(1).await;
        let letter = shop.letters().await.remove(0);
        for key in ["first", "second"] {
            shop.console.redrive(&letter, None, &ops(), Some(key)).await.unwrap();
            let dead = || async { shop.jobs.stats().await.unwrap().waiting() == 1 };
            eventually(PATIENCE, "it is dead again", dead).await;
        }
        let redriven = async || shop.console.letter(&letter).await.unwrap().summary.redrive_count;
        let before = redriven().await;
        shop.console.redrive(&letter, None, &ops(), Some("first")).await.unwrap();
        assert_eq!((redriven().await, shop.jobs.stats().await.unwrap().waiting()), (before, 1));
        for edited in [&b"{}"[..], b""] {
            let other = shop.console.redrive(&letter, Some(edited), &ops(), Some("first")).await;
            let is_other = matches!(other, Err(ConsoleError::Store(redrive_store::Error::OtherRequest(_))));
            assert!(is_other, "{other:?}");
        }
        shop.engine.stop().await;
    }
}

/// The task is aborted where it happens to be, as a process that is killed; the next one goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_whose_runner_dies_is_continued_and_nothing_is_sent_twice() {
    for database in redrive_testkit::backends_and_pooled(file!()).await {
        let shop = Shop::open(database).await;
        shop.bury(300).await;
        shop.mend();
        let request = Request { rate: Some(20), ..redrive() };
        let id = shop.console.start(&request, &ops(), None).await.unwrap().id;
        let mut client = redrive_testkit::Client::connect(&shop.database).await;
        for kill in 0..10 {
            let (_, runner) = shop.run();
            let before = shop.console.operation(id).await.unwrap().done;
            let progress = || async {
                let now = shop.console.operation(id).await.unwrap();
                now.done > before || now.state == OperationState::Finished
            };
            eventually(PATIENCE, "it makes progress", progress).await;
            tokio::time::sleep(Duration::from_millis(7 * kill)).await;
            runner.abort();
            // Its hold would run out by itself, in 15 s.
            client.run("UPDATE redrive_operation SET runner = NULL").await;
        }
        let (stop, runner) = shop.run();
        client
            .run("UPDATE redrive_operation SET request = REPLACE(request, '\"rate\":20', '\"rate\":5000')")
            .await;
        let ended = shop.reaches(id, OperationState::Finished).await;
        assert_eq!((ended.total, ended.done, ended.refused), (300, 300, 0));
        shop.delivers(300).await;
        assert_eq!(shop.waiting().await, 0);
        stop.cancel();
        runner.await.unwrap();
        shop.engine.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_thousand_who_redrive_the_same_letter_one_wins() {
    for database in redrive_testkit::backends_and_pooled(file!()).await {
        let shop = Shop::open(database).await;
        shop.bury(1).await;
        shop.mend();
        let page = shop.console.list(&of_orders(), 10, None).await.unwrap();
        let letter = page.letters[0].id.clone();
        let mut asking = tokio::task::JoinSet::new();
        // More than there are connections; all at once, the last would wait for one longer than a call may.
        let at_once = Arc::new(Semaphore::new(64));
        for _ in 0..1_000 {
            let (console, letter) = (Arc::clone(&shop.console), letter.clone());
            let at_once = Arc::clone(&at_once);
            asking.spawn(async move {
                let _permit = at_once.acquire().await;
                console.redrive(&letter, None, &ops(), None).await
            });
        }
        let answers = asking.join_all().await;
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1, "exactly one wins");
        let told = |answer: &Result<(), ConsoleError>| {
            matches!(answer, Ok(()) | Err(ConsoleError::Refused(Refusal::NotWaiting(_))))
        };
        assert!(answers.iter().all(told), "and the others are told so");
        shop.delivers(1).await;
        shop.engine.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_over_several_pipelines_misses_nothing_and_repeats_nothing() {
    for database in redrive_testkit::backends_and_pooled(file!()).await {
        let shop = Shop::open(database).await;
        shop.bury(17).await;
        shop.bury_mails(13).await;
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = shop.console.list(&Filter::default(), 4, after.as_ref()).await.unwrap();
            seen.extend(page.letters);
            shop.bury(1).await;
            let Some(next) = page.next else { break };
            after = Some(next.to_string().parse().unwrap());
        }
        let distinct: BTreeSet<String> = seen.iter().map(|letter| letter.id.to_string()).collect();
        assert_eq!((seen.len(), distinct.len()), (30, 30), "newcomers stay on the first page");
        assert!(seen.windows(2).all(|two| two[0].failed_at >= two[1].failed_at), "newest first");
        let (groups, _) = shop.console.groups(None, 10).await.unwrap();
        assert_eq!(groups.len(), 2);
        let found = shop.console.group(groups[1].group.fingerprint).await.unwrap().unwrap();
        assert_eq!(found.pipeline, groups[1].pipeline);
        shop.engine.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edited_letter_is_delivered_as_edited_and_the_original_is_kept() {
    for database in redrive_testkit::backends_and_pooled(file!()).await {
        let shop = Shop::open(database).await;
        shop.bury(1).await;
        shop.mend();
        let letter = shop.console.list(&of_orders(), 1, None).await.unwrap().letters.remove(0).id;
        shop.console.redrive(&letter, Some(b"{\"order\":\"mended\"}"), &ops(), None).await.unwrap();
        shop.delivers(1).await;
        let edits = shop.console.edits(&letter).await.unwrap();
        assert_eq!(
            (edits[0].original.as_slice(), edits[0].operator.as_str()),
            (&b"{\"order\":0}"[..], "ops")
        );
        let was = shop.console.letter(&letter).await.unwrap();
        assert_eq!((was.payload.as_slice(), was.summary.status), (&b"{\"order\":0}"[..], Status::Redriven));
        let binary = shop.console.redrive(&letter, Some(b"\xff"), &ops(), None).await;
        assert!(matches!(binary, Err(ConsoleError::Refused(_))), "{binary:?}");
        let late = shop.console.redrive(&letter, Some(b"{}"), &ops(), None).await;
        assert!(matches!(late, Err(ConsoleError::Refused(_))), "{late:?}");
        assert_eq!(shop.console.edits(&letter).await.unwrap().len(), 1, "what was refused is no edit");
        let nobody = shop.console.redrive(&LetterId::new("orders", 999), None, &ops(), None).await;
        assert!(matches!(nobody, Err(ConsoleError::NoLetter(_))), "{nobody:?}");
        let nowhere = shop.console.letter(&LetterId::new("nowhere", 1)).await;
        assert!(nowhere.unwrap_err().to_string().contains("there are mails, orders"));
        shop.engine.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_letter_is_resolved_once_and_a_preview_counts_letters_that_wait() {
    for database in redrive_testkit::backends_and_pooled(file!()).await {
        let shop = Shop::open(database).await;
        shop.bury(2).await;
        let letters = shop.letters().await;
        let ops = ops();
        let resolve = |key| shop.console.resolve(&letters[0], &ops, "done with", key);
        resolve(Some("key")).await.unwrap();
        resolve(Some("key")).await.unwrap();
        // Both were told that they had closed it.
        let other = shop.console.resolve(&letters[0], &Operator::new("eve"), "done with", Some("key")).await;
        assert!(matches!(other, Err(ConsoleError::Refused(Refusal::NotWaiting(_)))), "{other:?}");
        let again = resolve(None).await;
        assert!(matches!(again, Err(ConsoleError::Refused(Refusal::NotWaiting(_)))), "{again:?}");
        let audit = shop.console.audit(None, 10).await.unwrap();
        assert_eq!(audit.iter().filter(|entry| entry.action == "resolve").count(), 1);

        let nobody = LetterId::new("orders", 999);
        let ids = vec![letters[0].clone(), letters[1].clone(), letters[1].clone(), nobody];
        let request = Request { ids, ..Request::new(Action::Redrive, Filter::default()) };
        assert_eq!(shop.console.preview(&request).await.unwrap().letters, [("orders".to_owned(), 1)]);
        shop.engine.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_is_too_small_for_the_census_is_found() {
    for database in redrive_testkit::backends_and_pooled(file!()).await {
        let shop = Shop::open(database).await;
        // More causes than a census keeps; the last of them has the fewest letters, and the least name.
        let failed = |kind: usize| NewLetter {
            source: kind.to_string(),
            event_type: format!("type {}", letters(kind)),
            key: String::new(),
            payload: b"{}".to_vec(),
            headers: Vec::new(),
            origin: Origin::Service { name: "shop".into() },
            target: None,
            failure: Failure::permanent("Declined", "no"),
            attempts: 1,
            first_failed_at: jiff::Timestamp::now(),
            failed_at: jiff::Timestamp::now(),
        };
        let intake = Arc::new(Letters::new(
            Database::connect(&shop.database.url).await.unwrap(),
            "intake",
            PipelineKind::Intake,
        ));
        intake.add(&(0..1_100).map(failed).collect::<Vec<_>>()).await.unwrap();
        let records = Records::of(&Database::connect(&shop.database.url).await.unwrap());
        let console = Console::new(records, [Desk { queue: intake.clone(), workers: None }]);
        let (known, _) = console.groups(None, 10_000).await.unwrap();
        assert_eq!(known.len(), 1_000);
        let page = intake.list(&Filter::default(), Page::first(500)).await.unwrap();
        let last = intake.list(&Filter::default(), Page::first(500).after(page.next.unwrap())).await.unwrap();
        let last = intake.list(&Filter::default(), Page::first(500).after(last.next.unwrap())).await.unwrap();
        let all = page.letters.iter().chain(&last.letters);
        let is_known = |fingerprint| known.iter().any(|group| group.group.fingerprint == fingerprint);
        let small = all.map(|letter| letter.fingerprint).find(|fingerprint| !is_known(*fingerprint)).unwrap();
        let found = console.group(small).await.unwrap().unwrap();
        assert_eq!((found.group.count, found.group.fingerprint), (1, small));
        shop.engine.stop().await;
    }
}

/// Words without digits: those are masked in the names of groups.
fn letters(number: usize) -> String {
    number.to_string().bytes().map(|digit| char::from(b'a' + digit - b'0')).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_letters_are_resolved_by_an_operation() {
    for database in redrive_testkit::backends_and_pooled(file!()).await {
        let shop = Shop::open(database).await;
        shop.bury(30).await;
        let (stop, runner) = shop.run();
        let mut request = Request::new(Action::Resolve, of_orders());
        request.note = "written off".into();
        let id = shop.console.start(&request, &ops(), None).await.unwrap().id;
        let ended = shop.reaches(id, OperationState::Finished).await;
        assert_eq!((ended.done, shop.waiting().await), (30, 0));
        let all = Request::new(Action::Resolve, Filter::default());
        let refused = shop.console.start(&all, &ops(), None).await;
        assert!(matches!(refused, Err(ConsoleError::Request(_))), "an empty filter is refused");
        stop.cancel();
        runner.await.unwrap();
        shop.engine.stop().await;
    }
}

/// It waited for ever, as if the store were away: nothing that waits changes a table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_that_the_table_refuses_stops_with_the_reason() {
    let shop = Shop::open(redrive_testkit::sqlite()).await;
    shop.bury(3).await;
    let mut client = redrive_testkit::Client::connect(&shop.database).await;
    client
        .run(
            "CREATE TRIGGER refuse BEFORE INSERT ON outbox_event \
             BEGIN SELECT RAISE(ABORT, 'nothing comes back'); END",
        )
        .await;
    let (stop, runner) = shop.run();
    let id = shop.console.start(&redrive(), &ops(), None).await.unwrap().id;
    let stopped = shop.reaches(id, OperationState::Stopped).await;
    assert!(
        stopped.reason.contains("nothing comes back") && stopped.reason.contains("resume"),
        "{}",
        stopped.reason
    );
    assert_eq!(shop.waiting().await, 3, "the letters are untouched");
    stop.cancel();
    runner.await.unwrap();
    shop.engine.stop().await;
}
