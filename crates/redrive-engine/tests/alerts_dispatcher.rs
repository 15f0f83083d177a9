//! The dispatcher, with time that stands still until nothing else is left to do.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

mod counters;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use counters::Counters;
use jiff::Timestamp;
use redrive_core::fingerprint::Fingerprint;
use redrive_engine::alerts::{
    Alert, AlertService as _, Channel, ChannelError, DeadLetterAlert, Dispatcher, DispatcherOptions,
    HandlerDown, HandlerUp, HeldBack, Level, Report,
};
use tokio::time::{Instant, sleep};

/// A channel that remembers when it was told what, and does with it what it was told to do.
struct Recorder {
    name: &'static str,
    start: Instant,
    told: Mutex<Vec<(Duration, Alert)>>,
    behaviour: Mutex<Behaviour>,
}

#[derive(Clone)]
enum Behaviour {
    Take,
    Fail(ChannelError),
    /// Fails so often, then takes.
    FailFirst(u32),
    Hang,
    Panic,
}

impl Recorder {
    fn new(name: &'static str, behaviour: Behaviour) -> Arc<Self> {
        Arc::new(Self {
            name,
            start: Instant::now(),
            told: Mutex::default(),
            behaviour: Mutex::new(behaviour),
        })
    }

    fn told(&self) -> Vec<Alert> {
        self.told.lock().unwrap().iter().map(|(_, alert)| alert.clone()).collect()
    }

    fn seconds(&self) -> Vec<u64> {
        self.told.lock().unwrap().iter().map(|(at, _)| at.as_secs()).collect()
    }

    fn become_(&self, behaviour: Behaviour) {
        *self.behaviour.lock().unwrap() = behaviour;
    }

    fn next(&self) -> Behaviour {
        let mut behaviour = self.behaviour.lock().unwrap();
        match &mut *behaviour {
            Behaviour::FailFirst(0) => Behaviour::Take,
            Behaviour::FailFirst(left) => {
                *left -= 1;
                Behaviour::Fail(unavailable(None))
            }
            other => other.clone(),
        }
    }
}

#[async_trait]
impl Channel for Recorder {
    fn name(&self) -> &str {
        self.name
    }

    async fn send(&self, alert: &Alert) -> Result<(), ChannelError> {
        self.told.lock().unwrap().push((self.start.elapsed(), alert.clone()));
        match self.next() {
            Behaviour::Take | Behaviour::FailFirst(_) => Ok(()),
            Behaviour::Fail(error) => Err(error),
            Behaviour::Hang => std::future::pending().await,
            Behaviour::Panic => panic!("a channel with a bug"),
        }
    }
}

fn unavailable(retry_after: Option<Duration>) -> ChannelError {
    ChannelError::Unavailable { message: "503".into(), retry_after }
}

fn letter(kind: u64, number: u64) -> DeadLetterAlert {
    DeadLetterAlert {
        pipeline: "orders".into(),
        event_id: number.to_string().into(),
        event_type: "OrderCreated".into(),
        aggregate_type: "Order".into(),
        aggregate_id: "42".into(),
        retry_count: 5,
        error: "refused".into(),
        failed_at: Timestamp::UNIX_EPOCH,
        fingerprint: Fingerprint::from_bits(kind),
    }
}

fn level(count: u64) -> Level {
    Level { pipeline: "orders".into(), count, threshold: 10 }
}

fn start(channels: &[&Arc<Recorder>]) -> Dispatcher {
    start_with(channels, &DispatcherOptions::default())
}

fn start_with(channels: &[&Arc<Recorder>], options: &DispatcherOptions) -> Dispatcher {
    let channels = channels.iter().map(|&channel| channel.clone() as Arc<dyn Channel>).collect();
    Dispatcher::start(channels, options)
}

