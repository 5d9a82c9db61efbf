//! The memtable: what is not yet in a segment file is in a few small segments in memory.
//!
//! Each commit builds one of its own events, and neighbours of a size are merged, so that each event
//! is copied a logarithmic number of times and a query meets few of them. Readers see nothing but
//! immutable segments, and need no lock.

use std::sync::Arc;

use bytes::Bytes;

use crate::{
    error::EngineError,
    merging,
    segment::{self, DocId, Document, Segment, TermHasher},
    snapshot::{Part, PartId, Payload},
};

/// How many neighbours of about one size are merged into one.
const FANOUT: usize = 4;
/// Larger ones wait for the flush, which merges them all: a merge here takes the writer's time.
const MERGED_DOCUMENTS_MAX: u32 = 32 * 1024;

/// Builds a part in memory. `payloads` are in the order of `documents`.
pub(crate) fn build(
    id: PartId,
    log_file: u32,
    documents: &[Document],
    payloads: &[Bytes],
    hasher: &TermHasher,
) -> Result<Part, EngineError> {
    let built = segment::build(documents, hasher)?;
    let ordered = built
        .order
        .iter()
        .map(|&index| payloads.get(index as usize).cloned().unwrap_or_default())
        .collect();
    let segment = Segment::in_memory(built.bytes)?;
    part(
        id,
        segment,
        Payload::Memory {
            log_file,
            json: Arc::new(ordered),
        },
        hasher,
    )
}

/// Makes a part without tombstones.
pub(crate) fn part(
    id: PartId,
    segment: Segment,
    payload: Payload,
    hasher: &TermHasher,
) -> Result<Part, EngineError> {
    let has = |kind| segment.term(hasher.kind(kind)).map(|list| list.is_some());
    Ok(Part {
        id,
        removed: crate::bitmap::Bitmap::default(),
        hidden: crate::bitmap::Bitmap::default(),
        has_deletions: has(hikyaku_event::Kind::DELETION)?,
        has_vanishes: has(hikyaku_event::Kind::VANISH)?,
        tombstone_version: 0,
        segment: Arc::new(segment),
        payload,
    })
}

/// Finds the parts at the end of `runs` (one log file's, oldest first) that are due to be merged:
/// returns how many.
pub(crate) fn due(runs: &[Arc<Part>]) -> usize {
    let tier = |part: &Arc<Part>| part.segment.len().max(1).ilog2() / FANOUT.ilog2();
    let Some(last) = runs.last().map(tier) else {
        return 0;
    };
    let mut documents = 0;
    let count = runs
        .iter()
        .rev()
        .take_while(|part| {
            documents += part.segment.len();
            tier(part) <= last && documents <= MERGED_DOCUMENTS_MAX
        })
        .count();
    if count >= FANOUT { count } else { 0 }
}

/// Merges parts in memory into one; what is removed is dropped. `None` if nothing is left.
pub(crate) fn merge(
    id: PartId,
    log_file: u32,
    inputs: &[Arc<Part>],
    hasher: &TermHasher,
) -> Result<Option<Part>, EngineError> {
    if merging::stored(inputs) == 0 {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    let map = merging::with_sources(inputs, |sources| segment::merge(sources, &mut bytes))?;
    let segment = Segment::in_memory(bytes)?;
    let mut json = vec![Bytes::new(); segment.len() as usize];
    for (number, input) in inputs.iter().enumerate() {
        for doc in (0..input.segment.len()).map(DocId) {
            let Some(moved) = map.get(number, doc) else {
                continue;
            };
            if let (Payload::Memory { json: payloads, .. }, Some(slot)) =
                (&input.payload, json.get_mut(moved.0 as usize))
            {
                *slot = payloads.get(doc.0 as usize).cloned().unwrap_or_default();
            }
        }
    }
    let payload = Payload::Memory {
        log_file,
        json: Arc::new(json),
    };
    let mut merged = part(id, segment, payload, hasher)?;
    merging::carry_hidden(inputs, &map, &mut merged);
    Ok(Some(merged))
}
