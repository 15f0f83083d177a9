//! Half of the events fail every attempt: what does that cost the others?

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bench_harness::{Contestant, Rates, Ratio, Scratch, Table, Target, median, race, thousands};
use bench_peers::Counter;
use redrive_core::event::Event;
use redrive_core::failure::Failure;
use redrive_core::handler::Handler;
use redrive_store::Processed;

use crate::Args;
use crate::ours::{ATTEMPTS, Noop, Ours};
use crate::subject::Subject;

/// Fails every second event, each time.
struct HalfPoison {
    counter: Counter,
    healthy: Arc<Healthy>,
}

/// How fast the healthy half was through.
#[derive(Default)]
struct Healthy(Mutex<Round>);

#[derive(Default)]
struct Round {
    left: u64,
    begun: Option<Instant>,
    /// Every attempt until then, those of the poison too.
    attempts: Rates,
    took: Vec<f64>,
}

impl Healthy {
    fn begin(&self, events: u64) {
        let mut round = self.round();
        round.left = events;
        round.begun = Some(Instant::now());
    }

    fn one(&self, counter: &Counter) {
        let mut round = self.round();
        round.left = round.left.saturating_sub(1);
        if let (0, Some(begun)) = (round.left, round.begun) {
            round.begun = None;
            let took = begun.elapsed();
            round.attempts.push(counter.seen(), took, Duration::ZERO);
            round.took.push(took.as_secs_f64());
        }
    }

    fn round(&self) -> MutexGuard<'_, Round> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Handler for HalfPoison {
    async fn handle(&self, batch: &[Event]) -> Vec<Result<(), Failure>> {
        self.counter.add(batch.len() as u64);
        batch.iter().map(|event| self.outcome(event)).collect()
    }
}

impl HalfPoison {
    fn outcome(&self, event: &Event) -> Result<(), Failure> {
        if event.id.0 % 2 == 0 {
            return Err(Failure::unclassified("Poison", "this event fails every time"));
        }
        self.healthy.one(&self.counter);
        Ok(())
    }
}

/// The contestant of the poison run: starts the clock of the healthy half with the round.
struct Poisoned {
    ours: Ours,
    healthy: Arc<Healthy>,
    events: u64,
}

#[async_trait]
impl Contestant for Poisoned {
    fn name(&self) -> String {
        self.ours.name()
    }

    async fn prepare(&mut self) -> anyhow::Result<()> {
        self.ours.prepare().await
    }

    async fn run(&mut self) -> anyhow::Result<u64> {
        self.healthy.begin(self.events);
        self.ours.run().await
    }

    async fn check(&mut self) -> anyhow::Result<()> {
        self.ours.check().await
    }
}

/// Drains with and without poison and prints the table.
pub(crate) async fn measure(args: &Args, subject: Subject, scratch: &Scratch) -> anyhow::Result<Vec<Target>> {
    // An even number of each, and in all as many attempts as a drain has.
    let rows = args.rows / (1 + ATTEMPTS) * 2;
    let attempts = u64::from(rows / 2) * u64::from(1 + ATTEMPTS);
    println!(
        "\n## Poison\n\n{} events, half of which fail {ATTEMPTS} times and die, against as many attempts without \
         poison; {} rounds in turns; attempts/s: median (slowest–fastest)\n",
        thousands(rows.into()),
        args.rounds
    );
    let clean = {
        let tables = Arc::new(subject.tables(scratch, "clean", Processed::Keep).await?);
        let counter = Counter::default();
        Ours {
            name: "clean".to_owned(),
            stage: tables.stage(scratch, u32::try_from(attempts)?, 0).await?,
            handler: Arc::new(Noop(counter.clone())),
            tables,
            counter,
            attempts,
            engine: None,
        }
    };
    let healthy = Arc::new(Healthy::default());
    let poisoned = {
        let tables = Arc::new(subject.tables(scratch, "poisoned", Processed::Keep).await?);
        let counter = Counter::default();
        let handler = HalfPoison { counter: counter.clone(), healthy: Arc::clone(&healthy) };
        let ours = Ours {
            name: "half poison".to_owned(),
            stage: tables.stage(scratch, rows, 0).await?,
            handler: Arc::new(handler),
            tables,
            counter,
            attempts,
            engine: None,
        };
        Poisoned { ours, healthy: Arc::clone(&healthy), events: u64::from(rows / 2) }
    };
    let mut contestants: Vec<Box<dyn Contestant>> = vec![Box::new(clean), Box::new(poisoned)];
    let rates = race(&mut contestants, args.rounds).await?;
    let healthy = healthy.round();
    let (first, all) = (Ratio::of(&healthy.attempts, &rates[0]), Ratio::of(&rates[1], &rates[0]));
    let mut table = Table::new(&["run", "attempts/s", "÷ clean", "after", "µs of the client"]);
    let client = |index: usize| format!("{:.1}", rates[index].processor());
    table.row(["clean".to_owned(), rates[0].to_string(), String::new(), String::new(), client(0)]);
    table.row([
        "until the healthy half is through".to_owned(),
        healthy.attempts.to_string(),
        first.to_string(),
        format!("{:.2} s", median(healthy.took.clone())),
        String::new(),
    ]);
    table.row([
        "until the poisoned half is dead".to_owned(),
        rates[1].to_string(),
        all.to_string(),
        String::new(),
        client(1),
    ]);
    print!("{table}");
    println!(
        "\nAn attempt that fails writes more than one that succeeds: its reason, its next time, at the end a \
         letter. So the last line is lower; in a steady stream of which half is poison, it is the one to expect."
    );
    let name = "healthy half beside poison ÷ clean, per attempt".to_owned();
    Ok(vec![Target::at_least(name, 0.8, first.of_medians)])
}
