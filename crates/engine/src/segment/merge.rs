//! Merging segments into one, front to back: by key for the columns, by term for the postings.
//!
//! In memory are, per document, its new number (4 bytes), its new document's author (4) and origin
//! (2), and for a while the longest posting list or the id index (4 to 6); and some megabytes.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, binary_heap::PeekMut},
};

use hikyaku_event::{EventId, Kind};
use hikyaku_store::{Key, Sequence};

use super::{
    DocId, Families, Flags, PostingList, Segment, SegmentError, Term,
    layout::{DOCS_MAX, Range, Summary},
    write::{ListHead, Lists, Read, Sink, Source, write},
};

/// One segment to be merged.
#[derive(Clone, Copy)]
pub(crate) struct MergeInput<'a> {
    /// The segment.
    pub(crate) segment: &'a Segment,
    /// Which of its documents to keep; asked once for each.
    pub(crate) keep: &'a dyn Fn(DocId) -> bool,
    /// Where the log has a document's event now, given where it was; `None` if nothing was moved.
    pub(crate) moved: Option<&'a dyn Fn(u64) -> u64>,
}

/// Where the documents of the inputs went.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MergeMap {
    /// Per input, by old number.
    maps: Vec<Vec<u32>>,
}

/// In a map: the document was not kept.
const DROPPED: u32 = u32::MAX;

impl MergeMap {
    /// Returns the new number of a document of the `input`-th input, if it was kept.
    pub(crate) fn get(&self, input: usize, doc: DocId) -> Option<DocId> {
        let new = *self.maps.get(input)?.get(doc.0 as usize)?;
        (new != DROPPED).then_some(DocId(new))
    }
}

/// Merges the segments of one store, and writes the new one to a sink: byte for byte what building
/// from the documents kept would give. Fewer than 65,536 at once.
///
/// # Errors
/// Corruption of an input, a sink that fails, or more than a segment can hold.
pub(crate) fn merge(
    inputs: &[MergeInput<'_>],
    sink: &mut dyn Sink,
) -> Result<MergeMap, SegmentError> {
    let merging = Merging::new(inputs)?;
    write(&merging, sink)?;
    Ok(merging.map)
}

struct Merging<'a> {
    inputs: &'a [MergeInput<'a>],
    map: MergeMap,
    /// By new document number: the input it came from. Within an input the order is the same.
    origins: Vec<u16>,
    summary: Summary,
}

/// The next document of an input. The newest in the order of answers is the greatest.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct DocumentHead {
    key: Reverse<(Key, Reverse<Sequence>)>,
    input: Reverse<u16>,
    doc: u32,
}

impl DocumentHead {
    fn read(segment: &Segment, input: u16, doc: u32) -> Read<Self> {
        let doc_id = DocId(doc);
        Ok(Self {
            key: Reverse((segment.key(doc_id)?, Reverse(segment.sequence(doc_id)?))),
            input: Reverse(input),
            doc,
        })
    }
}

