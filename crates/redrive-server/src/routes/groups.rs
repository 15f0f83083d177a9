//! `GET /api/v1/groups`, `/groups/{fingerprint}`: letters that failed for the same reason.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use redrive_core::fingerprint::Fingerprint;
use redrive_engine::console::Console;
use serde::Deserialize;
use utoipa::IntoParams;

use super::slice::limit;
use crate::Problem;
use crate::query::Params;
use crate::view::{GroupView, GroupsPage, Unanswered};

/// Which groups.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct GroupsIn {
    /// Of this pipeline.
    pipeline: Option<String>,
    /// How many.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<u32>,
}

/// The groups of letters that wait, the largest first.
#[utoipa::path(get, path = "/groups", operation_id = "list_groups", tag = "groups", params(GroupsIn), responses((status = 200, description = "The groups.", body = GroupsPage)))]
pub(super) async fn list(
    State(console): State<Arc<Console>>,
    Params(asked): Params<GroupsIn>,
) -> Result<Json<GroupsPage>, Problem> {
    let (groups, unavailable) = console.groups(asked.pipeline.as_deref(), limit(asked.limit)?).await?;
    let groups = groups.into_iter().map(GroupView::from).collect();
    Ok(Json(GroupsPage { groups, unavailable: Unanswered::all(unavailable) }))
}

/// One group.
#[utoipa::path(get, path = "/groups/{fingerprint}", operation_id = "get_group", tag = "groups",
    params(("fingerprint" = String, Path, description = "16 hexadecimal digits.")),
    responses((status = 200, description = "The group.", body = GroupView)))]
pub(super) async fn show(
    State(console): State<Arc<Console>>,
    Path(fingerprint): Path<String>,
) -> Result<Json<GroupView>, Problem> {
    let group = match fingerprint.parse::<Fingerprint>() {
        Ok(known) => console.group(known).await?,
        Err(_) => None,
    };
    group.map(|group| Json(group.into())).ok_or_else(|| {
        let detail =
            format!("There is no group `{fingerprint}` with letters that wait; /api/v1/groups lists them.");
        Problem::new(StatusCode::NOT_FOUND, detail)
    })
}
