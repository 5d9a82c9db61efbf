//! A record as the B-tree keeps it: a header, then the value.

use crate::{Attributes, Found, rules::Current};

// FORMAT: little-endian; see docs/format/keyed-table.md.
// version (1 byte), CRC-32 of the key and of all that follows (4), flags (4), expires_at (8),
// unique (8), value.
const VERSION: u8 = 1;
const CHECKSUM_END: usize = 5;

/// Bytes before the value.
pub(super) const HEADER_BYTES: usize = 25;

/// A record read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record<'a> {
    pub(super) value: &'a [u8],
    pub(super) attributes: Attributes,
    pub(super) unique: u64,
}

impl<'a> Record<'a> {
    /// Writes the record behind what is in `out`.
    pub(super) fn write(&self, key: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.push(VERSION);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.attributes.flags.to_le_bytes());
        out.extend_from_slice(&self.attributes.expires_at.to_le_bytes());
        out.extend_from_slice(&self.unique.to_le_bytes());
        out.extend_from_slice(self.value);
        let checked = out.get(start + CHECKSUM_END..).unwrap_or_default();
        let checksum = checksum(key, checked).to_le_bytes();
        if let Some(place) = out.get_mut(start + 1..start + CHECKSUM_END) {
            place.copy_from_slice(&checksum);
        }
    }

    /// Reads a record; `None` if it is not what was written.
    pub(super) fn read(key: &[u8], bytes: &'a [u8]) -> Option<Self> {
        let (version, rest) = bytes.split_first()?;
        let (stored, checked) = rest.split_first_chunk()?;
        let (flags, rest) = checked.split_first_chunk()?;
        let (expires_at, rest) = rest.split_first_chunk()?;
        let (unique, value) = rest.split_first_chunk()?;
        if *version != VERSION || u32::from_le_bytes(*stored) != checksum(key, checked) {
            return None;
        }
        Some(Self {
            value,
            attributes: Attributes {
                flags: u32::from_le_bytes(*flags),
                expires_at: u64::from_le_bytes(*expires_at),
            },
            unique: u64::from_le_bytes(*unique),
        })
    }

    pub(super) const fn has_expired(&self, now: u64) -> bool {
        self.attributes.expires_at != 0 && self.attributes.expires_at <= now
    }

    pub(super) const fn found(&self) -> Found {
        Found {
            flags: self.attributes.flags,
            expires_at: self.attributes.expires_at,
            unique: self.unique,
        }
    }

    pub(super) const fn current(&self) -> Current<'a> {
        Current {
            value: self.value,
            attributes: self.attributes,
            unique: self.unique,
        }
    }
}

fn checksum(key: &[u8], checked: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key);
    hasher.update(checked);
    hasher.finalize()
}
