//! How a pipeline is, for `/ready` and the console.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::counter;
use redrive_core::event::WorkId;
use redrive_core::trouble::{Reason, Trouble};
use redrive_store::Error;
use tokio::time::Instant;

/// After how long a settlement that the table refused is tried again: at first, and at most.
const FIRST_DELAY: Duration = Duration::from_secs(60);
const LONGEST_DELAY: Duration = Duration::from_secs(60 * 60);
/// The most refused settlements that are remembered one by one.
const MOST: usize = 10_000;
/// How long a refused redrive or append is reported when nobody tries another one.
const REPORTED: Duration = Duration::from_secs(10 * 60);
/// So many requests whose data the table refuses, and none that it takes between them, are not the senders' mistakes.
const REFUSED_IN_A_ROW: u32 = 5;

/// Whether a pipeline works, and if not, why: what its store said, or which part of it ended in a defect.
#[derive(Debug, Clone, Default)]
pub struct Health(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// What keeps it from working, until that has passed.
    trouble: Option<Trouble>,
    /// What only a restart fixes.
    defect: Option<Trouble>,
    /// The work whose settlement the table refused: how often, and what the store said last.
    refused: BTreeMap<WorkId, RefusedWork>,
    refusal: String,
    /// What neither table of a persist pipeline takes, while there is any.
    unplaced: Option<Trouble>,
    /// The last redrive, if the table refused it.
    redrive: Option<(Instant, Trouble)>,
    /// The last request to put work in, if the table refused it.
    append: Option<(Instant, Trouble)>,
    /// How many of them were refused since the last that was taken.
    refused_appends: u32,
}

/// Work whose settlement was refused.
#[derive(Debug, Clone, Copy)]
struct RefusedWork {
    times: u32,
    /// If it was not refused again by then, another process has settled it.
    until: Instant,
}

/// What becomes of work whose settlement was refused.
pub(crate) struct SetAside {
    /// When it is tried again.
    pub(crate) after: Duration,
    /// Nothing of the pipeline was set aside before.
    pub(crate) is_first: bool,
}

