//! `redrive demo`: the product's first minute.
//!
//! Two pipelines on SQLite in a temporary folder, real stores and the real worker loop. Faults arrive,
//! healthy work flows on, dead letters are grouped by cause, the faults are mended, the letters are
//! redriven, and at the end the books balance: a demo whose books do not balance fails.

mod books;
mod shop;
mod show;
mod stage;

use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use redrive_core::dead_letter::{DeadLetterQueue, Filter, Operator, Order, Page, Status};

use self::books::Books;
use self::show::Show;
use self::stage::Stage;

/// How many events and jobs there are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    orders: usize,
    payments: usize,
    articles: usize,
}

impl Scale {
    pub(crate) const FULL: Self = Self { orders: 3_000, payments: 120, articles: 60 };
    pub(crate) const FAST: Self = Self { orders: 300, payments: 24, articles: 20 };
}

/// Every twentieth article is too long to be summarized in time.
const POISON_EVERY: usize = 20;
/// Long enough for anything here; a demo that waits in vain says so.
const PATIENCE: Duration = Duration::from_secs(60);

/// Tells the whole story.
pub(crate) async fn run(scale: Scale) -> anyhow::Result<()> {
    let mut show = Show::new();
    let stage = Stage::set().await?;
    show.opening(stage.folder());
    healthy(&mut show, &stage, scale).await?;
    poison(&mut show, &stage, scale).await?;
    mend_and_redrive(&mut show, &stage).await?;
    outage(&mut show, &stage, scale).await?;
    people(&mut show, &stage).await?;
    stage.curtain().await;
    let books = Books::of(&stage).await?;
    show.books(&books);
    ensure!(books.balance(), "the books do not balance: this is a defect, please report it");
    show.closing();
    Ok(())
}

async fn healthy(show: &mut Show, stage: &Stage, scale: Scale) -> anyhow::Result<()> {
    show.act("Healthy work", "orders are placed, each with an event in the same transaction");
    stage.place("OrderCreated", scale.orders).await?;
    let delivered = || async { Ok(stage.shop.delivered() >= scale.orders) };
    until(show, "orders delivered", || stage.shop.delivered(), scale.orders, delivered).await
}

async fn poison(show: &mut Show, stage: &Stage, scale: Scale) -> anyhow::Result<()> {
    show.act("Poison", "a bad release refuses payments; some articles are too long and time out every time");
    stage.shop.refuses_payments.store(true, Ordering::Relaxed);
    let before = stage.shop.delivered();
    stage.place("PaymentCaptured", scale.payments).await?;
    stage.place("OrderCreated", scale.orders / 3).await?;
    stage.enqueue_articles(scale.articles, POISON_EVERY).await?;
    let poison = scale.articles / POISON_EVERY;
    let healthy = scale.orders / 3 + scale.articles - poison;
    let dead = || async {
        let letters = stage.waiting().await?;
        Ok(letters >= scale.payments + poison && stage.shop.delivered() >= before + healthy)
    };
    until(show, "healthy work delivered meanwhile", || stage.shop.delivered() - before, healthy, dead)
        .await?;
    show.alerts(&stage.billboard.take());
    show.groups(&stage.orders.groups(10).await?, &stage.articles.groups(10).await?);
    Ok(())
}

async fn mend_and_redrive(show: &mut Show, stage: &Stage) -> anyhow::Result<()> {
    show.act("Mend and redrive", "the release is rolled back; the whole group goes back to work");
    stage.shop.refuses_payments.store(false, Ordering::Relaxed);
    let group =
        stage.orders.groups(1).await?.into_iter().next().context("there is a group of dead payments")?;
    let filter = Filter { status: Some(Status::Open), group: Some(group.fingerprint), ..Filter::default() };
    let before = stage.shop.delivered();
    let total = usize::try_from(group.count)?;
    let mut redriven = 0;
    loop {
        let page = stage.orders.list(&filter, Page::first(50)).await?;
        let ids: Vec<String> = page.letters.into_iter().map(|letter| letter.id.local).collect();
        if ids.is_empty() {
            break;
        }
        redriven += stage
            .orders
            .redrive(&ids, &Order::new(&Operator::new("demo"), "the bank is back"))
            .await?
            .done
            .len();
        stage.ring();
        show.progress("redriven", redriven, total);
    }
    let delivered = || async { Ok(stage.shop.delivered() >= before + redriven) };
    until(show, "redriven payments delivered", || stage.shop.delivered() - before, redriven, delivered).await
}

async fn outage(show: &mut Show, stage: &Stage, scale: Scale) -> anyhow::Result<()> {
    show.act("Outage", "the shop is down: nobody's attempts are burnt, nothing is dead-lettered");
    stage.shop.down.store(true, Ordering::Relaxed);
    let letters = stage.waiting().await?;
    let before = stage.shop.delivered();
    stage.place("OrderCreated", scale.orders / 3).await?;
    let noticed = || async { Ok(stage.handler_is_down()) };
    until(show, "events waiting for it", || scale.orders / 3, scale.orders / 3, noticed).await?;
    show.alerts(&stage.billboard.take());
    stage.shop.down.store(false, Ordering::Relaxed);
    show.note("the shop is back");
    let delivered = || async { Ok(stage.shop.delivered() >= before + scale.orders / 3) };
    until(show, "delivered after it", || stage.shop.delivered() - before, scale.orders / 3, delivered)
        .await?;
    ensure!(stage.waiting().await? == letters, "an outage must not make dead letters");
    show.alerts(&stage.billboard.take());
    Ok(())
}

async fn people(show: &mut Show, stage: &Stage) -> anyhow::Result<()> {
    show.act(
        "People decide",
        "one article gets a longer time-out and is requeued, the others are closed with a note",
    );
    let page = stage
        .articles
        .list(&Filter { status: Some(Status::Open), ..Filter::default() }, Page::first(500))
        .await?;
    let mut ids: Vec<String> = page.letters.into_iter().map(|letter| letter.id.local).collect();
    let Some(first) = ids.pop() else { return Ok(()) };
    stage.shop.is_patient.store(true, Ordering::Relaxed);
    let operator = Operator::new("demo");
    let before = stage.shop.delivered();
    stage.articles.redrive(&[first], &Order::new(&operator, "once more")).await?;
    stage.ring();
    let closed = stage.articles.resolve(&ids, &operator, "too long to be worth it").await?.done.len();
    show.note(&format!("{closed} closed with a note"));
    let delivered = || async { Ok(stage.shop.delivered() > before) };
    until(show, "requeued article summarized", || stage.shop.delivered() - before, 1, delivered).await
}

/// Waits until it holds, with progress.
async fn until<F: Future<Output = anyhow::Result<bool>>>(
    show: &mut Show,
    what: &str,
    done: impl Fn() -> usize,
    total: usize,
    mut holds: impl FnMut() -> F,
) -> anyhow::Result<()> {
    let begun = std::time::Instant::now();
    loop {
        show.progress(what, done().min(total), total);
        if holds().await? {
            show.progress(what, total, total);
            show.done(begun.elapsed());
            return Ok(());
        }
        ensure!(
            begun.elapsed() < PATIENCE,
            "{what}: still not there after {PATIENCE:?}: this is a defect, please report it"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
