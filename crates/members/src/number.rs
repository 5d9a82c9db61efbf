//! A member's number.

use std::{fmt, num::NonZeroU32};

/// A member's place in the tables: from 1, in the order of their first appearance, without gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberNumber(NonZeroU32);

impl MemberNumber {
    /// Returns the member of this number; there is none of 0.
    pub const fn new(number: u32) -> Option<Self> {
        match NonZeroU32::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// Returns the number.
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// Returns the key of the member's record in a fixed table.
    pub(crate) fn key(self) -> String {
        self.0.to_string()
    }
}

impl fmt::Display for MemberNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
