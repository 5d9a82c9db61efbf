//! Where what is in a segment: header, footer, and the places of the sections between them.
//!
//! FORMAT: `docs/format/segment.md`. All numbers are little-endian.

use super::{
    Families, Term,
    error::{Corruption, NewerVersion, SegmentError},
};

/// How many bytes one checksum covers. Large enough that the checksums are 0.02 % of the file, small
/// enough that the first touch of a block costs about a microsecond.
pub(super) const BLOCK_LEN: usize = 16 * 1024;
/// Sections begin at multiples of this, so that no element of one crosses a block's border.
pub(super) const SECTION_ALIGN: u64 = 32;
/// An entry of the dictionary has 31 bits for a document number.
pub(super) const DOCS_MAX: u64 = 1 << 31;
/// An entry of the dictionary has 31 bits for the place of a list.
pub(super) const POSTING_WORDS_MAX: u64 = 1 << 31;
/// In an entry of the dictionary: the low 31 bits are the list's only document.
pub(super) const INLINE: u32 = 1 << 31;

pub(super) const HEADER_LEN: usize = 16;
pub(super) const FOOTER_LEN: usize = 112;
const HEADER_MAGIC: [u8; 8] = *b"hkysegm\n";
const FOOTER_MAGIC: [u8; 8] = *b"hkysend\n";
const VERSION: u32 = 1;

/// The smallest and the largest value of a column of numbers; both 0 if it is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Range {
    pub(super) min: u64,
    pub(super) max: u64,
}

impl Range {
    /// Returns the range of these values.
    pub(super) fn of(values: impl Iterator<Item = u64>) -> Self {
        let mut range = None;
        values.for_each(|value| Self::include(&mut range, value));
        range.unwrap_or_default()
    }

    /// Widens a range to include a value; `None` is the range of no values.
    pub(super) fn include(range: &mut Option<Self>, value: u64) {
        let Self { min, max } = range.unwrap_or(Self {
            min: value,
            max: value,
        });
        *range = Some(Self {
            min: min.min(value),
            max: max.max(value),
        });
    }

    /// Returns how many bytes an element takes as its difference from the smallest.
    pub(super) fn width(self) -> usize {
        if u32::try_from(self.max - self.min).is_ok() {
            4
        } else {
            8
        }
    }
}

/// What a segment's footer says: everything that its layout follows from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) docs: u32,
    pub(super) terms: u32,
    pub(super) expiring: u32,
    pub(super) posting_words: u32,
    pub(super) tokenizer: u32,
    pub(super) families: Families,
    pub(super) id_seed: [u8; 16],
    pub(super) created_at: Range,
    pub(super) sequence: Range,
    pub(super) position: Range,
}

/// The offsets of the sections, in the order of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Layout {
    pub(super) ids: usize,
    pub(super) created_at: usize,
    pub(super) sequences: usize,
    pub(super) positions: usize,
    pub(super) kinds: usize,
    pub(super) flags: usize,
    pub(super) expiring_docs: usize,
    pub(super) expiry_times: usize,
    pub(super) id_table: usize,
    pub(super) id_entries: usize,
    pub(super) dictionary: usize,
    pub(super) term_table: usize,
    pub(super) authors: usize,
    pub(super) postings: usize,
    /// Where the checksums of the blocks begin: the end of what they cover.
    pub(super) checksums: usize,
    /// The length of the whole segment.
    pub(super) end: usize,
}

impl Layout {
    /// Computes the layout; `None` if it is larger than this machine can address.
    pub(super) fn of(summary: &Summary) -> Option<Self> {
        let (docs, terms) = (u64::from(summary.docs), u64::from(summary.terms));
        let expiring = u64::from(summary.expiring);
        // Can't overflow: each section is at most 2^37 bytes.
        let mut end = HEADER_LEN as u64;
        let mut section = |count: u64, width: u64| {
            let start = end.next_multiple_of(SECTION_ALIGN);
            end = start + count * width;
            usize::try_from(start).ok()
        };
        let mut layout = Self {
            ids: section(docs, 32)?,
            created_at: section(docs, summary.created_at.width() as u64)?,
            sequences: section(docs, summary.sequence.width() as u64)?,
            positions: section(docs, summary.position.width() as u64)?,
            kinds: section(docs, 2)?,
            flags: section(docs, 1)?,
            expiring_docs: section(expiring, 4)?,
            expiry_times: section(expiring, 8)?,
            id_table: section((1 << bucket_bits(summary.docs)) + 1, 4)?,
            id_entries: section(docs, 4)?,
            dictionary: section(terms, 16)?,
            term_table: section((1 << bucket_bits(summary.terms)) + 1, 4)?,
            authors: section(docs, 4)?,
            postings: section(u64::from(summary.posting_words), 4)?,
            ..Self::default()
        };
        layout.checksums = usize::try_from(end).ok()?;
        let checksums = 4 * layout.blocks();
        layout.end = layout.checksums.checked_add(checksums + FOOTER_LEN)?;
        Some(layout)
    }

    /// Returns how long each section is, with what pads it, for those who watch the size.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn section_lens(&self) -> Vec<(&'static str, usize)> {
        let sections = [
            ("header", 0),
            ("ids", self.ids),
            ("created_at", self.created_at),
            ("sequences", self.sequences),
            ("positions", self.positions),
            ("kinds", self.kinds),
            ("flags", self.flags),
            ("expiring docs", self.expiring_docs),
            ("expiry times", self.expiry_times),
            ("id table", self.id_table),
            ("id entries", self.id_entries),
            ("dictionary", self.dictionary),
            ("term table", self.term_table),
            ("authors", self.authors),
            ("postings", self.postings),
            ("checksums", self.checksums),
        ];
        let ends = sections
            .iter()
            .skip(1)
            .map(|(_, start)| *start)
            .chain([self.end]);
        let sections = sections.iter().zip(ends);
        sections
            .map(|((name, start), end)| (*name, end - start))
            .collect()
    }

    /// Returns the number of blocks.
    pub(super) fn blocks(&self) -> usize {
        self.checksums.div_ceil(BLOCK_LEN)
    }
}

