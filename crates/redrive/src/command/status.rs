//! `redrive status`: every pipeline and how it is.

use jiff::Timestamp;
use redrive_server::number::grouped;
use redrive_server::view::{OperationPage, PipelineView, PipelinesView};

use super::Failure;
use crate::args::To;
use crate::line::Line;
use crate::screen::{Cell, Column, Table, Tone, age, ago, paint, plain, say, say_json, say_table};

const COLUMNS: [Column; 9] = [
    Column::whole("PIPELINE"),
    Column::whole("KIND"),
    Column::whole("STATE"),
    Column::whole("WAITING"),
    Column::spared("RETRYING"),
    Column::whole("BACKLOG"),
    Column::spared("RUNG"),
    Column::spared("DONE/S"),
    Column::whole("OLDEST"),
];
/// A number that was counted within this time is shown without its age.
const FRESH_SECONDS: i64 = 5;

/// Prints every pipeline, and the operations that are not over.
pub(crate) async fn run(line: &Line, to: &To) -> Result<(), Failure> {
    let found: PipelinesView = line.get(&["pipelines"], &[]).await?;
    if to.json {
        say_json(&found)?;
    } else {
        table(line, &found).await?;
    }
    if let Some(troubled) = found.pipelines.iter().find(|pipeline| pipeline.letters.is_none()) {
        let said = troubled.trouble.as_deref().unwrap_or("its store does not answer");
        return Err(Failure::Unavailable(format!("{}: {}", plain(&troubled.name), plain(said))));
    }
    Ok(())
}

async fn table(line: &Line, found: &PipelinesView) -> Result<(), Failure> {
    let now = Timestamp::now();
    let rows = found.pipelines.iter().map(|pipeline| row(pipeline, now)).collect();
    say_table(&Table::new(&COLUMNS, rows))?;
    for pipeline in &found.pipelines {
        if let Some(trouble) = &pipeline.trouble {
            let name = plain(&pipeline.name);
            say(&format!("{}: {}", paint(Tone::Trouble, &name), plain(trouble)))?;
        }
    }
    let operations: OperationPage = line.get(&["redrives"], &[("limit", "20".to_owned())]).await?;
    for operation in operations.operations.iter().filter(|operation| !operation.state.is_at_rest()) {
        say(&format!(
            "operation {}: {} {}, {} of {}",
            operation.id,
            plain(&operation.action),
            operation.state,
            grouped(operation.done),
            grouped(operation.total)
        ))?;
    }
    Ok(())
}

fn row(pipeline: &PipelineView, now: Timestamp) -> Vec<Cell> {
    let unknown = || "-".to_owned();
    let (tone, state) = match (&pipeline.trouble, pipeline.paused) {
        // What it is stands below the table.
        (Some(_), _) => (Tone::Trouble, "trouble"),
        (None, Some(true)) => (Tone::Waiting, "paused"),
        (None, Some(false)) => (Tone::Good, "working"),
        (None, None) => (Tone::Plain, "-"),
    };
    let letters = pipeline.letters.as_ref();
    let waiting = letters.map(|letters| with_age(letters.waiting, pipeline.letters_at, now));
    let backlog = pipeline.backlog.map(|backlog| with_age(backlog, pipeline.backlog_at, now));
    vec![
        Cell::new(Tone::Strong, plain(&pipeline.name)),
        pipeline.kind.to_string().into(),
        Cell::new(tone, state),
        waiting.unwrap_or_else(unknown).into(),
        letters.map_or_else(unknown, |letters| grouped(letters.retrying)).into(),
        backlog.unwrap_or_else(unknown).into(),
        pipeline.rung.map_or_else(unknown, |rung| rung.to_string()).into(),
        pipeline.rates.map_or_else(unknown, |rates| format!("{:.1}", rates.delivered)).into(),
        letters.and_then(|letters| letters.oldest_waiting).map_or_else(unknown, ago).into(),
    ]
}

/// A number, with its age when it was counted more than a few seconds before `now`.
fn with_age(count: u64, at: Option<Timestamp>, now: Timestamp) -> String {
    let is_old = |at: &Timestamp| now.duration_since(*at).as_secs() > FRESH_SECONDS;
    match at.filter(is_old) {
        Some(at) => format!("{}, {}", grouped(count), age(at, now)),
        None => grouped(count),
    }
}

#[cfg(test)]
mod tests {
    use redrive_server::view::KindName;

    use super::*;

    /// It had no age: nobody could tell a number of now from one of a minute ago.
    #[test]
    fn a_number_that_is_older_than_a_few_seconds_has_its_age() {
        let now: Timestamp = "2026-11-16T14:02:00Z".parse().unwrap();
        let counted = |ago: &str| Some(now - ago.parse::<jiff::Span>().unwrap());
        assert_eq!(with_age(1_204, counted("PT5S"), now), "1,204");
        assert_eq!(with_age(1_204, counted("PT6S"), now), "1,204, 6s ago");
        assert_eq!(with_age(7, counted("PT2M"), now), "7, 2m ago");
        assert_eq!(with_age(7, None, now), "7");
    }

    #[test]
    fn both_counts_have_an_age() {
        let at: Timestamp = "2026-11-16T14:02:00Z".parse().unwrap();
        let letters = serde_json::from_str(
            r#"{"waiting":3,"open":3,"retrying":0,"redriven":0,"resolved":0,"failed":0,"by_type":[],"oldest_waiting":null}"#,
        );
        let pipeline = PipelineView {
            name: "orders".to_owned(),
            kind: KindName::Outbox,
            paused: Some(false),
            trouble: None,
            letters: Some(letters.unwrap()),
            letters_at: Some(at),
            backlog: Some(9),
            backlog_at: Some(at),
            rung: None,
            rates: None,
        };
        let shown =
            Table::new(&COLUMNS, vec![row(&pipeline, at + jiff::Span::new().seconds(40))]).render(None);
        assert!(shown.contains("3, 40s ago") && shown.contains("9, 40s ago"), "{shown}");
    }
}
