//! What a fixed table is made with.

use crate::TableSpec;

/// What a fixed table is made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedOptions {
    /// Bytes of a value at most. It counts when the file is made: an existing file has its own
    /// ([`crate::Table::width`]), which only [`crate::Table::optimise`] changes.
    pub width: usize,
    /// Bytes of the whole file at most, from which follows the largest key. It may be another one each
    /// time the table is opened, and is at least what the file has already.
    pub size_limit: u64,
}

impl Default for FixedOptions {
    /// As Tokyo Cabinet has them.
    fn default() -> Self {
        Self {
            width: 255,
            size_limit: 256 << 20,
        }
    }
}

impl FixedOptions {
    /// Returns what a text says, with the defaults for the rest.
    pub fn of(spec: &TableSpec) -> Self {
        let default = Self::default();
        Self {
            width: spec.options.width.unwrap_or(default.width),
            size_limit: spec.options.limit.unwrap_or(default.size_limit),
        }
    }
}
