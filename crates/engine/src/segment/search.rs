//! Finding documents: by id, by place in the order, by term.

use hikyaku_event::{EventId, Timestamp};
use hikyaku_store::Key;

use super::{
    DocId, Segment, SegmentError, Term,
    id_index::IdHash,
    layout::{INLINE, bucket_bits, term_bucket},
};

/// A handle to a posting list of one segment: the documents of a term, newest first. Never empty.
/// It is only good for the segment it is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PostingList {
    /// The number of its term in the segment's dictionary.
    pub(crate) ordinal: u32,
    /// How many documents.
    pub(crate) len: u32,
    /// The document, if there is one; else the word where the documents begin.
    place: u32,
}

impl PostingList {
    /// Returns the word where the documents begin; `None` if the only one is in the dictionary.
    pub(super) fn place_in_postings(self) -> Option<u32> {
        (self.len > 1).then_some(self.place)
    }
}

impl Segment {
    /// Finds the document of an id.
    pub(crate) fn find(&self, id: &EventId) -> Result<Option<DocId>, SegmentError> {
        let hash = IdHash::new(self.len(), self.summary.id_seed);
        let (bucket, fingerprint) = hash.slot(id);
        let buckets = (1 << bucket_bits(self.len())) + 1;
        let start = self.word(self.layout.id_table, bucket, buckets)?;
        let end = self.word(self.layout.id_table, bucket + 1, buckets)?;
        // The lowest number is that of the highest sequence, of which alone doubles may be alive.
        let mut found = None;
        for index in start..end {
            let entry = self.word(self.layout.id_entries, index, self.len())?;
            if let Some(doc) = hash.document(entry, fingerprint).map(DocId)
                && self.id(doc)? == *id
            {
                found = Some(found.map_or(doc, |other: DocId| other.min(doc)));
            }
        }
        Ok(found)
    }

    /// Returns the first document that is not newer than this time (`until`); `DocId(len)` if there
    /// is none.
    pub(crate) fn first_not_newer_than(&self, time: Timestamp) -> Result<DocId, SegmentError> {
        if time >= self.newest() {
            return Ok(DocId(0));
        }
        self.first_document(|doc| Ok(self.created_at(doc)? > time))
    }

    /// Returns the first document that is older than this time (`since`); `DocId(len)` if there is
    /// none.
    pub(crate) fn first_older_than(&self, time: Timestamp) -> Result<DocId, SegmentError> {
        if time <= self.oldest() {
            return Ok(DocId(self.len()));
        }
        self.first_document(|doc| Ok(self.created_at(doc)? >= time))
    }

    /// Returns the first document whose key is this or comes after it; `DocId(len)` if there is none.
    pub(crate) fn first_at_or_after_key(&self, key: &Key) -> Result<DocId, SegmentError> {
        self.first_document(|doc| Ok(self.key(doc)? < *key))
    }

    /// Finds the posting list of a term.
    pub(crate) fn term(&self, term: Term) -> Result<Option<PostingList>, SegmentError> {
        let bits = bucket_bits(self.terms_len());
        let (bucket, buckets) = (term_bucket(term, bits), (1 << bits) + 1);
        let start = self.word(self.layout.term_table, bucket, buckets)?;
        let end = self.word(self.layout.term_table, bucket + 1, buckets)?;
        for ordinal in start..end {
            let (found, place) = self.dictionary_entry(ordinal)?;
            if found == term {
                return self.posting_list(ordinal, place).map(Some);
            }
            if found > term {
                break;
            }
        }
        Ok(None)
    }

    /// Returns the term with this ordinal, and its list.
    pub(crate) fn term_at(&self, ordinal: u32) -> Result<(Term, PostingList), SegmentError> {
        let (term, place) = self.dictionary_entry(ordinal)?;
        Ok((term, self.posting_list(ordinal, place)?))
    }

    /// Returns the `index`-th document of a list.
    #[inline]
    pub(crate) fn posting(&self, list: PostingList, index: u32) -> Result<DocId, SegmentError> {
        if index >= list.len {
            return Err(self.beyond(self.layout.postings, index, list.len));
        }
        let doc = if list.len == 1 {
            list.place
        } else {
            let (place, words) = (list.place + index, self.summary.posting_words);
            self.word(self.layout.postings, place, words)?
        };
        if doc >= self.len() {
            return Err(self.beyond(self.layout.postings, doc, self.len()));
        }
        Ok(DocId(doc))
    }

    /// Tells whether a document is in a list.
    #[inline]
    pub(crate) fn holds(&self, list: PostingList, doc: DocId) -> Result<bool, SegmentError> {
        let index = self.seek(list, 0, doc)?;
        Ok(index < list.len && self.posting(list, index)? == doc)
    }

    /// Returns the first index, from `from` on, whose document is this or comes after it; the list's
    /// length if there is none. Costs the logarithm of the distance.
    pub(crate) fn seek(
        &self,
        list: PostingList,
        from: u32,
        doc: DocId,
    ) -> Result<u32, SegmentError> {
        let mut step = 1;
        let (mut low, mut high) = (from.min(list.len), from);
        while high < list.len && self.posting(list, high)? < doc {
            low = high + 1;
            high = high.saturating_add(step).min(list.len);
            step = step.saturating_mul(2);
        }
        let between = high.saturating_sub(low);
        let index = partition_point(between, |index| Ok(self.posting(list, low + index)? < doc))?;
        Ok(low + index)
    }

    /// Reads a term and its list's place from the dictionary.
    pub(super) fn dictionary_entry(&self, ordinal: u32) -> Result<(Term, u32), SegmentError> {
        let entry = self.element(self.layout.dictionary, ordinal, self.terms_len())?;
        let entry = u128::from_le_bytes(entry);
        Ok((Term::new(entry >> 32), entry as u32))
    }

    pub(super) fn posting_list(
        &self,
        ordinal: u32,
        place: u32,
    ) -> Result<PostingList, SegmentError> {
        if place & INLINE != 0 {
            return Ok(PostingList {
                ordinal,
                len: 1,
                place: place ^ INLINE,
            });
        }
        let words = self.summary.posting_words;
        let len = self.word(self.layout.postings, place, words)?;
        if len < 2 || len >= words - place {
            return Err(self.corrupt(
                self.layout.postings + 4 * place as usize,
                "the length of a posting list",
                format!("{len}"),
            ));
        }
        Ok(PostingList {
            ordinal,
            len,
            place: place + 1,
        })
    }

    fn first_document(
        &self,
        before: impl Fn(DocId) -> Result<bool, SegmentError>,
    ) -> Result<DocId, SegmentError> {
        let doc = partition_point(self.len(), |doc| before(DocId(doc)))?;
        Ok(DocId(doc))
    }

    /// Reads the `index`-th of `count` words.
    #[inline]
    pub(super) fn word(&self, section: usize, index: u32, count: u32) -> Result<u32, SegmentError> {
        Ok(u32::from_le_bytes(self.element(section, index, count)?))
    }
}

/// Returns the first number below `end` for which `before` is false, given that it is true up to
/// some number and false from there.
pub(super) fn partition_point(
    end: u32,
    before: impl Fn(u32) -> Result<bool, SegmentError>,
) -> Result<u32, SegmentError> {
    let (mut low, mut high) = (0, end);
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle)? {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}
