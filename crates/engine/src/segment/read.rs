//! Opening a segment and reading its columns.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use hikyaku_event::{EventId, Kind, Timestamp};
use hikyaku_store::{Key, Sequence};

use super::{
    DocId, Families, Flags, SegmentError,
    error::Corruption,
    layout::{self, BLOCK_LEN, Layout, Range, Summary},
    search::partition_point,
};

/// An immutable inverted index, in memory or mapped. Every read checks what it touches: the block's
/// checksum the first time, and always that numbers are within the segment.
pub(crate) struct Segment {
    name: Arc<str>,
    bytes: Bytes,
    pub(super) summary: Summary,
    pub(super) layout: Layout,
    /// A bit per block whose checksum was right. Bits are only ever set, and say nothing about other
    /// memory, so no ordering is needed.
    verified: Box<[AtomicU64]>,
}

impl Segment {
    /// Opens a segment; blocks are verified when they are first read.
    pub(crate) fn open(bytes: Bytes, name: &str) -> Result<Self, SegmentError> {
        Self::open_with(bytes, name, 0)
    }

    /// Opens a segment that was built in memory a moment ago; its blocks need no verifying.
    pub(crate) fn in_memory(bytes: Vec<u8>) -> Result<Self, SegmentError> {
        Self::open_with(Bytes::from(bytes), "a segment in memory", u64::MAX)
    }

    fn open_with(bytes: Bytes, name: &str, verified: u64) -> Result<Self, SegmentError> {
        let (summary, layout) = layout::open(&bytes, name)?;
        let verified = (0..layout.blocks().div_ceil(64)).map(|_| AtomicU64::new(verified));
        Ok(Self {
            name: name.into(),
            bytes,
            summary,
            layout,
            verified: verified.collect(),
        })
    }

