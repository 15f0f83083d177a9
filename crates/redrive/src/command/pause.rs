//! `redrive pause` and `redrive resume`: whether the workers of a pipeline claim.

use redrive_server::view::PipelineView;
use serde_json::json;

use super::Failure;
use crate::args::To;
use crate::line::Line;
use crate::screen::{plain, say, say_json};

/// What to do with the workers of a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Switch {
    /// No new work; what is in hand is finished.
    Pause,
    /// Work again.
    Resume,
}

impl Switch {
    const fn verb(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
        }
    }

    const fn done(self) -> &'static str {
        match self {
            Self::Pause => "paused in every instance, also after a restart, until `redrive resume`",
            Self::Resume => "resumed in every instance",
        }
    }
}

/// Pauses or resumes a pipeline.
pub(crate) async fn run(line: &Line, to: &To, name: &str, switch: Switch) -> Result<(), Failure> {
    let pipeline: PipelineView = line.post(&["pipelines", name, switch.verb()], &json!({})).await?;
    if to.json {
        return Ok(say_json(&pipeline)?);
    }
    let delay = if line.is_remote() { "" } else { "; servers follow within seconds" };
    Ok(say(&format!("{}: {}{delay}", plain(&pipeline.name), switch.done()))?)
}
