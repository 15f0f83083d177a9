//! Sending events to a server, and reading what it stored.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use flate2::read::MultiGzDecoder;

use super::Process;
use crate::support::{PATIENCE, eventually};

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
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
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

/// An address that nobody else takes while a server is not there, before its start or between two lives: below the
/// ports that the system gives away, and beside one that this process keeps as a sign to others who look here.
pub(crate) fn free_address() -> SocketAddr {
    const FIRST: u16 = 30_100;
    const PAIRS: u16 = 1_300;
    let listen = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok();
    let start = std::process::id() as u16 % PAIRS;
    for pair in (start..PAIRS).chain(0..start) {
        let port = FIRST + 2 * pair;
        if let (Some(sign), Some(_)) = (listen(port), listen(port + 1)) {
            std::mem::forget(sign);
            return (Ipv4Addr::LOCALHOST, port + 1).into();
        }
    }
    panic!("no port is free");
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
    eventually("the server answers", || {
        assert!(server.ended().is_none(), "the server ended");
        get(address, "/api/v1/health").map(drop)
    });
}
