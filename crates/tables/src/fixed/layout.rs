//! Where everything is in the file of a fixed table. `docs/format/fixed-table.md` has the bytes.

use crate::TableError;

const MAGIC: [u8; 8] = *b"HKYFIXD\0";
const VERSION: u32 = 1;

/// FORMAT: the page at the file's beginning, before the intents.
pub(super) const HEADER_LEN: usize = 4096;
/// FORMAT: bytes of the header that never change.
const FIXED_LEN: usize = 40;
/// FORMAT: where the mark of a clean end is.
pub(super) const CLEAN_OFFSET: u64 = 64;
/// FORMAT: its bytes.
pub(super) const CLEAN_LEN: usize = 16;
/// FORMAT: where a vanish under way is noted.
pub(super) const VANISHING_OFFSET: u64 = 128;
/// FORMAT: bytes of an intent before its value.
pub(super) const INTENT_HEAD_LEN: usize = 16;

/// Bytes of a value at most: one has to be written twice, and is copied as a whole.
const WIDTH_MAX: usize = 16 << 20;
/// Threads that can write without sharing an intent, as long as the intents together stay small.
const INTENTS_MAX: u64 = 64;
const INTENTS_MIN: u64 = 4;
const INTENTS_BYTES_MAX: u64 = 256 << 10;
/// Intents of two threads never share a cache line.
const INTENT_ALIGN: u64 = 64;

/// The layout of one file: it follows from the width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// Bytes that a value may have.
    pub(super) width: usize,
    /// Bytes of the length before it: 1, 2 or 4.
    pub(super) length_len: usize,
    /// How many intents there are.
    pub(super) intents: u64,
    /// Bytes of each.
    pub(super) intent_len: u64,
    /// Where the first record begins.
    pub(super) records_offset: u64,
    /// Bytes of a record.
    slot_len: u64,
}

impl Layout {
    /// Returns the layout of a new file.
    pub(super) fn new(width: usize) -> Result<Self, TableError> {
        if !(1..=WIDTH_MAX).contains(&width) {
            return Err(TableError::Syntax(format!(
                "a width is 1 to {WIDTH_MAX} bytes, not {width}"
            )));
        }
        let intent_len = Self::intent_len(width);
        let intents = (INTENTS_BYTES_MAX / intent_len).clamp(INTENTS_MIN, INTENTS_MAX);
        Ok(Self::with(width, intents))
    }

    fn with(width: usize, intents: u64) -> Self {
        let intent_len = Self::intent_len(width);
        let end = HEADER_LEN as u64 + intents * intent_len;
        let length_len = match width {
            0..=0xff => 1,
            0x100..=0xffff => 2,
            _ => 4,
        };
        Self {
            width,
            length_len,
            intents,
            intent_len,
            records_offset: end.next_multiple_of(HEADER_LEN as u64),
            slot_len: (length_len + width) as u64,
        }
    }

    fn intent_len(width: usize) -> u64 {
        ((INTENT_HEAD_LEN + width) as u64).next_multiple_of(INTENT_ALIGN)
    }

    /// Returns the bytes of a record.
    #[inline]
    pub(super) const fn slot_len(&self) -> u64 {
        self.slot_len
    }

    /// Returns where a record begins; `index` is its key less 1.
    #[inline]
    pub(super) const fn slot(&self, index: u64) -> u64 {
        // It wraps for what is no index: nothing is there.
        self.records_offset
            .wrapping_add(index.wrapping_mul(self.slot_len()))
    }

    /// Returns the offset of an intent.
    #[inline]
    pub(super) const fn intent(&self, number: u64) -> u64 {
        HEADER_LEN as u64 + number * self.intent_len
    }

    /// Returns how many records a file of so many bytes has room for.
    pub(super) const fn records_in(&self, bytes: u64) -> u64 {
        bytes.saturating_sub(self.records_offset) / self.slot_len()
    }

