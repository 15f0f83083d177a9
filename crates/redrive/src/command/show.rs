//! `redrive show`: one letter, whole.

use redrive_engine::alerts::escape_lines;
use redrive_server::diff::{Line as Change, compare_payloads};
use redrive_server::number::counted;
use redrive_server::view::{
    EditView, FailureView, LetterView, OriginView, PayloadFormat, PayloadView, RedeliveryStateName,
    RedeliveryView,
};

use super::Failure;
use super::ls::tone;
use crate::args::To;
use crate::line::Line;
use crate::screen::{Tone, ago, paint, plain, say, say_json};

/// Prints a letter.
pub(crate) async fn run(line: &Line, to: &To, id: &str) -> Result<(), Failure> {
    let letter: LetterView = line.get(&["dead-letters", id], &[]).await?;
    if to.json {
        return Ok(say_json(&letter)?);
    }
    Ok(say(&text(&letter))?)
}

fn text(letter: &LetterView) -> String {
    let summary = &letter.summary;
    let mut lines = vec![
        format!(
            "{}  {}  {}",
            paint(Tone::Strong, &plain(&summary.id)),
            paint(tone(summary.status), &summary.status.to_string()),
            summary.kind
        ),
        format!("type      {}", plain(&summary.event_type)),
        format!("key       {}", plain(&summary.key)),
        format!("group     {}", plain(&summary.group)),
        format!("origin    {}", origin(&letter.origin)),
        format!(
            "failed    {} ({}), first {}",
            summary.failed_at,
            ago(summary.failed_at),
            letter.first_failed_at
        ),
        format!("attempts  {}, redriven {}", summary.attempts, counted(summary.redrive_count.into(), "time")),
        format!("failure   {}", failure(&summary.failure)),
    ];
    if let Some(target) = &letter.target {
        lines.insert(5, format!("target    {}", plain(target)));
    }
    if let Some(resolution) = &letter.resolution {
        let note = plain(&resolution.note);
        lines.push(format!("closed    {} by {}: {note}", resolution.at, plain(&resolution.by)));
    }
    if let Some(after) = &letter.redelivery {
        lines.push(format!("redrive   {}", redelivery(after, &summary.id)));
    }
    if let Some(from) = &letter.redriven_from {
        lines.push(format!("from      {}, whose redrive failed again as this letter", plain(from)));
    }
    for header in &letter.headers {
        lines.push(format!("header    {}: {}", plain(&header.name), plain(&header.value.text)));
    }
    lines.push(String::new());
    for attempt in &letter.history {
        lines.push(format!("attempt {}  {}  {}", attempt.number, attempt.at, failure(&attempt.failure)));
    }
    for edit in &letter.edits {
        lines.push(format!("edited    {} by {}:", edit.at, plain(&edit.by)));
        lines.extend(changes(edit));
    }
    lines.push(String::new());
    lines.push(payload(&letter.payload));
    lines.join("\n")
}

/// What became of its event since it was last redriven.
fn redelivery(after: &RedeliveryView, of: &str) -> String {
    let said = match after.state {
        RedeliveryStateName::Pending => "not handled yet",
        RedeliveryStateName::Delivered => "delivered",
        RedeliveryStateName::HandedOver => "handed over",
        RedeliveryStateName::Failed => "failed again",
    };
    let at = after.at.map(|at| format!(" {at} ({})", ago(at))).unwrap_or_default();
    let letter = after.letter.as_deref().filter(|letter| *letter != of);
    format!("{said}{at}{}", letter.map(|letter| format!(" as {}", plain(letter))).unwrap_or_default())
}

/// What an edit changed: lines of the original with a minus, of what was sent instead with a plus.
fn changes(edit: &EditView) -> Vec<String> {
    let EditView { original, edited, .. } = edit;
    if [original, edited].iter().any(|payload| payload.format == PayloadFormat::Base64) {
        return vec![
            format!("the original:\n{}", payload(original)),
            format!("sent instead:\n{}", payload(edited)),
        ];
    }
    let mut lines: Vec<String> = compare_payloads(&original.text, &edited.text).iter().map(change).collect();
    if lines.is_empty() {
        lines.push("  nothing was changed".to_owned());
    }
    if original.cut || edited.cut {
        lines.push("… only the first part of each is compared".to_owned());
    }
    lines
}

fn change(line: &Change) -> String {
    match line {
        Change::Same(text) => format!("  {}", escape_lines(text)),
        Change::Gone(text) => paint(Tone::Trouble, &format!("- {}", escape_lines(text))).to_string(),
        Change::New(text) => paint(Tone::Good, &format!("+ {}", escape_lines(text))).to_string(),
        Change::Skipped(many) => {
            paint(Tone::Dim, &format!("  … {} unchanged", counted(*many as u64, "line"))).to_string()
        }
    }
}

fn failure(failure: &FailureView) -> String {
    let code = failure.code.as_deref().map(|code| format!(" {}", plain(code))).unwrap_or_default();
    format!("{}{code} {}: {}", failure.class, plain(&failure.kind), plain(&failure.message))
}

fn origin(origin: &OriginView) -> String {
    match origin {
        OriginView::Table { table, id } => format!("row {id} of {}", plain(table)),
        OriginView::Topic { topic, partition, offset } => {
            format!("offset {offset} of partition {partition} of {}", plain(topic))
        }
        OriginView::File { file, line } => format!("line {line} of {}", plain(file)),
        OriginView::Service { name } => format!("handed in by {}", plain(name)),
    }
}

/// JSON is laid out, text is shown with its lines, and nothing in either does anything.
fn payload(payload: &PayloadView) -> String {
    let shown = match payload.format {
        PayloadFormat::Json | PayloadFormat::Text => payload.laid_out(),
        PayloadFormat::Base64 => format!("(base64) {}", payload.text),
    };
    let cut =
        if payload.cut { format!("\n… the first part of {} bytes", payload.size) } else { String::new() };
    format!("{}{cut}", escape_lines(&shown))
}
