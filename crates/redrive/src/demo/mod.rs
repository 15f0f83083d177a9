//! `redrive demo`: the product's first minute.
//!
//! A real server in this process with all five kinds of pipeline, on SQLite, a folder and a broker of its own;
//! services that break and are mended; and an operator who uses the REST API as anybody would. Healthy work
//! flows while faults arrive, dead letters are grouped by cause, a redrive that comes too early stops itself,
//! the faults are mended, everything is delivered, and the books balance: a demo whose books do not fails.
//!
//! What it tells has happened: it waits for that, however long a busy machine takes, and never sleeps instead.

mod broker;
mod pace;
mod show;
mod stage;
mod town;
mod words;

use std::cell::Cell;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use redrive_server::view::{
    BalanceView, BooksView, GroupView, GroupsPage, LetterPage, OperationStateName, OperationView,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use self::show::Show;
pub(crate) use self::show::Tempo;
use self::stage::Stage;
use self::town::Visit;
use crate::screen::short;
use crate::signal::cancel_on_signal;

/// How much of everything there is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    orders: u64,
    euros: u64,
    articles: u64,
    urls: u64,
    clicks: u64,
    decisions: u64,
}

impl Scale {
    pub(crate) const FULL: Self =
        Self { orders: 3_000, euros: 240, articles: 200, urls: 2_000, clicks: 4_000, decisions: 3_000 };
    pub(crate) const FAST: Self =
        Self { orders: 300, euros: 40, articles: 40, urls: 200, clicks: 400, decisions: 300 };
}

/// What happens when the story is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Everything is put away.
    Close,
    /// It stays open, with new faults to play with, until Ctrl-C.
    StayOpen,
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The whole story was told.
    Told,
    /// A signal ended it before that.
    Interrupted,
}

/// Every twentieth article, address and decision is one that cannot be dealt with.
const ODD_EVERY: u64 = 20;
/// Long enough for anything here, on a machine that is busy with much else; a demo that waits in vain says so.
const PATIENCE: Duration = Duration::from_secs(180);

/// Tells the whole story.
pub(crate) async fn run(scale: Scale, tempo: Tempo, ending: Ending) -> anyhow::Result<Ended> {
    // From the start: whoever ends it early leaves nothing behind either.
    let stop = CancellationToken::new();
    cancel_on_signal(stop.clone()).context("signals cannot be watched")?;
    let (stage, visitors) = Stage::set().await?;
    let ended = Cell::new(Ended::Interrupted);
    let whole = async {
        let mut show = Show::new(tempo);
        story(&mut show, &stage, scale).await?;
        ended.set(Ended::Told);
        match ending {
            Ending::StayOpen => play(&show, &stage, scale, visitors).await,
            Ending::Close => {
                show.closing();
                Ok(())
            }
        }
    };
    let told = stop.run_until_cancelled(whole).await;
    let closed = stage.curtain().await;
    told.unwrap_or(Ok(())).and(closed)?;
    Ok(ended.get())
}

async fn story(show: &mut Show, stage: &Stage, scale: Scale) -> anyhow::Result<()> {
    until("redrive is ready", async || Ok(stage.is_ready().await)).await?;
    show.opening(stage);
    show.read().await;
    healthy(show, stage, scale).await?;
    let groups = faults(show, stage, scale).await?;
    let operation = too_early(show, stage, scale, &groups).await?;
    mended(show, stage, scale, operation).await?;
    outage(show, stage, scale).await?;
    let books = books(stage).await?;
    show.books(&books);
    show.read().await;
    let balanced = books.pipelines.iter().all(|book| book.gap == Some(0));
    ensure!(balanced, "the books do not balance: this is a defect, please report it");
    ensure!(is_idle(&books), "not everything is delivered: this is a defect, please report it");
    Ok(())
}

async fn healthy(show: &mut Show, stage: &Stage, scale: Scale) -> anyhow::Result<()> {
    show.act(&words::HEALTHY);
    show.read().await;
    stage.place_orders(scale.orders, "USD").await?;
    stage.publish_articles(scale.articles, 0).await?;
    stage.shorten_urls(1, scale.urls, 0).await?;
    stage.click(scale.clicks).await?;
    stage.decide(1, scale.decisions, 0).await?;
    let bars = [
        show.bar("orders     outbox → bank", scale.orders),
        show.bar("summaries  jobs → summarizer", scale.articles),
        show.bar("urls       persist → table", scale.urls),
        show.bar("clicks     ingest → bucket", scale.clicks),
        show.bar("decisions  kafka → table", if stage.has_kafka() { scale.decisions } else { 0 }),
    ];
    until("healthy work is delivered", async || {
        let (urls, decisions) = stage.rows().await?;
        let clicks = balance(stage, "clicks").await?.delivered;
        let done = [stage.town.delivered(), stage.town.summarized(), urls, clicks, decisions];
        let totals = [scale.orders, scale.articles, scale.urls, scale.clicks, bars[4].total()];
        for (bar, done) in bars.iter().zip(done) {
            bar.at(done);
        }
        Ok(done.iter().zip(totals).all(|(done, total)| *done >= total))
    })
    .await?;
    for bar in bars {
        show.full(bar);
    }
    show.read().await;
    Ok(())
}

