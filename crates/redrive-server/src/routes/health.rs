//! `GET /api/v1/health`: the process lives. `GET /api/v1/ready`: it can work.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{Component, Readiness};

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
#[utoipa::path(get, path = "/health", tag = "health", responses((status = 200, body = Health)))]
pub(super) async fn health() -> impl IntoResponse {
    Json(Health { status: "healthy", version: env!("CARGO_PKG_VERSION") })
}

/// It can work: a line per pipeline and store.
#[utoipa::path(get, path = "/ready", tag = "health",
    responses((status = 200, body = Ready), (status = 503, description = "Something cannot work.", body = Ready)))]
pub(super) async fn ready(State(readiness): State<Arc<dyn Readiness>>) -> Response {
    let components = readiness.check().await;
    let (code, status) = if components.iter().all(|component| component.ok) {
        (StatusCode::OK, "ready")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not ready")
    };
    (code, Json(Ready { status, components })).into_response()
}
