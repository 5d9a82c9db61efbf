//! Which parts of a table may have records: what listings go by, so that they do not cost what the
//! holes cost.

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

/// Records of a block. They share a stripe, and a bit here.
pub(super) const BLOCK: u64 = 16;

/// Words of a page of bits.
const PAGE_WORDS: u64 = 512;
const PAGE_BLOCKS: u64 = PAGE_WORDS * 64;

type Page = Box<[AtomicU64]>;

/// A bit for each block, in pages that are made when they are needed.
#[derive(Debug)]
pub(super) struct Blocks {
    pages: Box<[OnceLock<Page>]>,
}

impl Blocks {
    /// All bits are clear.
    pub(super) fn new(records: u64) -> Self {
        let pages = records.div_ceil(BLOCK).div_ceil(PAGE_BLOCKS);
        Self {
            pages: (0..pages).map(|_| OnceLock::new()).collect(),
        }
    }

    #[inline]
    fn page(&self, block: u64) -> Option<&Page> {
        self.pages.get((block / PAGE_BLOCKS) as usize)?.get()
    }

    #[inline]
    fn word(&self, block: u64) -> Option<&AtomicU64> {
        self.page(block)?.get((block % PAGE_BLOCKS / 64) as usize)
    }

    #[inline]
    pub(super) fn has(&self, block: u64) -> bool {
        let word = self.word(block);
        word.is_some_and(|word| word.load(Ordering::Acquire) & (1 << (block % 64)) != 0)
    }

    /// Sets a bit; tells whether it was clear.
    pub(super) fn set(&self, block: u64) -> bool {
        if let Some(page) = self.pages.get((block / PAGE_BLOCKS) as usize) {
            page.get_or_init(|| (0..PAGE_WORDS).map(|_| AtomicU64::new(0)).collect());
        }
        self.word(block).is_some_and(|word| {
            word.fetch_or(1 << (block % 64), Ordering::AcqRel) & (1 << (block % 64)) == 0
        })
    }

    pub(super) fn clear(&self, block: u64) {
        if let Some(word) = self.word(block) {
            word.fetch_and(!(1 << (block % 64)), Ordering::AcqRel);
        }
    }

    pub(super) fn clear_all(&self) {
        for word in self.pages.iter().filter_map(OnceLock::get).flatten() {
            word.store(0, Ordering::Release);
        }
    }

    /// Returns the first block at or behind `from` whose bit is set.
    pub(super) fn next(&self, from: u64) -> Option<u64> {
        let end = self.pages.len() as u64 * PAGE_BLOCKS;
        let mut at = from;
        while at < end {
            let Some(word) = self.word(at) else {
                at = (at / PAGE_BLOCKS + 1) * PAGE_BLOCKS;
                continue;
            };
            let bits = word.load(Ordering::Acquire) & (u64::MAX << (at % 64));
            if bits != 0 {
                return Some(at / 64 * 64 + u64::from(bits.trailing_zeros()));
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// Returns the last block before `below` whose bit is set.
    pub(super) fn previous(&self, below: u64) -> Option<u64> {
        let mut below = below.min(self.pages.len() as u64 * PAGE_BLOCKS);
        while below > 0 {
            let last = below - 1;
            let Some(word) = self.word(last) else {
                below = last / PAGE_BLOCKS * PAGE_BLOCKS;
                continue;
            };
            let bits = word.load(Ordering::Acquire) & (u64::MAX >> (63 - last % 64));
            if bits != 0 {
                return Some(last / 64 * 64 + u64::from(bits.ilog2()));
            }
            below = last / 64 * 64;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_bits_are_those_of_a_set(steps in prop::collection::vec((0..200_000_u64, any::<bool>()), 0..100)) {
            let (blocks, mut set) = (Blocks::new(200_000 * BLOCK), BTreeSet::new());
            for (block, add) in steps {
                if add {
                    prop_assert_eq!(blocks.set(block), set.insert(block));
                } else {
                    blocks.clear(block);
                    set.remove(&block);
                }
                prop_assert_eq!(blocks.has(block), set.contains(&block));
                prop_assert_eq!(blocks.next(block), set.range(block..).next().copied());
                prop_assert_eq!(blocks.previous(block), set.range(..block).next_back().copied());
            }
            prop_assert_eq!(blocks.next(0), set.first().copied());
            prop_assert_eq!(blocks.previous(u64::MAX), set.last().copied());
        }
    }
}
