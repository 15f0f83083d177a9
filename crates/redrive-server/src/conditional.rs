//! Answers that were asked for before are not sent again, and long ones are compressed.
//!
//! An answer to a `GET` that is text has an `ETag`, the digest of its content: whoever sends it back in `If-None-Match`
//! is answered with 304 and nothing else, as long as the content is the same. Streams, payloads and errors are passed on as they are.

use std::io::Write as _;

use axum::body::{Body, Bytes, HttpBody as _, to_bytes};
use axum::extract::Request;
use axum::http::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

/// A shorter answer is in one packet anyway.
const SHORTEST: usize = 1_024;
/// What is longer is compressed on another thread.
const LONG: usize = 64 << 10;
/// What is longer is passed on as it is.
const LONGEST: usize = 16 << 20;

/// What may be compressed: texts.
const TEXTS: [&str; 6] =
    ["application/json", "text/html", "text/plain", "text/css", "text/javascript", "image/svg+xml"];

/// Answers with what the client does not have yet, compressed if it understands that.
pub(crate) async fn answer(request: Request, next: Next) -> Response {
    if request.method() != Method::GET {
        return next.run(request).await;
    }
    let known = values(request.headers(), &IF_NONE_MATCH);
    let takes_gzip = values(request.headers(), &ACCEPT_ENCODING).iter().any(|coding| takes_gzip(coding));
    let response = next.run(request).await;
    if response.status() != StatusCode::OK || !is_text(&response) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(content) = to_bytes(body, LONGEST).await else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let tag = tag(&content);
    parts.headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    let is_known = known.iter().any(|known| known == "*" || known.trim_start_matches("W/") == tag);
    if let Ok(tag) = format!("W/{tag}").parse() {
        parts.headers.insert(ETAG, tag);
    }
    if is_known {
        parts.status = StatusCode::NOT_MODIFIED;
        parts.headers.remove(CONTENT_LENGTH);
        return Response::from_parts(parts, Body::empty());
    }
    if !takes_gzip || content.len() < SHORTEST {
        return Response::from_parts(parts, content.into());
    }
    let (content, is_packed) = packed(content).await;
    if is_packed {
        parts.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        parts.headers.remove(CONTENT_LENGTH);
    }
    Response::from_parts(parts, content.into())
}

/// Whether it is a text that is whole, and as it was made.
fn is_text(response: &Response) -> bool {
    let headers = response.headers();
    let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_text = TEXTS.contains(&media_type.split(';').next().unwrap_or_default().trim());
    let is_whole = response.body().size_hint().exact().is_some_and(|size| size <= LONGEST as u64);
    is_text && is_whole && !headers.contains_key(CONTENT_ENCODING) && !headers.contains_key(ETAG)
}

/// In quotes.
fn tag(content: &[u8]) -> String {
    let digest: String = Sha256::digest(content).iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    format!("\"{digest}\"")
}

/// The parts of a header that is a list.
fn values(headers: &HeaderMap, name: &HeaderName) -> Vec<String> {
    let texts = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).map(|part| part.trim().to_owned()).collect()
}

/// `gzip`, `gzip;q=0.5`, and not `gzip;q=0`.
fn takes_gzip(coding: &str) -> bool {
    let (name, parameter) = coding.split_once(';').unwrap_or((coding, ""));
    let quality = parameter.trim().strip_prefix("q=").and_then(|quality| quality.parse::<f32>().ok());
    name.trim().eq_ignore_ascii_case("gzip") && quality.is_none_or(|quality| quality > 0.0)
}

/// The content compressed, or as it is.
async fn packed(content: Bytes) -> (Bytes, bool) {
    let packing = content.clone();
    let packed = match content.len() > LONG {
        true => tokio::task::spawn_blocking(move || pack(&packing)).await.ok().flatten(),
        false => pack(&packing),
    };
    packed.map_or((content, false), |packed| (packed.into(), true))
}

fn pack(content: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).ok()?;
    encoder.finish().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_sent_to_those_who_take_it() {
        for (coding, takes) in [
            ("gzip", true),
            ("GZIP; q=0.5", true),
            ("gzip;q=0", false),
            ("br", false),
            ("", false),
            ("*", false),
        ] {
            assert_eq!(takes_gzip(coding), takes, "{coding}");
        }
    }

    #[test]
    fn the_tag_is_that_of_the_content() {
        assert_eq!(tag(b"a"), tag(b"a"));
        assert_ne!(tag(b"a"), tag(b"b"));
    }
}
