//! What is not shown, because a store did not answer.

use redrive_server::view::Unanswered;

use super::Failure;
use crate::screen::plain;

/// The pipelines whose letters are missing, each once.
#[derive(Default)]
pub(super) struct Missing(Vec<Unanswered>);

impl Missing {
    /// Takes in what one more page lacks.
    pub(super) fn add(&mut self, unavailable: Vec<Unanswered>) {
        for one in unavailable {
            if self.0.iter().all(|known| known.pipeline != one.pipeline) {
                self.0.push(one);
            }
        }
    }

    /// Something that is missing is no success.
    pub(super) fn report(self) -> Result<(), Failure> {
        let Some(first) = self.0.first() else { return Ok(()) };
        let names: Vec<String> = self.0.iter().map(|one| plain(&one.pipeline)).collect();
        Err(Failure::Unavailable(format!(
            "the letters of {} are missing: {}; are its tables there (redrive migrate), and does its database run?",
            names.join(", "),
            plain(&first.reason)
        )))
    }
}

impl From<Vec<Unanswered>> for Missing {
    fn from(unavailable: Vec<Unanswered>) -> Self {
        let mut missing = Self::default();
        missing.add(unavailable);
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn away(pipeline: &str) -> Vec<Unanswered> {
        vec![Unanswered { pipeline: pipeline.to_owned(), reason: "no route".to_owned() }]
    }

    /// Only the first page of a list, and the last one of an export, were asked what they lack.
    #[test]
    fn what_any_page_lacks_is_missing_in_the_whole() {
        let mut missing = Missing::default();
        for unavailable in [vec![], away("orders"), away("mails"), away("orders"), vec![]] {
            missing.add(unavailable);
        }
        let Err(Failure::Unavailable(said)) = missing.report() else { panic!("a success") };
        assert!(said.starts_with("the letters of orders, mails are missing: no route;"), "{said}");
        assert!(Missing::default().report().is_ok());
    }
}
