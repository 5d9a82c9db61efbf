//! Writing a segment, front to back, from any source of sorted documents and posting lists.

use std::io;

use hikyaku_event::{EventId, Kind};
use hikyaku_vfs::File;

use super::{
    Flags, SegmentError, Term,
    id_index::IdIndexWriter,
    layout::{
        BLOCK_LEN, INLINE, POSTING_WORDS_MAX, Range, SECTION_ALIGN, Summary, bucket_bits,
        encode_footer, encode_header, term_bucket,
    },
};

/// How many bytes of postings are kept in memory rather than merged twice: those of about half a
/// million documents. Few in unit tests, so that both ways are tested.
const POSTINGS_KEPT_MAX: usize = if cfg!(test) { 400 } else { 16 << 20 };

/// Where a segment is written to, front to back.
pub(crate) trait Sink {
    /// Appends bytes.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
}

impl Sink for Vec<u8> {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.extend_from_slice(bytes);
        Ok(())
    }
}

/// Appends to a file; syncing it is left to its owner.
pub(crate) struct FileSink<'a> {
    file: &'a mut dyn File,
    end: u64,
}

impl<'a> FileSink<'a> {
    /// Starts at the beginning of the file, which is to be empty.
    pub(crate) fn new(file: &'a mut dyn File) -> Self {
        Self { file, end: 0 }
    }
}

impl Sink for FileSink<'_> {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.end)?;
        self.end += bytes.len() as u64;
        Ok(())
    }
}

/// What is fallible to read.
pub(super) type Read<T> = Result<T, SegmentError>;

/// What a segment is written from: documents in their order, and lists in the order of their terms.
/// Each iterator starts anew.
pub(super) trait Source {
    /// What is known beforehand: all but `terms` (here the most there can be) and `posting_words`.
    fn summary(&self) -> Summary;
    fn ids(&self) -> impl Iterator<Item = Read<EventId>>;
    fn created_at(&self) -> impl Iterator<Item = Read<u64>>;
    fn sequences(&self) -> impl Iterator<Item = Read<u64>>;
    fn positions(&self) -> impl Iterator<Item = Read<u64>>;
    fn kinds(&self) -> impl Iterator<Item = Read<Kind>>;
    fn flags(&self) -> impl Iterator<Item = Read<Flags>>;
    /// The documents that expire, and when.
    fn expiries(&self) -> impl Iterator<Item = Read<(u32, u64)>>;
    fn lists(&self) -> Read<impl Lists>;
}

/// Posting lists in the order of their terms.
pub(super) trait Lists {
    /// Goes on to the next term: puts its documents, ascending, in place of what is in `postings`.
    fn next(&mut self, postings: &mut Vec<u32>) -> Read<Option<ListHead>>;
}

/// A posting list's term, and whether it is the term of its documents' author.
pub(super) struct ListHead {
    pub(super) term: Term,
    pub(super) is_author: bool,
}

/// Writes a segment.
pub(super) fn write(source: &impl Source, sink: &mut dyn Sink) -> Result<(), SegmentError> {
    let mut summary = source.summary();
    let mut out = BlockWriter::new(sink);
    out.put_all(&encode_header())?;

    let mut id_index = IdIndexWriter::new(summary.docs, summary.id_seed);
    out.align()?;
    for id in source.ids() {
        let id = id?;
        id_index.count(&id);
        out.put(*id.as_bytes())?;
    }
    out.numbers(summary.created_at, source.created_at())?;
    out.numbers(summary.sequence, source.sequences())?;
    out.numbers(summary.position, source.positions())?;
    out.section(source.kinds().map(|kind| Ok(kind?.0.to_le_bytes())))?;
    out.section(source.flags().map(|flags| Ok([flags?.0])))?;
    out.section(source.expiries().map(|expiry| Ok(expiry?.0.to_le_bytes())))?;
    out.section(source.expiries().map(|expiry| Ok(expiry?.1.to_le_bytes())))?;

    id_index.counted();
    for (doc, id) in (0..).zip(source.ids()) {
        id_index.place(&id?, doc);
    }
    let (table, entries) = id_index.finish();
    out.words(table)?;
    out.words(entries)?;

    let dictionary = write_dictionary(source, &summary, &mut out)?;
    summary.terms = dictionary.terms;
    summary.posting_words = dictionary.posting_words;
    out.words(dictionary.table)?;
    out.words(dictionary.authors)?;

    out.align()?;
    if let Some(postings) = dictionary.postings {
        out.put_all(&postings)?;
    } else {
        write_postings(source, &mut out)?;
    }
    out.finish(&summary)
}

/// What is known once the dictionary has been written.
struct Dictionary {
    terms: u32,
    posting_words: u32,
    /// The section that comes last, if it is small.
    postings: Option<Vec<u8>>,
    table: Vec<u32>,
    authors: Vec<u32>,
}

