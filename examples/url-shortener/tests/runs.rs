//! The example runs as its first lines say: it shortens, redirects, and forgets nothing when it is killed.
#![allow(clippy::unwrap_used, reason = "helpers fail as the tests do")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

struct Shortener {
    process: Child,
    address: String,
}

impl Shortener {
    fn start(folder: &Path) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_url-shortener"))
            .arg(folder)
            .arg("127.0.0.1:0")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).and_then(|rest| rest.split(',').next());
        let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { process, address }
    }

    fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn shorten(&self, url: &str) -> String {
        let body = serde_json::json!({ "url": url }).to_string();
        let length = body.len();
        self.ask(&format!(
            "POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        ))
    }

    fn follow(&self, short: &str) -> String {
        self.ask(&format!("GET /{short} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"))
    }
}

impl Drop for Shortener {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

fn short_of(answer: &str) -> String {
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    let body: serde_json::Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    body["short_url"].as_str().unwrap().to_owned()
}

#[test]
fn a_short_url_leads_to_the_long_one_at_once_and_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let shortener = Shortener::start(folder.path());
    let longs: Vec<_> = (0..20).map(|n| format!("https://example.org/a/long/way?n={n}")).collect();
    let shorts: Vec<_> = longs.iter().map(|long| short_of(&shortener.shorten(long))).collect();
    let leads = |shortener: &Shortener, short: &str, long: &str| {
        let answer = shortener.follow(short);
        answer.starts_with("HTTP/1.1 302") && answer.contains(&format!("location: {long}\r\n"))
    };
    assert!(leads(&shortener, &shorts[0], &longs[0]), "before it is saved");
    drop(shortener); // kill -9, right after the last answer
    let shortener = Shortener::start(folder.path());
    for (short, long) in shorts.iter().zip(&longs) {
        let mut tries = 0;
        while !leads(&shortener, short, long) {
            tries += 1;
            assert!(tries < 100, "{long} is lost");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
    assert!(shortener.follow("nope").starts_with("HTTP/1.1 404"));
    assert!(shortener.shorten("javascript:alert(1)").starts_with("HTTP/1.1 422"));
}
