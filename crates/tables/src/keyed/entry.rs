//! One change in a frame of the journal.

use super::record::{HEADER_BYTES, Record};

// FORMAT: see docs/format/keyed-table.md. Lengths are little-endian, 4 bytes.
const PUT: u8 = 1;
const REMOVE: u8 = 2;
const VANISH: u8 = 3;

/// What happened to the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry<'a> {
    /// The record is now this; as the B-tree has it.
    Put { key: &'a [u8], record: &'a [u8] },
    /// The record is gone.
    Remove { key: &'a [u8] },
    /// All records are gone.
    Vanish,
}

impl<'a> Entry<'a> {
    /// Returns how many bytes a put takes.
    pub(super) const fn put_bytes(key: &[u8], value: &[u8]) -> usize {
        9 + key.len() + HEADER_BYTES + value.len()
    }

    /// Writes the entry behind what is in `out`.
    pub(super) fn write(self, out: &mut Vec<u8>) {
        let len = |bytes: &[u8]| (bytes.len() as u32).to_le_bytes();
        match self {
            Self::Put { key, record } => {
                out.push(PUT);
                out.extend_from_slice(&len(key));
                out.extend_from_slice(&len(record));
                out.extend_from_slice(key);
                out.extend_from_slice(record);
            }
            Self::Remove { key } => {
                out.push(REMOVE);
                out.extend_from_slice(&len(key));
                out.extend_from_slice(key);
            }
            Self::Vanish => out.push(VANISH),
        }
    }

    /// Reads the first entry: it, and what is behind it. `None` if there is none.
    pub(super) fn read(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (tag, rest) = bytes.split_first()?;
        match *tag {
            PUT => {
                let (key_len, rest) = read_len(rest)?;
                let (record_len, rest) = read_len(rest)?;
                let (key, rest) = rest.split_at_checked(key_len)?;
                let (record, rest) = rest.split_at_checked(record_len)?;
                Record::read(key, record)?;
                Some((Self::Put { key, record }, rest))
            }
            REMOVE => {
                let (key_len, rest) = read_len(rest)?;
                let (key, rest) = rest.split_at_checked(key_len)?;
                Some((Self::Remove { key }, rest))
            }
            VANISH => Some((Self::Vanish, rest)),
            _ => None,
        }
    }
}

fn read_len(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (len, rest) = bytes.split_first_chunk()?;
    Some((u32::from_le_bytes(*len) as usize, rest))
}
