//! Where a record stands.

use std::fmt;

/// Where a record stands: a file's number and the offset in it, as it was first written. Permanent:
/// it names the same record after the file was rewritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct LogPosition {
    /// The file's number, from 1.
    pub(crate) file: u32,
    /// The offset in bytes; a multiple of 8.
    pub(crate) offset: u32,
}

impl LogPosition {
    /// Packs the position into one number, in the same order.
    pub(crate) const fn to_u64(self) -> u64 {
        (self.file as u64) << 32 | self.offset as u64
    }

    /// Unpacks what [`LogPosition::to_u64`] made.
    pub(crate) const fn from_u64(packed: u64) -> Self {
        Self {
            file: (packed >> 32) as u32,
            offset: packed as u32,
        }
    }
}

impl fmt::Display for LogPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.offset)
    }
}
