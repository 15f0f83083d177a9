//! The line to a console: over HTTP to a server, or straight to the stores. The commands know no difference.
//!
//! Both ends are the same routes, so a command that works over one works over the other, with the same checks
//! and the same words.

mod reply;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, header};
use redrive::config::{Backend, Config};
use redrive_engine::console::{Console, Runner};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use url::Url;

pub(crate) use reply::Reply;

use crate::args::To;
use crate::command::Failure;
use crate::wire::Inside;

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);
const CONNECTING: Duration = Duration::from_secs(5);
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The line to a console.
pub(crate) enum Line {
    /// Over HTTP.
    Server { client: reqwest::Client, base: Url, token: Option<String> },
    /// Straight to the stores.
    Stores { router: Router, console: Arc<Console> },
}

impl Line {
    /// The line that the arguments ask for. Call it within a runtime.
    pub(crate) fn open(to: &To, config: impl FnOnce() -> Result<Config, Failure>) -> Result<Self, Failure> {
        match to.server() {
            Some(server) => Self::to_server(server, token(to.token_file())?),
            None => Self::to_stores(&config()?),
        }
    }

    fn to_server(server: &str, token: Option<String>) -> Result<Self, Failure> {
        let base = base(server)?;
        // Another part of the process may have installed it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // A redirect would carry the token elsewhere.
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECTING)
            .build()
            .context("the HTTP client cannot be made")?;
        Ok(Self::Server { client, base, token })
    }

    fn to_stores(config: &Config) -> Result<Self, Failure> {
        if config.server.database.backend() == Backend::Sqlite && !config.server.data_dir.exists() {
            return Err(Failure::Refused(format!(
                "there is nothing in {} yet: run `redrive serve` or `redrive migrate` here first, or name a server \
                 with --server",
                config.server.data_dir.display()
            )));
        }
        for ingest in &config.ingests {
            eprintln!(
                "note: ingest {} is not shown: its letters are files that its server keeps; ask that with --server",
                ingest.name
            );
        }
        let inside = Inside::open(config, &person()).map_err(Failure::Other)?;
        Ok(Self::Stores { router: inside.router, console: inside.console })
    }

    /// Whether it goes over HTTP.
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self, Self::Server { .. })
    }

    /// What is at this address of the API, as this type.
    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, String)],
    ) -> Result<T, Failure> {
        self.ask(Method::GET, path, query, String::new(), None).await?.read()
    }

    /// The same; nothing when there is no such thing.
    pub(crate) async fn find<T: DeserializeOwned>(&self, path: &[&str]) -> Result<Option<T>, Failure> {
        let reply = self.ask(Method::GET, path, &[], String::new(), None).await?;
        if reply.status == 404 { Ok(None) } else { reply.read().map(Some) }
    }

    /// What is at this address of the API, byte for byte.
    pub(crate) async fn get_bytes(&self, path: &[&str]) -> Result<Vec<u8>, Failure> {
        self.ask(Method::GET, path, &[], String::new(), None).await?.whole()
    }

    /// Sends this to an address of the API, and reads the answer as this type.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        self.ask(Method::POST, path, &[], json(body)?, None).await?.read()
    }

    /// The same, as one request however often the network repeats it.
    pub(crate) async fn post_once<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &impl Serialize,
        key: &str,
    ) -> Result<T, Failure> {
        self.ask(Method::POST, path, &[], json(body)?, Some(key)).await?.read()
    }

    /// Carries operations out while it lives, if no server does.
    pub(crate) fn work(&self) -> Option<AtWork> {
        let Self::Stores { console, .. } = self else { return None };
        let stop = CancellationToken::new();
        let running = tokio::spawn(Runner::new(Arc::clone(console)).run(stop.clone()));
        Some(AtWork { stop, running })
    }

    /// The stream of what changes; nothing when there is no server to tell it.
    pub(crate) async fn changes(&self) -> Result<Option<reqwest::Response>, Failure> {
        let Self::Server { client, base, token } = self else { return Ok(None) };
        let mut request = client.get(address(base, &["stream"], &[]));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        match request.send().await {
            Ok(answer) if answer.status() == 200 => Ok(Some(answer)),
            other => reply(base, other).await?.read::<Value>().map(|_| None),
        }
    }

    async fn ask(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, String)],
        body: String,
        key: Option<&str>,
    ) -> Result<Reply, Failure> {
        match self {
            Self::Server { client, base, token } => {
                let mut request = client.request(method, address(base, path, query)).timeout(PATIENCE);
                request = request.header(header::CONTENT_TYPE, "application/json");
                if let Some(token) = token {
                    request = request.bearer_auth(token);
                }
                if let Some(key) = key {
                    request = request.header(IDEMPOTENCY_KEY, key);
                }
                reply(base, request.body(body).send().await).await
            }
            Self::Stores { router, .. } => {
                let mut request = Request::builder().method(method).uri(place(path, query)?);
                request = request.header(header::CONTENT_TYPE, "application/json");
                if let Some(key) = key {
                    request = request.header(IDEMPOTENCY_KEY, key);
                }
                let request = request.body(Body::from(body)).context("the request cannot be made")?;
                // A router cannot fail.
                let Ok(answer) = router.clone().oneshot(request).await;
                let status = answer.status().as_u16();
                let bytes = to_bytes(answer.into_body(), usize::MAX).await;
                Ok(Reply { status, bytes: bytes.context("the answer ended early")?.to_vec() })
            }
        }
    }
}

/// Somebody who carries operations out.
pub(crate) struct AtWork {
    stop: CancellationToken,
    running: tokio::task::JoinHandle<()>,
}

