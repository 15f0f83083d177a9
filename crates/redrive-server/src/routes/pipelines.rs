//! `GET /api/v1/pipelines`, `/pipelines/{name}`, `POST /pipelines/{name}/pause`, `/resume`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use redrive_engine::console::{Console, Overview};

use crate::Problem;
use crate::caller::Who;
use crate::series::{Latest, Series};
use crate::view::{PipelineView, PipelinesView};

/// Every pipeline and how it is.
#[utoipa::path(get, path = "/pipelines", operation_id = "list_pipelines", tag = "pipelines", responses((status = 200, description = "The pipelines.", body = PipelinesView)))]
pub(super) async fn list(
    State(console): State<Arc<Console>>,
    State(series): State<Series>,
) -> Json<PipelinesView> {
    let overviews = console.overviews().await;
    let pipelines = overviews.into_iter().map(|overview| view(overview, &series)).collect();
    Json(PipelinesView { pipelines })
}

/// One pipeline and how it is.
#[utoipa::path(get, path = "/pipelines/{name}", operation_id = "get_pipeline", tag = "pipelines", params(("name" = String, Path, description = "The pipeline.")),
    responses((status = 200, description = "The pipeline.", body = PipelineView)))]
pub(super) async fn show(
    State(console): State<Arc<Console>>,
    State(series): State<Series>,
    Path(name): Path<String>,
) -> Result<Json<PipelineView>, Problem> {
    Ok(Json(view(console.overview(&name).await?, &series)))
}

/// Stops claiming, here at once and in every instance within seconds, until it is resumed: also after a restart. What
/// is in hand is finished.
#[utoipa::path(post, path = "/pipelines/{name}/pause", operation_id = "pause_pipeline", tag = "pipelines", params(("name" = String, Path, description = "The pipeline.")),
    responses((status = 200, description = "The pipeline.", body = PipelineView)))]
pub(super) async fn pause(
    State(console): State<Arc<Console>>,
    State(series): State<Series>,
    Path(name): Path<String>,
    Who(operator): Who,
) -> Result<Json<PipelineView>, Problem> {
    console.set_paused(&name, true, &operator).await?;
    Ok(Json(view(console.overview(&name).await?, &series)))
}

/// Claims again, here and in every instance.
#[utoipa::path(post, path = "/pipelines/{name}/resume", operation_id = "resume_pipeline", tag = "pipelines", params(("name" = String, Path, description = "The pipeline.")),
    responses((status = 200, description = "The pipeline.", body = PipelineView)))]
pub(super) async fn resume(
    State(console): State<Arc<Console>>,
    State(series): State<Series>,
    Path(name): Path<String>,
    Who(operator): Who,
) -> Result<Json<PipelineView>, Problem> {
    console.set_paused(&name, false, &operator).await?;
    Ok(Json(view(console.overview(&name).await?, &series)))
}

fn view(overview: Overview, series: &Series) -> PipelineView {
    let Latest { backlog, backlog_at, rung, rates } = series.latest(&overview.name);
    PipelineView { backlog, backlog_at, rung, rates, ..PipelineView::of(overview) }
}
