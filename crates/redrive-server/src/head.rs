//! What the head of every request must keep to, before anybody looks at what it asks for.

use axum::http::header::HOST;
use axum::http::{Request, StatusCode, Version};

use crate::Problem;

/// The most bytes that address and headers have together.
pub(crate) const MOST_BYTES: usize = 32 << 10;

/// Refuses a head that is too large, or names no host, or more than one.
pub(crate) fn check<B>(request: &Request<B>) -> Result<(), Problem> {
    if size(request) > MOST_BYTES {
        let detail =
            "The headers and the address of the request have more than 32 kB: send fewer or shorter ones.";
        return Err(Problem::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, detail));
    }
    let mut hosts = request.headers().get_all(HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host,
        // HTTP/1.0 did not have it yet.
        (None, _) if request.version() < Version::HTTP_11 => return Ok(()),
        (None, _) => return Err(bad("has no Host header")),
        (Some(_), Some(_)) => return Err(bad("has more than one Host header")),
    };
    // An address with a host in it goes before the header: the two must not say different things.
    let is_other = |authority: &axum::http::uri::Authority| authority.as_str().as_bytes() != host.as_bytes();
    match request.uri().authority() {
        Some(authority) if is_other(authority) => {
            Err(bad("has one host in its address and another in its Host header"))
        }
        _ => Ok(()),
    }
}

/// As it was sent, about: each header has a colon, a blank and a line break.
fn size<B>(request: &Request<B>) -> usize {
    let header = |(name, value): (&axum::http::HeaderName, &axum::http::HeaderValue)| {
        name.as_str().len() + value.len() + 4
    };
    let address = request.uri().path_and_query().map_or(0, |address| address.as_str().len());
    address + request.headers().iter().map(header).sum::<usize>()
}

fn bad(what: &str) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, format!("The request {what}: send exactly one."))
}