impl<'a> Merging<'a> {
    /// Merges the documents; the lists are merged while they are written.
    fn new(inputs: &'a [MergeInput<'a>]) -> Read<Self> {
        let docs: u64 = inputs
            .iter()
            .map(|input| u64::from(input.segment.len()))
            .sum();
        if docs > DOCS_MAX || inputs.len() > usize::from(u16::MAX) {
            return Err(SegmentError::TooLarge);
        }
        let mut maps: Vec<_> = inputs
            .iter()
            .map(|input| vec![DROPPED; input.segment.len() as usize])
            .collect();
        let mut origins = Vec::with_capacity(docs as usize);
        let (mut created_at, mut sequence, mut position) = (None, None, None);
        let mut expiring = 0;

        let mut heads = BinaryHeap::with_capacity(inputs.len());
        for (number, input) in (0..).zip(inputs) {
            if !input.segment.is_empty() {
                heads.push(DocumentHead::read(input.segment, number, 0)?);
            }
        }
        while let Some(mut head) = heads.peek_mut() {
            let (Reverse(number), old) = (head.input, head.doc);
            let Some(input) = inputs.get(usize::from(number)) else {
                break;
            };
            let (segment, doc) = (input.segment, DocId(old));
            if (input.keep)(doc) {
                let map = maps.get_mut(usize::from(number));
                if let Some(new) = map.and_then(|map| map.get_mut(old as usize)) {
                    *new = origins.len() as u32;
                }
                origins.push(number);
                let Reverse((key, Reverse(Sequence(number)))) = head.key;
                Range::include(&mut created_at, key.created_at);
                Range::include(&mut sequence, number);
                Range::include(&mut position, input.position(doc)?);
                expiring += u32::from(segment.flags(doc)?.contains(Flags::EXPIRING));
            }
            if old + 1 < segment.len() {
                *head = DocumentHead::read(segment, number, old + 1)?;
            } else {
                PeekMut::pop(head);
            }
        }

        let terms: u64 = inputs
            .iter()
            .map(|input| u64::from(input.segment.terms_len()))
            .sum();
        let families = inputs.iter().map(|input| input.segment.families());
        let len = origins.len() as u32;
        let summary = Summary {
            docs: len,
            terms: u32::try_from(terms).unwrap_or(u32::MAX),
            expiring,
            posting_words: 0,
            tokenizer: 0,
            families: families.fold(Families::ALL, Families::and),
            id_seed: inputs
                .first()
                .map_or([0; 16], |input| input.segment.summary.id_seed),
            created_at: created_at.unwrap_or_default(),
            sequence: sequence.unwrap_or_default(),
            position: position.unwrap_or_default(),
        };
        Ok(Self {
            inputs,
            map: MergeMap { maps },
            origins,
            summary,
        })
    }

    /// Reads a column, in the new order.
    fn column<T>(
        &self,
        read: impl Fn(&MergeInput<'a>, DocId) -> Read<T>,
    ) -> impl Iterator<Item = Read<T>> {
        // Per input: its documents that were kept and not yet read.
        let mut kept: Vec<_> = self
            .inputs
            .iter()
            .zip(&self.map.maps)
            .map(|(input, map)| {
                let docs = (0..).zip(map).filter(|(_, new)| **new != DROPPED);
                (input, docs.map(|(old, _)| DocId(old)))
            })
            .collect();
        self.origins.iter().filter_map(move |origin| {
            let (input, docs) = kept.get_mut(usize::from(*origin))?;
            Some(read(input, docs.next()?))
        })
    }
}

impl MergeInput<'_> {
    /// Returns where the log has a document's event now.
    fn position(&self, doc: DocId) -> Read<u64> {
        let position = self.segment.position(doc)?;
        Ok(self.moved.map_or(position, |moved| moved(position)))
    }
}

impl Source for Merging<'_> {
    fn summary(&self) -> Summary {
        self.summary
    }

    fn ids(&self) -> impl Iterator<Item = Read<EventId>> {
        self.column(|input, doc| input.segment.id(doc))
    }

    fn created_at(&self) -> impl Iterator<Item = Read<u64>> {
        self.column(|input, doc| input.segment.created_at(doc))
    }

    fn sequences(&self) -> impl Iterator<Item = Read<u64>> {
        self.column(|input, doc| Ok(input.segment.sequence(doc)?.0))
    }

    fn positions(&self) -> impl Iterator<Item = Read<u64>> {
        self.column(MergeInput::position)
    }

    fn kinds(&self) -> impl Iterator<Item = Read<Kind>> {
        self.column(|input, doc| input.segment.kind(doc))
    }

    fn flags(&self) -> impl Iterator<Item = Read<Flags>> {
        self.column(|input, doc| input.segment.flags(doc))
    }

    fn expiries(&self) -> impl Iterator<Item = Read<(u32, u64)>> {
        let expiries = self.column(|input, doc| input.segment.expires_at(doc));
        (0..)
            .zip(expiries)
            .filter_map(|(doc, expiry)| Some(expiry.transpose()?.map(|time| (doc, time))))
    }

    fn lists(&self) -> Read<impl Lists> {
        MergingLists::new(self)
    }
}

