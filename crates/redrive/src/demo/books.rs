//! The books: accepted = delivered + dead + resolved, for each pipeline, counted in the stores.

use redrive_core::dead_letter::{DeadLetterQueue, Status};
use redrive_store::WorkStore as _;

use super::stage::Stage;

/// One line of the books.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) pipeline: &'static str,
    pub(crate) accepted: u64,
    pub(crate) delivered: u64,
    pub(crate) waiting: u64,
    pub(crate) dead: u64,
    pub(crate) resolved: u64,
}

impl Line {
    pub(crate) const fn balances(&self) -> bool {
        self.accepted == self.delivered + self.waiting + self.dead + self.resolved
    }
}

/// The books of the whole demo.
#[derive(Debug)]
pub(crate) struct Books {
    pub(crate) lines: Vec<Line>,
}

impl Books {
    pub(crate) async fn of(stage: &Stage) -> anyhow::Result<Self> {
        let orders = stage.orders.stats().await?;
        let articles = stage.articles.stats().await?;
        let orders = Line {
            pipeline: "orders",
            accepted: stage.accepted_orders(),
            delivered: stage.orders.delivered().await?,
            waiting: stage.orders.backlog().await?,
            dead: orders.waiting(),
            resolved: orders.count(Status::Resolved),
        };
        let articles = Line {
            pipeline: "articles",
            accepted: stage.accepted_articles(),
            delivered: stage.articles.delivered().await?,
            waiting: stage.articles.backlog().await?,
            dead: articles.waiting(),
            resolved: articles.count(Status::Resolved),
        };
        Ok(Self { lines: vec![orders, articles] })
    }

    pub(crate) fn balance(&self) -> bool {
        self.lines.iter().all(|line| line.balances() && line.waiting == 0)
    }
}
