//! Verifying a whole segment: every byte, and that its parts agree.

use std::{cmp::Reverse, fmt};

use hikyaku_event::EventId;

use super::{
    DocId, Flags, PostingList, Segment, SegmentError,
    id_index::IdHash,
    layout::{Range, bucket_bits, term_bucket},
};

impl Segment {
    /// Reads everything and checks everything; reports each damaged block, and if there is none, the
    /// first disagreement of each part.
    pub(crate) fn verify_all(&self) -> Result<(), Vec<SegmentError>> {
        let blocks = (0..self.layout.blocks()).map(|block| self.verify_block(block));
        let damaged: Vec<_> = blocks.filter_map(Result::err).collect();
        if !damaged.is_empty() {
            return Err(damaged);
        }
        let parts = [
            self.verify_documents(),
            self.verify_summary(),
            self.verify_expiries(),
            self.verify_id_index(),
            self.verify_dictionary(),
            self.verify_authors(),
        ];
        let wrong: Vec<_> = parts.into_iter().filter_map(Result::err).collect();
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    }

    /// Documents are in the order of answers; doubles have the highest sequence first.
    fn verify_documents(&self) -> Result<(), SegmentError> {
        let mut before = None;
        for doc in (0..self.len()).map(DocId) {
            let order = (self.key(doc)?, Reverse(self.sequence(doc)?));
            if before.replace(order).is_some_and(|before| before >= order) {
                let found = format!("document {} not after the one before it", doc.0);
                return Err(self.corrupt(self.layout.ids, "documents in their order", found));
            }
        }
        Ok(())
    }

    /// The ranges of the footer are those of the columns.
    fn verify_summary(&self) -> Result<(), SegmentError> {
        let (mut created_at, mut sequence, mut position) = (None, None, None);
        for doc in (0..self.len()).map(DocId) {
            Range::include(&mut created_at, self.created_at(doc)?);
            Range::include(&mut sequence, self.sequence(doc)?.0);
            Range::include(&mut position, self.position(doc)?);
        }
        let found = [created_at, sequence, position].map(Option::unwrap_or_default);
        let summary = &self.summary;
        let expected = [summary.created_at, summary.sequence, summary.position];
        self.agree(
            self.layout.created_at,
            "the ranges of the columns",
            &expected,
            &found,
        )
    }

    /// Exactly the documents whose flag says so have an expiry.
    fn verify_expiries(&self) -> Result<(), SegmentError> {
        let mut expiring = 0;
        for doc in (0..self.len()).map(DocId) {
            if self.flags(doc)?.contains(Flags::EXPIRING) {
                let found = self.expiring_doc(expiring)?;
                self.agree(
                    self.layout.expiring_docs,
                    "the next expiring document",
                    &doc,
                    &found,
                )?;
                expiring += 1;
            }
        }
        let count = &self.summary.expiring;
        self.agree(
            self.layout.expiring_docs,
            "the number of expiries",
            count,
            &expiring,
        )
    }

    /// Every document is in the bucket of its id, once.
    fn verify_id_index(&self) -> Result<(), SegmentError> {
        let (table, entries) = (self.layout.id_table, self.layout.id_entries);
        let hash = IdHash::new(self.len(), self.summary.id_seed);
        let buckets = 1 << bucket_bits(self.len());
        let mut next = 0;
        for bucket in 0..buckets {
            let start = self.word(table, bucket, buckets + 1)?;
            self.agree(table, "where a bucket begins", &next, &start)?;
            next = self.word(table, bucket + 1, buckets + 1)?;
            let mut before = None;
            for index in start..next {
                let entry = self.word(entries, index, self.len())?;
                let (doc, id) = self.indexed_document(hash, bucket, entry)?;
                if before.replace(doc).is_some_and(|before| before >= doc) {
                    let found = format!("document {} with the id {id} again", doc.0);
                    return Err(self.corrupt(entries, "each document once", found));
                }
            }
        }
        self.agree(table, "the end of the last bucket", &self.len(), &next)
    }

    /// Returns the document of an entry of the id index, if it belongs there.
    fn indexed_document(
        &self,
        hash: IdHash,
        bucket: u32,
        entry: u32,
    ) -> Result<(DocId, EventId), SegmentError> {
        let doc = DocId(hash.document_of(entry));
        let id = self.id(doc)?;
        let (expected_bucket, fingerprint) = hash.slot(&id);
        let expected = (expected_bucket, fingerprint | doc.0);
        self.agree(
            self.layout.id_entries,
            "an id's entry",
            &expected,
            &(bucket, entry),
        )?;
        Ok((doc, id))
    }

    /// Terms are sorted and in their buckets; lists are one after the other, sorted and in range.
    fn verify_dictionary(&self) -> Result<(), SegmentError> {
        let (table, dictionary) = (self.layout.term_table, self.layout.dictionary);
        let bits = bucket_bits(self.terms_len());
        let buckets = 1 << bits;
        let (mut next, mut words, mut before) = (0, 0, None);
        for bucket in 0..buckets {
            let start = self.word(table, bucket, buckets + 1)?;
            self.agree(table, "where a bucket begins", &next, &start)?;
            next = self.word(table, bucket + 1, buckets + 1)?;
            for ordinal in start..next {
                let (term, list) = self.term_at(ordinal)?;
                self.agree(table, "a term's bucket", &bucket, &term_bucket(term, bits))?;
                if before.replace(term).is_some_and(|before| before >= term) {
                    let found = format!("term {ordinal} not after the one before it");
                    return Err(self.corrupt(dictionary, "terms in their order", found));
                }
                words = self.verify_list(list, words)?;
            }
        }
        self.agree(
            table,
            "the end of the last bucket",
            &self.terms_len(),
            &next,
        )?;
        let expected = &self.summary.posting_words;
        self.agree(
            self.layout.postings,
            "the end of the last list",
            expected,
            &words,
        )
    }

    /// A list begins where the one before it ended, and its documents ascend. Returns its end.
    fn verify_list(&self, list: PostingList, start: u32) -> Result<u32, SegmentError> {
        let postings = self.layout.postings;
        let mut before = None;
        for index in 0..list.len {
            let doc = self.posting(list, index)?;
            if before.replace(doc).is_some_and(|before| before >= doc) {
                let found = format!("document {} not after the one before it", doc.0);
                return Err(self.corrupt(postings, "postings in their order", found));
            }
        }
        let Some(place) = list.place_in_postings() else {
            return Ok(start);
        };
        self.agree(postings, "where a list begins", &(start + 1), &place)?;
        Ok(place + list.len)
    }

    /// Every document is in the list of its author.
    fn verify_authors(&self) -> Result<(), SegmentError> {
        for doc in (0..self.len()).map(DocId) {
            let (_, list) = self.term_at(self.author_ordinal(doc)?)?;
            let index = self.seek(list, 0, doc)?;
            if index == list.len || self.posting(list, index)? != doc {
                let expected = format!("document {} in the list of its author", doc.0);
                return Err(self.corrupt(self.layout.authors, expected, "another"));
            }
        }
        Ok(())
    }

    fn agree<T: fmt::Debug + PartialEq>(
        &self,
        offset: usize,
        what: &str,
        expected: &T,
        found: &T,
    ) -> Result<(), SegmentError> {
        if expected == found {
            return Ok(());
        }
        Err(self.corrupt(
            offset,
            format!("{what} to be {expected:?}"),
            format!("{found:?}"),
        ))
    }
}
