//! The frame around a batch of entries: what one write and one sync make durable.

use std::fmt;

use super::{
    buffer::BatchBuffer,
    number::{put, u32_at, u64_at},
    options::LogPosition,
};

/// FORMAT: checksum, body length, offset, durable end, first position, entries, zeros, highest time.
pub(super) const BATCH_HEADER_LEN: usize = 40;

/// FORMAT: batches begin at multiples of this, so that a scan past damage can find the next.
pub(super) const ALIGNMENT: usize = 8;

/// The longest body in bytes. It bounds what a damaged length can ask for, and keeps offsets in 32
/// bits.
pub(super) const BODY_LEN_MAX: usize = 512 << 20;

/// What a batch says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BatchHeader {
    /// Where it stands in its file.
    pub(super) offset: u32,
    /// The end of what was durable of this file when it was written.
    pub(super) durable: u32,
    /// The position of its first entry.
    pub(super) first: LogPosition,
    /// How many entries it has.
    pub(super) entries: u32,
    /// The highest time of its entries' stamps.
    pub(super) highest_us: u64,
}

/// A batch whose checksum is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) header: BatchHeader,
    /// The length of its entries in bytes.
    pub(super) body_len: usize,
}

/// What is wrong where a batch should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BatchDamage {
    /// The file ends too early.
    Cut { needed: usize, left: usize },
    /// The bytes are not those that were written.
    Checksum { stated: u32, computed: u32 },
    /// A batch of another place.
    Misplaced { stated: u32, at: usize },
    /// Positions that do not follow on those before.
    Order { expected: u64, found: u64 },
}

/// Fills in the header of a batch and pads it: `bytes` is room for the header, then the entries.
pub(super) fn seal_batch(bytes: &mut BatchBuffer, header: &BatchHeader, file: u32) {
    let body_len = bytes.len() - BATCH_HEADER_LEN;
    bytes.pad(batch_len(body_len));
    put(bytes, 4, &(body_len as u32).to_le_bytes());
    put(bytes, 8, &header.offset.to_le_bytes());
    put(bytes, 12, &header.durable.to_le_bytes());
    put(bytes, 16, &header.first.0.to_le_bytes());
    put(bytes, 24, &header.entries.to_le_bytes());
    put(bytes, 28, &[0; 4]);
    put(bytes, 32, &header.highest_us.to_le_bytes());
    let crc = checksum(file, bytes.get(4..).unwrap_or_default());
    put(bytes, 0, &crc.to_le_bytes());
}

impl Batch {
    /// Reads the batch that should begin these bytes, which stand at an offset of a file and begin
    /// at a position. What is after the checksum is trusted only once that is right.
    pub(super) fn read(
        bytes: &[u8],
        file: u32,
        at: usize,
        expected: Option<LogPosition>,
    ) -> Result<Self, BatchDamage> {
        let cut = |needed| BatchDamage::Cut {
            needed,
            left: bytes.len(),
        };
        let (Some(stated), Some(body_len)) = (u32_at(bytes, 0), u32_at(bytes, 4)) else {
            return Err(cut(BATCH_HEADER_LEN));
        };
        let body_len = body_len as usize;
        let len = batch_len(body_len);
        let checked = bytes.get(4..len).ok_or(cut(len))?;
        let computed = checksum(file, checked);
        let (true, Some(header)) = (stated == computed, Self::header(bytes)) else {
            return Err(BatchDamage::Checksum { stated, computed });
        };
        if header.offset as usize != at {
            return Err(BatchDamage::Misplaced {
                stated: header.offset,
                at,
            });
        }
        if let Some(expected) = expected
            && expected != header.first
        {
            return Err(BatchDamage::Order {
                expected: expected.0,
                found: header.first.0,
            });
        }
        Ok(Self { header, body_len })
    }

    fn header(bytes: &[u8]) -> Option<BatchHeader> {
        Some(BatchHeader {
            offset: u32_at(bytes, 8)?,
            durable: u32_at(bytes, 12)?,
            first: LogPosition(u64_at(bytes, 16)?),
            entries: u32_at(bytes, 24)?,
            highest_us: u64_at(bytes, 32)?,
        })
    }

    /// Reads only the offset that a batch here would state.
    pub(super) fn stated_offset(bytes: &[u8]) -> Option<u32> {
        u32_at(bytes, 8)
    }

    /// Returns the bytes it takes with its header and padding.
    pub(super) fn len(&self) -> usize {
        batch_len(self.body_len)
    }

    /// Returns the position behind its last entry.
    pub(super) fn end(&self) -> LogPosition {
        LogPosition(
            self.header
                .first
                .0
                .saturating_add(self.header.entries.into()),
        )
    }
}

/// Returns the bytes that a batch takes with its header and padding.
pub(super) const fn batch_len(body_len: usize) -> usize {
    (BATCH_HEADER_LEN + body_len).next_multiple_of(ALIGNMENT)
}

/// Computes the checksum of all that follows it in a batch, padding included. The file's number goes
/// in first: a batch of another file is not taken for one of this.
fn checksum(file: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(file);
    hasher.update(bytes);
    hasher.finalize()
}

impl BatchDamage {
    pub(super) fn expected(&self) -> String {
        match self {
            Self::Cut { needed, .. } => format!("a batch of {needed} bytes or more"),
            Self::Checksum { computed, .. } => format!("checksum {computed:08x}"),
            Self::Misplaced { at, .. } => format!("a batch of offset {at}"),
            Self::Order { expected, .. } => format!("position {expected}"),
        }
    }
}

impl fmt::Display for BatchDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut { left, .. } => write!(f, "{left} bytes to the end"),
            Self::Checksum { stated, .. } => write!(f, "checksum {stated:08x}"),
            Self::Misplaced { stated, .. } => write!(f, "a batch of offset {stated}"),
            Self::Order { found, .. } => write!(f, "position {found}"),
        }
    }
}