impl Health {
    /// How it is now.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn get(&self) -> Result<(), Trouble> {
        let state = self.state();
        let recent = |refused: &Option<(Instant, Trouble)>| {
            refused.clone().filter(|(at, _)| at.elapsed() < REPORTED).map(|(_, trouble)| trouble)
        };
        let refused_request = || recent(&state.redrive).or_else(|| recent(&state.append));
        match state.defect.as_ref().or(state.trouble.as_ref()) {
            Some(why) => Err(why.clone()),
            None if state.refused_now() > 0 => Err(state.refused_settlements()),
            None if state.unplaced.is_some() => state.unplaced.clone().map_or(Ok(()), Err),
            None => refused_request().map_or(Ok(()), Err),
        }
    }

    /// Events stay in the journal that neither table takes, until a person has changed one.
    pub(crate) fn unplaced(&self, why: Option<String>) {
        self.state().unplaced = why.map(|why| Trouble::new(Reason::TableRefused, why));
    }

    /// How the last redrive went: what its table refused is reported until one goes through, or for ten minutes.
    pub(crate) fn redriven(&self, redriven: Result<(), Trouble>) {
        self.state().redrive = redriven.err().map(|trouble| (Instant::now(), trouble));
    }

    /// How a request to put work in went. One sender's mistake is nobody else's trouble: what the table refuses is
    /// reported when it is not about the data of the request, or when it goes on.
    pub fn put_in<T>(&self, pipeline: &str, result: &Result<T, Error>) {
        match result {
            Ok(_) => {
                let mut state = self.state();
                (state.append, state.refused_appends) = (None, 0);
            }
            Err(error @ (Error::Rejected { .. } | Error::Unsuitable { .. })) => {
                counter!("redrive_appends_refused_total", "pipeline" => pipeline.to_owned()).increment(1);
                self.append_refused(&error.trouble(), error.is_about_the_data());
            }
            Err(_) => {}
        }
    }

    fn append_refused(&self, why: &Trouble, is_about_the_data: bool) {
        let mut state = self.state();
        state.refused_appends = state.refused_appends.saturating_add(1);
        if !is_about_the_data || state.refused_appends >= REFUSED_IN_A_ROW {
            let detail = format!("the table refuses what is put in: {}", why.detail);
            state.append = Some((Instant::now(), Trouble::new(why.reason, detail)));
        }
    }

    /// The table refused a settlement for good: it is set aside, for longer each time.
    pub(crate) fn refused(&self, work: WorkId, error: &str) -> SetAside {
        let mut state = self.state();
        error.clone_into(&mut state.refusal);
        let is_first = state.refused.is_empty();
        let times = state.refused.get(&work).map_or(0, |refused| refused.times);
        let after = FIRST_DELAY.saturating_mul(1 << times.min(6)).min(LONGEST_DELAY);
        if state.refused.len() < MOST || times > 0 {
            let until = Instant::now() + after + FIRST_DELAY;
            state.refused.insert(work, RefusedWork { times: times.saturating_add(1), until });
        }
        SetAside { after, is_first }
    }

    /// These are settled, or another worker's affair; says whether the last one that was set aside is among them.
    pub(crate) fn settled<'a>(&self, work: impl Iterator<Item = &'a WorkId>) -> bool {
        let mut state = self.state();
        if state.refused.is_empty() {
            return false;
        }
        for work in work {
            state.refused.remove(work);
        }
        state.refused.is_empty()
    }

    /// How its store is, or where its events go.
    pub(crate) fn set(&self, health: Result<(), Trouble>) {
        self.state().trouble = health.err();
    }

    /// A part of it has ended for good: whatever else gets better, it stays so.
    pub(crate) fn set_broken(&self, why: String) {
        self.state().defect = Some(Trouble::new(Reason::Defect, why));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn refused_now(&self) -> usize {
        let now = Instant::now();
        self.refused.values().filter(|refused| now < refused.until).count()
    }

    fn refused_settlements(&self) -> Trouble {
        let (rows, refusal) = (self.refused_now(), &self.refusal);
        let detail = format!(
            "the table refuses to settle {rows} of its rows; they are set aside and tried again, at the latest after \
             an hour: {refusal}"
        );
        Trouble::new(Reason::TableRefused, detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The store came back, and `/ready` said that all was well, though nobody kept watch any more.
    #[test]
    fn a_defect_is_not_forgotten_when_the_store_is_back() {
        let health = Health::default();
        assert_eq!(health.get(), Ok(()));
        health.set(Err(Trouble::new(Reason::StoreUnreachable, "away")));
        health.set_broken("its watch ended".into());
        health.set(Ok(()));
        assert_eq!(health.get(), Err(Trouble::new(Reason::Defect, "its watch ended")));
    }

    #[test]
    fn a_refused_settlement_is_told_until_it_is_accepted_and_waits_longer_each_time() {
        let health = Health::default();
        let first = health.refused(WorkId(1), "value too long");
        assert!(first.is_first && first.after == FIRST_DELAY);
        assert!(!health.refused(WorkId(2), "value too long").is_first);
        assert_eq!(health.refused(WorkId(1), "value too long").after, FIRST_DELAY * 2);
        for _ in 0..20 {
            assert!(health.refused(WorkId(1), "value too long").after <= LONGEST_DELAY);
        }
        assert!(
            health
                .get()
                .is_err_and(|why| why.detail.contains("2 of its rows") && why.detail.contains("too long"))
        );
        assert!(!health.settled([WorkId(1)].iter()));
        assert!(health.settled([WorkId(2)].iter()), "the last one");
        assert_eq!(health.get(), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_redrive_is_reported_until_one_goes_through_or_nobody_tries_again() {
        let (health, refused) = (Health::default(), Trouble::new(Reason::TableRefused, "check"));
        health.redriven(Err(refused.clone()));
        assert_eq!(health.get(), Err(refused.clone()));
        health.redriven(Ok(()));
        assert_eq!(health.get(), Ok(()));
        health.redriven(Err(refused));
        tokio::time::advance(REPORTED).await;
        assert_eq!(health.get(), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn refused_appends_are_reported_when_they_are_not_one_senders_mistake() {
        let health = Health::default();
        let check = Trouble::new(Reason::TableRefused, "check");
        let refuse = |is_about_the_data| health.append_refused(&check, is_about_the_data);
        let accept = || health.put_in("orders", &Ok(()));
        (1..REFUSED_IN_A_ROW).for_each(|_| refuse(true));
        accept();
        (1..REFUSED_IN_A_ROW).for_each(|_| refuse(true));
        assert_eq!(health.get(), Ok(()), "others are taken between them");
        refuse(true);
        assert!(health.get().is_err_and(|why| why.detail.ends_with("put in: check")));
        accept();
        assert_eq!(health.get(), Ok(()));
        refuse(false);
        assert!(health.get().is_err(), "no data at all would be taken");
        tokio::time::advance(REPORTED).await;
        assert_eq!(health.get(), Ok(()), "nobody tries any more");
    }

    /// It was reported for ever by the process that was refused, when another one settled it.
    #[tokio::test(start_paused = true)]
    async fn a_refused_settlement_that_is_not_tried_again_here_is_somebody_elses() {
        let health = Health::default();
        let after = health.refused(WorkId(1), "no such column").after;
        tokio::time::advance(after).await;
        assert!(health.get().is_err(), "it may be refused again");
        tokio::time::advance(FIRST_DELAY).await;
        assert_eq!(health.get(), Ok(()));
    }
}