/// Faults arrive in all five; what is healthy flows on.
async fn faults(show: &mut Show, stage: &Stage, scale: Scale) -> anyhow::Result<Vec<GroupView>> {
    show.act(&words::FAULTS);
    show.read().await;
    let town = &stage.town;
    let (before, summarized) = (town.delivered(), town.summarized());
    let (urls, decisions) = stage.rows().await?;
    town.set(&town.refuses_euros, true);
    stage.lose_bucket()?;
    stage.place_orders(scale.euros, "EUR").await?;
    stage.place_orders(scale.orders / 3, "USD").await?;
    stage.publish_articles(scale.articles, ODD_EVERY).await?;
    stage.shorten_urls(2, scale.urls, ODD_EVERY).await?;
    stage.click(scale.clicks / 4).await?;
    stage.decide(2, scale.decisions, ODD_EVERY).await?;
    let dead = Toll::of(stage, scale);
    let good = Toll::of_healthy(stage, scale);
    let healthy = good.total();
    let flow = show.bar("healthy work delivered meanwhile", healthy);
    let letters = show.bar("dead letters", dead.total());
    until("the faults have shown", async || {
        let (urls_now, decisions_now) = stage.rows().await?;
        let done = (town.delivered() - before)
            + (town.summarized() - summarized)
            + (urls_now - urls)
            + (decisions_now - decisions);
        let given_up = dead.so_far(&groups(stage).await?);
        flow.at(done);
        letters.at(given_up);
        Ok(done >= healthy && given_up >= dead.total())
    })
    .await?;
    show.full(flow);
    show.note(&words::sum(&good.0));
    show.full(letters);
    show.note(&words::sum(&dead.0));
    until("the pager rings", async || {
        let pages = town.pages();
        show.pager(&pages);
        Ok(!pages.is_empty())
    })
    .await?;
    show.read().await;
    let clicks = scale.clicks / 4;
    let groups = settled_groups(stage, &dead, clicks).await?;
    show.groups(&groups, &causes(stage, &groups).await?);
    show.note(&words::on_disk(clicks));
    show.read().await;
    Ok(groups)
}

/// The groups of what needs somebody, once they have everything that died, `clicks` events are on disk, and persist
/// has tried its events for the last time: else it might still save some by itself when the fault is gone.
async fn settled_groups(stage: &Stage, dead: &Toll, clicks: u64) -> anyhow::Result<Vec<GroupView>> {
    let mut found = Vec::new();
    until("the groups have every letter", async || {
        let on_disk = balance(stage, "clicks").await?.open == clicks;
        let urls = balance(stage, "urls").await?;
        found = groups(stage).await?;
        Ok(on_disk && urls.parked + urls.in_flight == 0 && dead.is_exactly(&found))
    })
    .await?;
    // In how many files the clicks are is chance, and they need nobody.
    found.retain(|group| group.pipeline != "clicks");
    Ok(found)
}

/// What went wrong in each group, by two of its letters: what is different in them is no part of the cause.
async fn causes(stage: &Stage, groups: &[GroupView]) -> anyhow::Result<Vec<String>> {
    let mut causes = Vec::new();
    for group in groups {
        let path = format!("/dead-letters?group={}&limit=2", group.fingerprint);
        let page: LetterPage = read(stage.get(&path).await?)?;
        let mut messages = page.letters.into_iter().map(|letter| letter.failure.message);
        let one = messages.next().unwrap_or_else(|| group.failure.message.clone());
        causes.push(words::common(&one, &messages.next().unwrap_or_else(|| one.clone())));
    }
    Ok(causes)
}

