//! The body of an ingest request, made into lines: unpacked, checked and counted.
//!
//! That takes time that a sender chooses: a few kilobytes unpack to millions of lines. So it is done away from the
//! threads that must not block, for a bounded number of bodies at a time; a small body that is not packed is read
//! where it is. How much one body may cost is bounded by its size once it is unpacked.

use std::io::Read as _;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use redrive_core::fingerprint::digest;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Problem;
use crate::lines::{self, Invalid, Lines, WrongLine};

/// Up to so many bytes a body is read faster than it is handed over.
const SMALL: usize = 32 << 10;
/// How long a body waits for its turn.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// How many bodies are read at a time: one core is left to the others.
#[derive(Debug, Clone)]
pub(crate) struct BodyReaders(Arc<Semaphore>);

impl Default for BodyReaders {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self(Arc::new(Semaphore::new(cores.saturating_sub(1).max(1))))
    }
}

/// How a body is written, and what becomes of its wrong lines.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EventBody {
    form: Form,
    packing: Packing,
    invalid: Invalid,
}

/// What was in a body.
#[derive(Debug)]
pub(crate) struct Events {
    pub(crate) lines: Lines,
    /// What makes two requests the same, if somebody wants to know.
    pub(crate) digest: Option<u64>,
}

impl EventBody {
    pub(crate) fn of(headers: &HeaderMap, invalid: Invalid) -> Result<Self, Problem> {
        Ok(Self { form: Form::of(headers)?, packing: Packing::of(headers)?, invalid })
    }

    /// Reads a body, which may have so many bytes once it is unpacked.
    pub(crate) async fn read(
        self,
        body: Bytes,
        limit: usize,
        has_digest: bool,
        readers: &BodyReaders,
    ) -> Result<Events, Problem> {
        if matches!(self.packing, Packing::None) && body.len() <= SMALL {
            return self.events(body, limit, has_digest);
        }
        let turn = readers.turn().await?;
        let reading = tokio::task::spawn_blocking(move || {
            // A sender that hangs up does not make room for the next before this has ended.
            let _turn = turn;
            self.events(body, limit, has_digest)
        });
        let stopped =
            |_| Problem::unavailable("The body was not read: the server is stopping. Send it again.");
        reading.await.map_err(stopped)?
    }

    fn events(self, body: Bytes, limit: usize, has_digest: bool) -> Result<Events, Problem> {
        let bytes = self.packing.unpack(body, limit)?;
        let lines = self.form.read(&bytes, self.invalid).map_err(|wrong| not_json(&wrong))?;
        let digest = has_digest.then(|| digest(&[self.form.name(), self.invalid.name(), &bytes].concat()));
        Ok(Events { lines, digest })
    }
}

impl BodyReaders {
    async fn turn(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let turn = tokio::time::timeout(LONGEST_WAIT, Arc::clone(&self.0).acquire_owned()).await;
        let busy = || {
            let detail = "More bodies are being read than this server can read at a time. Nothing was accepted: send it again later.";
            Problem::unavailable(detail)
        };
        turn.ok().and_then(Result::ok).ok_or_else(busy)
    }
}

/// How events are written in a body.
#[derive(Debug, Clone, Copy)]
enum Form {
    Json,
    Lines,
}

impl Form {
    fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        let media = headers.get(CONTENT_TYPE).and_then(|media| media.to_str().ok()).unwrap_or_default();
        let media = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match media.as_str() {
            "application/json" => Ok(Self::Json),
            "application/x-ndjson"
            | "application/ndjson"
            | "application/jsonl"
            | "application/x-jsonlines" => Ok(Self::Lines),
            _ => Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "Send Content-Type: application/json for one event or an array, application/x-ndjson for one per line.",
            )),
        }
    }

    const fn name(self) -> &'static [u8] {
        match self {
            Self::Json => b"json ",
            Self::Lines => b"lines ",
        }
    }

    fn read(self, bytes: &Bytes, invalid: Invalid) -> Result<Lines, WrongLine> {
        match self {
            Self::Json => lines::of_json(bytes),
            Self::Lines => lines::of_lines(bytes, invalid),
        }
    }
}

/// How a body is compressed.
#[derive(Debug, Clone, Copy)]
enum Packing {
    None,
    Gzip,
    Zstd,
}

impl Packing {
    fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        match headers.get(CONTENT_ENCODING).map(|packing| packing.as_bytes().to_ascii_lowercase()).as_deref()
        {
            None | Some(b"identity") => Ok(Self::None),
            Some(b"gzip" | b"x-gzip") => Ok(Self::Gzip),
            Some(b"zstd") => Ok(Self::Zstd),
            Some(_) => Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "Send the body as it is, or with Content-Encoding: gzip or zstd.",
            )),
        }
    }

    /// At most so many bytes come out, however few go in.
    fn unpack(self, packed: Bytes, limit: usize) -> Result<Bytes, Problem> {
        match self {
            Self::None => Ok(packed),
            Self::Gzip => bounded(flate2::read::MultiGzDecoder::new(packed.as_ref()), limit),
            Self::Zstd => {
                let decoder =
                    zstd::stream::read::Decoder::new(packed.as_ref()).map_err(|error| damaged(&error))?;
                bounded(decoder, limit)
            }
        }
    }
}

fn bounded(reader: impl std::io::Read, limit: usize) -> Result<Bytes, Problem> {
    let mut bytes = Vec::new();
    reader.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(|error| damaged(&error))?;
    if bytes.len() > limit {
        let detail = format!(
            "The body is over {limit} bytes once it is unpacked; send less at once, or raise server.max-body."
        );
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail));
    }
    Ok(bytes.into())
}

fn damaged(error: &std::io::Error) -> Problem {
    let detail = format!("The body cannot be unpacked: {error}. Nothing was accepted.");
    Problem::new(StatusCode::BAD_REQUEST, detail)
}

fn not_json(wrong: &WrongLine) -> Problem {
    let WrongLine { line, error } = wrong;
    let detail = format!(
        "Line {line} is not JSON: {error}. Nothing was accepted; with ?invalid=skip the good lines of an NDJSON body are."
    );
    Problem::new(StatusCode::BAD_REQUEST, detail).of_line(*line)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// 6 s of a thread that served everybody, for a request of 8 kB: each of four million lines was formatted.
    #[tokio::test]
    async fn a_packed_body_is_read_beside_the_thread_that_serves_and_a_bounded_number_at_a_time() {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
        encoder.write_all(&b"x\n".repeat(4 << 20)).unwrap();
        let packed = Bytes::from(encoder.finish().unwrap());
        let readers = BodyReaders(Arc::new(Semaphore::new(1)));
        let body = EventBody { form: Form::Lines, packing: Packing::Gzip, invalid: Invalid::Skip };
        let mut reading = Box::pin(body.read(packed, 8 << 20, false, &readers));
        // Were it read here, the first look would find it done.
        let first = futures_util::future::poll_immediate(&mut reading).await;
        assert!(first.is_none() && readers.0.available_permits() == 0);
        let read = reading.await.unwrap().lines;
        assert_eq!((read.events, read.rejected_total, read.rejected.len()), (0, 4 << 20, 100));
        assert_eq!(readers.0.available_permits(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_finds_no_turn_is_refused_for_now() {
        let readers = BodyReaders(Arc::new(Semaphore::new(0)));
        let body = EventBody { form: Form::Lines, packing: Packing::Zstd, invalid: Invalid::Refuse };
        let refused = body.read(Bytes::new(), 8 << 20, false, &readers).await.unwrap_err();
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    }
}
