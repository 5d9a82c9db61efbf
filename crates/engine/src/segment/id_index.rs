//! The id index: from an id to its document.
//!
//! Document numbers in buckets by a seeded hash of the id. Ids can be chosen (by trying), so without
//! the seed somebody could fill one bucket. The bits of an entry that a document number doesn't need
//! hold more of the hash: an id that is absent is nearly never compared with one that is stored.

use hikyaku_event::EventId;

use super::layout::bucket_bits;

/// Where in an index of so many documents an id is to be found.
#[derive(Debug, Clone, Copy)]
pub(super) struct IdHash {
    seed: (u64, u64),
    bucket_bits: u32,
    doc_bits: u32,
}

impl IdHash {
    pub(super) fn new(docs: u32, seed: [u8; 16]) -> Self {
        let seed = u128::from_le_bytes(seed);
        Self {
            seed: (seed as u64, (seed >> 64) as u64),
            bucket_bits: bucket_bits(docs),
            doc_bits: 32 - docs.saturating_sub(1).leading_zeros(),
        }
    }

    /// Returns the bucket of an id, and its entry as it is for document 0.
    #[inline]
    pub(super) fn slot(self, id: &EventId) -> (u32, u32) {
        let hash = self.hash(id);
        let bucket = (u128::from(hash) >> (64 - self.bucket_bits)) as u32;
        let fingerprint = (u64::from(hash as u32) << self.doc_bits) as u32;
        (bucket, fingerprint)
    }

    /// Returns the document of an entry if its fingerprint is this.
    #[inline]
    pub(super) fn document(self, entry: u32, fingerprint: u32) -> Option<u32> {
        let doc = entry ^ fingerprint;
        (u64::from(doc) >> self.doc_bits == 0).then_some(doc)
    }

    /// Returns the document of an entry, whatever its fingerprint.
    pub(super) fn document_of(self, entry: u32) -> u32 {
        entry & (((1_u64 << self.doc_bits) - 1) as u32)
    }

    /// The two halves of the first 16 bytes, each hidden by a half of the seed, multiplied and folded
    /// (the step of wyhash and foldhash): all bits of both halves reach all bits of the result.
    #[inline]
    fn hash(self, id: &EventId) -> u64 {
        let (halves, _) = id.as_bytes().as_chunks::<8>();
        let [low, high, ..] = halves else { return 0 };
        let product = u128::from(u64::from_le_bytes(*low) ^ self.seed.0)
            * u128::from(u64::from_le_bytes(*high) ^ self.seed.1);
        product as u64 ^ (product >> 64) as u64
    }
}

/// The index while it is built: every id is counted, then placed.
#[derive(Debug)]
pub(super) struct IdIndexWriter {
    hash: IdHash,
    /// While counting: the number of entries per bucket; while placing: where its next one goes;
    /// in the end: where it ends.
    buckets: Vec<u32>,
    entries: Vec<u32>,
}

impl IdIndexWriter {
    pub(super) fn new(docs: u32, seed: [u8; 16]) -> Self {
        let hash = IdHash::new(docs, seed);
        Self {
            hash,
            buckets: vec![0; 1 << hash.bucket_bits],
            entries: Vec::new(),
        }
    }

    /// Counts an id.
    pub(super) fn count(&mut self, id: &EventId) {
        let (bucket, _) = self.hash.slot(id);
        if let Some(count) = self.buckets.get_mut(bucket as usize) {
            *count += 1;
        }
    }

    /// Turns from counting to placing.
    pub(super) fn counted(&mut self) {
        let mut start = 0;
        for bucket in &mut self.buckets {
            start += std::mem::replace(bucket, start);
        }
        self.entries = vec![0; start as usize];
    }

    /// Places an id that was counted.
    pub(super) fn place(&mut self, id: &EventId, doc: u32) {
        let (bucket, fingerprint) = self.hash.slot(id);
        if let Some(next) = self.buckets.get_mut(bucket as usize) {
            if let Some(entry) = self.entries.get_mut(*next as usize) {
                *entry = fingerprint | doc;
            }
            *next += 1;
        }
    }

    /// Returns the table, where each bucket begins and the last one ends, and the entries.
    pub(super) fn finish(self) -> (impl Iterator<Item = u32>, Vec<u32>) {
        (std::iter::once(0).chain(self.buckets), self.entries)
    }
}
