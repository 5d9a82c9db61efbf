//! The OR of posting lists: a merge, by a heap, that leaps.

use std::{cmp::Reverse, collections::BinaryHeap};

use crate::{
    error::EngineError,
    segment::{DocId, PostingList, Segment},
};

/// Merges posting lists of one segment into one ascending sequence without doubles.
///
/// Holds indexes and no borrow, so that it can rest between two polls of a query.
#[derive(Debug)]
pub(super) struct Union {
    lists: Vec<List>,
    heap: BinaryHeap<Reverse<(DocId, u32)>>,
    end: DocId,
}

#[derive(Debug, Clone, Copy)]
struct List {
    postings: PostingList,
    /// The index of the posting that stands in the heap.
    at: u32,
}

impl Union {
    /// Positions every list at its first document in `start..end`.
    pub(super) fn new(
        segment: &Segment,
        lists: &[PostingList],
        start: DocId,
        end: DocId,
    ) -> Result<Self, EngineError> {
        let mut union = Self {
            lists: Vec::with_capacity(lists.len()),
            heap: BinaryHeap::with_capacity(lists.len()),
            end,
        };
        let mut heads = Vec::with_capacity(lists.len());
        for &postings in lists {
            let at = if start.0 == 0 {
                0
            } else {
                segment.seek(postings, 0, start)?
            };
            if at < postings.len {
                let doc = segment.posting(postings, at)?;
                if doc < end {
                    heads.push(Reverse((doc, union.lists.len() as u32)));
                    union.lists.push(List { postings, at });
                }
            }
        }
        // From a vector in O(n), where pushes would cost O(n log n).
        union.heap = BinaryHeap::from(heads);
        Ok(union)
    }

    /// Returns the current document.
    #[inline]
    pub(super) fn current(&self) -> Option<DocId> {
        self.heap.peek().map(|Reverse((doc, _))| *doc)
    }

    /// Moves to the first document at or after `target`.
    pub(super) fn seek(&mut self, segment: &Segment, target: DocId) -> Result<(), EngineError> {
        while let Some(mut head) = self.heap.peek_mut() {
            let Reverse((doc, number)) = *head;
            if doc >= target {
                return Ok(());
            }
            let next = match self.lists.get_mut(number as usize) {
                Some(list) => {
                    list.at = segment.seek(list.postings, list.at, target)?;
                    if list.at < list.postings.len {
                        Some(segment.posting(list.postings, list.at)?)
                    } else {
                        None
                    }
                }
                None => None,
            };
            match next.filter(|next| *next < self.end) {
                // Written in place: one sift instead of a pop and a push.
                Some(next) => *head = Reverse((next, number)),
                None => {
                    std::collections::binary_heap::PeekMut::pop(head);
                }
            }
        }
        Ok(())
    }
}
