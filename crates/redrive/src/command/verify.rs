//! `redrive verify`: everything that was accepted is somewhere.

use redrive_server::number::grouped;
use redrive_server::view::{BookView, BooksView, KindName};

use super::Failure;
use crate::args::To;
use crate::line::Line;
use crate::screen::{plain, say, say_json, say_table};

/// What balanced books prove, by kind: as docs/guarantees.md has it.
const PROVED: [(KindName, &str); 6] = [
    (KindName::Outbox, "each number that was accepted and is known is in one place, through every redrive"),
    (KindName::Jobs, "every row of the table has a known state"),
    (KindName::Persist, "every failed event has a known state; what was saved at once is in your table"),
    (
        KindName::Ingest,
        "every event since the start of the server is stored, on disk, in memory, expired or dropped",
    ),
    (KindName::Kafka, "every letter has a known state; records that never died are in your table"),
    (KindName::Intake, "every letter has a known state"),
];

/// Prints the books, and fails when something is missing.
pub(crate) async fn run(line: &Line, to: &To) -> Result<(), Failure> {
    let books: BooksView = line.get(&["books"], &[]).await?;
    if to.json {
        say_json(&books)?;
    } else {
        let header = [
            "PIPELINE",
            "ACCEPTED",
            "IN FLIGHT",
            "DELIVERED",
            "OPEN",
            "PARKED",
            "RESOLVED",
            "EXPIRED",
            "DROPPED",
            "GAP",
        ];
        say_table(&header, books.pipelines.iter().map(row).collect())?;
    }
    let named = |wanted: fn(&BookView) -> bool| -> Vec<String> {
        books.pipelines.iter().filter(|book| wanted(book)).map(|book| plain(&book.pipeline)).collect()
    };
    let wrong = named(|book| book.gap.is_some_and(|gap| gap != 0));
    if !wrong.is_empty() {
        let said = format!(
            "the books of {} do not balance: verify again at rest, then look for who writes the tables",
            wrong.join(", ")
        );
        return Err(Failure::Other(anyhow::Error::msg(said)));
    }
    let silent = named(|book| book.balance.is_none());
    if !silent.is_empty() {
        return Err(Failure::Unavailable(format!("the store of {} does not answer", silent.join(", "))));
    }
    if !to.json {
        say("the books balance; what is counted against what:")?;
        for (kind, proved) in PROVED {
            if books.pipelines.iter().any(|book| book.kind == kind) {
                say(&format!("  {kind}: {proved}"))?;
            }
        }
    }
    Ok(())
}

fn row(book: &BookView) -> Vec<String> {
    let mut row = vec![plain(&book.pipeline)];
    match &book.balance {
        Some(balance) => row.extend(
            [
                balance.accepted,
                balance.in_flight,
                balance.delivered,
                balance.open,
                balance.parked,
                balance.resolved,
                balance.expired,
                balance.dropped,
            ]
            .map(grouped),
        ),
        None => row.extend(std::iter::repeat_n("-".to_owned(), 8)),
    }
    row.push(book.gap.map_or_else(|| "-".to_owned(), |gap| gap.to_string()));
    row
}
