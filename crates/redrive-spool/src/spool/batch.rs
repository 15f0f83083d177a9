//! A batch: gzip of one JSON event per line, and what is known of it.

use std::io::{self, Write as _};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};

/// How many lines share a checksum: few, so that little is lost with a damaged one.
const BLOCK: usize = 10;

/// A batch as it is uploaded, and as it waits on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Gzip of one JSON event per line.
    pub data: Bytes,
    /// What is known of it.
    pub meta: Meta,
}

/// What is known of a batch: the contents of the file beside it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Meta {
    /// How many events there are.
    pub num_events: u64,
    /// The checksums of its lines, for the rescue of what is intact in a damaged file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksums: Option<Checksums>,
}

/// CRC-32 of each block of lines, their ends included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checksums {
    /// How many lines a block has; the last one may have fewer.
    pub lines: usize,
    /// One for each block.
    pub crc32: Vec<u32>,
}

impl Batch {
    /// Compresses events, given as pieces of whole lines: each event one line of JSON, with its end.
    ///
    /// The same lines give the same bytes.
    ///
    /// # Errors
    /// Only if there is no memory.
    pub fn compress(pieces: &[Bytes]) -> io::Result<Self> {
        let size: usize = pieces.iter().map(Bytes::len).sum();
        let mut encoder = GzEncoder::new(Vec::with_capacity(size / 3 + 256), Compression::new(1));
        let mut counter = LineCounter::default();
        for piece in pieces {
            encoder.write_all(piece)?;
            counter.count(piece);
        }
        Ok(Self { data: encoder.finish()?.into(), meta: counter.finish() })
    }
}

impl Meta {
    /// What is known of a batch without a readable file beside it: one event, at least.
    #[must_use]
    pub fn unknown() -> Self {
        Self { num_events: 1, checksums: None }
    }

    /// Reads the contents of the file.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Self {
        serde_json::from_slice(bytes).unwrap_or_else(|_| Self::unknown())
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// Counts lines and makes their checksums, block by block.
#[derive(Default)]
struct LineCounter {
    lines: u64,
    hasher: crc32fast::Hasher,
    checksums: Vec<u32>,
    in_block: usize,
}

impl LineCounter {
    fn count(&mut self, piece: &[u8]) {
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', piece) {
            self.lines += 1;
            self.in_block += 1;
            if self.in_block == BLOCK {
                self.hasher.update(&piece[start..=end]);
                start = end + 1;
                self.close();
            }
        }
        self.hasher.update(&piece[start..]);
    }

    fn close(&mut self) {
        self.checksums.push(std::mem::take(&mut self.hasher).finalize());
        self.in_block = 0;
    }

    fn finish(mut self) -> Meta {
        if self.in_block > 0 {
            self.close();
        }
        let checksums = Checksums { lines: BLOCK, crc32: self.checksums };
        Meta { num_events: self.lines, checksums: Some(checksums) }
    }
}
