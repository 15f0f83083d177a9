//! Letters, as the API shows them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use redrive_core::dead_letter::{Letter, Origin, Redelivery, Resolution, Summary};
use redrive_core::failure::Failure;
use redrive_core::history::Attempt;
use redrive_engine::console::Letterbox;
use redrive_store::EditedPayload;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{ClassName, KindName, PayloadFormat, RedeliveryStateName, StatusName, Unanswered};
use crate::json::{indented, is_json};

/// How much of a payload a letter shows; `/payload` has all of it.
const SHOWN: usize = 1 << 20;
/// How much of each payload of an edit is shown.
const SHOWN_OF_EDIT: usize = 64 << 10;

/// A page of letters.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LetterPage {
    /// The letters, newest first.
    pub letters: Vec<SummaryView>,
    /// Where the next page starts, as `cursor`; null at the end. A search that takes long ends early: the page then has
    /// fewer letters than `limit`, none even, and `searched_to` says how far it looked.
    pub next: Option<String>,
    /// The letters that failed after this were looked at; null when the page is full, or the last one.
    pub searched_to: Option<Timestamp>,
    /// The pipelines whose store did not answer: their letters are missing here.
    pub unavailable: Vec<Unanswered>,
}

/// A letter as a list shows it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct SummaryView {
    /// Its name everywhere: `<pipeline>:<local id>`.
    pub id: String,
    /// The pipeline's name.
    pub pipeline: String,
    /// The pipeline's kind.
    pub kind: KindName,
    /// The type of the event.
    pub event_type: String,
    /// The key of the event.
    pub key: String,
    /// The latest failure.
    pub failure: FailureView,
    /// How many attempts failed.
    pub attempts: u32,
    /// When the latest attempt failed.
    pub failed_at: Timestamp,
    /// Its state.
    pub status: StatusName,
    /// How often it was redriven.
    pub redrive_count: u32,
    /// The fingerprint of its group.
    pub group: String,
}

/// What went wrong.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct FailureView {
    /// Its class.
    pub class: ClassName,
    /// The failing system's code, such as `sqlstate:23505`.
    pub code: Option<String>,
    /// Its type.
    pub kind: String,
    /// What was said.
    pub message: String,
}

/// A letter, whole.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LetterView {
    /// What a list shows.
    #[serde(flatten)]
    pub summary: SummaryView,
    /// When it first failed.
    pub first_failed_at: Timestamp,
    /// Where it was before it died.
    pub origin: OriginView,
    /// Where it is redriven to, if it was handed in: a target from the configuration, by name. Null when it named
    /// none, and for letters that go back to where they were.
    pub target: Option<String>,
    /// The headers, in order.
    pub headers: Vec<HeaderView>,
    /// The body.
    pub payload: PayloadView,
    /// The attempts that failed, oldest first.
    pub history: Vec<AttemptView>,
    /// How it was closed.
    pub resolution: Option<ResolutionView>,
    /// What became of its event since it was last redriven; null if it was not.
    pub redelivery: Option<RedeliveryView>,
    /// The letter whose redrive failed again as this one.
    pub redriven_from: Option<String>,
    /// What it was before it was redriven with another payload, newest first.
    pub edits: Vec<EditView>,
}

/// A payload, as far as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PayloadView {
    /// How `text` is to be read.
    pub format: PayloadFormat,
    /// The payload: byte for byte if it is text, else in base64.
    pub text: String,
    /// How many bytes it has.
    pub size: u64,
    /// Whether `text` is only its beginning.
    pub cut: bool,
}

/// One header.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct HeaderView {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: PayloadView,
}

/// Where a letter was before it died.
// Not the `Origin` of the core with a schema: that is how a store writes it down, and this what callers rely on. Both
// have the same words today; each must be free to gain one without the other.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(tag = "in", rename_all = "lowercase")]
pub enum OriginView {
    /// A row of a table.
    Table {
        /// The table.
        table: String,
        /// The row.
        id: i64,
    },
    /// A record of a topic.
    Topic {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The offset.
        offset: i64,
    },
    /// A line of a file.
    File {
        /// The file's name.
        file: String,
        /// The line, from 1.
        line: u64,
    },
    /// Another service handed it in.
    Service {
        /// What it calls itself.
        name: String,
    },
}

/// One failed attempt.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AttemptView {
    /// When it failed.
    pub at: Timestamp,
    /// Its number, from 1.
    pub number: u32,
    /// What went wrong; the message may be shortened.
    #[serde(flatten)]
    pub failure: FailureView,
}

/// How a letter was closed.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ResolutionView {
    /// Who did it.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// Why.
    pub note: String,
}

/// What became of the event of a redriven letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RedeliveryView {
    /// How far it is.
    pub state: RedeliveryStateName,
    /// When it was delivered, handed over, or failed again; null while it is pending, and where delivered events are not
    /// kept.
    pub at: Option<Timestamp>,
    /// The letter that it failed again as; the same letter, where letters keep their ids.
    pub letter: Option<String>,
}

/// An edit.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct EditView {
    /// When it was made.
    pub at: Timestamp,
    /// Who made it.
    pub by: String,
    /// What the letter was.
    pub original: PayloadView,
    /// What was sent instead.
    pub edited: PayloadView,
}

impl From<Letterbox> for LetterPage {
    fn from(page: Letterbox) -> Self {
        Self {
            letters: page.letters.into_iter().map(SummaryView::from).collect(),
            next: page.next.map(|place| place.to_string()),
            searched_to: page.searched_to,
            unavailable: Unanswered::all(page.unavailable),
        }
    }
}

