//! Rows to a service, a batch in one request.
//!
//! ```text
//! POST <url>
//! content-type: application/json
//!
//! {"records": [{"topic": "decision-logs", "partition": 0, "offset": 7, "columns": {"id": "a", "amount": 12}}, …]}
//! ```
//!
//! | answer | means |
//! |---|---|
//! | 2xx | all are stored, but for those in `{"failed": [{"index": 0, "message": "…"}]}`, if there is such a body |
//! | 2xx with a body that breaks off or exceeds 8 MiB, or with a `failed` that is not like that | nothing is known |
//! | 408, 425, 429, 5xx, no answer | nothing is known: the batch is tried again, then parked |
//! | any other | the batch is refused: it is bisected |
//!
//! The service sees a record more than once after a crash: topic, partition and offset tell it which.

use std::time::Duration;

use async_trait::async_trait;
use redrive_core::classify::http;
use redrive_core::failure::{Class, Code, Failure};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{Sink, Stored, bisect, may_pass};
use crate::row::{Cell, Row};

/// The longest answer that is read: it is in memory meanwhile.
const LONGEST_ANSWER: usize = 8 << 20;

/// Where an HTTP sink sends to.
#[derive(Clone)]
pub struct HttpSinkOptions {
    /// The address.
    pub url: String,
    /// How long a request may take.
    pub timeout: Duration,
    /// Headers of every request; they may hold secrets.
    pub headers: Vec<(String, String)>,
}

impl std::fmt::Debug for HttpSinkOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpSinkOptions").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// Sends batches to a service.
#[derive(Debug)]
pub struct HttpSink {
    client: reqwest::Client,
    url: reqwest::Url,
    columns: Vec<String>,
}

/// What a service may say about single records.
#[derive(Debug, Deserialize)]
struct Answer {
    failed: Option<Vec<Failed>>,
}

#[derive(Debug, Deserialize)]
struct Failed {
    index: usize,
    #[serde(default)]
    message: String,
}

