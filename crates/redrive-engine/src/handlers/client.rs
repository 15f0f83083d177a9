//! HTTP as the handler and the alert channels speak it.
//!
//! No redirects are followed: they would carry payload and signature to an address that nobody
//! configured. Only the host of an address is ever shown; paths and queries of webhooks are secrets.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use redrive_core::classify::{http, io as io_table};
use redrive_core::failure::Class;
use reqwest::header::RETRY_AFTER;
use reqwest::{Client, Response, redirect};
use url::{Host, Url};

use super::MAX_EXCERPT;
use super::setup::SetupError;

/// The longest wait for a connection; half of the time-out where that is shorter, so that a host that
/// swallows packets is told apart from one that answers slowly.
const CONNECT: Duration = Duration::from_secs(5);
/// Servers close idle connections, some (Node.js) after five seconds. Ours go first: a request on a
/// connection that the other side is closing is lost.
const IDLE: Duration = Duration::from_secs(4);
/// How long the rest of a good answer is waited for, so that its connection can be used again.
const RELEASE: Duration = Duration::from_millis(100);

/// A client for requests to this address, with its own pool of connections.
pub(crate) fn build(url: &Url, timeout: Duration) -> Result<Client, SetupError> {
    install_crypto();
    let mut builder = Client::builder()
        .user_agent(concat!("redrive/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none())
        .referer(false)
        .connect_timeout(CONNECT.min(timeout / 2))
        .pool_idle_timeout(IDLE);
    if is_loopback(url) {
        // A proxy's loopback is not ours.
        builder = builder.no_proxy();
    }
    builder.build().map_err(SetupError::Client)
}

/// Gives rustls its cryptography, unless the program has chosen one already.
pub(crate) fn install_crypto() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error means that another thread was quicker.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

/// Host and port: all of an address that may be shown.
pub(crate) fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or("?");
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Whether the address is on this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        // In a scheme that the parser does not know, such as smtp, numbers are a name too.
        Some(Host::Domain(name)) => {
            name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// How long an answer asks us to wait.
pub(crate) fn retry_after(response: &Response, now: Timestamp) -> Option<Duration> {
    http::retry_after(response.headers().get(RETRY_AFTER)?.to_str().ok()?, now)
}

/// The beginning of an answer's body, as far as it arrives.
pub(crate) async fn excerpt(mut response: Response) -> String {
    let mut kept = Vec::new();
    while kept.len() < MAX_EXCERPT {
        let Ok(Some(chunk)) = response.chunk().await else { break };
        kept.extend_from_slice(&chunk[..chunk.len().min(MAX_EXCERPT - kept.len())]);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

/// Reads what is left of a short answer: a connection with an unread body cannot be used again.
pub(crate) async fn release(response: Response) {
    let _ = tokio::time::timeout(RELEASE, excerpt(response)).await;
}

/// Why there was no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// There was no connection, or it broke.
    Connection {
        /// The name of an I/O error that counts as transient.
        code: &'static str,
        /// What happened.
        why: String,
    },
    /// There was a connection, but no answer in time.
    Timeout,
    /// The request could not be made.
    Request {
        /// What was wrong with it.
        why: String,
    },
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection { why, .. } | Self::Request { why } => f.write_str(why),
            Self::Timeout => f.write_str("no answer in time"),
        }
    }
}

/// What a client's error means. Its own text names the whole address, so only its causes are used.
pub(crate) fn trouble(error: &reqwest::Error) -> Trouble {
    if error.is_builder() {
        return Trouble::Request { why: cause(error) };
    }
    if error.is_dns() {
        let why = format!("the name cannot be resolved: {}", cause(error));
        return Trouble::Connection { code: "HostUnreachable", why };
    }
    match (error.is_connect(), error.is_timeout()) {
        (true, true) => Trouble::Connection { code: "TimedOut", why: "no connection in time".into() },
        (false, true) => Trouble::Timeout,
        _ => Trouble::Connection { code: code(error), why: cause(error) },
    }
}

/// The name of the I/O error underneath. One that is not transient by itself (TLS reports a bad
/// certificate as invalid data) says nothing about the event: the connection failed.
fn code(error: &reqwest::Error) -> &'static str {
    let kind =
        causes(error).filter_map(|cause| cause.downcast_ref::<io::Error>()).last().map(io::Error::kind);
    match kind {
        Some(kind) if io_table::classify(kind) == Class::Transient => io_table::name(kind),
        Some(_) => "ConnectionAborted",
        // Closed before the answer was complete: hyper has a name of its own for it.
        None => "UnexpectedEof",
    }
}

fn cause(error: &reqwest::Error) -> String {
    causes(error).last().map_or_else(|| "unknown".to_owned(), ToString::to_string)
}

fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |&error| error.source())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_host_of_an_address_is_shown() {
        for (url, shown) in [
            ("https://me:pw@hooks.example.com/T0/B0/s3cr3t?token=s3cr3t", "hooks.example.com"),
            ("http://127.0.0.1:9000/orders", "127.0.0.1:9000"),
            ("http://[::1]:9000/", "[::1]:9000"),
        ] {
            assert_eq!(host(&Url::parse(url).unwrap()), shown);
        }
    }

    #[test]
    fn this_machine_is_known_by_all_its_names() {
        for (url, expected) in [
            ("http://localhost/", true),
            ("http://127.8.0.1/", true),
            ("http://[::1]/", true),
            ("smtp://127.0.0.1/", true),
            ("smtp://[::1]/", true),
            ("http://localhost.example.com/", false),
            ("http://10.0.0.1/", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }
}