    /// Returns the part of the header that never changes.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((self.width as u32).to_le_bytes());
        bytes.extend((self.length_len as u32).to_le_bytes());
        bytes.extend((self.intents as u32).to_le_bytes());
        bytes.extend(self.records_offset.to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    /// Reads a header; the error says what is wrong with it, and where.
    pub(super) fn decode(header: &[u8; HEADER_LEN]) -> Result<Self, String> {
        let number = |offset: usize| {
            let bytes = header.get(offset..offset + 4).unwrap_or_default();
            bytes.try_into().map_or(0, u32::from_le_bytes)
        };
        let (stated, found) = header.split_at(FIXED_LEN - 4);
        if stated.get(..8) != Some(&MAGIC) {
            return Err("bytes 0 to 7 are not those of a fixed table".to_owned());
        }
        let found_checksum = found
            .first_chunk()
            .map_or(0, |bytes| u32::from_le_bytes(*bytes));
        let checksum = crc32fast::hash(stated);
        if found_checksum != checksum {
            return Err(format!(
                "the checksum at offset 36 is {found_checksum:#010x}, expected {checksum:#010x}"
            ));
        }
        if number(8) != VERSION {
            return Err(format!(
                "the format version at offset 8 is {}, expected {VERSION}",
                number(8)
            ));
        }
        let (width, intents) = (number(12) as usize, u64::from(number(20)));
        if !(1..=WIDTH_MAX).contains(&width) || !(1..=INTENTS_MAX).contains(&intents) {
            return Err(format!(
                "the width at offset 12 is {width}, the intents at offset 20 are {intents}: \
                 expected 1 to {WIDTH_MAX}, and 1 to {INTENTS_MAX}"
            ));
        }
        let layout = Self::with(width, intents);
        if layout.encode() != header.get(..FIXED_LEN).unwrap_or_default() {
            return Err("the lengths at offsets 16 and 24 do not follow from the width".to_owned());
        }
        Ok(layout)
    }
}

/// Returns the mark that a table leaves at a clean end: how many records there are.
pub(super) fn clean_mark(count: u64) -> [u8; CLEAN_LEN] {
    let mut mark = [0; CLEAN_LEN];
    let (start, checksum) = mark.split_at_mut(12);
    for (to, from) in start
        .iter_mut()
        .zip(count.to_le_bytes().into_iter().chain(*b"done"))
    {
        *to = from;
    }
    checksum.copy_from_slice(&crc32fast::hash(start).to_le_bytes());
    mark
}

/// Returns how many records there are, if the table was left in order.
pub(super) fn clean_count(mark: &[u8; CLEAN_LEN]) -> Option<u64> {
    let count = u64::from_le_bytes(*mark.first_chunk()?);
    (clean_mark(count) == *mark).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_takes_1_2_or_4_bytes() {
        for (width, slot) in [
            (1, 2),
            (8, 9),
            (255, 256),
            (256, 258),
            (65_535, 65_537),
            (65_536, 65_540),
        ] {
            assert_eq!(Layout::new(width).unwrap().slot_len(), slot);
        }
        assert!(Layout::new(0).is_err());
        assert!(Layout::new(WIDTH_MAX + 1).is_err());
    }

    #[test]
    fn a_header_is_read_as_it_was_written_and_not_when_a_bit_has_changed() {
        for width in [1, 8, 480, 65_536, WIDTH_MAX] {
            let layout = Layout::new(width).unwrap();
            let mut header = [0; HEADER_LEN];
            let bytes = layout.encode();
            assert_eq!(bytes.len(), FIXED_LEN);
            header[..FIXED_LEN].copy_from_slice(&bytes);
            assert_eq!(Layout::decode(&header), Ok(layout));
            for bit in 0..FIXED_LEN * 8 {
                let mut damaged = header;
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(Layout::decode(&damaged).is_err(), "bit {bit}");
            }
        }
    }

    #[test]
    fn intents_end_before_the_records() {
        for width in [1, 8, 48, 49, 480, 4096, 65_536, WIDTH_MAX] {
            let layout = Layout::new(width).unwrap();
            assert!(layout.intent(layout.intents) <= layout.records_offset);
            assert!(layout.intent_len >= (INTENT_HEAD_LEN + width) as u64);
        }
    }
}