impl HttpSink {
    /// A sink at this address, for rows with these columns.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the settings.
    pub fn new(options: &HttpSinkOptions, columns: Vec<String>) -> Result<Self, String> {
        // Installed once for the process; a second time changes nothing.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let url =
            options.url.parse().map_err(|error| format!("the sink's address cannot be read: {error}"))?;
        let mut headers = HeaderMap::new();
        for (name, value) in &options.headers {
            let wrong = || format!("the sink's header {name:?} cannot be sent: check its name and value");
            let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
            let mut value = HeaderValue::from_str(value).map_err(|_| wrong())?;
            value.set_sensitive(true);
            headers.insert(key, value);
        }
        let client = reqwest::Client::builder()
            .timeout(options.timeout)
            .default_headers(headers)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("redrive/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| format!("the sink's HTTP client cannot be made: {error}"))?;
        Ok(Self { client, url, columns })
    }

    async fn post(&self, rows: &[Row<'_>]) -> Result<Vec<(usize, Failure)>, Failure> {
        let body = self.body(rows).map_err(|error| Failure::permanent("NotJson", error.to_string()))?;
        let request =
            self.client.post(self.url.clone()).header("content-type", "application/json").body(body);
        let answer = request.send().await.map_err(|error| unreachable(&error))?;
        let status = answer.status().as_u16();
        let text = text_of(answer).await;
        match http::classify(status, None) {
            // What broke off may have named records: nothing is known of any of them.
            None => failed(&text?, rows.len()),
            Some(class) => {
                let text = text.unwrap_or_default();
                let shown: String = text.chars().take(200).collect();
                Err(Failure::new(class, "Http", format!("the sink answered {status}: {shown}"))
                    .with_code(Code::Http(status)))
            }
        }
    }

    fn body(&self, rows: &[Row<'_>]) -> Result<String, serde_json::Error> {
        let mut records = Vec::with_capacity(rows.len());
        for row in rows {
            let mut columns: Vec<String> = Vec::with_capacity(row.cells.len());
            for (name, cell) in self.columns.iter().zip(&row.cells) {
                columns.push(format!("{}:{}", serde_json::to_string(name)?, json(cell)?));
            }
            let mut place = Map::new();
            place.insert("topic".into(), Value::from(&*row.identity.topic));
            place.insert("partition".into(), row.identity.partition.into());
            place.insert("offset".into(), row.identity.offset.into());
            let place = serde_json::to_string(&place)?;
            let place = place.strip_suffix('}').unwrap_or(&place);
            records.push(format!("{place},\"columns\":{{{}}}}}", columns.join(",")));
        }
        Ok(format!("{{\"records\":[{}]}}", records.join(",")))
    }
}

#[async_trait]
impl Sink for HttpSink {
    async fn write(&self, rows: &[Row<'_>]) -> Result<(), Failure> {
        match self.post(rows).await?.into_iter().next() {
            None => Ok(()),
            Some((_, failure)) => Err(failure),
        }
    }

    async fn store(&self, rows: &[Row<'_>]) -> Stored {
        if rows.is_empty() {
            return Stored::default();
        }
        match self.post(rows).await {
            Ok(poison) => Stored { poison, ..Stored::default() },
            Err(failure) if may_pass(&failure) => Stored::nothing(rows.len(), failure),
            Err(failure) => bisect(self, rows, Some(failure)).await,
        }
    }

    async fn probe(&self) -> Result<(), Failure> {
        // Any answer at all: the service need not know how to be probed.
        let answer = self.client.head(self.url.clone()).send().await.map_err(|error| unreachable(&error))?;
        let status = answer.status().as_u16();
        match status {
            500.. if status != 501 => Err(Failure::transient("Http", format!("the sink answered {status}"))),
            _ => Ok(()),
        }
    }
}

/// A number keeps its digits: it is not read as a float on the way.
fn json(cell: &Cell<'_>) -> Result<String, serde_json::Error> {
    Ok(match cell {
        Cell::Null => "null".to_owned(),
        Cell::Bool(bool) => bool.to_string(),
        Cell::Number(text) => RawValue::from_string(text.to_string())?.get().to_owned(),
        Cell::Text(text) => serde_json::to_string(text)?,
        Cell::Json(text) => (*text).to_owned(),
        Cell::Time(time) => serde_json::to_string(&time.to_string())?,
    })
}

async fn text_of(mut answer: reqwest::Response) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    while let Some(piece) = answer.chunk().await.map_err(|error| unreachable(&error))? {
        bytes.extend_from_slice(&piece);
        if bytes.len() > LONGEST_ANSWER {
            let message = format!(
                "the sink's answer has more than {LONGEST_ANSWER} bytes, so which records failed is not known"
            );
            return Err(Failure::new(Class::Unclassified, "Http", message));
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn failed(text: &str, rows: usize) -> Result<Vec<(usize, Failure)>, Failure> {
    let named = match serde_json::from_str::<Answer>(text) {
        Ok(answer) => answer.failed.unwrap_or_default(),
        // Records may be named in it. Which ones, nobody knows, so none is taken for stored.
        Err(error) if text.contains("\"failed\"") => {
            let message = format!(
                "the sink's answer cannot be read, so which records failed is not known: {error}; it should look \
                 like {{\"failed\": [{{\"index\": 0, \"message\": \"why\"}}]}}"
            );
            return Err(Failure::new(Class::Unclassified, "Http", message));
        }
        Err(_) => Vec::new(),
    };
    let mut poison = Vec::with_capacity(named.len());
    for Failed { index, message } in named {
        if index >= rows {
            let message = format!("the sink says that record {index} failed, of {rows} that it was sent");
            return Err(Failure::new(Class::Unclassified, "Http", message));
        }
        let message = if message.is_empty() { "the sink refused the record" } else { &message };
        poison.push((index, Failure::permanent("Refused", message)));
    }
    poison.sort_by_key(|(index, _)| *index);
    poison.dedup_by_key(|(index, _)| *index);
    Ok(poison)
}

fn unreachable(error: &reqwest::Error) -> Failure {
    // The address may hold a secret: the error is told without it.
    let what = if error.is_timeout() {
        "no answer in time"
    } else if error.is_connect() {
        "no connection"
    } else {
        "the answer broke off"
    };
    Failure::transient("Http", format!("the sink cannot be reached: {what}"))
}
