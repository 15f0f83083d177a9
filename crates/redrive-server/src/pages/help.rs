//! How to filter, which keys there are, and what the words mean.

use askama::Template;
use axum::http::StatusCode;
use axum::response::Response;

use super::frame::{Frame, Section, Visitor, page};
use super::query::QUALIFIERS;

#[derive(Template)]
#[template(path = "help.html")]
struct HelpPage {
    frame: Frame,
    qualifiers: &'static [(&'static str, &'static str, &'static str)],
}

pub(super) async fn show(visitor: Visitor) -> Response {
    let frame = Frame::new(Section::Help, "Help", visitor);
    page(StatusCode::OK, &HelpPage { frame, qualifiers: &QUALIFIERS })
}
