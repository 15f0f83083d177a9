//! `redrive status`: every pipeline and how it is.

use jiff::Timestamp;
use redrive_server::number::grouped;
use redrive_server::view::{OperationPage, PipelineView, PipelinesView};

use super::Failure;
use crate::args::To;
use crate::line::Line;
use crate::screen::{ago, plain, say, say_json, say_table, short};

/// How much of what is wrong fits into the table; the rest is below it.
const SHOWN: usize = 60;
/// A backlog that was counted so long ago is shown without its age.
const FRESH_SECONDS: i64 = 15;

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
    let rows = found.pipelines.iter().map(row).collect();
    say_table(
        &["PIPELINE", "KIND", "STATE", "WAITING", "RETRYING", "BACKLOG", "RUNG", "DONE/S", "OLDEST"],
        rows,
    )?;
    for pipeline in &found.pipelines {
        if let Some(trouble) = pipeline.trouble.as_ref().filter(|said| said.chars().count() > SHOWN) {
            say(&format!("{}: {}", plain(&pipeline.name), plain(trouble)))?;
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

fn row(pipeline: &PipelineView) -> Vec<String> {
    let unknown = || "-".to_owned();
    let state = match (&pipeline.trouble, pipeline.paused) {
        (Some(trouble), _) => short(trouble, SHOWN),
        (None, Some(true)) => "paused".to_owned(),
        (None, Some(false)) => "working".to_owned(),
        (None, None) => unknown(),
    };
    let letters = pipeline.letters.as_ref();
    vec![
        plain(&pipeline.name),
        pipeline.kind.to_string(),
        state,
        letters.map_or_else(unknown, |letters| grouped(letters.waiting)),
        letters.map_or_else(unknown, |letters| grouped(letters.retrying)),
        backlog(pipeline).unwrap_or_else(unknown),
        pipeline.rung.map_or_else(unknown, |rung| rung.to_string()),
        pipeline.rates.map_or_else(unknown, |rates| format!("{:.1}", rates.delivered)),
        letters.and_then(|letters| letters.oldest_waiting).map_or_else(unknown, ago),
    ]
}

/// The backlog, with its age where that is more than the usual few seconds.
fn backlog(pipeline: &PipelineView) -> Option<String> {
    let backlog = grouped(pipeline.backlog?);
    let is_old = |at: &Timestamp| Timestamp::now().duration_since(*at).as_secs() > FRESH_SECONDS;
    Some(match pipeline.backlog_at.filter(is_old) {
        Some(at) => format!("{backlog}, {}", ago(at)),
        None => backlog,
    })
}
