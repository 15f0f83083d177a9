//! A message: an alert in words, for the channels that people read.

use std::fmt;
use std::fmt::Write as _;
use std::time::Duration;

use super::alert::{
    Alert, DeadLetterAlert, Dropped, Grouping, HandlerDown, HandlerUp, HeldBack, LadderMoved, Level,
    MoreLetters, Report,
};

/// How many event types a report lists.
const LISTED_TYPES: usize = 20;

/// An alert in words: a title, and named values. Every part is one line of harmless text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) title: String,
    pub(super) fields: Vec<(String, String)>,
}

impl Message {
    /// Puts an alert into words.
    pub(super) fn of(alert: &Alert) -> Self {
        match alert {
            Alert::DeadLetter(letter) => dead_letter(letter),
            Alert::MoreLetters(more) => more_letters(more),
            Alert::ThresholdReached(level) => reached(level),
            Alert::ThresholdRecovered(level) => recovered(level),
            Alert::HandlerDown(handler) => handler_down(handler),
            Alert::HandlerUp(handler) => handler_up(handler),
            Alert::LadderMoved(moved) => ladder_moved(moved),
            Alert::Dropped(lost) => dropped(lost),
            Alert::Report(report) => summary(report),
            Alert::HeldBack(held) => held_back(held),
        }
    }

    fn new(title: String) -> Self {
        Self { title, fields: Vec::new() }
    }

    fn with(mut self, name: impl Into<String>, value: impl fmt::Display) -> Self {
        self.fields.push((name.into(), value.to_string()));
        self
    }

    fn with_count(self, name: &str, count: u64) -> Self {
        if count == 0 { self } else { self.with(name, Grouped(count)) }
    }
}

/// The fields as lines, with the values in one column.
impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.fields.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        for (name, value) in &self.fields {
            writeln!(f, "  {name:width$}  {value}")?;
        }
        Ok(())
    }
}

fn dead_letter(letter: &DeadLetterAlert) -> Message {
    Message::new(format!("Dead letter in {}", letter.pipeline))
        .with("event", &letter.event_id)
        .with("type", &letter.event_type)
        .with("aggregate", format!("{} {}", letter.aggregate_type, letter.aggregate_id).trim())
        .with("retries", letter.retry_count)
        .with("failed at", letter.failed_at)
        .with("error", &letter.error)
        .with("group", letter.fingerprint)
}

fn more_letters(more: &MoreLetters) -> Message {
    let (latest, count) = (&more.latest, Grouped(more.count));
    let noun = if more.count == 1 { "dead letter" } else { "dead letters" };
    let message = match more.groups {
        Grouping::Same => {
            Message::new(format!("{count} more {noun} of the same kind in {}", latest.pipeline))
                .with("type", &latest.event_type)
                .with("group", latest.fingerprint)
        }
        Grouping::Mixed => Message::new(format!("{count} more {noun}, of too many kinds to tell apart"))
            .with("latest in", &latest.pipeline)
            .with("latest type", &latest.event_type),
    };
    message
        .with("within", Span(more.within))
        .with("latest event", &latest.event_id)
        .with("latest error", &latest.error)
}

fn reached(level: &Level) -> Message {
    let (count, pipeline) = (Grouped(level.count), &level.pipeline);
    Message::new(format!("{count} unresolved dead letters in {pipeline}"))
        .with("threshold", Grouped(level.threshold))
        .with("what to do", "look at the groups, mend the cause, redrive or resolve the letters")
}

fn recovered(level: &Level) -> Message {
    Message::new(format!("{} is back under its threshold", level.pipeline))
        .with("unresolved", Grouped(level.count))
        .with("threshold", Grouped(level.threshold))
}

fn handler_down(handler: &HandlerDown) -> Message {
    Message::new(format!("Handler {} of {} is down", handler.handler, handler.pipeline))
        .with("error", &handler.error)
        .with("meanwhile", "what was accepted waits, and is not counted as failed")
}

fn handler_up(handler: &HandlerUp) -> Message {
    Message::new(format!("Handler {} of {} is back", handler.handler, handler.pipeline))
}

