//! `redrive verify`: is everything somewhere that was ever accepted?

use redrive_server::view::{BalanceView, BooksView};

use super::Failure;
use crate::args::To;
use crate::line::Line;
use crate::screen::{count, plain, say, say_json, say_table};

/// Prints the books of every pipeline; a gap is a failure.
pub(crate) async fn run(line: &Line, to: &To) -> Result<(), Failure> {
    let books: BooksView = line.get(&["verify"], &[]).await?;
    if to.json {
        say_json(&books)?;
    } else {
        print(&books)?;
    }
    if let Some(silent) = books.books.iter().find_map(|line| Some((&line.pipeline, line.error.as_ref()?))) {
        return Err(Failure::Unavailable(format!("{}: {}", plain(silent.0), plain(silent.1))));
    }
    if !books.balanced {
        let text = "the books do not balance: a gap above zero is events that are nowhere, below zero events that are \
                    in two places; keep the tables as they are and report it";
        return Err(Failure::Other(anyhow::anyhow!(text)));
    }
    Ok(())
}

fn print(books: &BooksView) -> anyhow::Result<()> {
    let header = [
        "PIPELINE",
        "KIND",
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
    say_table(&header, books.books.iter().map(row).collect())?;
    if books.balanced {
        say("balanced: accepted = in flight + delivered + open + parked + resolved + expired + dropped")?;
    }
    Ok(())
}

fn row(line: &BalanceView) -> Vec<String> {
    let mut row = vec![plain(&line.pipeline), line.kind.to_string()];
    if line.error.is_some() {
        row.extend(std::iter::repeat_n("-".to_owned(), 9));
        return row;
    }
    let numbers = [
        line.accepted,
        line.in_flight,
        line.delivered,
        line.open,
        line.parked,
        line.resolved,
        line.expired,
        line.dropped,
    ];
    row.extend(numbers.map(count));
    row.push(line.gap.to_string());
    row
}
