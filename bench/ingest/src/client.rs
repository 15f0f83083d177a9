//! Connections that send bodies of 100 events, one after another.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context as _;
use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// How many events a body has.
pub(crate) const EVENTS: u64 = 100;

/// What came of it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sent {
    pub(crate) accepted: u64,
    /// Answers that asked to come back later.
    pub(crate) refused: u64,
}

/// Sends so many events over so many connections, whatever the answers are.
pub(crate) async fn send(address: SocketAddr, connections: usize, events: u64) -> anyhow::Result<Sent> {
    let bodies = Arc::new(AtomicU64::new(events / EVENTS));
    let mut senders = JoinSet::new();
    for connection in 0..connections {
        senders.spawn(send_over_one(address, request(connection), Arc::clone(&bodies)));
    }
    let mut sent = Sent::default();
    while let Some(one) = senders.join_next().await {
        let one = one??;
        sent.accepted += one.accepted;
        sent.refused += one.refused;
    }
    Ok(sent)
}

async fn send_over_one(address: SocketAddr, request: Bytes, bodies: Arc<AtomicU64>) -> anyhow::Result<Sent> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let mut sent = Sent::default();
    let mut answer = Vec::new();
    while bodies.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
        stream.write_all(&request).await?;
        match status(&mut stream, &mut answer).await? {
            200..=299 => sent.accepted += EVENTS,
            503 => sent.refused += EVENTS,
            other => anyhow::bail!("answered {other}"),
        }
    }
    Ok(sent)
}

/// Reads one answer: its head, and as much body as the head says.
async fn status(stream: &mut TcpStream, answer: &mut Vec<u8>) -> anyhow::Result<u16> {
    answer.clear();
    let end = loop {
        anyhow::ensure!(stream.read_buf(answer).await? > 0, "the server hung up");
        if let Some(end) = answer.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let head = std::str::from_utf8(&answer[..end])?.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.context("no length")?.trim().parse()?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    while answer.len() < end + length {
        anyhow::ensure!(stream.read_buf(answer).await? > 0, "the server hung up");
    }
    Ok(status)
}

/// A request with events of 300 bytes.
fn request(seed: usize) -> Bytes {
    let mut body = String::new();
    for number in 0..EVENTS {
        let start = body.len();
        let _ = write!(body, "{{\"id\":\"{seed}-{number}\",\"data\":\"");
        while body.len() - start < 290 {
            let _ =
                write!(body, "{:x} ", (body.len() as u64 + seed as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        }
        body.truncate(start + 297);
        body.push_str("\"}\n");
    }
    let head = format!(
        "POST /api/v1/ingest/bench HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-ndjson\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    (head + &body).into()
}
