//! The frame around a record: its length, checksum, number and place.

use std::{fmt, ops::Range};

use bytes::Bytes;
use hikyaku_store::Sequence;

use super::{number::u32_at, record::Record};

/// FORMAT: checksum, payload length, sequence, offset, durable end, kind, flags, two zeros.
pub(super) const FRAME_HEADER_LEN: usize = 28;

/// FORMAT: frames begin at multiples of this, so that a scan past damage can find the next.
pub(super) const ALIGNMENT: usize = 8;

/// The longest payload in bytes. Far above any event that a relay accepts; it bounds what a damaged
/// length can ask for, and keeps offsets in 32 bits.
pub(super) const PAYLOAD_LEN_MAX: usize = 256 << 20;

/// FORMAT: the flag of a frame whose commit goes on with the next one.
const FLAG_CONTINUES: u8 = 0x80;

/// FORMAT: where the flags stand in a frame.
const FLAGS_AT: usize = 25;

/// A frame whose checksum is right.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    pub(super) sequence: Sequence,
    /// Where it was first written.
    pub(super) offset: u32,
    /// The end of what was durable of this file when it was appended.
    pub(super) durable: u32,
    pub(super) kind: u8,
    pub(super) flags: u8,
    /// Whether the commit it was written in goes on with the next frame.
    pub(super) continues: bool,
    /// Where it begins in the file's bytes.
    pub(super) start: usize,
    /// Where its payload stands in the file's bytes.
    payload: Range<usize>,
    /// Where the next frame begins.
    pub(super) end: usize,
}

/// What is wrong where a frame should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameDamage {
    /// The file ends too early.
    Cut { needed: usize, left: usize },
    /// The bytes are not those that were written.
    Checksum { stated: u32, computed: u32 },
    /// A frame of another place.
    Misplaced { stated: u32, at: usize },
    /// A number that does not follow on the one before.
    Order { above: Sequence, found: Sequence },
}

/// Appends a frame to a commit's buffer. The payload must not be longer than [`PAYLOAD_LEN_MAX`].
pub(super) fn put_frame(
    buffer: &mut Vec<u8>,
    record: &Record,
    sequence: Sequence,
    file: u32,
    offset: u32,
    durable: u32,
) {
    let start = buffer.len();
    let (kind, flags) = record.kind_and_flags();
    buffer.extend_from_slice(&[0; 8]);
    buffer.extend_from_slice(&sequence.0.to_le_bytes());
    buffer.extend_from_slice(&offset.to_le_bytes());
    buffer.extend_from_slice(&durable.to_le_bytes());
    buffer.extend_from_slice(&[kind, flags, 0, 0]);
    record.encode(buffer);
    let payload_len = buffer.len() - start - FRAME_HEADER_LEN;
    buffer.resize(start + frame_len(payload_len), 0);
    put_u32(buffer, start + 4, payload_len as u32);
    put_checksum(buffer, start, file);
}

/// Notes in the last frame of a commit's buffer, which starts at `start`, that another one follows.
pub(super) fn continue_commit(buffer: &mut [u8], start: usize, file: u32) {
    if let Some(flags) = buffer.get_mut(start + FLAGS_AT) {
        *flags |= FLAG_CONTINUES;
    }
    put_checksum(buffer, start, file);
}

impl Frame {
    /// Reads the frame at an offset of a file's bytes. What is after the checksum is trusted only
    /// once that is right.
    pub(super) fn read(bytes: &[u8], at: usize, file: u32) -> Result<Self, FrameDamage> {
        let rest = bytes.get(at..).unwrap_or_default();
        let cut = |needed| FrameDamage::Cut {
            needed,
            left: rest.len(),
        };
        let header = rest
            .first_chunk::<FRAME_HEADER_LEN>()
            .ok_or(cut(FRAME_HEADER_LEN))?;
        let [c0, c1, c2, c3, l0, l1, l2, l3, fixed @ ..] = header;
        let stated = u32::from_le_bytes([*c0, *c1, *c2, *c3]);
        let payload_len = u32::from_le_bytes([*l0, *l1, *l2, *l3]) as usize;
        let len = frame_len(payload_len);
        let frame = rest.get(4..len).ok_or(cut(len))?;
        let computed = checksum(file, frame);
        if stated != computed {
            return Err(FrameDamage::Checksum { stated, computed });
        }
        let [
            s0,
            s1,
            s2,
            s3,
            s4,
            s5,
            s6,
            s7,
            o0,
            o1,
            o2,
            o3,
            d0,
            d1,
            d2,
            d3,
            kind,
            flags,
            _,
            _,
        ] = *fixed;
        let payload_start = at + FRAME_HEADER_LEN;
        Ok(Self {
            sequence: Sequence(u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7])),
            offset: u32::from_le_bytes([o0, o1, o2, o3]),
            durable: u32::from_le_bytes([d0, d1, d2, d3]),
            kind,
            flags: flags & !FLAG_CONTINUES,
            continues: flags & FLAG_CONTINUES > 0,
            start: at,
            payload: payload_start..payload_start + payload_len,
            end: at + len,
        })
    }

    /// Reads only the offset that a frame here would state.
    pub(super) fn stated_offset(bytes: &[u8], at: usize) -> Option<u32> {
        u32_at(bytes, at + 16)
    }

    /// Decodes the record. `None` if it is nothing that this version writes.
    pub(super) fn record(&self, bytes: &Bytes) -> Option<Record> {
        let payload = bytes.slice(self.payload.clone());
        Record::decode(self.kind, self.flags, &payload)
    }
}

/// Returns the bytes that a frame takes with its padding.
pub(super) const fn frame_len(payload_len: usize) -> usize {
    (FRAME_HEADER_LEN + payload_len).next_multiple_of(ALIGNMENT)
}

/// Computes the checksum of all that follows it in a frame, padding included. The file's number goes
/// in first: a frame of another file is not taken for one of this.
fn checksum(file: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(file);
    hasher.update(bytes);
    hasher.finalize()
}

/// Writes the checksum of the frame that starts at `start` and ends with the buffer.
fn put_checksum(buffer: &mut [u8], start: usize, file: u32) {
    let crc = checksum(file, buffer.get(start + 4..).unwrap_or_default());
    put_u32(buffer, start, crc);
}

fn put_u32(buffer: &mut [u8], at: usize, number: u32) {
    if let Some(place) = buffer.get_mut(at..at + 4) {
        place.copy_from_slice(&number.to_le_bytes());
    }
}

impl FrameDamage {
    pub(super) fn expected(&self) -> String {
        match self {
            Self::Cut { needed, .. } => format!("a record of {needed} bytes or more"),
            Self::Checksum { computed, .. } => format!("checksum {computed:08x}"),
            Self::Misplaced { at, .. } => format!("a record of offset {at}"),
            Self::Order { above, .. } => format!("a sequence above {}", above.0),
        }
    }
}

impl fmt::Display for FrameDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut { left, .. } => write!(f, "{left} bytes to the end"),
            Self::Checksum { stated, .. } => write!(f, "checksum {stated:08x}"),
            Self::Misplaced { stated, .. } => write!(f, "a record of offset {stated}"),
            Self::Order { found, .. } => write!(f, "sequence {}", found.0),
        }
    }
}
