//! Who is there? The token is given once; then a session stands for it.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::Extension;
use axum::extract::{Query, State};
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Redirect, Response};
use redrive_core::dead_letter::Operator;
use redrive_engine::console::Console;
use serde::Deserialize;
use tokio::time::timeout;

use super::form::Form;
use super::frame::{Frame, Section, Visitor, page};
use super::text;
use crate::Access;
use crate::caller::Who;
use crate::failures::Peer;

/// Longer addresses are not come back to.
const LONGEST: usize = 2_000;
/// How long a login waits for the audit log.
const AUDITING: Duration = Duration::from_secs(2);

#[derive(Deserialize)]
pub(super) struct Asked {
    next: Option<String>,
}

#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage {
    frame: Frame,
    next: String,
    mistake: Option<String>,
}

/// Where somebody logs in who wanted this.
pub(crate) fn address(method: &Method, wanted: &Uri) -> String {
    let wanted = wanted.path_and_query().map_or("/", |wanted| wanted.as_str());
    if *method != Method::GET || wanted == "/" || wanted.len() > LONGEST {
        return "/login".to_owned();
    }
    format!("/login?next={}", text::encode(wanted))
}

pub(super) async fn show(State(access): State<Access>, Query(asked): Query<Asked>) -> Response {
    let next = place(asked.next.as_deref());
    if !access.asks_for_tokens() {
        return Redirect::to(next).into_response();
    }
    form(StatusCode::OK, next, None)
}

pub(super) async fn log_in(
    State(access): State<Access>,
    State(console): State<Arc<Console>>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    sent: Form,
) -> Response {
    let next = place(sent.get("next"));
    if !access.asks_for_tokens() {
        return Redirect::to(next).into_response();
    }
    let token = sent.get("token").unwrap_or_default();
    let peer = peer.map(|Extension(peer)| peer);
    match access.log_in(token.as_bytes(), &headers, peer).await {
        Ok((caller, cookie)) => {
            audit(&console, &Operator::new(&caller.name), "log in", peer).await;
            ([(SET_COOKIE, cookie)], Redirect::to(next)).into_response()
        }
        Err(problem) => form(problem.status(), next, Some(problem.detail().to_owned())),
    }
}

pub(super) async fn log_out(
    State(access): State<Access>,
    State(console): State<Arc<Console>>,
    peer: Option<Extension<Peer>>,
    Who(operator): Who,
    headers: HeaderMap,
) -> Response {
    audit(&console, &operator, "log out", peer.map(|Extension(peer)| peer)).await;
    ([(SET_COOKIE, access.log_out(&headers))], Redirect::to("/login")).into_response()
}

/// A store that is away keeps nobody out: whoever logs in may want to see what is wrong with it.
async fn audit(console: &Console, operator: &Operator, action: &str, peer: Option<Peer>) {
    let note = peer.map_or_else(String::new, |peer| format!("from {peer}"));
    let operator_name = operator.name();
    tracing::info!(operator = operator_name, note, "{action}");
    if timeout(AUDITING, console.record(operator, action, "dashboard", &note)).await.is_err() {
        tracing::error!(operator = operator_name, action, "the audit log did not answer: this is not in it");
    }
}

fn form(status: StatusCode, next: &str, mistake: Option<String>) -> Response {
    let frame = Frame::new(Section::Elsewhere, "Log in", Visitor::nobody());
    page(status, &LoginPage { frame, next: next.to_owned(), mistake })
}

/// A place of ours: no link leads from our login to another site.
fn place(next: Option<&str>) -> &str {
    let is_ours = |next: &&str| {
        let second = next.as_bytes().get(1);
        next.starts_with('/')
            && !matches!(second, Some(b'/' | b'\\'))
            && next.len() <= LONGEST
            && next.bytes().all(|byte| matches!(byte, 0x21..=0x7e) && byte != b'\\')
    };
    next.filter(is_ours).unwrap_or("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_places_of_ours_are_come_back_to() {
        for ours in ["/", "/letters?q=a%20b", "/letters/orders:1"] {
            assert_eq!(place(Some(ours)), ours);
        }
        for other in [
            "//evil.example",
            "/\\evil.example",
            "https://evil.example",
            "javascript:alert(1)",
            "",
            "/a\nb",
            "/\t/evil",
            "/a b",
        ] {
            assert_eq!(place(Some(other)), "/", "{other:?}");
        }
    }
}