fn ladder_moved(moved: &LadderMoved) -> Message {
    let (pipeline, to, from) = (&moved.pipeline, moved.to.name(), moved.from.name());
    if moved.to < moved.from {
        return Message::new(format!("{pipeline} is up again: its events go to {to}"))
            .with("instead of", from);
    }
    Message::new(format!("{pipeline} is down the ladder: its events go to {to}"))
        .with("instead of", from)
        .with("error", &moved.why)
        .with("what to do", "mend what stands above; the events come back by themselves")
}

fn dropped(dropped: &Dropped) -> Message {
    let what = match dropped.events {
        // Nobody can tell what stood in the damaged part of a journal.
        0 => "Events may be lost".to_owned(),
        1 => "1 event was lost".to_owned(),
        events => format!("{} events were lost", Grouped(events)),
    };
    Message::new(format!("{what} in {}", dropped.pipeline))
        .with_count("files", dropped.files)
        .with("why", &dropped.why)
        .with("what to do", "whoever sent them must send them again")
}

fn summary(report: &Report) -> Message {
    let count = Grouped(report.unresolved);
    let mut message = Message::new(format!("Report on {}: {count} unresolved dead letters", report.pipeline));
    if let Some(oldest) = report.oldest {
        message = message.with("oldest", oldest);
    }
    let (listed, rest) = report.by_type.split_at(report.by_type.len().min(LISTED_TYPES));
    for row in listed {
        message = message.with(row.event_type.as_str(), Grouped(row.count));
    }
    message.with_count("other types", rest.iter().map(|row| row.count).sum())
}

fn held_back(held: &HeldBack) -> Message {
    Message::new(format!("{} alerts were not sent here", Grouped(held.alerts())))
        .with_count("over the limit", held.limited)
        .with_count("queue full", held.dropped)
        .with_count("not delivered", held.failed)
        .with_count("dead letters in them", held.letters)
}

/// A number with separators: 9,999.
struct Grouped(u64);

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        for (index, digit) in digits.char_indices() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                f.write_char(',')?;
            }
            f.write_char(digit)?;
        }
        Ok(())
    }
}

/// A duration in whole minutes or seconds.
struct Span(Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_secs() {
            seconds @ 0..120 => write!(f, "{seconds} s"),
            seconds => write!(f, "{} min", seconds / 60),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_easy_to_read() {
        for (number, text) in
            [(0, "0"), (999, "999"), (1000, "1,000"), (9_999, "9,999"), (1_234_567, "1,234,567")]
        {
            assert_eq!(Grouped(number).to_string(), text);
        }
    }

    #[test]
    fn a_report_lists_the_most_frequent_types_and_counts_the_rest() {
        let counts = (0..25).map(|number| (format!("Type{number:02}"), 100 - number));
        let message = Message::of(&Alert::Report(Report::new("orders", counts, None)));
        assert_eq!(message.title, "Report on orders: 2,200 unresolved dead letters");
        assert_eq!(message.fields.len(), 21);
        assert_eq!(message.fields[0], ("Type00".to_owned(), "100".to_owned()));
        assert_eq!(message.fields[20], ("other types".to_owned(), "390".to_owned()));
    }

    /// "0 events were lost" let people sleep on.
    #[test]
    fn a_loss_is_told_even_if_nobody_knows_how_many() {
        for (events, title) in [
            (0, "Events may be lost in orders"),
            (1, "1 event was lost in orders"),
            (2_000, "2,000 events were lost in orders"),
        ] {
            let lost = Dropped { pipeline: "orders".into(), events, files: 0, why: "damaged".into() };
            assert_eq!(Message::of(&Alert::Dropped(lost)).title, title);
        }
    }

    #[test]
    fn what_was_held_back_is_named_by_its_reason() {
        let held = HeldBack { limited: 12, failed: 1, letters: 10_000, ..HeldBack::default() };
        let message = Message::of(&Alert::HeldBack(held));
        assert_eq!(message.title, "13 alerts were not sent here");
        let lines = "  over the limit        12\n  not delivered         1\n  dead letters in them  10,000\n";
        assert_eq!(message.to_string(), lines);
    }
}
