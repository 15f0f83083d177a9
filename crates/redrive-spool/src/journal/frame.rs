//! One frame of a segment: see [`crate::journal`] for the drawing.

use std::ops::Range;

const MARKER: [u8; 4] = *b"\xA5rdj";
/// Bytes before the payload.
pub(super) const HEADER: usize = 28;

/// The highest index that is told apart.
const MOST_INDEX: u32 = 0xFF_FFFF;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The first of a segment, or the last one at a proper end; its number is that of the next record.
    Start,
    /// Somebody's record.
    Record,
    /// Everything up to its number is acknowledged, and the ranges in its payload.
    Acknowledged,
}

/// A frame that was found whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) kind: Kind,
    pub(super) number: u64,
    /// How many frames before it were written together with it: they were synced with it, or none was.
    pub(super) index: u32,
    /// Where its payload is.
    pub(super) payload: Range<usize>,
}

/// What was found at a place.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Whole(Frame),
    /// The header is right, the payload is not; the frame would end here.
    DamagedPayload(usize),
    /// The header is right, and says that more should follow than does.
    Cut,
    /// No frame starts here.
    Nothing,
}

impl Kind {
    const fn code(self) -> u8 {
        match self {
            Self::Start => 1,
            Self::Record => 2,
            Self::Acknowledged => 3,
        }
    }

    const fn of(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Start),
            2 => Some(Self::Record),
            3 => Some(Self::Acknowledged),
            _ => None,
        }
    }
}

/// Writes a frame after so many others that are written with it. The payload is shorter than 4 GiB: the options
/// see to it.
pub(super) fn encode(kind: Kind, number: u64, index: u32, payload: &[u8], into: &mut Vec<u8>) {
    let start = into.len();
    let [first, second, third, _] = index.min(MOST_INDEX).to_le_bytes();
    into.extend_from_slice(&MARKER);
    into.extend_from_slice(&[kind.code(), first, second, third]);
    into.extend_from_slice(&u32::try_from(payload.len()).unwrap_or(u32::MAX).to_le_bytes());
    into.extend_from_slice(&number.to_le_bytes());
    into.extend_from_slice(&crc32fast::hash(payload).to_le_bytes());
    let checksum = crc32fast::hash(&into[start..]);
    into.extend_from_slice(&checksum.to_le_bytes());
    into.extend_from_slice(payload);
}

/// Looks at what starts at a place.
pub(super) fn decode(bytes: &[u8], at: usize) -> Found {
    let Some(header) = bytes.get(at..).and_then(|rest| rest.first_chunk::<HEADER>()) else {
        return Found::Nothing;
    };
    let (Some(kind), true) = (Kind::of(header[4]), is_header(header)) else { return Found::Nothing };
    let start = at + HEADER;
    let end = start.saturating_add(u32_at(header, 8) as usize);
    let Some(payload) = bytes.get(start..end) else { return Found::Cut };
    if crc32fast::hash(payload) != u32_at(header, 20) {
        return Found::DamagedPayload(end);
    }
    let index = u32::from_le_bytes([header[5], header[6], header[7], 0]);
    Found::Whole(Frame { kind, number: u64_at(header, 12), index, payload: start..end })
}

/// The next place after this one where a frame's marker stands.
pub(super) fn next_marker(bytes: &[u8], after: usize) -> Option<usize> {
    let rest = bytes.get(after + 1..)?;
    rest.windows(MARKER.len()).position(|window| window == MARKER).map(|found| after + 1 + found)
}

fn is_header(header: &[u8; HEADER]) -> bool {
    header.starts_with(&MARKER) && crc32fast::hash(&header[..24]) == u32_at(header, 24)
}

fn u32_at(header: &[u8; HEADER], at: usize) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&header[at..at + 4]);
    u32::from_le_bytes(bytes)
}

fn u64_at(header: &[u8; HEADER], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&header[at..at + 8]);
    u64::from_le_bytes(bytes)
}
