//! `GET /api/v1/health`: the process lives. `GET /api/v1/ready`: it can work.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::{Component, Readiness};

#[derive(Serialize)]
struct Health {
    status: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
struct Ready {
    status: &'static str,
    components: Vec<Component>,
}

pub(super) async fn health() -> impl IntoResponse {
    Json(Health { status: "healthy", version: env!("CARGO_PKG_VERSION") })
}

pub(super) async fn ready(State(readiness): State<Arc<dyn Readiness>>) -> Response {
    let components = readiness.check().await;
    let (code, status) = if components.iter().all(|component| component.ok) {
        (StatusCode::OK, "ready")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not ready")
    };
    (code, Json(Ready { status, components })).into_response()
}
