//! The letters that a rule has sent, until it is known what became of them.

use std::collections::{HashSet, VecDeque};

use redrive_core::dead_letter::Outcome;

/// How many letters are followed, the latest.
const MOST: usize = 2_000;

/// What has become of a letter, the first time that it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    /// It did its work.
    GotThrough,
    /// It failed again. It may have attempts left, so it is followed further: it may still get through.
    FailedAgain,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Nothing,
    Failed,
}

/// The letters that a rule has sent, the latest last.
#[derive(Debug, Default)]
pub(super) struct Followed(VecDeque<(String, Known)>);

impl Followed {
    /// Letters were sent, perhaps not for the first time.
    pub(super) fn add(&mut self, sent: Vec<String>) {
        let again: HashSet<&String> = sent.iter().collect();
        self.0.retain(|(id, _)| !again.contains(id));
        self.0.extend(sent.into_iter().map(|id| (id, Known::Nothing)));
        self.0.drain(..self.0.len().saturating_sub(MOST));
    }

    /// Their local ids.
    pub(super) fn ids(&self) -> Vec<String> {
        self.0.iter().map(|(id, _)| id.clone()).collect()
    }

    /// Of how many nothing is known.
    pub(super) fn unknown(&self) -> usize {
        self.0.iter().filter(|(_, known)| *known == Known::Nothing).count()
    }

    /// Takes in the outcomes of [`Followed::ids`], and says what is new in them.
    pub(super) fn learn(&mut self, outcomes: &[Outcome]) -> Vec<News> {
        let mut news = Vec::new();
        let followed = std::mem::take(&mut self.0);
        for ((id, known), outcome) in followed.into_iter().zip(outcomes) {
            match outcome {
                Outcome::Pending => self.0.push_back((id, known)),
                // Nobody will ever say more.
                Outcome::HandedOver => {}
                Outcome::Delivered => news.push(News::GotThrough),
                Outcome::Failed(_) => {
                    if known == Known::Nothing {
                        news.push(News::FailedAgain);
                    }
                    self.0.push_back((id, Known::Failed));
                }
            }
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use redrive_core::failure::Failure;

    use super::*;

    fn ids(range: std::ops::Range<usize>) -> Vec<String> {
        range.map(|id| id.to_string()).collect()
    }

    fn failed() -> Outcome {
        Outcome::Failed(Failure::transient("Timeout", "no answer"))
    }

    #[test]
    fn a_failure_is_news_once_and_a_success_after_it_is_news_again() {
        let mut followed = Followed::default();
        followed.add(ids(0..3));
        assert_eq!(followed.learn(&[failed(), Outcome::Pending, Outcome::HandedOver]), [News::FailedAgain]);
        assert_eq!((followed.ids(), followed.unknown()), (ids(0..2), 1));
        assert_eq!(followed.learn(&[failed(), Outcome::Pending]), []);
        assert_eq!(followed.learn(&[Outcome::Delivered, failed()]), [News::GotThrough, News::FailedAgain]);
        assert_eq!((followed.ids(), followed.unknown()), (ids(1..2), 0));
    }

    #[test]
    fn one_that_is_sent_again_is_followed_anew() {
        let mut followed = Followed::default();
        followed.add(ids(0..2));
        followed.learn(&[failed(), failed()]);
        followed.add(ids(0..1));
        assert_eq!((followed.ids(), followed.unknown()), (vec!["1".to_owned(), "0".to_owned()], 1));
    }

    #[test]
    fn the_oldest_are_forgotten_before_they_become_too_many() {
        let mut followed = Followed::default();
        followed.add(ids(0..MOST + 5));
        assert_eq!((followed.unknown(), followed.ids()[0].as_str()), (MOST, "5"));
    }
}