/// Long enough for everything that is due now, and too short for anything else.
async fn settle() {
    sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_storm_of_10_000_equal_failures_is_one_alert_and_one_count() {
    let channel = Recorder::new("slack", Behaviour::Take);
    let dispatcher = start(&[&channel]);
    (1..=10_000).for_each(|number| dispatcher.dead_letter(letter(1, number)));
    settle().await;
    assert_eq!(channel.told(), [Alert::DeadLetter(letter(1, 1))]);
    sleep(Duration::from_secs(3600)).await;
    let told = channel.told();
    let [_, Alert::MoreLetters(more)] = &told[..] else { panic!("{told:?}") };
    assert_eq!((more.count, &more.latest), (9_999, &letter(1, 10_000)));
    assert_eq!(channel.seconds(), [0, 600]);
}

#[tokio::test(start_paused = true)]
async fn a_dead_channel_delays_neither_the_pipeline_nor_another_channel() {
    let (dead, alive) = (Recorder::new("email", Behaviour::Hang), Recorder::new("slack", Behaviour::Take));
    let dispatcher = start(&[&dead, &alive]);
    let before = Instant::now();
    (1..=5_000).for_each(|kind| dispatcher.dead_letter(letter(kind, kind)));
    assert_eq!(before.elapsed(), Duration::ZERO);
    settle().await;
    assert_eq!(alive.told().len(), 20);
    assert_eq!(dead.told().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failed_alert_is_tried_again_after_1_5_and_25_seconds() {
    let channel = Recorder::new("slack", Behaviour::Fail(unavailable(None)));
    let dispatcher = start(&[&channel]);
    dispatcher.unresolved(level(10));
    sleep(Duration::from_secs(300)).await;
    assert_eq!(channel.seconds(), [0, 1, 6, 31]);
}

#[tokio::test(start_paused = true)]
async fn an_alert_is_sent_once_when_a_try_succeeds() {
    let channel = Recorder::new("slack", Behaviour::FailFirst(2));
    let dispatcher = start(&[&channel]);
    dispatcher.unresolved(level(10));
    sleep(Duration::from_secs(300)).await;
    assert_eq!(channel.seconds(), [0, 1, 6]);
}

#[tokio::test(start_paused = true)]
async fn a_channel_that_says_when_to_come_back_is_left_alone_until_then() {
    let channel = Recorder::new("slack", Behaviour::Fail(unavailable(Some(Duration::from_secs(20)))));
    let dispatcher = start(&[&channel]);
    dispatcher.unresolved(level(10));
    sleep(Duration::from_secs(300)).await;
    assert_eq!(channel.seconds(), [0, 20, 40, 65]);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_not_tried_again_and_does_not_end_the_channel() {
    let channel = Recorder::new("slack", Behaviour::Fail(ChannelError::Refused { message: "404".into() }));
    let dispatcher = start(&[&channel]);
    dispatcher.unresolved(level(10));
    dispatcher.unresolved(level(9));
    sleep(Duration::from_secs(300)).await;
    assert_eq!(channel.seconds(), [0, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_channel_with_a_bug_keeps_working_and_hurts_no_other() {
    let (buggy, fine) = (Recorder::new("email", Behaviour::Panic), Recorder::new("slack", Behaviour::Take));
    let dispatcher = start(&[&buggy, &fine]);
    dispatcher.unresolved(level(10));
    dispatcher.unresolved(level(9));
    settle().await;
    assert_eq!((buggy.told().len(), fine.told().len()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn what_is_over_the_limit_is_mentioned_a_minute_later() {
    let channel = Recorder::new("slack", Behaviour::Take);
    let dispatcher = start(&[&channel]);
    (1..=100).for_each(|kind| dispatcher.dead_letter(letter(kind, kind)));
    dispatcher.handler_down(HandlerDown {
        pipeline: "orders".into(),
        handler: "http".into(),
        error: "refused".into(),
    });
    settle().await;
    let told = channel.told();
    assert_eq!(told.len(), 21, "20 letters, and the state of the pipeline");
    assert!(matches!(told.last(), Some(Alert::HandlerDown(_))));
    sleep(Duration::from_secs(300)).await;
    let held = HeldBack { limited: 80, letters: 80, ..HeldBack::default() };
    assert_eq!(channel.told()[21..], [Alert::HeldBack(held)]);
    assert_eq!(channel.seconds()[21], 60);
}

#[tokio::test(start_paused = true)]
async fn what_found_the_queue_full_is_mentioned_when_the_channel_works_again() {
    let channel = Recorder::new("slack", Behaviour::Hang);
    let options = DispatcherOptions { queue: 4, ..DispatcherOptions::default() };
    let dispatcher = start_with(&[&channel], &options);
    dispatcher.dead_letter(letter(0, 0));
    settle().await;
    (1..=10).for_each(|kind| dispatcher.dead_letter(letter(kind, kind)));
    channel.become_(Behaviour::Take);
    sleep(Duration::from_secs(120)).await;
    let held = HeldBack { dropped: 6, letters: 6, ..HeldBack::default() };
    assert_eq!(channel.told().last(), Some(&Alert::HeldBack(held)));
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_channel_missed_is_mentioned_when_it_is_back() {
    let channel = Recorder::new("slack", Behaviour::Fail(unavailable(None)));
    let dispatcher = start(&[&channel]);
    dispatcher.dead_letter(letter(1, 1));
    sleep(Duration::from_secs(120)).await;
    channel.become_(Behaviour::Take);
    dispatcher.unresolved(level(10));
    sleep(Duration::from_secs(120)).await;
    let held = HeldBack { failed: 1, letters: 1, ..HeldBack::default() };
    let told = channel.told();
    assert_eq!(told[told.len() - 2..], [Alert::ThresholdReached(level(10)), Alert::HeldBack(held)]);
}

#[tokio::test(start_paused = true)]
async fn a_threshold_is_told_once_per_crossing_and_so_is_recovery() {
    let channel = Recorder::new("slack", Behaviour::Take);
    let dispatcher = start(&[&channel]);
    [3, 10, 11, 10, 2, 0, 12].into_iter().for_each(|count| dispatcher.unresolved(level(count)));
    settle().await;
    let (reached, recovered) = (Alert::ThresholdReached, Alert::ThresholdRecovered);
    assert_eq!(channel.told(), [reached(level(10)), recovered(level(2)), reached(level(12))]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_down_once_and_back_once() {
    let channel = Recorder::new("slack", Behaviour::Take);
    let dispatcher = start(&[&channel]);
    let down = HandlerDown { pipeline: "orders".into(), handler: "http".into(), error: "refused".into() };
    let up = HandlerUp { pipeline: "orders".into(), handler: "http".into() };
    dispatcher.handler_up(up.clone());
    (0..3).for_each(|_| dispatcher.handler_down(down.clone()));
    (0..3).for_each(|_| dispatcher.handler_up(up.clone()));
    settle().await;
    assert_eq!(channel.told(), [Alert::HandlerDown(down), Alert::HandlerUp(up)]);
}

#[tokio::test(start_paused = true)]
async fn a_report_is_sent_when_there_is_something_to_report() {
    let channel = Recorder::new("slack", Behaviour::Take);
    let dispatcher = start(&[&channel]);
    let report = Report::new("orders", [("A".to_owned(), 1), ("B".to_owned(), 7)], None);
    dispatcher.report(Report::new("orders", [], None));
    dispatcher.report(report.clone());
    settle().await;
    assert_eq!(channel.told(), [Alert::Report(report)]);
}

#[tokio::test(start_paused = true)]
async fn at_the_end_what_was_only_counted_is_told() {
    let channel = Recorder::new("slack", Behaviour::Take);
    let dispatcher = start(&[&channel]);
    (1..=5).for_each(|number| dispatcher.dead_letter(letter(1, number)));
    (10..100).for_each(|kind| dispatcher.dead_letter(letter(kind, kind)));
    dispatcher.shutdown(Duration::from_secs(5)).await;
    let told = channel.told();
    assert_eq!(channel.seconds().last(), Some(&0));
    let letters: u64 = told.iter().map(Alert::letters).sum();
    assert_eq!(letters, 95, "every letter is told, alone or in a count");
    assert!(matches!(told.last(), Some(Alert::HeldBack(_))));
    dispatcher.dead_letter(letter(7, 7));
    dispatcher.shutdown(Duration::from_secs(5)).await;
    assert_eq!(channel.told().len(), told.len());
}

#[tokio::test(start_paused = true)]
async fn the_end_does_not_wait_longer_than_the_deadline() {
    let (dead, alive) = (Recorder::new("email", Behaviour::Hang), Recorder::new("slack", Behaviour::Take));
    let dispatcher = start(&[&dead, &alive]);
    (1..=5).for_each(|number| dispatcher.dead_letter(letter(1, number)));
    let before = Instant::now();
    dispatcher.shutdown(Duration::from_secs(5)).await;
    assert_eq!(before.elapsed().as_secs(), 5);
    assert_eq!(alive.told().len(), 2);
}

#[test]
fn every_alert_is_counted_by_what_became_of_it() {
    let counters = Counters::default();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    metrics::with_local_recorder(&counters, || {
        runtime.block_on(async {
            let (slack, email) =
                (Recorder::new("slack", Behaviour::Take), Recorder::new("email", Behaviour::Hang));
            let options = DispatcherOptions { queue: 30, ..DispatcherOptions::default() };
            let dispatcher = start_with(&[&slack, &email], &options);
            (1..=100).for_each(|number| dispatcher.dead_letter(letter(1, number)));
            (101..=129).for_each(|kind| dispatcher.dead_letter(letter(kind, kind)));
            dispatcher.shutdown(Duration::from_secs(20)).await;
        });
    });
    // 30 first letters and a count of 99; 20 go out, 11 are over the limit, and that is mentioned.
    assert_eq!(counters.get("redrive_alerts_total slack sent"), 21);
    assert_eq!(counters.get("redrive_alerts_total slack suppressed"), 99 + 11);
    // The queue has room for 30 of 31; none is taken before the end.
    assert_eq!(counters.get("redrive_alerts_total email sent"), 0);
    assert_eq!(counters.get("redrive_alerts_total email dropped"), 31);
}
