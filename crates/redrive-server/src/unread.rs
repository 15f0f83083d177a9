//! A connection whose other end takes nothing: an answer that nobody reads is given up after a while.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// How long the other end may take nothing of an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// The same once everything stops.
const AT_THE_STOP: Duration = Duration::from_secs(1);

/// A connection that ends when what is written is not taken in time.
pub(crate) struct Unread<S> {
    stream: S,
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
    is_stopping: bool,
    /// When the write that is under way is given up.
    late: Option<Pin<Box<Sleep>>>,
}

impl<S> Unread<S> {
    pub(crate) fn new(stream: S, stop: CancellationToken) -> Self {
        Self { stream, stop: Box::pin(stop.cancelled_owned()), is_stopping: false, late: None }
    }

    /// What came of a write: one that waits is given up when it is late.
    fn in_time<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.late = None;
            return written;
        }
        let patience = if self.is_stopping { AT_THE_STOP } else { PATIENCE };
        let late = self.late.get_or_insert_with(|| Box::pin(sleep(patience)));
        if !self.is_stopping && self.stop.as_mut().poll(context).is_ready() {
            self.is_stopping = true;
            late.as_mut().reset(Instant::now() + AT_THE_STOP);
        }
        ready!(late.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Unread<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Unread<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.in_time(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.in_time(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.in_time(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.stream).poll_shutdown(context);
        self.in_time(context, ended)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const ANSWER: [u8; 100] = [7; 100];

    /// Ten of them held what they had asked for in memory, for as long as they liked.
    #[tokio::test(start_paused = true)]
    async fn an_answer_that_nobody_reads_is_given_up() {
        for (stops, patience) in [(false, PATIENCE), (true, AT_THE_STOP)] {
            let (ours, _theirs) = tokio::io::duplex(10);
            let stop = CancellationToken::new();
            let mut connection = Unread::new(ours, stop.clone());
            let begun = Instant::now();
            let writing = connection.write_all(&ANSWER);
            let stopping = async {
                sleep(PATIENCE / 3).await;
                if stops {
                    stop.cancel();
                }
            };
            let (written, ()) = tokio::join!(writing, stopping);
            assert_eq!(written.unwrap_err().kind(), io::ErrorKind::TimedOut);
            let waited = if stops { PATIENCE / 3 + patience } else { patience };
            assert_eq!(begun.elapsed().as_secs(), waited.as_secs());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_read_slowly_arrives() {
        let (ours, mut theirs) = tokio::io::duplex(10);
        let mut connection = Unread::new(ours, CancellationToken::new());
        let reading = async {
            let mut all = Vec::new();
            while all.len() < ANSWER.len() {
                sleep(PATIENCE / 2).await;
                let mut some = [0; 10];
                let count = theirs.read(&mut some).await.unwrap();
                all.extend_from_slice(&some[..count]);
            }
            all
        };
        let (written, read) = tokio::join!(connection.write_all(&ANSWER), reading);
        written.unwrap();
        assert_eq!(read, ANSWER);
    }
}