/// Returns the logarithm of the number of buckets for so many entries: 2 to 4 entries each, so that
/// a look-up reads one cache line of the table and one or two of the entries.
pub(super) fn bucket_bits(entries: u32) -> u32 {
    entries
        .div_ceil(4)
        .max(1)
        .next_power_of_two()
        .trailing_zeros()
}

/// Returns the bucket of a term: its highest bits.
pub(super) fn term_bucket(term: Term, bits: u32) -> u32 {
    (term.bits() >> (Term::BITS - bits)) as u32
}

/// Returns the header.
pub(super) fn encode_header() -> Vec<u8> {
    let mut header = Vec::with_capacity(HEADER_LEN);
    header.extend(HEADER_MAGIC);
    header.extend(VERSION.to_le_bytes());
    header.extend(crc32fast::hash(&header).to_le_bytes());
    header
}

/// Returns the footer. `checksums` is the checksum of the blocks' checksums.
pub(super) fn encode_footer(summary: &Summary, checksums: u32) -> Vec<u8> {
    let mut footer = Vec::with_capacity(FOOTER_LEN);
    for count in [
        summary.docs,
        summary.terms,
        summary.expiring,
        summary.posting_words,
        summary.tokenizer,
        0,
    ] {
        footer.extend(count.to_le_bytes());
    }
    footer.extend(summary.families.bits().to_le_bytes());
    footer.extend(summary.id_seed);
    for range in [summary.created_at, summary.sequence, summary.position] {
        footer.extend(range.min.to_le_bytes());
        footer.extend(range.max.to_le_bytes());
    }
    footer.extend(checksums.to_le_bytes());
    footer.extend(crc32fast::hash(&footer).to_le_bytes());
    footer.extend(FOOTER_MAGIC);
    footer
}

/// Checks header, footer and lengths, and says what is where.
pub(super) fn open(bytes: &[u8], file: &str) -> Result<(Summary, Layout), SegmentError> {
    let corrupt = |offset: usize, expected: String, found: String| {
        SegmentError::Corrupt(Box::new(Corruption {
            file: file.into(),
            offset: offset as u64,
            expected,
            found,
        }))
    };
    let (Some(header), Some((body, footer))) = (
        bytes.first_chunk::<HEADER_LEN>(),
        bytes.split_last_chunk::<FOOTER_LEN>(),
    ) else {
        let expected = format!("a segment of at least {FOOTER_LEN} bytes");
        return Err(corrupt(0, expected, format!("{} bytes", bytes.len())));
    };

    let mut fields = Fields { rest: header };
    let (magic, version, sum) = (fields.take(), fields.u32(), fields.u32());
    let found = crc32fast::hash(&header[..HEADER_LEN - 4]);
    if magic != HEADER_MAGIC || found != sum {
        let expected = format!("a segment's header with checksum {sum:08x}");
        let found = format!("{} with checksum {found:08x}", magic.escape_ascii());
        return Err(corrupt(0, expected, found));
    }
    if version > VERSION {
        return Err(SegmentError::Newer(Box::new(NewerVersion {
            file: file.into(),
            version,
            supported: VERSION,
        })));
    }

    let mut fields = Fields { rest: footer };
    let [docs, terms, expiring, posting_words, tokenizer, _] = [(); 6].map(|()| fields.u32());
    let summary = Summary {
        docs,
        terms,
        expiring,
        posting_words,
        tokenizer,
        families: Families::from_bits(fields.u64()),
        id_seed: fields.take(),
        created_at: fields.range(),
        sequence: fields.range(),
        position: fields.range(),
    };
    let (checksums, sum, magic) = (fields.u32(), fields.u32(), fields.take());
    let found = crc32fast::hash(&footer[..FOOTER_LEN - 12]);
    if magic != FOOTER_MAGIC || found != sum {
        let expected = format!("a segment's footer with checksum {sum:08x}");
        let found = format!("checksum {found:08x} and {}", magic.escape_ascii());
        return Err(corrupt(body.len(), expected, found));
    }
    let ranges = [summary.created_at, summary.sequence, summary.position];
    let bounded = ranges.iter().all(|range| range.min <= range.max)
        && u64::from(docs) <= DOCS_MAX
        && u64::from(posting_words) <= POSTING_WORDS_MAX;
    let layout = bounded.then(|| Layout::of(&summary)).flatten();
    let Some(layout) = layout.filter(|layout| layout.end == bytes.len()) else {
        let expected = format!("as many bytes as follow from {summary:?}");
        return Err(corrupt(
            body.len(),
            expected,
            format!("{} bytes", bytes.len()),
        ));
    };
    let found = crc32fast::hash(body.get(layout.checksums..).unwrap_or_default());
    if found != checksums {
        let expected = format!("block checksums with checksum {checksums:08x}");
        return Err(corrupt(layout.checksums, expected, format!("{found:08x}")));
    }
    Ok((summary, layout))
}

/// Reads fields one after the other; beyond the end they are zero.
struct Fields<'a> {
    rest: &'a [u8],
}

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (field, rest) = self.rest.split_first_chunk().unwrap_or((&[0; N], &[]));
        self.rest = rest;
        *field
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    fn range(&mut self) -> Range {
        Range {
            min: self.u64(),
            max: self.u64(),
        }
    }
}