/// An operator redrives before the bank is mended: the ramp sends one letter, sees it fail, and stops.
async fn too_early(
    show: &mut Show,
    stage: &Stage,
    scale: Scale,
    groups: &[GroupView],
) -> anyhow::Result<i64> {
    show.act(&words::TOO_EARLY);
    show.read().await;
    let group = groups.iter().find(|group| group.pipeline == "orders").context("there are dead orders")?;
    let request =
        json!({"filter": {"group": group.fingerprint}, "canary": true, "note": "is the bank back?"});
    let operation: OperationView = read(stage.post("/redrives", &request).await?)?;
    let stopped = follow(show, stage, operation.id, "redriven", OperationStateName::Stopped).await?;
    ensure!(stopped.done == 1, "a ramp that stops itself has tried one letter, this one {}", stopped.done);
    ensure!(stopped.total == scale.euros, "the operation is of {} letters", stopped.total);
    show.stopped(&stopped.reason);
    show.note(&words::one_of(stopped.total));
    show.read().await;
    Ok(operation.id)
}

async fn mended(show: &mut Show, stage: &Stage, scale: Scale, operation: i64) -> anyhow::Result<()> {
    show.act(&words::MENDED);
    show.read().await;
    let town = &stage.town;
    mend(stage).await?;
    stage.find_bucket()?;
    let bar = show.bar("clicks uploaded from disk", scale.clicks / 4);
    until("the files on disk are uploaded", async || {
        let clicks = balance(stage, "clicks").await?;
        bar.at((scale.clicks / 4).saturating_sub(clicks.open + clicks.in_flight));
        Ok(clicks.open + clicks.in_flight == 0)
    })
    .await?;
    show.full(bar);
    stage.post(&format!("/redrives/{operation}/resume"), &Value::Null).await?;
    let orders = follow(show, stage, operation, "orders redriven", OperationStateName::Finished).await?;
    show.note(&words::resumed(orders.total));
    let everything = json!({"all": true, "rate": 2_000, "note": "everything is mended"});
    let rest: OperationView = read(stage.post("/redrives", &everything).await?)?;
    let rest = follow(show, stage, rest.id, "the rest redriven", OperationStateName::Finished).await?;
    let others = Toll::of(stage, scale).without("orders");
    show.note(&words::rest(&others.0));
    ensure!(
        rest.total == others.total() + 1,
        "{} letters were redriven, {} are accounted for: this is a defect, please report it",
        rest.total,
        others.total() + 1
    );
    until("every letter is delivered", async || {
        Ok(waiting(stage).await? == 0 && is_idle(&books(stage).await?))
    })
    .await?;
    show.note(words::DELIVERED);
    show.pager(&town.pages());
    show.read().await;
    Ok(())
}

async fn outage(show: &mut Show, stage: &Stage, scale: Scale) -> anyhow::Result<()> {
    show.act(&words::OUTAGE);
    show.read().await;
    let town = &stage.town;
    let before = town.delivered();
    town.set(&town.down, true);
    stage.place_orders(scale.orders / 3, "USD").await?;
    let down = async || Ok(town.pages().iter().any(|page| page.title.to_lowercase().contains("down")));
    until("the outage is noticed", down).await?;
    show.note(words::DOWN);
    show.read().await;
    town.set(&town.down, false);
    show.note(words::BACK);
    let bar = show.bar("delivered after it", scale.orders / 3);
    until("the events are delivered", async || {
        bar.at(town.delivered() - before);
        Ok(town.delivered() >= before + scale.orders / 3)
    })
    .await?;
    show.full(bar);
    ensure!(waiting(stage).await? == 0, "an outage must not make dead letters");
    until("everything is settled", async || Ok(is_idle(&books(stage).await?))).await?;
    show.read().await;
    Ok(())
}

/// New faults to play with, for as long as somebody does.
async fn play(
    show: &Show,
    stage: &Stage,
    scale: Scale,
    mut visitors: UnboundedReceiver<Visit>,
) -> anyhow::Result<()> {
    let town = &stage.town;
    stage.restore_rules().await?;
    town.set(&town.refuses_euros, true);
    town.set(&town.is_patient, false);
    stage.place_orders(scale.euros, "EUR").await?;
    stage.publish_articles(scale.articles, ODD_EVERY).await?;
    stage.shorten_urls(3, scale.urls, ODD_EVERY).await?;
    stage.decide(3, scale.decisions, ODD_EVERY).await?;
    let dead = Toll::of(stage, scale);
    until("there is something to play with", async || Ok(dead.is_exactly(&groups(stage).await?))).await?;
    show.staying_open(stage);
    while let Some(visit) = visitors.recv().await {
        match visit {
            Visit::Mend(done) => {
                mend(stage).await?;
                // Whoever asked may have hung up.
                let _ = done.send(());
                show.note(words::MEND_DONE);
            }
            Visit::Letter(body) => show.crm(&short(&String::from_utf8_lossy(&body), 100)),
        }
    }
    Ok(())
}