/// Writes the dictionary's entries, and keeps the lists as they will be written after it, up to
/// [`POSTINGS_KEPT_MAX`]. Where they are more, they are walked a second time.
fn write_dictionary(
    source: &impl Source,
    summary: &Summary,
    out: &mut BlockWriter<'_>,
) -> Result<Dictionary, SegmentError> {
    // As fine as the table can become; made coarser when the number of terms is known.
    let fine_bits = bucket_bits(summary.terms);
    let mut buckets = vec![0_u32; 1 << fine_bits];
    let mut authors = vec![0_u32; summary.docs as usize];
    let (mut terms, mut words) = (0_u32, 0_u64);
    let mut kept = Some(Vec::new());

    out.align()?;
    let (mut lists, mut postings) = (source.lists()?, Vec::new());
    while let Some(ListHead { term, is_author }) = lists.next(&mut postings)? {
        let place = if let [doc] = *postings {
            INLINE | doc
        } else {
            let start = words as u32;
            words += 1 + postings.len() as u64;
            if let Some(bytes) = &mut kept {
                bytes.extend((postings.len() as u32).to_le_bytes());
                bytes.extend(postings.iter().flat_map(|doc| doc.to_le_bytes()));
            }
            start
        };
        kept.take_if(|bytes| bytes.len() > POSTINGS_KEPT_MAX);
        if words > POSTING_WORDS_MAX {
            return Err(SegmentError::TooLarge);
        }
        out.put((term.bits() << 32 | u128::from(place)).to_le_bytes())?;
        if is_author {
            for doc in &postings {
                if let Some(author) = authors.get_mut(*doc as usize) {
                    *author = terms;
                }
            }
        }
        if let Some(count) = buckets.get_mut(term_bucket(term, fine_bits) as usize) {
            *count += 1;
        }
        terms = terms.checked_add(1).ok_or(SegmentError::TooLarge)?;
    }

    let mut end = 0;
    for bucket in &mut buckets {
        end += *bucket;
        *bucket = end;
    }
    let fold = 1_usize << (fine_bits - bucket_bits(terms));
    let ends = buckets.into_iter().skip(fold - 1).step_by(fold);
    Ok(Dictionary {
        terms,
        posting_words: words as u32,
        postings: kept,
        table: std::iter::once(0).chain(ends).collect(),
        authors,
    })
}

/// Writes the lists of more than one document.
fn write_postings(source: &impl Source, out: &mut BlockWriter<'_>) -> Result<(), SegmentError> {
    let (mut lists, mut postings) = (source.lists()?, Vec::new());
    while lists.next(&mut postings)?.is_some() {
        if postings.len() > 1 {
            out.put((postings.len() as u32).to_le_bytes())?;
            for doc in &postings {
                out.put(doc.to_le_bytes())?;
            }
        }
    }
    Ok(())
}

/// Appends to a sink block by block, and keeps the checksums.
struct BlockWriter<'a> {
    sink: &'a mut dyn Sink,
    block: Vec<u8>,
    checksums: Vec<u8>,
}

impl<'a> BlockWriter<'a> {
    fn new(sink: &'a mut dyn Sink) -> Self {
        Self {
            sink,
            block: Vec::with_capacity(BLOCK_LEN),
            checksums: Vec::new(),
        }
    }

    /// Appends an element that does not cross the border of a block.
    #[inline]
    fn put<const N: usize>(&mut self, bytes: [u8; N]) -> io::Result<()> {
        self.block.extend_from_slice(&bytes);
        if self.block.len() >= BLOCK_LEN {
            self.flush()?;
        }
        Ok(())
    }

    /// Appends any bytes.
    fn put_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let room = bytes.len().min(BLOCK_LEN - self.block.len());
            let (head, rest) = bytes.split_at(room);
            self.block.extend_from_slice(head);
            if self.block.len() == BLOCK_LEN {
                self.flush()?;
            }
            bytes = rest;
        }
        Ok(())
    }

    /// Begins a section.
    fn align(&mut self) -> io::Result<()> {
        // A block is a multiple of the alignment, so this stays in it.
        let len = self.block.len().next_multiple_of(SECTION_ALIGN as usize);
        self.block.resize(len, 0);
        if len == BLOCK_LEN {
            self.flush()
        } else {
            Ok(())
        }
    }

    /// Writes a section of elements whose size divides the alignment.
    fn section<const N: usize>(
        &mut self,
        elements: impl Iterator<Item = Read<[u8; N]>>,
    ) -> Result<(), SegmentError> {
        self.align()?;
        for element in elements {
            self.put(element?)?;
        }
        Ok(())
    }

    /// Writes a column of numbers, as differences from the smallest.
    fn numbers(
        &mut self,
        range: Range,
        numbers: impl Iterator<Item = Read<u64>>,
    ) -> Result<(), SegmentError> {
        let differences = numbers.map(|number| Ok(number?.saturating_sub(range.min)));
        if range.width() == 4 {
            self.section(differences.map(|number: Read<u64>| Ok((number? as u32).to_le_bytes())))
        } else {
            self.section(differences.map(|number: Read<u64>| Ok(number?.to_le_bytes())))
        }
    }

    /// Writes a section of words.
    fn words(&mut self, words: impl IntoIterator<Item = u32>) -> Result<(), SegmentError> {
        self.section(words.into_iter().map(|word| Ok(word.to_le_bytes())))
    }

    fn flush(&mut self) -> io::Result<()> {
        let checksum = crc32fast::hash(&self.block);
        self.checksums.extend(checksum.to_le_bytes());
        self.sink.append(&self.block)?;
        self.block.clear();
        Ok(())
    }

    /// Writes what comes after the sections.
    fn finish(mut self, summary: &Summary) -> Result<(), SegmentError> {
        if !self.block.is_empty() {
            self.flush()?;
        }
        self.sink.append(&self.checksums)?;
        let checksum = crc32fast::hash(&self.checksums);
        self.sink.append(&encode_footer(summary, checksum))?;
        Ok(())
    }
}
