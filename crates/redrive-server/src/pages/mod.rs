//! The dashboard at `/`: what is dead, why, and what to do about it.
//!
//! Every page is written by the server and works without scripts: links, and forms that are posted and
//! answered with a redirect. A small script of our own makes it live and adds keys; it fetches the same
//! pages again and swaps what changed, so there is one way to draw a thing.
//!
//! What producers wrote is hostile: templates escape it, [`text`] makes it inert, addresses are encoded, and
//! the content security policy allows no script and no style but ours.

mod assets;
mod audit;
mod chart;
mod comparison;
mod confirm;
mod confirmed;
mod edit;
mod failed;
mod form;
mod frame;
mod groups;
mod help;
mod letter;
mod letters;
mod login;
mod moment;
mod operation;
mod operations;
mod payload;
mod pipelines;
mod query;
mod stream;
mod text;
mod tree;
mod wording;

use axum::Router;
use axum::routing::{get, post};

use crate::Site;

pub(crate) use failed::{not_found, refused};
pub(crate) use login::address as login_address;

/// Every page.
pub(crate) fn pages() -> Router<Site> {
    Router::new()
        .route("/", get(groups::show))
        .route("/letters", get(letters::show))
        .route("/letters/{id}", get(letter::show))
        .route("/letters/{id}/payload", get(letter::payload))
        .route("/letters/{id}/redrive", post(letter::redrive))
        .route("/letters/{id}/resolve", post(letter::resolve))
        .route("/letters/{id}/edit", get(edit::show).post(edit::again))
        .route("/letters/{id}/review", post(edit::review))
        .route("/confirm", get(confirm::matching).post(confirm::chosen))
        .route("/operations", get(operations::show).post(confirmed::start))
        .route("/operations/{id}", get(operation::show))
        .route("/operations/{id}/{turn}", post(operation::turn))
        .route("/pipelines", get(pipelines::show))
        .route("/pipelines/{name}/{turn}", post(pipelines::turn))
        .route("/audit", get(audit::show))
        .route("/help", get(help::show))
        .route("/login", get(login::show).post(login::log_in))
        .route("/logout", post(login::log_out))
        .route("/ui/stream", get(stream::show))
        .route("/ui/style.css", get(assets::style))
        .route("/ui/app.js", get(assets::script))
        .route("/ui/icon.svg", get(assets::icon))
}
