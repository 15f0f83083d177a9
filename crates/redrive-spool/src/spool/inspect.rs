//! Looking at a whole batch file: is it what it should be, and if not, which lines are intact?

use std::io::{self, BufRead, BufReader, ErrorKind, Read as _};

use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;
use serde::de::IgnoredAny;

use super::batch::{Batch, Checksums, Meta};

/// The longest line that is read: more is damage, or an attack.
const LONGEST_LINE: usize = 64 << 20;
/// The most that a file may unpack to. A batch is far smaller; a few kilobytes may unpack to anything.
const MOST_UNPACKED: usize = 1 << 30;
/// The most that is rescued of a damaged file: all of it is in memory. The file is kept whole, whatever it holds.
const MOST_RESCUED: usize = 64 << 20;

/// What a file turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inspection {
    /// Gzip from end to end, and every line JSON.
    Sound {
        /// How many lines.
        events: u64,
    },
    /// Something is wrong with it.
    Damaged {
        /// What.
        reason: String,
        /// The lines that are intact, each with its end.
        intact: Bytes,
        /// How many they are.
        events: u64,
    },
}

/// Reads a file from end to end.
#[must_use]
pub fn inspect(data: &[u8], meta: &Meta) -> Inspection {
    let mut events = 0;
    let whole = each_line(data, |line| {
        events += 1;
        check(line).map_err(|error| format!("line {events} is not JSON: {error}"))
    });
    match whole {
        Ok(()) => Inspection::Sound { events },
        Err(reason) => rescue(data, meta, reason),
    }
}

/// The lines of a batch, at most so many bytes of them; what cannot be read is left out.
#[must_use]
pub fn lines(batch: &Batch, most: usize) -> Vec<u8> {
    let mut shown = Vec::new();
    let mut reader = MultiGzDecoder::new(batch.data.as_ref()).take(most as u64);
    // Whatever came before the damage is worth showing.
    let _ = reader.read_to_end(&mut shown);
    shown
}

/// A file that is empty, holds no gzip, or ends too early is an error here.
fn each_line(data: &[u8], mut act: impl FnMut(&[u8]) -> Result<(), String>) -> Result<(), String> {
    if data.is_empty() {
        return Err("the file is empty".to_owned());
    }
    let mut reader = BufReader::with_capacity(64 << 10, MultiGzDecoder::new(data));
    let (mut line, mut unpacked) = (Vec::new(), 0);
    while read_line(&mut reader, &mut line).map_err(|error| format!("the gzip stream is damaged: {error}"))? {
        unpacked += line.len();
        if unpacked > MOST_UNPACKED {
            return Err(format!("it unpacks to more than {MOST_UNPACKED} bytes"));
        }
        if !line.trim_ascii().is_empty() {
            act(&line)?;
        }
    }
    Ok(())
}

/// Reads a line and its end; false at the end of the file.
fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    loop {
        let available = reader.fill_buf()?;
        if available.is_empty() {
            return Ok(!line.is_empty());
        }
        let end = memchr::memchr(b'\n', available).map(|end| end + 1);
        let taken = end.unwrap_or(available.len());
        line.extend_from_slice(&available[..taken]);
        reader.consume(taken);
        if line.len() > LONGEST_LINE {
            return Err(io::Error::new(ErrorKind::InvalidData, "a line is longer than 64 MiB"));
        }
        if end.is_some() {
            return Ok(true);
        }
    }
}

fn check(line: &[u8]) -> Result<(), String> {
    serde_json::from_slice::<IgnoredAny>(line).map_err(|error| error.to_string())?;
    // Bytes inside strings are not looked at by a parser that ignores them.
    std::str::from_utf8(line).map(drop).map_err(|error| format!("it is not UTF-8: {error}"))
}

fn is_good(line: &[u8]) -> bool {
    line.ends_with(b"\n") && check(line).is_ok()
}

