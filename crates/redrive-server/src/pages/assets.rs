//! The style sheet, the script and the icon: our own, and part of the program.

use std::sync::LazyLock;

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::IntoResponse;
use sha2::{Digest as _, Sha256};

const STYLE: &str = include_str!("../../assets/style.css");
const SCRIPT: &str = include_str!("../../assets/app.js");
const ICON: &str = include_str!("../../assets/icon.svg");

/// In the addresses of all three, so that browsers may keep them for good.
pub(super) static VERSION: LazyLock<String> = LazyLock::new(|| {
    let hash = Sha256::new().chain_update(STYLE).chain_update(SCRIPT).chain_update(ICON).finalize();
    hash.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
});

pub(super) async fn style() -> impl IntoResponse {
    asset("text/css; charset=utf-8", STYLE)
}

pub(super) async fn script() -> impl IntoResponse {
    asset("text/javascript; charset=utf-8", SCRIPT)
}

pub(super) async fn icon() -> impl IntoResponse {
    asset("image/svg+xml", ICON)
}

fn asset(media: &'static str, content: &'static str) -> impl IntoResponse {
    ([(CONTENT_TYPE, media), (CACHE_CONTROL, "public, max-age=31536000, immutable")], content)
}
