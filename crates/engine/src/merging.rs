//! What merging parts in memory and merging them into a file have in common.

use std::sync::Arc;

use crate::{
    segment::{DocId, MergeInput, MergeMap},
    snapshot::Part,
};

/// Returns how many documents a merge of these parts keeps.
pub(crate) fn stored(inputs: &[Arc<Part>]) -> u32 {
    inputs
        .iter()
        .map(|part| part.segment.len() - part.removed.count())
        .sum()
}

/// Calls `merge` with the parts as a segment merge takes them: what is removed is dropped.
pub(crate) fn with_sources<T>(
    inputs: &[Arc<Part>],
    merge: impl FnOnce(&[MergeInput<'_>]) -> T,
) -> T {
    let keeps: Vec<_> = inputs
        .iter()
        .map(|part| |doc: DocId| part.is_stored(doc))
        .collect();
    let sources: Vec<MergeInput<'_>> = inputs
        .iter()
        .zip(&keeps)
        .map(|(part, keep)| MergeInput {
            segment: &part.segment,
            keep,
            moved: None,
        })
        .collect();
    merge(&sources)
}

/// Hides in the merged part what was hidden in its inputs.
pub(crate) fn carry_hidden(inputs: &[Arc<Part>], map: &MergeMap, merged: &mut Part) {
    for (number, input) in inputs.iter().enumerate() {
        for doc in input.hidden.iter() {
            if let Some(moved) = map.get(number, doc) {
                merged.set_hidden(moved, true);
            }
        }
    }
}
