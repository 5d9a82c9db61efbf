//! A set of document numbers that is cheap to copy: snapshots share what a later change leaves alone.

use std::sync::Arc;

use crate::segment::DocId;

/// Documents per shared chunk: 512 bytes are copied when a bit in them changes.
const CHUNK_DOCUMENTS: u32 = 4096;
const CHUNK_WORDS: usize = (CHUNK_DOCUMENTS / 64) as usize;

type Chunk = Option<Arc<[u64; CHUNK_WORDS]>>;

/// A copy-on-write set of [`DocId`]s of one segment: its tombstones of one class.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bitmap {
    chunks: Arc<Vec<Chunk>>,
    count: u32,
}

impl Bitmap {
    /// Returns how many documents are in the set.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[inline]
    pub(crate) fn contains(&self, doc: DocId) -> bool {
        if self.count == 0 {
            return false;
        }
        let (chunk, word, mask) = place(doc);
        match self.chunks.get(chunk) {
            Some(Some(words)) => words.get(word).is_some_and(|bits| bits & mask != 0),
            _ => false,
        }
    }

    /// Adds a document; tells whether it was not there.
    pub(crate) fn insert(&mut self, doc: DocId) -> bool {
        let (chunk, word, mask) = place(doc);
        let chunks = Arc::make_mut(&mut self.chunks);
        if chunks.len() <= chunk {
            chunks.resize(chunk + 1, None);
        }
        let Some(slot) = chunks.get_mut(chunk) else {
            return false;
        };
        let words = Arc::make_mut(slot.get_or_insert_with(|| Arc::new([0; CHUNK_WORDS])));
        let Some(bits) = words.get_mut(word) else {
            return false;
        };
        let fresh = *bits & mask == 0;
        *bits |= mask;
        self.count += u32::from(fresh);
        fresh
    }

    /// Takes a document out; tells whether it was there.
    pub(crate) fn remove(&mut self, doc: DocId) -> bool {
        if !self.contains(doc) {
            return false;
        }
        let (chunk, word, mask) = place(doc);
        let chunks = Arc::make_mut(&mut self.chunks);
        if let Some(Some(words)) = chunks.get_mut(chunk)
            && let Some(bits) = Arc::make_mut(words).get_mut(word)
        {
            *bits &= !mask;
            self.count -= 1;
        }
        true
    }

    /// Lists the documents, lowest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = DocId> + '_ {
        self.chunks.iter().zip(0u32..).flat_map(|(chunk, number)| {
            chunk.iter().flat_map(move |words| {
                words.iter().zip(0u32..).flat_map(move |(&bits, word)| {
                    let first = number * CHUNK_DOCUMENTS + word * 64;
                    ones(bits).map(move |bit| DocId(first + bit))
                })
            })
        })
    }
}

impl FromIterator<DocId> for Bitmap {
    fn from_iter<I: IntoIterator<Item = DocId>>(documents: I) -> Self {
        let mut set = Self::default();
        for doc in documents {
            set.insert(doc);
        }
        set
    }
}

#[inline]
fn place(doc: DocId) -> (usize, usize, u64) {
    let within = doc.0 % CHUNK_DOCUMENTS;
    (
        (doc.0 / CHUNK_DOCUMENTS) as usize,
        (within / 64) as usize,
        1 << (within % 64),
    )
}

fn ones(mut bits: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        (bits != 0).then(|| {
            let bit = bits.trailing_zeros();
            bits &= bits - 1;
            bit
        })
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_bitmap_is_a_set_and_copies_keep_what_they_had(
            operations in prop::collection::vec((any::<bool>(), 0u32..20_000), 0..200)
        ) {
            let mut bitmap = Bitmap::default();
            let mut model = BTreeSet::new();
            let mut copies = Vec::new();
            for (insert, doc) in operations {
                copies.push((bitmap.clone(), model.clone()));
                if insert {
                    prop_assert_eq!(bitmap.insert(DocId(doc)), model.insert(doc));
                } else {
                    prop_assert_eq!(bitmap.remove(DocId(doc)), model.remove(&doc));
                }
            }
            copies.push((bitmap, model));
            for (bitmap, model) in copies {
                prop_assert_eq!(bitmap.count() as usize, model.len());
                prop_assert_eq!(bitmap.is_empty(), model.is_empty());
                let listed: Vec<u32> = bitmap.iter().map(|doc| doc.0).collect();
                prop_assert_eq!(listed, model.iter().copied().collect::<Vec<_>>());
                for doc in (0..20_000).step_by(97) {
                    prop_assert_eq!(bitmap.contains(DocId(doc)), model.contains(&doc));
                }
            }
        }
    }
}
