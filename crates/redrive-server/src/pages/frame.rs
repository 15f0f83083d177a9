//! What surrounds every page: the navigation, who looks at it, what was just done, and the headers.

use std::convert::Infallible;

use askama::Template;
use axum::extract::FromRequestParts;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use redrive_core::dead_letter::Operator;

use super::{assets, text};
use crate::{Caller, Problem, Role, Site};

/// No script, style, picture or address but our own; nobody may put us into a frame.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// Whoever looks at a page.
#[derive(Debug, Clone)]
pub(super) struct Visitor {
    pub(super) name: String,
    pub(super) role: Role,
    /// Whether they logged in, and so can log out.
    pub(super) has_session: bool,
}

impl Visitor {
    /// Somebody who is not known yet.
    pub(super) fn nobody() -> Self {
        Self { name: String::new(), role: Role::Viewer, has_session: false }
    }

    /// Whether they may change something.
    pub(super) fn may_act(&self) -> bool {
        self.role >= Role::Operator
    }

    /// Who goes into the audit log.
    pub(super) fn operator(&self) -> Operator {
        Operator::new(&self.name)
    }

    /// Lets only those through who may change something.
    pub(super) fn must_act(&self) -> Result<(), Problem> {
        if self.may_act() {
            return Ok(());
        }
        let detail = format!("{} may look, but change nothing: ask for a token of an operator.", self.name);
        Err(Problem::new(StatusCode::FORBIDDEN, detail))
    }
}

impl FromRequestParts<Site> for Visitor {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<Self, Infallible> {
        let Some(caller) = parts.extensions.get::<Caller>() else { return Ok(Self::nobody()) };
        let has_session = site.access.asks_for_tokens();
        Ok(Self { name: caller.name.clone(), role: caller.role, has_session })
    }
}

/// The pages of the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Groups,
    Letters,
    Operations,
    Pipelines,
    Audit,
    Help,
    /// None of them.
    Elsewhere,
}

impl Section {
    /// Where each is, and what it is called.
    const LISTED: [(Self, &'static str, &'static str); 6] = [
        (Self::Groups, "/", "Groups"),
        (Self::Letters, "/letters", "Letters"),
        (Self::Operations, "/operations", "Operations"),
        (Self::Pipelines, "/pipelines", "Pipelines"),
        (Self::Audit, "/audit", "Audit"),
        (Self::Help, "/help", "Help"),
    ];
}

/// What surrounds a page.
pub(super) struct Frame {
    pub(super) title: String,
    pub(super) visitor: Visitor,
    /// What was just done, in words.
    pub(super) notice: Option<&'static str>,
    section: Section,
}

impl Frame {
    pub(super) fn new(section: Section, title: &str, visitor: Visitor) -> Self {
        Self { title: text::line(title, 100), visitor, notice: None, section }
    }

    /// With what was just done; only words that we know are shown, so that no link can put words into our
    /// mouth.
    pub(super) fn after(mut self, done: Option<&str>) -> Self {
        self.notice = match done {
            Some("redriven") => Some("Sent back to work."),
            Some("edited") => Some("Sent back to work with the edited payload. The original is kept below."),
            Some("resolved") => Some("Resolved."),
            Some("paused") => Some("Paused."),
            Some("resumed") => Some("Resumed."),
            Some("cancelled") => Some("Cancelled. What was sent stays sent."),
            _ => None,
        };
        self
    }

    pub(super) fn version(&self) -> &str {
        &assets::VERSION
    }

    /// Address, name, and whether it is the one that is shown.
    pub(super) fn links(&self) -> Vec<(&'static str, &'static str, bool)> {
        Section::LISTED.iter().map(|(section, to, name)| (*to, *name, *section == self.section)).collect()
    }

    pub(super) fn is_known(&self) -> bool {
        !self.visitor.name.is_empty()
    }
}

/// A page as an answer.
pub(super) fn page(status: StatusCode, template: &impl Template) -> Response {
    match template.render() {
        Ok(html) => (status, headers(), html).into_response(),
        Err(error) => {
            tracing::error!(%error, "a page cannot be written");
            let detail =
                "A defect in redrive kept this page from being written; the log of the server says more.";
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail).into_response()
        }
    }
}

/// What a page needs beside the headers of every answer.
fn headers() -> [(HeaderName, HeaderValue); 4] {
    let value = HeaderValue::from_static;
    [
        (CONTENT_TYPE, value("text/html; charset=utf-8")),
        (CONTENT_SECURITY_POLICY, value(POLICY)),
        // Stricter, and browsers would not say any more that a form comes from a page of ours.
        (REFERRER_POLICY, value("same-origin")),
        (HeaderName::from_static("cross-origin-opener-policy"), value("same-origin")),
    ]
}
