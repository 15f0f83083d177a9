//! Servers that die, stop and are told to go, and the service that they deliver to.
#![allow(dead_code, reason = "not every suite uses all of it")]

pub(crate) mod ingest;
pub(crate) mod s3;

use std::collections::HashMap;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;

use crate::support::redrive;

/// A `redrive serve` of its own; it does not outlive the test.
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a server in the folder, with these variables.
    pub(crate) fn serve_with(folder: &Path, name: &str, variables: &[(&str, String)]) -> Self {
        let log = folder.join(format!("{name}.log"));
        let stderr = File::options().create(true).append(true).open(&log).unwrap();
        let mut command = redrive(folder);
        command.arg("serve").envs(variables.iter().cloned()).stderr(stderr);
        Self { child: command.spawn().unwrap(), log }
    }

    /// Starts a server in the folder; several in one folder share its configuration, not its log.
    pub(crate) fn serve(folder: &Path, name: &str) -> Self {
        let log = folder.join(format!("{name}.log"));
        let stderr = File::options().create(true).append(true).open(&log).unwrap();
        let mut command = redrive(folder);
        command.arg("serve").env("REDRIVE__SERVER__LISTEN", "127.0.0.1:0").stderr(stderr);
        command.env("REDRIVE__SERVER__DATA_DIR", folder.join(name));
        Self { child: command.spawn().unwrap(), log }
    }

    /// SIGKILL, and waits for the end.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn signal(&self, name: &str) {
        let process = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &process]).status().unwrap().success());
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            let lines: Vec<_> = log.lines().collect();
            let end = &lines[lines.len().saturating_sub(40)..];
            eprintln!("the end of {}:\n{}", self.log.display(), end.join("\n"));
        }
    }
}

/// A request of a handler.
#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    pub(crate) key: String,
    /// How often this key has arrived, this time included.
    pub(crate) time: u32,
    pub(crate) body: String,
}

type Answer = dyn Fn(Delivery) -> Pin<Box<dyn Future<Output = u16> + Send>> + Send + Sync;

/// A service that remembers how often each idempotency key arrived. It goes with the test's runtime.
#[derive(Clone)]
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    times: Mutex<HashMap<String, u32>>,
    answer: Box<Answer>,
}

impl Receiver {
    pub(crate) async fn start<F>(answer: impl Fn(Delivery) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = u16> + Send + 'static,
    {
        let answer = Box::new(move |delivery| Box::pin(answer(delivery)) as Pin<Box<_>>);
        let shared = Arc::new(Shared { times: Mutex::default(), answer });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", post(receive)).with_state(Arc::clone(&shared));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, shared }
    }

    /// How often each key arrived.
    pub(crate) fn times(&self) -> HashMap<String, u32> {
        self.shared.times.lock().unwrap().clone()
    }

    /// How many different keys arrived.
    pub(crate) fn distinct(&self) -> usize {
        self.shared.times.lock().unwrap().len()
    }
}

async fn receive(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: String) -> StatusCode {
    let key = headers["idempotency-key"].to_str().unwrap().to_owned();
    let time = {
        let mut times = shared.times.lock().unwrap();
        let time = times.entry(key.clone()).or_default();
        *time += 1;
        *time
    };
    StatusCode::from_u16((shared.answer)(Delivery { key, time, body }).await).unwrap()
}
