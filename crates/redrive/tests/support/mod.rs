//! The binary under test: started in a folder of its own, asked over a socket, stopped by signals.
#![allow(dead_code, reason = "not every suite uses all of it")]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;
use tempfile::TempDir;

/// How long anything here may take.
pub(crate) const PATIENCE: Duration = redrive_testkit::PATIENCE;

/// The binary in a folder of its own, without our environment's settings.
pub(crate) fn redrive(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redrive"));
    command.current_dir(folder).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("REDRIVE") || name == "RUST_LOG" {
            command.env_remove(name);
        }
    }
    command
}

pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

pub(crate) fn folder_with(config: &str) -> TempDir {
    let folder = folder();
    fs::write(folder.path().join("redrive.toml"), config).unwrap();
    folder
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The SHA-256 of a token, by the tool that the documentation names.
pub(crate) fn sha256(token: &str) -> String {
    let mut command = Command::new("sha256sum");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(token.as_bytes()).unwrap();
    text(&child.wait_with_output().unwrap().stdout[..64])
}

/// What a test decides by chance; `REDRIVE_TEST_SEED` repeats it.
pub(crate) fn seed() -> u64 {
    let given = std::env::var("REDRIVE_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros() as u64;
    given.unwrap_or_else(now)
}

#[track_caller]
pub(crate) fn assert_failed(output: &Output, code: i32, said: &[&str]) {
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    for part in said {
        assert!(stderr.contains(part), "{part:?} in {stderr}");
    }
    assert!(!stderr.contains("panicked") && !stderr.contains("backtrace"), "{stderr}");
}

/// Asks until there is an answer.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "still not: {what}");
        // Each look may cost a port for a while: a tight loop would use them all up.
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn status(head: &str) -> u16 {
    head.split(' ').nth(1).unwrap().parse().unwrap()
}

/// A server under test; it does not outlive the test.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    /// Read as it comes: a full pipe would block the server.
    log: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
    /// The header that every request carries.
    authorization: String,
}

impl Server {
    /// Starts on a free port and waits until it says where.
    pub(crate) fn start(folder: &Path) -> Self {
        Self::start_at(folder, "127.0.0.1:0")
    }

    /// Starts, and then nobody reads its log any more.
    pub(crate) fn unheard(folder: &Path) -> Self {
        let (child, _, address) = Self::listening(folder, "127.0.0.1:0");
        Self { child, address, log: Arc::default(), reader: None, authorization: String::new() }
    }

    fn listening(folder: &Path, address: &str) -> (Child, BufReader<ChildStderr>, SocketAddr) {
        let mut command = redrive(folder);
        command.arg("serve").env("REDRIVE__SERVER__LISTEN", address).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        let address = loop {
            line.clear();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "ended before it listened");
            if let Some((_, address)) = line.trim_end().split_once("is listening on http://") {
                break address.parse().unwrap();
            }
        };
        (child, stderr, address)
    }

    /// Starts on this address and waits until it listens.
    pub(crate) fn start_at(folder: &Path, address: &str) -> Self {
        let (child, mut stderr, address) = Self::listening(folder, address);
        let log = Arc::new(Mutex::new(String::new()));
        let kept = Arc::clone(&log);
        let reader = std::thread::spawn(move || {
            let mut line = Vec::new();
            while stderr.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                kept.lock().unwrap().push_str(&text(&line));
                line.clear();
            }
        });
        Self { child, address, log, reader: Some(reader), authorization: String::new() }
    }

    /// Starts and waits until everything is ready.
    pub(crate) fn ready(folder: &Path) -> Self {
        let server = Self::start(folder);
        server.wait_ready(200);
        server
    }

    /// The same server; it is asked with this token.
    pub(crate) fn with_token(mut self, token: &str) -> Self {
        self.authorization = format!("authorization: Bearer {token}\r\n");
        self
    }

    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        let (status, body) = self.ask("GET", path, "");
        (status, serde_json::from_str(&body).unwrap_or(Value::Null))
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let (status, body) = self.ask("POST", path, &body.to_string());
        (status, serde_json::from_str(&body).unwrap_or(Value::Null))
    }

    pub(crate) fn metrics(&self) -> String {
        self.ask("GET", "/metrics", "").1
    }

    /// A page of the dashboard.
    pub(crate) fn page(&self, path: &str) -> String {
        self.ask("GET", path, "").1
    }

    /// Where it listens, for the command line.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Asks until the answer is the wanted one.
    pub(crate) fn wait_ready(&self, wanted: u16) -> Value {
        eventually("the readiness that is wanted", || {
            let (status, body) = self.get("/api/v1/ready");
            (status == wanted).then_some(body)
        })
    }

    /// Waits until the metrics have this line.
    #[track_caller]
    pub(crate) fn wait_metric(&self, line: &str) {
        eventually(line, || self.metrics().lines().any(|found| found == line).then_some(()));
    }

    pub(crate) fn signal(&self, name: &str) {
        let process = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &process]).status().unwrap().success());
    }

    /// What it has said so far, after it listened.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Waits for the end; returns the exit code and the log.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        (code, self.log())
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        self.ask_with(&self.authorization, method, path, body)
    }

    /// With a further header, which ends in CRLF.
    pub(crate) fn ask_with(&self, header: &str, method: &str, path: &str, body: &str) -> (u16, String) {
        let (head, body) =
            self.exchange(&format!("{header}content-type: application/json\r\n"), method, path, body);
        (status(&head), body)
    }

    /// Posts a form, with further headers; the status and the cookie that is set.
    pub(crate) fn form(&self, header: &str, path: &str, body: &str) -> (u16, Option<String>) {
        let header = format!("{header}content-type: application/x-www-form-urlencoded\r\n");
        let (head, _) = self.exchange(&header, "POST", path, body);
        let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: "));
        (status(&head), cookie.and_then(|cookie| cookie.split(';').next()).map(str::to_owned))
    }

    fn exchange(&self, header: &str, method: &str, path: &str, body: &str) -> (String, String) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{header}");
        write!(stream, "{head}content-length: {length}\r\n\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
