//! `GET /api/v1/audit`: who did what.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use redrive_engine::console::Console;

use super::slice::{Slice, next_of};
use crate::Problem;
use crate::query::Params;
use crate::view::{AuditPage, EntryView};

/// The latest entries, newest first.
#[utoipa::path(get, path = "/audit", operation_id = "list_audit_entries", tag = "audit", params(Slice), responses((status = 200, description = "A page of the audit log.", body = AuditPage)))]
pub(super) async fn list(
    State(console): State<Arc<Console>>,
    Params(asked): Params<Slice>,
) -> Result<Json<AuditPage>, Problem> {
    let (before, limit) = asked.check()?;
    let found = console.audit(before, limit).await?;
    let next = next_of(found.len(), limit, found.last().map(|last| last.id));
    Ok(Json(AuditPage { entries: found.into_iter().map(EntryView::from).collect(), next }))
}
