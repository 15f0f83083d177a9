//! The cable to a server: cut, silent, or whole again, as a test wants it.
//!
//! A server that a test takes away by its process is gone for every other test too, and comes back when it
//! pleases. A cable takes it away from one client, at the moment that matters.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::TestDatabase;

/// How the cable is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Whole,
    /// Bytes are kept back, both ways; nobody is told.
    Silent,
    /// Connections break, and new ones too.
    Cut,
}

/// Where the cable breaks by itself: once one connection has carried these words to the server, in this
/// order. The server does what the last of them asks for; its answer is lost.
type Trap = Arc<Mutex<Option<Vec<String>>>>;

/// A cable from a client to a server. It goes with the test.
#[derive(Debug)]
pub struct Cable {
    port: u16,
    state: watch::Sender<State>,
    trap: Trap,
    accepting: JoinHandle<()>,
}

impl Cable {
    /// A cable to the server of this database.
    ///
    /// # Panics
    /// When the database has no server.
    pub async fn to(database: &TestDatabase) -> Self {
        let server = server_of(&database.url).to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let (state, trap) = (watch::Sender::new(State::Whole), Trap::default());
        let accepting = tokio::spawn(accept(listener, server, state.clone(), Arc::clone(&trap)));
        Self { port, state, trap, accepting }
    }

    /// The database's address, by way of this cable.
    #[must_use]
    pub fn address(&self, database: &TestDatabase) -> String {
        database.url.replacen(server_of(&database.url), &format!("127.0.0.1:{}", self.port), 1)
    }

    /// Breaks every connection, and those to come.
    pub fn cut(&self) {
        self.state.send_replace(State::Cut);
    }

    /// Keeps back what is said from now on, without a word.
    pub fn silence(&self) {
        self.state.send_replace(State::Silent);
    }

    /// Lets everything through again.
    pub fn mend(&self) {
        self.state.send_replace(State::Whole);
    }

    /// Cuts itself once one connection has carried these words to the server, in this order; the answer to the
    /// last of them is lost.
    pub fn cut_after(&self, words: &[&str]) {
        let words = words.iter().rev().map(ToString::to_string).collect();
        *self.trap.lock().unwrap_or_else(PoisonError::into_inner) = Some(words);
    }

    /// Waits until it is cut.
    pub async fn is_cut(&self) {
        let mut state = self.state.subscribe();
        state.wait_for(|state| *state == State::Cut).await.expect("the sender is here");
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

/// Host and port in a database's address.
fn server_of(url: &str) -> &str {
    let (_, rest) = url.split_once("//").expect("a server's address");
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    rest.split_once('/').map_or(rest, |(server, _)| server)
}

async fn accept(listener: TcpListener, server: String, state: watch::Sender<State>, trap: Trap) {
    while let Ok((client, _)) = listener.accept().await {
        if *state.borrow() == State::Cut {
            continue;
        }
        let Ok(server) = TcpStream::connect(&server).await else { continue };
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let lost = Arc::new(AtomicBool::new(false));
        tokio::spawn(ask(from_client, to_server, state.clone(), Arc::clone(&trap), Arc::clone(&lost)));
        tokio::spawn(answer(from_server, to_client, state.clone(), lost));
    }
}

/// From the client to the server.
async fn ask(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    state: watch::Sender<State>,
    trap: Trap,
    lost: Arc<AtomicBool>,
) {
    let mut left = None;
    let mut bytes = vec![0; 1 << 16];
    while let Some(some) = next(&mut from, &mut bytes, &state).await {
        if springs(&trap, &mut left, some) {
            lost.store(true, Ordering::SeqCst);
        }
        if to.write_all(some).await.is_err() {
            return;
        }
    }
}

/// Whether these bytes are the last that the trap waits for; `left` are the words that this connection has not
/// carried yet, the next one last.
fn springs(trap: &Trap, left: &mut Option<Vec<String>>, bytes: &[u8]) -> bool {
    let mut trap = trap.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(words) = &*trap else {
        *left = None;
        return false;
    };
    let left = left.get_or_insert_with(|| words.clone());
    while left.last().is_some_and(|word| contains(bytes, word.as_bytes())) {
        left.pop();
    }
    if left.is_empty() {
        *trap = None;
    }
    left.is_empty()
}

/// From the server to the client.
async fn answer(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    state: watch::Sender<State>,
    lost: Arc<AtomicBool>,
) {
    let mut bytes = vec![0; 1 << 16];
    while let Some(some) = next(&mut from, &mut bytes, &state).await {
        if lost.load(Ordering::SeqCst) {
            state.send_replace(State::Cut);
            return;
        }
        if to.write_all(some).await.is_err() {
            return;
        }
    }
}

/// What comes next, once it may pass; nothing when the connection is at its end.
async fn next<'a>(
    from: &mut OwnedReadHalf,
    bytes: &'a mut [u8],
    state: &watch::Sender<State>,
) -> Option<&'a [u8]> {
    let mut cut = state.subscribe();
    let read = tokio::select! {
        read = from.read(bytes) => read.ok().filter(|read| *read > 0)?,
        _ = cut.wait_for(|state| *state == State::Cut) => return None,
    };
    let mut passing = state.subscribe();
    let now = *passing.wait_for(|state| *state != State::Silent).await.ok()?;
    (now == State::Whole).then_some(&bytes[..read])
}

fn contains(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|found| found == word)
}