fn rescue(data: &[u8], meta: &Meta, reason: String) -> Inspection {
    let mut rescued = Rescued::default();
    let end = match &meta.checksums {
        Some(checksums) => each_proven_block(data, checksums, meta.num_events, &mut rescued),
        None => each_line_until_damage(data, |line| rescued.take(line)),
    };
    // Without checksums nothing before a wrong checksum of the whole can be trusted: a flipped bit may have changed a
    // number and left the line JSON.
    if meta.checksums.is_none() && end == End::Corrupt {
        rescued = Rescued::default();
    }
    Inspection::Damaged { reason, events: rescued.events, intact: rescued.lines.into() }
}

/// The good lines of a damaged file.
#[derive(Default)]
struct Rescued {
    lines: Vec<u8>,
    events: u64,
}

impl Rescued {
    /// Takes a line if it is good. Whether there is room for more.
    fn take(&mut self, line: &[u8]) -> bool {
        if self.lines.len() + line.len() > MOST_RESCUED {
            return false;
        }
        if is_good(line) {
            self.lines.extend_from_slice(line);
            self.events += 1;
        }
        true
    }

    /// Takes the good lines of a block. Whether there is room for more.
    fn take_all(&mut self, block: &[u8]) -> bool {
        block.split_inclusive(|byte| *byte == b'\n').all(|line| self.take(line))
    }
}

/// How a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Whole,
    /// It stops before its end, or nobody wants more of it.
    Cut,
    /// It is not what was written.
    Corrupt,
}

/// One line after another, until `act` wants no more. No more than one is in memory.
fn each_line_until_damage(data: &[u8], mut act: impl FnMut(&[u8]) -> bool) -> End {
    let mut reader = BufReader::with_capacity(64 << 10, MultiGzDecoder::new(data));
    let (mut line, mut unpacked) = (Vec::new(), 0);
    loop {
        match read_line(&mut reader, &mut line) {
            Ok(true) => {
                unpacked += line.len();
                if unpacked > MOST_UNPACKED || !act(&line) {
                    return End::Cut;
                }
            }
            Ok(false) => return End::Whole,
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return End::Cut,
            Err(_) => return End::Corrupt,
        }
    }
}

