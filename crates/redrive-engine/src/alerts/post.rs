//! A POST to an address that is itself a secret.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use redrive_core::classify::http;
use redrive_core::failure::Class;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response};
use url::Url;

use super::channel::ChannelError;
use super::inert::Inert;
use crate::handlers::Secret;
use crate::handlers::SetupError;
use crate::handlers::client;

/// How long one POST may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Where to post. Shows itself as its host.
pub(super) struct Post {
    client: Client,
    url: Url,
    host: String,
}

impl fmt::Debug for Post {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Post").field(&self.host).finish()
    }
}

impl Post {
    /// # Errors
    /// [`SetupError::Address`] when it is no http address; the address is not repeated.
    pub(super) fn new(address: &Secret) -> Result<Self, SetupError> {
        let url = Url::parse(address.expose()).ok();
        let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let url =
            url.ok_or(SetupError::Address { what: "webhook", expected: "an http:// or https:// address" })?;
        Ok(Self { client: client::build(&url, TIMEOUT)?, host: client::host(&url), url })
    }

    /// Posts JSON, with headers beside the usual ones.
    pub(super) async fn json(
        &self,
        body: Vec<u8>,
        headers: impl IntoIterator<Item = (HeaderName, HeaderValue)>,
    ) -> Result<(), ChannelError> {
        let headers: HeaderMap = headers.into_iter().collect();
        let request = self.client.post(self.url.clone()).timeout(TIMEOUT).headers(headers);
        let request = request.header(CONTENT_TYPE, "application/json").body(body);
        let response = request.send().await.map_err(|error| self.unavailable(&error))?;
        self.judge(response).await
    }

    fn unavailable(&self, error: &reqwest::Error) -> ChannelError {
        let why = Inert::new(&client::trouble(error).to_string());
        ChannelError::unavailable(format!("{}: {why}", self.host))
    }

    async fn judge(&self, response: Response) -> Result<(), ChannelError> {
        let status = response.status();
        let retry_after = client::retry_after(&response, Timestamp::now());
        let Some(class) = http::classify(status.as_u16(), retry_after) else {
            client::release(response).await;
            return Ok(());
        };
        let said = Inert::new(&client::excerpt(response).await);
        let message = format!("{} answered {status}: {said}", self.host);
        Err(match class {
            Class::Transient => ChannelError::unavailable(message),
            Class::Throttled { retry_after } => {
                ChannelError::Unavailable { message, retry_after: Some(retry_after) }
            }
            _ => ChannelError::Refused { message },
        })
    }
}
