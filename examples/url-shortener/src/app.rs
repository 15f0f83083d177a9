//! The two requests: make a short URL, follow one.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use redrive::persist::NotAccepted;
use redrive::{Persister, Target};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::base62;
use crate::cache::UrlCache;
use crate::short_url::ShortUrl;
use crate::snowflake::Snowflake;

/// What the requests use.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) ids: Arc<Snowflake>,
    pub(crate) persister: Persister<ShortUrl>,
    pub(crate) cache: Arc<UrlCache>,
    pub(crate) target: Arc<Target>,
}

#[derive(Deserialize)]
struct Wanted {
    url: String,
}

#[derive(Serialize)]
struct Made {
    short_url: String,
    long_url: String,
}

pub(crate) fn router(app: App) -> Router {
    Router::new().route("/", post(shorten)).route("/{short}", get(follow)).with_state(app)
}

async fn shorten(State(app): State<App>, Json(wanted): Json<Wanted>) -> Response {
    let is_web = |url: &Url| matches!(url.scheme(), "http" | "https");
    let Some(long) = Url::parse(&wanted.url).ok().filter(is_web) else {
        return (StatusCode::UNPROCESSABLE_ENTITY, "url must be a whole http or https address\n")
            .into_response();
    };
    let event = ShortUrl { short: base62::encode(app.ids.next()), long: long.into() };
    match app.persister.persist(&event).await {
        Ok(()) => {
            // The row comes later: until then the cache is the only one to ask.
            app.cache.put(&event);
            let made = Made { short_url: event.short, long_url: event.long };
            (StatusCode::CREATED, Json(made)).into_response()
        }
        Err(refusal @ NotAccepted::Refused { .. }) => {
            (StatusCode::UNPROCESSABLE_ENTITY, format!("{refusal}\n")).into_response()
        }
        Err(later) => (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "5")], format!("{later}\n"))
            .into_response(),
    }
}

async fn follow(State(app): State<App>, Path(short): Path<String>) -> Response {
    if let Some(long) = app.cache.get(&short) {
        return redirect(&long);
    }
    match app.target.find(&short).await {
        Ok(Some(long)) => {
            app.cache.put(&ShortUrl { short, long: long.clone() });
            redirect(&long)
        }
        Ok(None) => (StatusCode::NOT_FOUND, "there is no such short URL\n").into_response(),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "5")], "try again later\n")
            .into_response(),
    }
}

fn redirect(long: &str) -> Response {
    match HeaderValue::from_str(long) {
        Ok(place) => (StatusCode::FOUND, [(header::LOCATION, place)]).into_response(),
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "the long URL cannot be a header\n").into_response(),
    }
}