/// Takes the lines of blocks whose checksum is right.
fn each_proven_block(data: &[u8], checksums: &Checksums, events: u64, rescued: &mut Rescued) -> End {
    let events = usize::try_from(events).unwrap_or(usize::MAX);
    let mut blocks = checksums.crc32.iter().enumerate().map(|(number, crc32)| {
        let size = checksums.lines.max(1);
        (size.min(events.saturating_sub(number.saturating_mul(size))), *crc32)
    });
    let mut expected = blocks.next();
    let (mut block, mut lines) = (Vec::new(), 0);
    each_line_until_damage(data, |line| {
        let Some((size, crc32)) = expected else { return false };
        block.extend_from_slice(line);
        lines += 1;
        if lines < size {
            return block.len() <= MOST_RESCUED;
        }
        let goes_on = crc32fast::hash(&block) != crc32 || rescued.take_all(&block);
        block.clear();
        lines = 0;
        expected = blocks.next();
        goes_on
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool::Batch;

    fn line(number: usize) -> String {
        format!("{{\"id\":{number},\"text\":\"event number {number} of the batch\"}}\n")
    }

    fn batch(events: usize) -> Batch {
        let lines: String = (0..events).map(line).collect();
        Batch::compress(&[lines.into()]).unwrap()
    }

    #[test]
    fn a_batch_is_sound_and_counted() {
        let batch = batch(25);
        assert_eq!(batch.meta.num_events, 25);
        assert_eq!(batch.meta.checksums.as_ref().unwrap().crc32.len(), 3);
        assert_eq!(inspect(&batch.data, &batch.meta), Inspection::Sound { events: 25 });
        assert_eq!(inspect(&batch.data, &Meta::unknown()), Inspection::Sound { events: 25 });
    }

    /// The founding check read the header and the first line only.
    #[test]
    fn a_file_without_its_footer_is_damaged_and_its_lines_are_rescued() {
        let batch = batch(25);
        for meta in [batch.meta.clone(), Meta::unknown()] {
            let Inspection::Damaged { intact, events, .. } =
                inspect(&batch.data[..batch.data.len() - 8], &meta)
            else {
                panic!("a file without its footer passed")
            };
            let lines: String = (0..25).map(line).collect();
            assert_eq!((events, intact), (25, Bytes::from(lines)));
        }
    }

    #[test]
    fn a_line_that_is_not_json_is_damage_and_the_others_are_rescued() {
        let batch = Batch::compress(&["{\"a\":1}\nnonsense\n{\"b\":2}\n".into()]).unwrap();
        let Inspection::Damaged { reason, intact, events } = inspect(&batch.data, &batch.meta) else {
            panic!("nonsense passed")
        };
        assert!(reason.starts_with("line 2 is not JSON"), "{reason}");
        assert_eq!((events, intact), (2, Bytes::from("{\"a\":1}\n{\"b\":2}\n")));
    }

    /// It went to the good ones, and whoever read them stopped there.
    #[test]
    fn a_line_that_is_not_utf_8_is_damage_and_the_others_are_rescued() {
        let batch = Batch::compress(&[Bytes::from_static(b"{\"a\":1}\n\"\xff\"\n{\"b\":2}\n")]).unwrap();
        for meta in [batch.meta.clone(), Meta::unknown()] {
            let Inspection::Damaged { reason, intact, events } = inspect(&batch.data, &meta) else {
                panic!("it passed")
            };
            assert!(reason.starts_with("line 2 is not JSON: it is not UTF-8"), "{reason}");
            assert_eq!((events, intact), (2, Bytes::from("{\"a\":1}\n{\"b\":2}\n")));
        }
    }

    /// Each line was an allocation of its own: 1.85 GB for a file of a few hundred kilobytes.
    #[test]
    fn what_is_rescued_of_a_small_file_that_unpacks_to_much_is_bounded() {
        let line = format!("\"{}\"\n", "0".repeat(4_093));
        let mut lines = line.repeat(MOST_RESCUED / line.len() + 1_000);
        lines.push_str("damage\n");
        let batch = Batch::compress(&[lines.into()]).unwrap();
        assert!(batch.data.len() < 2 << 20);
        let Inspection::Damaged { intact, events, .. } = inspect(&batch.data, &Meta::unknown()) else {
            panic!("damage passed")
        };
        assert_eq!((intact.len(), events), (MOST_RESCUED, (MOST_RESCUED / line.len()) as u64));
    }

    #[test]
    fn whichever_byte_is_flipped_no_line_is_rescued_that_was_not_written() {
        let batch = batch(40);
        let written: Vec<String> = (0..40).map(line).collect();
        for index in 0..batch.data.len() {
            let mut data = batch.data.to_vec();
            data[index] ^= 0x10;
            if let Inspection::Damaged { intact, .. } = inspect(&data, &batch.meta) {
                let rescued = std::str::from_utf8(&intact).unwrap();
                assert!(
                    rescued.split_inclusive('\n').all(|line| written.iter().any(|one| one == line)),
                    "{index}"
                );
            } else {
                // The time and the system in the header, and the padding at the end, are no contents.
                let mut lines = Vec::new();
                each_line_until_damage(&data, |line| {
                    lines.extend_from_slice(line);
                    true
                });
                assert_eq!(lines, written.concat().as_bytes(), "{index}");
            }
        }
    }

    #[test]
    fn wherever_it_is_cut_it_is_damaged_and_what_is_rescued_was_written() {
        let batch = batch(40);
        let whole: String = (0..40).map(line).collect();
        for length in 0..batch.data.len() {
            for meta in [&batch.meta, &Meta::unknown()] {
                let Inspection::Damaged { intact, .. } = inspect(&batch.data[..length], meta) else {
                    panic!("cut at {length} and sound")
                };
                assert!(whole.as_bytes().starts_with(&intact), "cut at {length}");
            }
        }
    }
}
