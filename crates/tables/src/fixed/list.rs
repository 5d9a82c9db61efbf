//! Listing keys, in order.

use std::ops::{Bound, Range};

use super::{
    blocks::BLOCK,
    key::{Digits, number},
    table::FixedTable,
};
use crate::{Interval, TableError, interval::Ends};

impl FixedTable {
    /// Returns the smallest key that has a record.
    pub fn first(&self) -> Option<u64> {
        self.keys(0..u64::MAX, 1).pop()
    }

    /// Returns the largest key that has a record.
    pub fn last(&self) -> Option<u64> {
        let mut below = u64::MAX;
        while let Some(block) = self.records().blocks.previous(below) {
            let present = self.present(block);
            if present != 0 {
                return Some(block * BLOCK + u64::from(u16::BITS - present.leading_zeros()));
            }
            below = block;
        }
        None
    }

    /// Lists the keys at some places of the array, at most `limit`.
    pub(super) fn keys(&self, indices: Range<u64>, limit: usize) -> Vec<u64> {
        let mut keys = Vec::new();
        let mut from = indices.start / BLOCK;
        while let Some(block) = self.records().blocks.next(from) {
            let first = block * BLOCK;
            if first >= indices.end || keys.len() >= limit {
                break;
            }
            let mut present = self.present(block);
            while present != 0 && keys.len() < limit {
                let index = first + u64::from(present.trailing_zeros());
                if indices.contains(&index) {
                    keys.push(index + 1);
                }
                present &= present - 1;
            }
            from = block + 1;
        }
        keys
    }

    /// Tells which records of a block there are, and forgets the block if it has none.
    fn present(&self, block: u64) -> u16 {
        let stripe = self.stripe(block * BLOCK);
        let present = stripe.read(|| self.records().present(block));
        if present == 0
            && let Some(_locked) = stripe.try_lock()
            && self.records().present(block) == 0
        {
            self.records().blocks.clear(block);
        }
        present
    }

    /// Lists the keys of an interval.
    pub(super) fn keys_within(
        &self,
        interval: &Interval,
        limit: usize,
    ) -> Result<Vec<Vec<u8>>, TableError> {
        let bytes = |key: Option<u64>| Ok(key.map(|key| Digits::default().of(key).to_vec()));
        let ends = interval.keys(|| bytes(self.first()), || bytes(self.last()))?;
        Ok(match ends {
            Some(ends) => self.key_bytes(indices(&ends)?, limit),
            None => Vec::new(),
        })
    }

    /// Lists keys as bytes.
    pub(super) fn key_bytes(&self, indices: Range<u64>, limit: usize) -> Vec<Vec<u8>> {
        let keys = self.keys(indices, limit).into_iter();
        keys.map(|key| Digits::default().of(key).to_vec()).collect()
    }
}

/// Returns the places of the array between two ends, which need not be keys.
fn indices(ends: &Ends) -> Result<Range<u64>, TableError> {
    // A key's place is one less: the first key behind an end is at the end's own number.
    let at = |key: &[u8]| Ok::<_, TableError>(number(key)?.unwrap_or(u64::MAX));
    let start = match &ends.0 {
        Bound::Unbounded => 0,
        Bound::Included(key) => at(key)?.saturating_sub(1),
        Bound::Excluded(key) => at(key)?,
    };
    let end = match &ends.1 {
        Bound::Unbounded => u64::MAX,
        Bound::Included(key) => at(key)?,
        Bound::Excluded(key) => at(key)?.saturating_sub(1),
    };
    Ok(start..end)
}
