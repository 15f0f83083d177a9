//! `GET /api/v1/health`: the process lives. `GET /api/v1/ready`: it can work.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{Caller, Component, Readiness};

/// The process lives.
#[derive(Serialize, ToSchema)]
struct Health {
    /// `healthy`.
    status: &'static str,
    /// The version of redrive.
    version: &'static str,
}

/// Whether it can work.
#[derive(Serialize, ToSchema)]
struct Ready {
    /// `ready` or `not ready`.
    status: &'static str,
    /// One line per pipeline and store.
    components: Vec<Component>,
}

/// The process lives.
#[utoipa::path(get, path = "/health", operation_id = "get_health", tag = "health", responses((status = 200, description = "The process is alive.", body = Health)))]
pub(super) async fn health() -> impl IntoResponse {
    Json(Health { status: "healthy", version: env!("CARGO_PKG_VERSION") })
}

/// It can work: a line per pipeline and store. Without a token, where the server asks for one, the details are left
/// out: they may hold addresses and names of tables.
#[utoipa::path(get, path = "/ready", operation_id = "get_readiness", tag = "health",
    responses((status = 200, description = "Everything can work.", body = Ready), (status = 503, description = "Something cannot work.", body = Ready)))]
pub(super) async fn ready(
    State(readiness): State<Arc<dyn Readiness>>,
    caller: Option<Extension<Caller>>,
) -> Response {
    let mut components = readiness.check().await;
    if caller.is_none() {
        components.iter_mut().for_each(|component| component.detail = None);
    }
    let (code, status) = if components.iter().all(|component| component.ok) {
        (StatusCode::OK, "ready")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not ready")
    };
    (code, Json(Ready { status, components })).into_response()
}
