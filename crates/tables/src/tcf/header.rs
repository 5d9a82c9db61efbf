//! The 256 bytes at the beginning of a `.tcf` file, and the layout of a record.
//!
//! FORMAT: `ToKyO CaBiNeT`, a new line and versions; the type (2) at 32 and the flags at 33; then
//! 64-bit numbers: records at 48, file size at 56, width at 64, size limit at 72, first and last key
//! at 80 and 88. A record is a length field of 1, 2 or 4 bytes, as the width needs, and as many bytes
//! as the width. A record of no bytes has a 1 where its value would begin: zeros are no record.

use std::path::Path;

use crate::TableError;

/// Bytes before the first record.
pub(super) const HEADER_LEN: u64 = 256;
const MAGIC: &[u8] = b"ToKyO CaBiNeT";
/// What upstream's last release writes behind the magic.
const VERSIONS: &[u8] = b"\n1.0:911\n";
const TYPE_FIXED: u8 = 2;
/// The file was not closed: the counts are of when it was opened.
const FLAG_OPEN: u8 = 1;
/// Upstream maps the whole limit, in pages.
const PAGE: u64 = 4096;
/// Upstream's default limit, so that its tools can go on putting into a file of ours.
const LIMIT_BYTES_MIN: u64 = 256 << 20;

/// The order of the bytes in a file's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteOrder {
    /// As upstream writes it on today's machines.
    Little,
    /// As Debian's build writes it everywhere.
    Big,
}

impl ByteOrder {
    /// Writes a number's lowest `len` bytes, at most eight.
    pub(super) fn bytes(self, number: u64, len: usize) -> impl Iterator<Item = u8> {
        (0..len).map(move |index| {
            let shift = match self {
                Self::Little => index,
                Self::Big => len - 1 - index,
            };
            (number >> (8 * shift)) as u8
        })
    }

    /// Reads a number of up to eight bytes.
    pub(super) fn number(self, bytes: &[u8]) -> u64 {
        let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        match self {
            Self::Little => bytes.iter().rev().fold(0, add),
            Self::Big => bytes.iter().fold(0, add),
        }
    }
}

/// What a file says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcfHeader {
    /// The order of the bytes in its numbers.
    pub byte_order: ByteOrder,
    /// Bytes a value may have.
    pub width: u32,
    /// Whether it was closed; if not, the counts say nothing.
    pub closed: bool,
    /// Records.
    pub count: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Bytes that the file may have.
    pub limit_bytes: u64,
    /// The first key (0: none).
    pub min: u64,
    /// The last key (0: none).
    pub max: u64,
}

impl TcfHeader {
    /// Reads a header; `path` is for errors.
    pub(super) fn parse(bytes: &[u8; 256], path: &Path) -> Result<Self, TableError> {
        let wrong = |what: &str| {
            TableError::Corrupt(format!(
                "{} is no fixed-length database of Tokyo Cabinet: {what}",
                path.display()
            ))
        };
        if !bytes.starts_with(MAGIC) {
            return Err(wrong("it does not begin with its magic"));
        }
        let [kind, flags] = *bytes.get(32..34).unwrap_or_default() else {
            return Err(wrong("it is cut"));
        };
        if kind != TYPE_FIXED {
            return Err(wrong(&format!(
                "the type at byte 32 is {kind}, expected {TYPE_FIXED}"
            )));
        }
        let raw = |offset: usize| bytes.get(offset..offset + 8).unwrap_or_default();
        // A width that is sound in one order is far too large in the other.
        let (byte_order, width) = [ByteOrder::Little, ByteOrder::Big]
            .into_iter()
            .find_map(|order| {
                let width = u32::try_from(order.number(raw(64))).ok()?;
                (width > 0).then_some((order, width))
            })
            .ok_or_else(|| wrong("the width at byte 64 is not from 1 to 4294967295"))?;
        let number = |offset| byte_order.number(raw(offset));
        Ok(Self {
            byte_order,
            width,
            closed: flags & FLAG_OPEN == 0,
            count: number(48),
            file_bytes: number(56),
            limit_bytes: number(72),
            min: number(80),
            max: number(88),
        })
    }

    /// Returns the header of a closed file of ours.
    pub(super) fn of(byte_order: ByteOrder, width: u32, count: u64, min: u64, max: u64) -> Self {
        let file_bytes = HEADER_LEN + max * record_len(width);
        Self {
            byte_order,
            width,
            closed: true,
            count,
            file_bytes,
            limit_bytes: file_bytes.next_multiple_of(PAGE).max(LIMIT_BYTES_MIN),
            min,
            max,
        }
    }

    /// Writes a header of ours.
    pub(super) fn to_bytes(self) -> [u8; 256] {
        let mut bytes = [0; 256];
        let mut put = |offset: usize, field: &mut dyn Iterator<Item = u8>| {
            for (at, byte) in bytes.iter_mut().skip(offset).zip(field) {
                *at = byte;
            }
        };
        put(0, &mut MAGIC.iter().chain(VERSIONS).copied());
        put(32, &mut [TYPE_FIXED, u8::from(!self.closed)].into_iter());
        let numbers = [
            self.count,
            self.file_bytes,
            self.width.into(),
            self.limit_bytes,
            self.min,
            self.max,
        ];
        put(
            48,
            &mut numbers
                .into_iter()
                .flat_map(|number| self.byte_order.bytes(number, 8)),
        );
        bytes
    }
}

/// Returns the bytes of a record's length field.
pub(super) const fn length_len(width: u32) -> usize {
    match width {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        _ => 4,
    }
}

/// Returns the bytes of a record.
pub(super) const fn record_len(width: u32) -> u64 {
    width as u64 + length_len(width) as u64
}
