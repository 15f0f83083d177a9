//! Looking at a whole batch file: is it what it should be, and if not, which lines are intact?

use std::io::{self, BufRead, BufReader, ErrorKind, Read as _};

use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;
use serde::de::IgnoredAny;

use super::batch::{Batch, Checksums, Meta};

/// The longest line that is read: more is damage, or an attack.
const LONGEST_LINE: usize = 64 << 20;
/// The most that is kept of a damaged file at a time.
const MOST_RESCUED: usize = 256 << 20;

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
    let mut line = Vec::new();
    while read_line(&mut reader, &mut line).map_err(|error| format!("the gzip stream is damaged: {error}"))? {
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

fn check(line: &[u8]) -> serde_json::Result<()> {
    serde_json::from_slice::<IgnoredAny>(line).map(drop)
}

fn rescue(data: &[u8], meta: &Meta, reason: String) -> Inspection {
    let (lines, end) = lines_until_damage(data);
    let intact = match (&meta.checksums, end) {
        (Some(checksums), _) => proven(&lines, checksums, meta.num_events),
        // Without checksums nothing before a wrong checksum of the whole can be trusted: a flipped bit
        // may have changed a number and left the line JSON.
        (None, End::Corrupt) => Vec::new(),
        (None, End::Whole | End::Cut) => lines.iter().map(Vec::as_slice).collect(),
    };
    let good: Vec<&[u8]> =
        intact.into_iter().filter(|line| line.ends_with(b"\n") && check(line).is_ok()).collect();
    Inspection::Damaged { reason, events: good.len() as u64, intact: good.concat().into() }
}

/// How a stream ends.
enum End {
    Whole,
    /// It stops before its end.
    Cut,
    /// It is not what was written.
    Corrupt,
}

fn lines_until_damage(data: &[u8]) -> (Vec<Vec<u8>>, End) {
    let mut reader = BufReader::with_capacity(64 << 10, MultiGzDecoder::new(data));
    let (mut lines, mut line, mut size) = (Vec::new(), Vec::new(), 0);
    loop {
        match read_line(&mut reader, &mut line) {
            Ok(true) if size < MOST_RESCUED => {
                size += line.len();
                lines.push(std::mem::take(&mut line));
            }
            Ok(true) => return (lines, End::Cut),
            Ok(false) => return (lines, End::Whole),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return (lines, End::Cut),
            Err(_) => return (lines, End::Corrupt),
        }
    }
}

/// The lines of blocks whose checksum is right.
fn proven<'a>(lines: &'a [Vec<u8>], checksums: &Checksums, events: u64) -> Vec<&'a [u8]> {
    let mut proven = Vec::new();
    let events = usize::try_from(events).unwrap_or(usize::MAX);
    for (number, (block, crc32)) in lines.chunks(checksums.lines.max(1)).zip(&checksums.crc32).enumerate() {
        let expected = checksums.lines.min(events.saturating_sub(number * checksums.lines));
        if block.len() >= expected && is_proven(&block[..expected], *crc32) {
            proven.extend(block[..expected].iter().map(Vec::as_slice));
        }
    }
    proven
}

fn is_proven(block: &[Vec<u8>], crc32: u32) -> bool {
    let mut hasher = crc32fast::Hasher::new();
    block.iter().for_each(|line| hasher.update(line));
    hasher.finalize() == crc32
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
                assert_eq!(lines_until_damage(&data).0.concat(), written.concat().as_bytes(), "{index}");
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
