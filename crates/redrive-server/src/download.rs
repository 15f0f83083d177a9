//! A payload to be saved, byte for byte: a browser must never run it in our name.

use axum::http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use redrive_core::dead_letter::LetterId;

/// The longest name of a file, without its end.
const LONGEST: usize = 100;

/// The payload of this letter, as an attachment.
pub(crate) fn attachment(id: &LetterId, payload: Vec<u8>) -> Response {
    let headers = [
        (CONTENT_TYPE, "application/octet-stream".to_owned()),
        (CONTENT_DISPOSITION, format!("attachment; filename=\"{}\"", file_name(id))),
        (CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'; sandbox".to_owned()),
    ];
    (headers, payload).into_response()
}

/// Only letters that mean nothing to a shell, a browser or a file system.
fn file_name(id: &LetterId) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    let name: String = id.to_string().chars().take(LONGEST).map(plain).collect();
    format!("{name}.bin")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_download_is_plain() {
        let name = |pipeline: &str, local: &str| file_name(&LetterId::new(pipeline, local));
        assert_eq!(name("orders", "42"), "orders-42.bin");
        assert_eq!(name("a\"\r\nx: y", "../../é;"), "a---x--y---------.bin");
        assert_eq!(name("a", &"9".repeat(500)).len(), LONGEST + ".bin".len());
    }
}