    /// Returns the name it was opened with.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of documents.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.summary.docs
    }

    /// Tells whether there are no documents.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of terms. Ordinals are below it.
    pub(crate) fn terms_len(&self) -> u32 {
        self.summary.terms
    }

    /// Returns the size in bytes.
    pub(crate) fn bytes_len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the highest `created_at`; 0 if there are no documents.
    #[inline]
    pub(crate) fn newest(&self) -> Timestamp {
        self.summary.created_at.max
    }

    /// Returns the lowest `created_at`; 0 if there are no documents.
    #[inline]
    pub(crate) fn oldest(&self) -> Timestamp {
        self.summary.created_at.min
    }

    /// Returns the lowest and the highest sequence of a document; 0 if there are none.
    pub(crate) fn sequences(&self) -> (Sequence, Sequence) {
        let Range { min, max } = self.summary.sequence;
        (Sequence(min), Sequence(max))
    }

    /// Returns the families by which all of the documents can be found.
    pub(crate) fn families(&self) -> Families {
        self.summary.families
    }

    /// Returns a document's place in the order of answers.
    #[inline]
    pub(crate) fn key(&self, doc: DocId) -> Result<Key, SegmentError> {
        Ok(Key {
            created_at: self.created_at(doc)?,
            id: self.id(doc)?,
        })
    }

    /// Returns a document's time.
    #[inline]
    pub(crate) fn created_at(&self, doc: DocId) -> Result<Timestamp, SegmentError> {
        self.number(self.layout.created_at, self.summary.created_at, doc)
    }

    /// Returns a document's id.
    #[inline]
    pub(crate) fn id(&self, doc: DocId) -> Result<EventId, SegmentError> {
        Ok(EventId::new(self.column(self.layout.ids, doc)?))
    }

    /// Returns the ordinal of the term of a document's author: it is that of the author's posting
    /// list in this segment.
    #[inline]
    pub(crate) fn author_ordinal(&self, doc: DocId) -> Result<u32, SegmentError> {
        Ok(u32::from_le_bytes(self.column(self.layout.authors, doc)?))
    }

    /// Returns a document's kind.
    #[inline]
    pub(crate) fn kind(&self, doc: DocId) -> Result<Kind, SegmentError> {
        let kind = self.column(self.layout.kinds, doc)?;
        Ok(Kind(u16::from_le_bytes(kind)))
    }

    /// Returns a document's flags.
    #[inline]
    pub(crate) fn flags(&self, doc: DocId) -> Result<Flags, SegmentError> {
        let [flags] = self.column(self.layout.flags, doc)?;
        Ok(Flags(flags))
    }

    /// Returns a document's place in the order of writing.
    #[inline]
    pub(crate) fn sequence(&self, doc: DocId) -> Result<Sequence, SegmentError> {
        let sequence = self.number(self.layout.sequences, self.summary.sequence, doc)?;
        Ok(Sequence(sequence))
    }

    /// Returns where the log has a document's event.
    #[inline]
    pub(crate) fn position(&self, doc: DocId) -> Result<u64, SegmentError> {
        self.number(self.layout.positions, self.summary.position, doc)
    }

    /// Returns when a document expires.
    #[inline]
    pub(crate) fn expires_at(&self, doc: DocId) -> Result<Option<Timestamp>, SegmentError> {
        if !self.flags(doc)?.contains(Flags::EXPIRING) {
            return Ok(None);
        }
        let index = partition_point(self.summary.expiring, |index| {
            Ok(self.expiring_doc(index)? < doc)
        })?;
        if index == self.summary.expiring || self.expiring_doc(index)? != doc {
            let expected = format!("the expiry of document {}", doc.0);
            return Err(self.corrupt(self.layout.expiring_docs, expected, "none"));
        }
        self.expiry_time(index).map(Some)
    }

    /// Returns the document of the `index`-th expiry.
    pub(super) fn expiring_doc(&self, index: u32) -> Result<DocId, SegmentError> {
        let bytes = self.element(self.layout.expiring_docs, index, self.summary.expiring)?;
        Ok(DocId(u32::from_le_bytes(bytes)))
    }

    /// Returns the time of the `index`-th expiry.
    pub(super) fn expiry_time(&self, index: u32) -> Result<Timestamp, SegmentError> {
        let bytes = self.element(self.layout.expiry_times, index, self.summary.expiring)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Reads an element of a column of numbers.
    #[inline]
    fn number(&self, column: usize, range: Range, doc: DocId) -> Result<u64, SegmentError> {
        let difference = if range.width() == 4 {
            u64::from(u32::from_le_bytes(self.column(column, doc)?))
        } else {
            u64::from_le_bytes(self.column(column, doc)?)
        };
        Ok(range.min.wrapping_add(difference))
    }

    /// Reads an element of a column by document number.
    #[inline]
    fn column<const N: usize>(&self, column: usize, doc: DocId) -> Result<[u8; N], SegmentError> {
        self.element(column, doc.0, self.summary.docs)
    }

    /// Reads the `index`-th element of a section of `count` elements. Elements cross no block's
    /// border.
    #[inline]
    pub(super) fn element<const N: usize>(
        &self,
        section: usize,
        index: u32,
        count: u32,
    ) -> Result<[u8; N], SegmentError> {
        if index >= count {
            return Err(self.beyond(section, index, count));
        }
        let offset = section + index as usize * N;
        let block = offset / BLOCK_LEN;
        let verified = self.verified.get(block / 64);
        if verified.is_none_or(|bits| bits.load(Ordering::Relaxed) >> (block % 64) & 1 == 0) {
            self.verify_block(block)?;
        }
        match self.bytes.get(offset..).and_then(<[u8]>::first_chunk) {
            Some(bytes) => Ok(*bytes),
            None => Err(self.beyond(section, index, count)),
        }
    }

    /// Checks a block's checksum, and remembers if it is right.
    #[cold]
    #[inline(never)]
    pub(super) fn verify_block(&self, block: usize) -> Result<(), SegmentError> {
        let start = block * BLOCK_LEN;
        let end = self.layout.checksums.min(start + BLOCK_LEN);
        let bytes = self.bytes.get(start..end).unwrap_or_default();
        let checksum = self.bytes.get(self.layout.checksums + 4 * block..);
        let checksum = checksum
            .and_then(<[u8]>::first_chunk)
            .map(|bytes| u32::from_le_bytes(*bytes));
        let found = crc32fast::hash(bytes);
        if checksum != Some(found) {
            let expected = format!("a block with checksum {:08x}", checksum.unwrap_or_default());
            return Err(self.corrupt(start, expected, format!("{found:08x}")));
        }
        if let Some(bits) = self.verified.get(block / 64) {
            bits.fetch_or(1 << (block % 64), Ordering::Relaxed);
        }
        Ok(())
    }

    /// Reports a number that is too high.
    #[cold]
    #[inline(never)]
    pub(super) fn beyond(&self, section: usize, index: u32, count: u32) -> SegmentError {
        let expected = format!("a number below {count}");
        self.corrupt(section, expected, format!("{index}"))
    }

    /// Reports what is wrong in this segment.
    #[cold]
    #[inline(never)]
    pub(super) fn corrupt(
        &self,
        offset: usize,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> SegmentError {
        SegmentError::Corrupt(Box::new(Corruption {
            file: self.name.as_ref().into(),
            offset: offset as u64,
            expected: expected.into(),
            found: found.into(),
        }))
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segment")
            .field("name", &self.name)
            .field("summary", &self.summary)
            .finish_non_exhaustive()
    }
}