impl From<Summary> for SummaryView {
    fn from(letter: Summary) -> Self {
        Self {
            id: letter.id.to_string(),
            pipeline: letter.id.pipeline,
            kind: letter.kind.into(),
            event_type: letter.event_type,
            key: letter.key,
            failure: letter.failure.into(),
            attempts: letter.attempts,
            failed_at: letter.failed_at,
            status: letter.status.into(),
            redrive_count: letter.redrive_count,
            group: letter.fingerprint.to_string(),
        }
    }
}

impl From<Failure> for FailureView {
    fn from(failure: Failure) -> Self {
        Self {
            class: failure.class.into(),
            code: failure.code.map(|code| code.to_string()),
            kind: failure.kind,
            message: failure.message,
        }
    }
}

impl LetterView {
    /// A letter with what it was before.
    #[must_use]
    pub fn new(letter: Letter, edits: Vec<EditedPayload>) -> Self {
        let header = |(name, value): (String, Vec<u8>)| HeaderView { name, value: PayloadView::of(&value) };
        Self {
            first_failed_at: letter.first_failed_at,
            origin: letter.origin.into(),
            target: letter.target,
            headers: letter.headers.into_iter().map(header).collect(),
            payload: PayloadView::of(&letter.payload),
            history: letter.history.attempts().iter().map(AttemptView::from).collect(),
            resolution: letter.resolution.map(ResolutionView::from),
            redelivery: letter.redelivery.map(RedeliveryView::from),
            redriven_from: letter.redriven_from.map(|id| id.to_string()),
            edits: edits.into_iter().map(EditView::from).collect(),
            summary: letter.summary.into(),
        }
    }
}

impl PayloadView {
    /// As much of these bytes as a letter shows.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self::up_to(SHOWN, bytes)
    }

    /// All of these bytes.
    #[must_use]
    pub fn whole(bytes: &[u8]) -> Self {
        Self::up_to(usize::MAX, bytes)
    }

    /// The text for people: JSON with one value per line, every digit, key and escape as it was written.
    #[must_use]
    pub fn laid_out(&self) -> String {
        let indented = match self.format {
            PayloadFormat::Json if !self.cut => indented(&self.text),
            _ => None,
        };
        indented.unwrap_or_else(|| self.text.clone())
    }

    fn up_to(limit: usize, bytes: &[u8]) -> Self {
        let (size, cut) = (bytes.len() as u64, bytes.len() > limit);
        match std::str::from_utf8(bytes) {
            Ok(text) => {
                let format = if is_json(text) { PayloadFormat::Json } else { PayloadFormat::Text };
                let text = text[..text.floor_char_boundary(limit)].to_owned();
                Self { format, text, size, cut }
            }
            Err(_) => {
                let text = STANDARD.encode(&bytes[..bytes.len().min(limit)]);
                Self { format: PayloadFormat::Base64, text, size, cut }
            }
        }
    }
}

impl From<Origin> for OriginView {
    fn from(origin: Origin) -> Self {
        match origin {
            Origin::Table { table, id } => Self::Table { table, id },
            Origin::Topic { topic, partition, offset } => Self::Topic { topic, partition, offset },
            Origin::File { file, line } => Self::File { file, line },
            Origin::Service { name } => Self::Service { name },
        }
    }
}

impl From<&Attempt> for AttemptView {
    fn from(attempt: &Attempt) -> Self {
        let failure = FailureView {
            class: attempt.failure.class.into(),
            code: attempt.failure.code.as_ref().map(ToString::to_string),
            kind: attempt.failure.kind.clone(),
            message: attempt.failure.message.clone(),
        };
        Self { at: attempt.at, number: attempt.number, failure }
    }
}

impl From<Resolution> for ResolutionView {
    fn from(resolution: Resolution) -> Self {
        Self { by: resolution.by, at: resolution.at, note: resolution.note }
    }
}

impl From<Redelivery> for RedeliveryView {
    fn from(redelivery: Redelivery) -> Self {
        Self {
            state: redelivery.state.into(),
            at: redelivery.at,
            letter: redelivery.letter.map(|id| id.to_string()),
        }
    }
}

impl From<EditedPayload> for EditView {
    fn from(edit: EditedPayload) -> Self {
        Self {
            at: edit.at,
            by: edit.operator,
            original: PayloadView::up_to(SHOWN_OF_EDIT, &edit.original),
            edited: PayloadView::up_to(SHOWN_OF_EDIT, &edit.edited),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_shown_as_what_it_is() {
        let shown = |bytes: &[u8]| {
            let view = PayloadView::of(bytes);
            (view.format, view.text)
        };
        assert_eq!(shown(b"{\"n\": 1e400}"), (PayloadFormat::Json, "{\"n\": 1e400}".to_owned()));
        assert_eq!(shown("é {".as_bytes()), (PayloadFormat::Text, "é {".to_owned()));
        assert_eq!(shown(b"\xff\x00"), (PayloadFormat::Base64, "/wA=".to_owned()));
        assert_eq!(shown(b""), (PayloadFormat::Text, String::new()));
    }

    /// A number of many digits was shown as another one, and keys were sorted.
    #[test]
    fn json_is_laid_out_as_it_was_written() {
        let view = PayloadView::of(br#"{"b":12345678901234567890123,"a":1.10,"b":"\u00e9"}"#);
        let shown = "{\n  \"b\": 12345678901234567890123,\n  \"a\": 1.10,\n  \"b\": \"\\u00e9\"\n}";
        assert_eq!(view.laid_out(), shown);
        assert_eq!(PayloadView::of(b"no {json}").laid_out(), "no {json}");
    }

    #[test]
    fn a_long_payload_is_cut_between_characters() {
        let view = PayloadView::up_to(4, "abcé".as_bytes());
        assert_eq!((view.text.as_str(), view.size, view.cut), ("abc", 5, true));
    }
}
