//! Ranges of keys in Tokyo Cabinet's interval notation.

use std::ops::Bound;

use crate::TableError;

/// An interval of keys: `[10,20]`, `[10,20)`, `(10,20)`, `(10,20]`, where `min` and `max` stand for
/// the table's first and last key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interval {
    /// Where it begins.
    pub lower: Bound<Vec<u8>>,
    /// Where it ends.
    pub upper: Bound<Vec<u8>>,
}

impl Interval {
    /// All keys.
    pub const ALL: Self = Self {
        lower: Bound::Unbounded,
        upper: Bound::Unbounded,
    };

    /// Reads the notation. Keys in it can't contain a comma.
    pub fn parse(text: &[u8]) -> Result<Self, TableError> {
        let wrong = || {
            TableError::Syntax(format!(
                "{} is no interval such as [10,20), (10,max] or [min,max]",
                text.escape_ascii()
            ))
        };
        let (open, rest) = text.split_first().ok_or_else(wrong)?;
        let (close, keys) = rest.split_last().ok_or_else(wrong)?;
        let comma = keys
            .iter()
            .position(|&byte| byte == b',')
            .ok_or_else(wrong)?;
        let (lower, upper) = keys.split_at(comma);
        let upper = upper.get(1..).unwrap_or_default();
        if upper.contains(&b',') || lower.is_empty() || upper.is_empty() {
            return Err(wrong());
        }
        let lower = match (open, lower) {
            (b'[' | b'(', b"min") => Bound::Unbounded,
            (b'[', key) => Bound::Included(key.to_vec()),
            (b'(', key) => Bound::Excluded(key.to_vec()),
            _ => return Err(wrong()),
        };
        let upper = match (close, upper) {
            (b']' | b')', b"max") => Bound::Unbounded,
            (b']', key) => Bound::Included(key.to_vec()),
            (b')', key) => Bound::Excluded(key.to_vec()),
            _ => return Err(wrong()),
        };
        Ok(Self { lower, upper })
    }
}
