//! Sending events to a server, and reading what it stored.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use flate2::read::MultiGzDecoder;

use super::Process;

/// Sends events, one per line; the status of the answer, if there is one.
pub(crate) fn send(address: SocketAddr, pipeline: &str, lines: &str) -> Option<u16> {
    let request = format!(
        "POST /api/v1/ingest/{pipeline} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/x-ndjson\r\ncontent-length: {}\r\n\r\n{lines}",
        lines.len()
    );
    exchange(address, &request)?.split(' ').nth(1)?.parse().ok()
}

/// The body of what is at a path.
pub(crate) fn get(address: SocketAddr, path: &str) -> Option<String> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    exchange(address, &request)?.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
}

fn exchange(address: SocketAddr, request: &str) -> Option<String> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(2)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    Some(String::from_utf8_lossy(&answer).into_owned())
}

/// A number from `/metrics`, by the start of its line.
pub(crate) fn metric(address: SocketAddr, name: &str) -> Option<u64> {
    let metrics = get(address, "/metrics")?;
    let line = metrics.lines().find(|line| line.starts_with(name))?;
    line.rsplit(' ').next()?.parse::<f64>().ok().map(|value| value as u64)
}

/// A port that is free now.
pub(crate) fn free_address() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Every line of these objects, and how often it is there.
pub(crate) fn lines(objects: &BTreeMap<String, Vec<u8>>) -> BTreeMap<String, usize> {
    let mut lines = BTreeMap::new();
    for (name, data) in objects {
        let mut text = String::new();
        MultiGzDecoder::new(data.as_slice())
            .read_to_string(&mut text)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        for line in text.lines() {
            *lines.entry(line.to_owned()).or_default() += 1;
        }
    }
    lines
}

/// Waits until the server answers.
pub(crate) fn wait_until_up(server: &mut Process, address: SocketAddr) {
    for _ in 0..600 {
        if get(address, "/api/v1/health").is_some() {
            return;
        }
        assert!(server.ended().is_none(), "the server ended");
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the server does not answer");
}
