//! The tail of a stream: all of it is read, the end of it is kept.

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The last bytes of a stream.
#[derive(Debug)]
pub(super) struct Tail {
    kept: Vec<u8>,
    max: usize,
}

impl Tail {
    pub(super) fn new(max: usize) -> Self {
        Self { kept: Vec::new(), max }
    }

    /// Reads to the end, or until the stream fails.
    pub(super) async fn drain(&mut self, mut stream: impl AsyncRead + Unpin) {
        let mut buffer = [0; 8 * 1024];
        while let Ok(read @ 1..) = stream.read(&mut buffer).await {
            self.push(&buffer[..read]);
        }
    }

    /// What was kept, as text.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.kept).trim().to_owned()
    }

    fn push(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(self.max)..];
        let surplus = (self.kept.len() + bytes.len()).saturating_sub(self.max);
        self.kept.drain(..surplus);
        self.kept.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_end_is_kept_however_it_arrives() {
        for chunk in [1, 2, 3, 7, 100] {
            let mut tail = Tail::new(5);
            b"0123456789".chunks(chunk).for_each(|chunk| tail.push(chunk));
            assert_eq!(tail.text(), "56789");
        }
        let mut tail = Tail::new(5);
        tail.drain(&b"abc\n"[..]).await;
        assert_eq!(tail.text(), "abc");
    }
}
