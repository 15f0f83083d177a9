//! The `http` handler: one POST per event.
//!
//! The body is the payload, byte for byte, as `application/json` when it looks like JSON and
//! `application/octet-stream` otherwise. The headers are those of the [envelope](Envelope), the
//! configured ones, and with a secret the [signature]. 2xx is done; 408, 425, 429 and 5xx are transient,
//! with `Retry-After` honoured; everything else, redirects included, is permanent.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt as _, stream};
use jiff::Timestamp;
use redrive_core::classify::http;
use redrive_core::event::Event;
use redrive_core::failure::{Code, Failure};
use redrive_core::handler::Handler;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response};
use url::Url;

use super::client::{self, Trouble};
use super::envelope::{Envelope, header_value};
use super::secret::Secret;
use super::setup::SetupError;
use super::{signature, timed_out};

/// How many events of one batch are under way at a time.
const CONCURRENCY: usize = 16;
/// Headers that frame the request: to set them would break it.
const FRAMING: [&str; 4] = ["content-length", "transfer-encoding", "connection", "upgrade"];

/// Where an `http` handler posts to, and how.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// The address.
    pub url: Url,
    /// How long a request may take, from connecting to the answer.
    pub timeout: Duration,
    /// The key of the signature, if requests are signed.
    pub secret: Option<Secret>,
    /// Headers of every request.
    pub headers: Vec<(String, Secret)>,
}

/// Posts events to a service. Connections are kept and shared by all calls.
pub struct HttpHandler {
    pipeline: String,
    client: Client,
    url: Url,
    host: String,
    timeout: Duration,
    secret: Option<Secret>,
    headers: HeaderMap,
}

impl fmt::Debug for HttpHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpHandler").field("host", &self.host).finish_non_exhaustive()
    }
}

impl HttpHandler {
    /// A handler for the events of this pipeline.
    ///
    /// # Errors
    /// [`SetupError`] when the address is no http address, or a header cannot be sent.
    pub fn new(pipeline: &str, options: HttpOptions) -> Result<Self, SetupError> {
        let HttpOptions { url, timeout, secret, headers } = options;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(SetupError::Address { what: "handler", expected: "an http:// or https:// address" });
        }
        let headers = headers.iter().map(|(name, value)| header(name, value)).collect::<Result<_, _>>()?;
        let client = client::build(&url, timeout)?;
        Ok(Self {
            pipeline: pipeline.to_owned(),
            client,
            host: client::host(&url),
            url,
            timeout,
            secret,
            headers,
        })
    }

    async fn deliver(&self, event: &Event) -> Result<(), Failure> {
        let request = self.client.post(self.url.clone()).timeout(self.timeout);
        let request = request.headers(self.headers_of(event)).body(event.payload.clone());
        match request.send().await {
            Ok(response) => self.judge(response).await,
            Err(error) => Err(self.explain(client::trouble(&error))),
        }
    }

    fn headers_of(&self, event: &Event) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, content_type(&event.payload));
        for (name, value) in Envelope::of(&self.pipeline, event).headers() {
            headers.insert(HeaderName::from_static(name), header_value(value));
        }
        if let Some(secret) = &self.secret {
            headers.insert(signature::HEADER, signature::sign(secret, Timestamp::now(), &event.payload));
        }
        headers.extend(self.headers.clone());
        headers
    }

    async fn judge(&self, response: Response) -> Result<(), Failure> {
        let status = response.status();
        let retry_after = client::retry_after(&response, Timestamp::now());
        let Some(class) = http::classify(status.as_u16(), retry_after) else {
            client::release(response).await;
            return Ok(());
        };
        let mut message = format!("{} answered {status}", self.host);
        let said = client::excerpt(response).await;
        if !said.trim().is_empty() {
            message = format!("{message}: {said}");
        }
        Err(Failure::new(class, "HttpStatus", message).with_code(Code::Http(status.as_u16())))
    }

    fn explain(&self, trouble: Trouble) -> Failure {
        let host = &self.host;
        match trouble {
            Trouble::Connection { code, why } => {
                Failure::transient("Connection", format!("{host}: {why}")).with_code(Code::Io(code.into()))
            }
            Trouble::Timeout => timed_out(&format!("the request to {host}"), self.timeout),
            Trouble::Request { why } => {
                Failure::unclassified("Request", format!("the request to {host} cannot be made: {why}"))
            }
        }
    }
}

#[async_trait]
impl Handler for HttpHandler {
    async fn handle(&self, batch: &[Event]) -> Vec<Result<(), Failure>> {
        let requests: Vec<_> = batch.iter().map(|event| self.deliver(event)).collect();
        stream::iter(requests).buffered(CONCURRENCY).collect().await
    }
}

fn header(name: &str, value: &Secret) -> Result<(HeaderName, HeaderValue), SetupError> {
    let wrong = || SetupError::Header { name: name.to_owned() };
    let parsed = HeaderName::try_from(name).map_err(|_| wrong())?;
    if is_reserved_header(parsed.as_str()) {
        return Err(SetupError::ReservedHeader { name: name.to_owned() });
    }
    let mut value = HeaderValue::try_from(value.expose()).map_err(|_| wrong())?;
    value.set_sensitive(true);
    Ok((parsed, value))
}

/// Whether a header is set by the handler itself, and so cannot be configured. The case does not matter.
#[must_use]
pub fn is_reserved_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let name = name.as_str();
    name == "idempotency-key" || name.starts_with("redrive-") || FRAMING.contains(&name)
}

/// A look at the first character: a handler must not parse megabytes to choose a header.
fn content_type(payload: &[u8]) -> HeaderValue {
    match payload.trim_ascii_start().first() {
        Some(b'{' | b'[') => HeaderValue::from_static("application/json"),
        _ => HeaderValue::from_static("application/octet-stream"),
    }
}