async fn mend(stage: &Stage) -> anyhow::Result<()> {
    let town = &stage.town;
    town.set(&town.refuses_euros, false);
    town.set(&town.is_patient, true);
    stage.drop_rules().await
}

/// Follows an operation until it is in this state, with progress.
async fn follow(
    show: &Show,
    stage: &Stage,
    id: i64,
    label: &str,
    state: OperationStateName,
) -> anyhow::Result<OperationView> {
    let mut bar = None;
    let mut now: OperationView = read(stage.get(&format!("/redrives/{id}")).await?)?;
    until(&format!("operation {id} is {state}"), async || {
        now = read(stage.get(&format!("/redrives/{id}")).await?)?;
        if now.total > 0 {
            let bar = bar.get_or_insert_with(|| show.bar(label, now.total));
            // The set grows while it is frozen, portion by portion.
            bar.grow(now.total);
            bar.at(now.done + now.refused);
        }
        Ok(now.state == state)
    })
    .await?;
    match bar {
        Some(bar) if state == OperationStateName::Finished => show.full(bar),
        Some(bar) => bar.clear(),
        None => {}
    }
    Ok(now)
}

/// How many events there are of something, by pipeline.
struct Toll(Vec<(&'static str, u64)>);

impl Toll {
    /// What a round of faults kills.
    fn of(stage: &Stage, scale: Scale) -> Self {
        let odd = |count: u64| count / ODD_EVERY;
        Self::by_pipeline(stage, [scale.euros, odd(scale.articles), odd(scale.urls), odd(scale.decisions)])
    }

    /// What is delivered meanwhile.
    fn of_healthy(stage: &Stage, scale: Scale) -> Self {
        let good = |count: u64| count - count / ODD_EVERY;
        let orders = scale.orders / 3;
        Self::by_pipeline(stage, [orders, good(scale.articles), good(scale.urls), good(scale.decisions)])
    }

    fn by_pipeline(stage: &Stage, [orders, summaries, urls, decisions]: [u64; 4]) -> Self {
        let mut counts = vec![("orders", orders), ("summaries", summaries), ("urls", urls)];
        counts.extend(stage.has_kafka().then_some(("decisions", decisions)));
        Self(counts)
    }

    fn without(self, pipeline: &str) -> Self {
        Self(self.0.into_iter().filter(|(name, _)| *name != pipeline).collect())
    }

    fn total(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    fn so_far(&self, groups: &[GroupView]) -> u64 {
        self.0.iter().map(|(pipeline, _)| count_of(groups, pipeline)).sum()
    }

    fn is_exactly(&self, groups: &[GroupView]) -> bool {
        self.0.iter().all(|(pipeline, count)| count_of(groups, pipeline) == *count)
    }
}

fn count_of(groups: &[GroupView], pipeline: &str) -> u64 {
    groups.iter().filter(|group| group.pipeline == pipeline).map(|group| group.count).sum()
}

async fn groups(stage: &Stage) -> anyhow::Result<Vec<GroupView>> {
    Ok(read::<GroupsPage>(stage.get("/groups").await?)?.groups)
}

async fn books(stage: &Stage) -> anyhow::Result<BooksView> {
    read(stage.get("/books").await?)
}

fn balances(books: &BooksView) -> impl Iterator<Item = &BalanceView> {
    books.pipelines.iter().filter_map(|book| book.balance.as_ref())
}

fn is_idle(books: &BooksView) -> bool {
    balances(books).all(|line| line.in_flight + line.parked + line.open == 0)
}

async fn balance(stage: &Stage, pipeline: &str) -> anyhow::Result<BalanceView> {
    let books = books(stage).await?;
    let book = books.pipelines.iter().find(|book| book.pipeline == pipeline);
    book.and_then(|book| book.balance).with_context(|| format!("there are no books of {pipeline}"))
}

/// How many letters wait for a person.
async fn waiting(stage: &Stage) -> anyhow::Result<u64> {
    Ok(balances(&books(stage).await?).map(|line| line.open + line.parked).sum())
}

fn read<T: DeserializeOwned>(value: Value) -> anyhow::Result<T> {
    serde_json::from_value(value).context("redrive answered something unexpected")
}

/// Waits until it holds.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let begun = Instant::now();
    while !holds().await? {
        ensure!(
            begun.elapsed() < PATIENCE,
            "{what}: still not there after {PATIENCE:?}: this is a defect, please report it"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}
