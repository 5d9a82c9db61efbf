//! Building a segment from documents in memory. Commits do this for every few events, so small
//! segments are cheap.

use std::cmp::Reverse;

use hikyaku_event::{EventId, Kind};

use super::{
    Document, Families, Flags, SegmentError, Term, TermHasher,
    layout::{DOCS_MAX, Range, Summary},
    write::{ListHead, Lists, Read, Source, write},
};

/// A segment in memory.
#[derive(Debug)]
pub(crate) struct Built {
    /// The segment, to be opened by `Segment::in_memory` or written to a file as it is.
    pub(crate) bytes: Vec<u8>,
    /// By document number: its index in the input.
    pub(crate) order: Vec<u32>,
}

/// Sorts and indexes documents.
///
/// # Errors
/// [`SegmentError::TooLarge`] beyond 2^31 documents or postings.
pub(crate) fn build(documents: &[Document], hasher: &TermHasher) -> Result<Built, SegmentError> {
    if documents.len() as u64 > DOCS_MAX {
        return Err(SegmentError::TooLarge);
    }
    let mut order: Vec<(u32, &Document)> = (0..).zip(documents).collect();
    order.sort_unstable_by_key(|(_, document)| (document.key, Reverse(document.sequence)));
    let postings_max = documents
        .iter()
        .map(|document| 1 + document.terms.len())
        .sum();
    let mut postings = Vec::with_capacity(postings_max);
    for (doc, (_, document)) in (0_u32..).zip(&order) {
        let terms = document.terms.iter().chain([&document.author]);
        postings.extend(terms.map(|term| term.bits() << 32 | u128::from(doc)));
    }
    postings.sort_unstable();
    postings.dedup();

    let sorted = Sorted {
        documents: order.iter().map(|(_, document)| *document).collect(),
        postings,
        id_seed: hasher.id_seed(),
    };
    // A document has 300 to 400 bytes while it is young and its terms are shared with few.
    let mut bytes = Vec::with_capacity(512 + 384 * documents.len());
    write(&sorted, &mut bytes)?;
    Ok(Built {
        bytes,
        order: order.into_iter().map(|(index, _)| index).collect(),
    })
}

/// Documents in their order, and their postings: term and document number in one integer, sorted.
struct Sorted<'a> {
    documents: Vec<&'a Document>,
    postings: Vec<u128>,
    id_seed: [u8; 16],
}

impl Sorted<'_> {
    fn range(&self, number: impl Fn(&Document) -> u64) -> Range {
        Range::of(self.documents.iter().map(|document| number(document)))
    }
}

impl Source for Sorted<'_> {
    fn summary(&self) -> Summary {
        Summary {
            docs: self.documents.len() as u32,
            terms: u32::try_from(self.postings.len()).unwrap_or(u32::MAX),
            expiring: self.expiries().count() as u32,
            posting_words: 0,
            tokenizer: 0,
            families: Families::ALL,
            id_seed: self.id_seed,
            created_at: self.range(|document| document.key.created_at),
            sequence: self.range(|document| document.sequence.0),
            position: self.range(|document| document.position),
        }
    }

    fn ids(&self) -> impl Iterator<Item = Read<EventId>> {
        self.documents.iter().map(|document| Ok(document.key.id))
    }

    fn created_at(&self) -> impl Iterator<Item = Read<u64>> {
        self.documents
            .iter()
            .map(|document| Ok(document.key.created_at))
    }

    fn sequences(&self) -> impl Iterator<Item = Read<u64>> {
        self.documents
            .iter()
            .map(|document| Ok(document.sequence.0))
    }

    fn positions(&self) -> impl Iterator<Item = Read<u64>> {
        self.documents.iter().map(|document| Ok(document.position))
    }

    fn kinds(&self) -> impl Iterator<Item = Read<Kind>> {
        self.documents.iter().map(|document| Ok(document.kind))
    }

    fn flags(&self) -> impl Iterator<Item = Read<Flags>> {
        self.documents.iter().map(|document| {
            let expiring = document.expires_at.is_some();
            Ok(document.flags.with(Flags::EXPIRING, expiring))
        })
    }

    fn expiries(&self) -> impl Iterator<Item = Read<(u32, u64)>> {
        let documents = (0..).zip(&self.documents);
        documents.filter_map(|(doc, document)| Some(Ok((doc, document.expires_at?))))
    }

    fn lists(&self) -> Read<impl Lists> {
        Ok(SortedLists {
            sorted: self,
            rest: &self.postings,
        })
    }
}

struct SortedLists<'a> {
    sorted: &'a Sorted<'a>,
    rest: &'a [u128],
}

impl Lists for SortedLists<'_> {
    fn next(&mut self, postings: &mut Vec<u32>) -> Read<Option<ListHead>> {
        postings.clear();
        let Some(first) = self.rest.first() else {
            return Ok(None);
        };
        let term = Term::new(first >> 32);
        let same = self
            .rest
            .iter()
            .take_while(|posting| Term::new(*posting >> 32) == term);
        postings.extend(same.map(|posting| *posting as u32));
        self.rest = self.rest.get(postings.len()..).unwrap_or_default();
        let document = self.sorted.documents.get(*first as u32 as usize);
        Ok(Some(ListHead {
            term,
            is_author: document.is_some_and(|document| document.author == term),
        }))
    }
}
