//! `GET /api/v1/books`: everything that was accepted is somewhere.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use redrive_engine::console::Console;
use tokio::sync::Mutex;

use crate::view::{BookView, BooksView};

/// It looks at every row, so it is done for one at a time.
static TURN: Mutex<()> = Mutex::const_new(());

/// Where the events of every pipeline are, and whether any is missing. It looks at every row: ask seldom.
#[utoipa::path(get, path = "/books", operation_id = "verify", tag = "audit", responses((status = 200, description = "Where the events of every pipeline are.", body = BooksView)))]
pub(super) async fn verify(State(console): State<Arc<Console>>) -> Json<BooksView> {
    let _turn = TURN.lock().await;
    let books = console.verify().await.into_iter();
    Json(BooksView { pipelines: books.map(|(name, kind, books)| BookView::of(name, kind, books)).collect() })
}
