//! The body of the segment reader's fuzz target.

use std::hint::black_box;

use bytes::Bytes;

use super::{DocId, MergeInput, Segment, SegmentError, merge};

pub use super::workout::measure_segments;

/// Reads bytes as a segment in every way there is, with and without regard to block checksums. They
/// may be anything: nothing panics, and what is read is within bounds.
pub fn fuzz_segment_reader(bytes: &[u8]) {
    let copies = [
        Segment::open(Bytes::copy_from_slice(bytes), "fuzz"),
        Segment::in_memory(bytes.to_vec()),
    ];
    for segment in copies.into_iter().flatten() {
        // Each error is as good as an answer.
        let _ = segment.verify_all();
        for doc in (0..=segment.len()).map(DocId) {
            let _ = read_document(&segment, doc);
        }
        for ordinal in 0..=segment.terms_len() {
            let _ = read_list(&segment, ordinal);
        }
        let input = MergeInput {
            segment: &segment,
            keep: &|doc| doc.0 % 3 != 0,
            moved: Some(&|position| position / 2),
        };
        let mut merged = Vec::new();
        if merge(&[input, input], &mut merged).is_ok() {
            let _ = Segment::in_memory(merged).map(|merged| merged.verify_all());
        }
    }
}

fn read_document(segment: &Segment, doc: DocId) -> Result<(), SegmentError> {
    let key = segment.key(doc)?;
    let found = segment.find(&key.id)?;
    assert!(found.is_none_or(|doc| doc.0 < segment.len()));
    let first = segment.first_at_or_after_key(&key)?;
    let older = segment.first_older_than(key.created_at)?;
    let not_newer = segment.first_not_newer_than(key.created_at)?;
    assert!(first.max(older).max(not_newer).0 <= segment.len());
    black_box((
        segment.author_ordinal(doc)?,
        segment.kind(doc)?,
        segment.flags(doc)?,
        segment.sequence(doc)?,
        segment.position(doc)?,
        segment.expires_at(doc)?,
    ));
    Ok(())
}

fn read_list(segment: &Segment, ordinal: u32) -> Result<(), SegmentError> {
    let (term, list) = segment.term_at(ordinal)?;
    black_box(segment.term(term)?);
    // A list of hostile bytes can be as long as all postings, and there can be many of it.
    for index in (0..list.len).take(64) {
        let doc = segment.posting(list, index)?;
        assert!(doc.0 < segment.len());
        assert!(segment.seek(list, index / 2, doc)? <= list.len);
    }
    Ok(())
}