/// The lists of all inputs, merged by term.
struct MergingLists<'a> {
    merging: &'a Merging<'a>,
    /// The next list of each input, the lowest term on top.
    heads: BinaryHeap<Reverse<TermHead>>,
    /// Per input, a bit per ordinal that some document has as its author's.
    authors: Vec<Vec<u64>>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct TermHead {
    term: Term,
    input: u16,
    ordinal: u32,
    place: u32,
}

impl<'a> MergingLists<'a> {
    fn new(merging: &'a Merging<'a>) -> Read<Self> {
        let mut lists = Self {
            merging,
            heads: BinaryHeap::with_capacity(merging.inputs.len()),
            authors: Vec::with_capacity(merging.inputs.len()),
        };
        for (input, MergeInput { segment, .. }) in (0..).zip(merging.inputs) {
            lists.authors.push(author_ordinals(segment)?);
            if segment.terms_len() > 0 {
                let (term, place) = segment.dictionary_entry(0)?;
                lists.heads.push(Reverse(TermHead {
                    term,
                    input,
                    ordinal: 0,
                    place,
                }));
            }
        }
        Ok(lists)
    }
}

impl Lists for MergingLists<'_> {
    #[expect(
        clippy::stable_sort_primitive,
        reason = "it finds the sorted runs, one per input, and merges them"
    )]
    fn next(&mut self, postings: &mut Vec<u32>) -> Read<Option<ListHead>> {
        postings.clear();
        while let Some(Reverse(TermHead { term, .. })) = self.heads.peek() {
            let term = *term;
            let mut is_author = false;
            while let Some(mut top) = self.heads.peek_mut() {
                let Reverse(head) = &mut *top;
                let input = usize::from(head.input);
                let (Some(MergeInput { segment, .. }), Some(map), Some(authors)) = (
                    self.merging.inputs.get(input),
                    self.merging.map.maps.get(input),
                    self.authors.get(input),
                ) else {
                    break;
                };
                if head.term != term {
                    break;
                }
                is_author |= bit(authors, head.ordinal);
                let list = segment.posting_list(head.ordinal, head.place)?;
                append_kept(segment, list, map, postings)?;
                head.ordinal += 1;
                if head.ordinal < segment.terms_len() {
                    (head.term, head.place) = segment.dictionary_entry(head.ordinal)?;
                } else {
                    PeekMut::pop(top);
                }
            }
            if !postings.is_empty() {
                postings.sort();
                return Ok(Some(ListHead { term, is_author }));
            }
        }
        Ok(None)
    }
}

/// Appends the new numbers of a list's documents.
fn append_kept(
    segment: &Segment,
    list: PostingList,
    map: &[u32],
    postings: &mut Vec<u32>,
) -> Read<()> {
    for index in 0..list.len {
        let DocId(old) = segment.posting(list, index)?;
        let new = map.get(old as usize).filter(|new| **new != DROPPED);
        postings.extend(new);
    }
    Ok(())
}

/// Returns a bit per ordinal, set for those of authors.
fn author_ordinals(segment: &Segment) -> Read<Vec<u64>> {
    let mut bits = vec![0_u64; segment.terms_len().div_ceil(64) as usize];
    for doc in 0..segment.len() {
        let ordinal = segment.author_ordinal(DocId(doc))?;
        if let Some(word) = bits.get_mut(ordinal as usize / 64) {
            *word |= 1 << (ordinal % 64);
        }
    }
    Ok(bits)
}

fn bit(bits: &[u64], index: u32) -> bool {
    let word = bits.get(index as usize / 64);
    word.is_some_and(|word| word >> (index % 64) & 1 == 1)
}
