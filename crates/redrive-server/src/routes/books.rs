//! `GET /api/v1/verify`: the books of every pipeline.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use redrive_engine::console::Console;

use crate::view::BooksView;

/// Where everything is that each pipeline ever accepted. Looks at every row: not for each minute.
#[utoipa::path(get, path = "/verify", tag = "pipelines", responses((status = 200, body = BooksView)))]
pub(super) async fn verify(State(console): State<Arc<Console>>) -> Json<BooksView> {
    Json(BooksView::of(console.verify().await))
}
