//! Where a request comes from: a browser says it, and whoever made the browser ask cannot say otherwise.

use std::net::IpAddr;

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderValue, StatusCode};

use crate::Problem;

const FETCH_SITE: &str = "sec-fetch-site";

/// The request names this machine, not a name that somebody else controls.
pub(crate) fn must_be_here(headers: &HeaderMap) -> Result<(), Problem> {
    let Some(host) = headers.get(HOST) else { return Ok(()) };
    let host = host.to_str().unwrap_or_default();
    if is_local(name_of(host)) {
        return Ok(());
    }
    let detail = "This server has no tokens and answers only to localhost and loopback addresses, so that a web \
                  page cannot reach it under a name of its own: call it by such a name, or configure `server.tokens`.";
    Err(Problem::new(StatusCode::FORBIDDEN, detail))
}

/// A browser says where a request comes from: only pages of ours may change something.
pub(crate) fn must_be_ours(headers: &HeaderMap) -> Result<(), Problem> {
    let site = headers.get(FETCH_SITE).map(HeaderValue::as_bytes);
    let same_site = site.is_none_or(|site| matches!(site, b"same-origin" | b"none"));
    let same_origin = headers.get(ORIGIN).is_none_or(|origin| {
        let origin = origin.to_str().unwrap_or_default();
        let from = origin.split_once("://").map(|(_, host)| host);
        let to = headers.get(HOST).and_then(|host| host.to_str().ok());
        from.is_some() && from == to
    });
    if same_site && same_origin {
        return Ok(());
    }
    let detail = "A page of another site sent this: only pages of this server may change something.";
    Err(Problem::new(StatusCode::FORBIDDEN, detail))
}

/// Whether the request says which page sent it.
pub(crate) fn is_said(headers: &HeaderMap) -> bool {
    headers.contains_key(ORIGIN) || headers.contains_key(FETCH_SITE)
}

fn is_local(name: &str) -> bool {
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    name.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

/// `host:port` without the port.
fn name_of(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}
