//! `redrive verify`: everything that was accepted is somewhere.

use redrive_server::number::grouped;
use redrive_server::view::{BookView, BooksView, KindName};

use super::Failure;
use crate::args::To;
use crate::line::Line;
use crate::screen::{Cell, Column, Table, Tone, plain, say, say_json, say_table, width};

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

const COLUMNS: [Column; 10] = [
    Column::whole("PIPELINE"),
    Column::whole("ACCEPTED"),
    Column::whole("IN FLIGHT"),
    Column::whole("DELIVERED"),
    Column::whole("OPEN"),
    Column::whole("PARKED"),
    Column::whole("RESOLVED"),
    Column::whole("EXPIRED"),
    Column::whole("DROPPED"),
    Column::whole("GAP"),
];
/// Where most pipelines never have anything.
const RARE: [&str; 5] = ["IN FLIGHT", "PARKED", "RESOLVED", "EXPIRED", "DROPPED"];

/// Prints the books, and fails when something is missing.
pub(crate) async fn run(line: &Line, to: &To) -> Result<(), Failure> {
    let books: BooksView = line.get(&["books"], &[]).await?;
    if to.json {
        say_json(&books)?;
    } else {
        let table = Table::new(&COLUMNS, books.pipelines.iter().map(row).collect());
        // On a terminal there is no room for ten numbers in a row, and most have four of them.
        say_table(&if width().is_some() { table.without_empty(&RARE) } else { table })?;
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

fn row(book: &BookView) -> Vec<Cell> {
    let mut row = vec![Cell::new(Tone::Strong, plain(&book.pipeline))];
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
            .map(|number| grouped(number).into()),
        ),
        None => row.extend(std::iter::repeat_n(Cell::from("-".to_owned()), 8)),
    }
    row.push(match book.gap {
        None => "-".to_owned().into(),
        Some(0) => Cell::new(Tone::Good, "0"),
        Some(gap) => Cell::new(Tone::Trouble, gap.to_string()),
    });
    row
}