impl AtWork {
    /// Finishes what is in hand, and lets go.
    pub(crate) async fn end(self) {
        self.stop.cancel();
        if self.running.await.is_err() {
            tracing::error!("carrying the operation out ended in a defect");
        }
    }
}

/// The address of a server: a whole one, or just `host:port`.
fn base(server: &str) -> Result<Url, Failure> {
    let is_url = server.contains("://");
    let whole = if is_url { server.to_owned() } else { format!("http://{server}") };
    let url = Url::parse(&whole).ok().filter(Url::has_host);
    // Without a scheme, the port is what makes it an address rather than a slip.
    let url = url.filter(|_| is_url || has_port(server));
    let Some(url) = url else {
        return Err(Failure::Usage(format!(
            "{} is no address of a server: give one such as http://127.0.0.1:7070 or 127.0.0.1:7070",
            quoted(server)
        )));
    };
    match url.scheme() {
        "http" | "https" => Ok(url),
        other => Err(Failure::Usage(format!(
            "{other}:// is no way to a server: begin its address with http:// or https://, or give host:port"
        ))),
    }
}

fn has_port(server: &str) -> bool {
    let host = server.split(['/', '?', '#']).next().unwrap_or_default();
    let port = host.rsplit_once(':').map(|(_, port)| port);
    port.is_some_and(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// An address that could not be read, for a message. One with a user in it may have a password.
fn quoted(server: &str) -> String {
    if server.contains('@') { "what was given".to_owned() } else { format!("{server:?}") }
}

fn json(body: &impl Serialize) -> Result<String, Failure> {
    Ok(serde_json::to_string(body).context("the request cannot be written as JSON")?)
}

/// What a server answered, if it did.
async fn reply(base: &Url, answer: reqwest::Result<reqwest::Response>) -> Result<Reply, Failure> {
    let answer = answer.map_err(|error| away(base, &error))?;
    let status = answer.status().as_u16();
    let bytes = answer.bytes().await.map_err(|error| away(base, &error))?;
    Ok(Reply { status, bytes: bytes.to_vec() })
}

/// The path and query of something under the API, for a router without a host.
fn place(path: &[&str], query: &[(&str, String)]) -> anyhow::Result<String> {
    let base = Url::parse("http://localhost").context("invariant: an address")?;
    let url = address(&base, path, query);
    Ok(format!("{}?{}", url.path(), url.query().unwrap_or_default()))
}

/// The address of something under the API; every part is one segment, whatever is in it.
fn address(base: &Url, path: &[&str], query: &[(&str, String)]) -> Url {
    let mut url = base.clone();
    url.set_query(None);
    url.set_fragment(None);
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(["api", "v1"]).extend(path);
    }
    if !query.is_empty() {
        url.query_pairs_mut().extend_pairs(query);
    }
    url
}

fn away(base: &Url, error: &reqwest::Error) -> Failure {
    let mut host = base.clone();
    // A password in an address is nobody's to read.
    let _ = host.set_username("").and_then(|()| host.set_password(None));
    let mut reason: &dyn std::error::Error = error;
    while let Some(source) = reason.source() {
        reason = source;
    }
    Failure::Unavailable(format!(
        "the server at {host} does not answer: {reason}. Is it running, and is the address right (--server, REDRIVE_SERVER)?"
    ))
}

/// The token: from the environment or a file, never from the command line, which everybody on this machine sees.
fn token(file: Option<&Path>) -> Result<Option<String>, Failure> {
    let token = match file {
        Some(file) => {
            let read = std::fs::read_to_string(file);
            read.map_err(|error| {
                Failure::Usage(format!("the token file {} cannot be read: {error}", file.display()))
            })?
        }
        None => std::env::var("REDRIVE_TOKEN").unwrap_or_default(),
    };
    let token = token.trim();
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Failure::Usage(
            "the token has characters that no token has: one line, without spaces".to_owned(),
        ));
    }
    Ok((!token.is_empty()).then(|| token.to_owned()))
}

/// Who uses the stores, for the audit log.
fn person() -> String {
    let named = |variable| std::env::var(variable).ok().filter(|name| !name.is_empty());
    let name = named("USER").or_else(|| named("LOGNAME")).unwrap_or_else(|| "somebody".to_owned());
    format!("{name} (command line)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_an_address_or_host_and_port() {
        for (given, expected) in [
            ("localhost:7070", "http://localhost:7070/"),
            ("127.0.0.1:7070", "http://127.0.0.1:7070/"),
            ("[::1]:7070", "http://[::1]:7070/"),
            ("redrive.internal:443/dlq", "http://redrive.internal:443/dlq"),
            ("https://redrive.internal", "https://redrive.internal/"),
        ] {
            assert_eq!(base(given).unwrap().as_str(), expected, "{given}");
        }
        for (given, said) in [
            ("localhost", "such as http://127.0.0.1:7070 or 127.0.0.1:7070"),
            ("localhost:", "such as"),
            ("http://", "such as"),
            ("localhost:70700", "such as"),
            ("ftp://localhost:21", "http:// or https://"),
            ("me:hunter2@", "what was given is no address"),
        ] {
            let Err(Failure::Usage(text)) = base(given) else { panic!("{given} is accepted") };
            assert!(text.contains(said) && !text.contains("hunter2"), "{given}: {text}");
        }
    }

    #[test]
    fn every_part_of_an_address_is_one_segment() {
        let base = Url::parse("http://h:1/redrive/?x#y").unwrap();
        let url = address(&base, &["dead-letters", "a/b:1?é"], &[("q", "x&y=z".to_owned())]);
        assert_eq!(url.as_str(), "http://h:1/redrive/api/v1/dead-letters/a%2Fb:1%3F%C3%A9?q=x%26y%3Dz");
    }
}
