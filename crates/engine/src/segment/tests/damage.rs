//! Damaged and hostile bytes: never a wrong answer, never a panic.

use bytes::Bytes;
use proptest::{collection::vec, prelude::*, sample::Index};

use super::{
    super::{
        layout::{BLOCK_LEN, FOOTER_LEN, HEADER_LEN, INLINE, bucket_bits},
        testing::fuzz_segment_reader,
    },
    DocId, Document, Flags, MergeInput, PostingList, Segment, SegmentError, build, documents,
    hasher, merge, sample,
};

fn open(bytes: Vec<u8>) -> Result<Segment, SegmentError> {
    Segment::open(Bytes::from(bytes), "damaged")
}

/// Tells whether the damage is noticed by opening, or else by verifying everything.
fn is_noticed(bytes: Vec<u8>) -> bool {
    open(bytes).map_or(true, |segment| segment.verify_all().is_err())
}

/// Makes all checksums right again.
fn reseal(bytes: &mut [u8], sections_end: usize) {
    let header = crc32fast::hash(&bytes[..HEADER_LEN - 4]);
    bytes[HEADER_LEN - 4..HEADER_LEN].copy_from_slice(&header.to_le_bytes());
    let (sections, rest) = bytes.split_at_mut(sections_end);
    let (table, footer) = rest.split_at_mut(rest.len() - FOOTER_LEN);
    for (block, checksum) in sections.chunks(BLOCK_LEN).zip(table.chunks_mut(4)) {
        checksum.copy_from_slice(&crc32fast::hash(block).to_le_bytes());
    }
    footer[96..100].copy_from_slice(&crc32fast::hash(table).to_le_bytes());
    let sum = crc32fast::hash(&footer[..100]);
    footer[100..104].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn every_flipped_bit_is_noticed() {
    let bytes = build(&sample(12), &hasher()).unwrap().bytes;
    assert!(!is_noticed(bytes.clone()));
    for bit in 0..8 * bytes.len() {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(is_noticed(damaged), "bit {bit} of {}", 8 * bytes.len());
    }
}

#[test]
fn a_segment_cut_short_is_refused() {
    let bytes = build(&sample(12), &hasher()).unwrap().bytes;
    for len in 0..bytes.len() {
        assert!(open(bytes[..len].to_vec()).is_err());
    }
    assert!(open([bytes.as_slice(), &[0]].concat()).is_err());
}

#[test]
fn damage_is_named() {
    let documents = sample(400);
    let mut bytes = build(&documents, &hasher()).unwrap().bytes;
    assert!(bytes.len() > 2 * BLOCK_LEN);
    bytes[BLOCK_LEN + 100] ^= 1;
    let segment = open(bytes).unwrap();
    let Err(errors) = segment.verify_all() else {
        panic!("not noticed")
    };
    let messages: Vec<_> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(messages.len(), 1);
    let start = "damaged is damaged at byte 16384: expected a block with checksum ";
    assert!(messages[0].starts_with(start), "{}", messages[0]);
}

#[test]
fn a_newer_version_is_refused_as_such() {
    let mut bytes = build(&sample(3), &hasher()).unwrap().bytes;
    bytes[8] = 2;
    let sum = crc32fast::hash(&bytes[..12]);
    bytes[12..16].copy_from_slice(&sum.to_le_bytes());
    let error = open(bytes).unwrap_err();
    assert!(matches!(error, SegmentError::Newer(_)));
    assert_eq!(
        error.to_string(),
        "damaged has format version 2, this program reads up to version 1"
    );
}

#[test]
fn merging_what_is_damaged_is_an_error() {
    let bytes = build(&sample(400), &hasher()).unwrap().bytes;
    for block in 0..bytes.len() / BLOCK_LEN {
        let mut damaged = bytes.clone();
        damaged[block * BLOCK_LEN + 1000] ^= 1;
        let input = MergeInput {
            segment: &open(damaged).unwrap(),
            keep: &|_| true,
            moved: None,
        };
        let merged = merge(&[input], &mut Vec::new());
        assert!(matches!(merged, Err(SegmentError::Corrupt(_))));
    }
}

#[test]
fn parts_that_disagree_are_noticed_though_checksums_are_right() {
    let sound = build(&sample(40), &hasher()).unwrap().bytes;
    let segment = open(sound.clone()).unwrap();
    let (layout, summary) = (segment.layout, segment.summary);
    let tables = |count| 4 * ((1 << bucket_bits(count)) + 1);
    let mut parts = vec![
        (layout.expiring_docs, 4 * summary.expiring as usize),
        (layout.id_table, tables(summary.docs)),
        (layout.id_entries, 4 * summary.docs as usize),
        (layout.term_table, tables(summary.terms)),
    ];
    // The lengths of the lists, and the halves of the ids that the id index hashes.
    let lists = (0..summary.terms).map(|ordinal| segment.term_at(ordinal).unwrap().1);
    let places = lists.filter_map(PostingList::place_in_postings);
    parts.extend(places.map(|place| (layout.postings + 4 * (place as usize - 1), 4)));
    parts.extend((0..summary.docs as usize).map(|doc| (layout.ids + 32 * doc, 16)));
    for (start, len) in parts {
        for bit in 8 * start..8 * (start + len) {
            let mut bytes = sound.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            reseal(&mut bytes, layout.checksums);
            assert!(is_noticed(bytes), "bit {bit} of {layout:?}");
        }
    }
}

/// Writes over a sound segment, with right checksums, and opens it.
fn overwritten(sound: &Segment, offset: usize, bytes: &[u8]) -> Segment {
    let mut copy = build(&sample(40), &hasher()).unwrap().bytes;
    copy[offset..offset + bytes.len()].copy_from_slice(bytes);
    reseal(&mut copy, sound.layout.checksums);
    open(copy).unwrap()
}

#[test]
fn a_posting_beyond_the_documents_is_an_error() {
    let sound = open(build(&sample(40), &hasher()).unwrap().bytes).unwrap();
    let lists = (0..sound.terms_len()).map(|ordinal| sound.term_at(ordinal).unwrap().1);
    for list in lists {
        let (offset, doc) = match list.place_in_postings() {
            Some(place) => (sound.layout.postings + 4 * place as usize, 40),
            None => (
                sound.layout.dictionary + 16 * list.ordinal as usize,
                INLINE + 40,
            ),
        };
        let segment = overwritten(&sound, offset, &u32::to_le_bytes(doc));
        let (_, list) = segment.term_at(list.ordinal).unwrap();
        assert!(segment.posting(list, 0).is_err());
        assert!(segment.verify_all().is_err());
    }
}

#[test]
fn a_document_twice_in_the_id_index_is_noticed() {
    let sound = open(build(&sample(40), &hasher()).unwrap().bytes).unwrap();
    let [first, second] =
        [0, 1].map(|bucket| sound.word(sound.layout.id_table, bucket, 17).unwrap());
    assert!(second - first > 1);
    let entry = sound.word(sound.layout.id_entries, first, 40).unwrap();
    let offset = sound.layout.id_entries + 4 * (first as usize + 1);
    let segment = overwritten(&sound, offset, &entry.to_le_bytes());
    assert!(segment.verify_all().is_err());
}

#[test]
fn a_flag_without_an_expiry_is_an_error() {
    let sound = open(build(&sample(40), &hasher()).unwrap().bytes).unwrap();
    for doc in (0..40).map(DocId) {
        let flags = sound.flags(doc).unwrap().with(Flags::EXPIRING, true);
        let segment = overwritten(&sound, sound.layout.flags + doc.0 as usize, &[flags.0]);
        if sound.expires_at(doc).unwrap().is_none() {
            assert!(segment.expires_at(doc).is_err());
            assert!(segment.verify_all().is_err());
        }
    }
}

#[test]
fn an_author_whose_list_lacks_the_document_is_noticed() {
    let sound = open(build(&sample(40), &hasher()).unwrap().bytes).unwrap();
    for ordinal in 0..sound.terms_len() {
        let (_, list) = sound.term_at(ordinal).unwrap();
        let held = sound.posting(list, 0).unwrap() == DocId(0);
        let segment = overwritten(&sound, sound.layout.authors, &ordinal.to_le_bytes());
        assert_eq!(segment.verify_all().is_err(), !held, "{ordinal}");
    }
}

#[test]
fn damaged_checksums_are_told_from_damaged_blocks() {
    let mut bytes = build(&sample(40), &hasher()).unwrap().bytes;
    let checksums = open(bytes.clone()).unwrap().layout.checksums;
    bytes[checksums] ^= 1;
    let message = open(bytes).unwrap_err().to_string();
    let start = format!("damaged is damaged at byte {checksums}: expected block checksums");
    assert!(message.starts_with(&start), "{message}");
}

#[test]
fn a_footer_out_of_bounds_is_refused() {
    let sound = build(&sample(3), &hasher()).unwrap().bytes;
    let sections_end = open(sound.clone()).unwrap().layout.checksums;
    let footer = sound.len() - FOOTER_LEN;
    // Counts of documents and posting words, and the lowest time, which is then above the highest.
    for field in [0, 12, 48] {
        let mut bytes = sound.clone();
        bytes[footer + field + 3] = 0xff;
        reseal(&mut bytes, sections_end);
        assert!(matches!(open(bytes), Err(SegmentError::Corrupt(_))));
    }
}

/// Checks that every answer is right or an error.
fn check(segment: &Segment, sound: &Segment, documents: &[Document]) {
    macro_rules! same {
        ($answer:expr, $expected:expr) => {
            assert!($answer.is_err() || $answer.unwrap() == $expected.unwrap())
        };
    }
    for doc in (0..sound.len()).map(DocId) {
        same!(segment.key(doc), sound.key(doc));
        same!(segment.kind(doc), sound.kind(doc));
        same!(segment.flags(doc), sound.flags(doc));
        same!(segment.sequence(doc), sound.sequence(doc));
        same!(segment.position(doc), sound.position(doc));
        same!(segment.expires_at(doc), sound.expires_at(doc));
        same!(segment.author_ordinal(doc), sound.author_ordinal(doc));
    }
    for document in documents {
        let time = document.key.created_at;
        same!(segment.find(&document.key.id), sound.find(&document.key.id));
        same!(segment.first_older_than(time), sound.first_older_than(time));
        for term in &document.terms {
            same!(segment.term(*term), sound.term(*term));
            if let Ok(Some(list)) = segment.term(*term) {
                for index in 0..list.len {
                    same!(segment.posting(list, index), sound.posting(list, index));
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_flipped_bit_never_gives_a_wrong_answer(bits in vec(any::<Index>(), 1..4)) {
        let documents = sample(150);
        let bytes = build(&documents, &hasher()).unwrap().bytes;
        let mut damaged = bytes.clone();
        for bit in bits {
            let bit = bit.index(8 * bytes.len());
            damaged[bit / 8] ^= 1 << (bit % 8);
        }
        if let Ok(segment) = open(damaged) {
            check(&segment, &open(bytes).unwrap(), &documents);
        }
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in vec(any::<u8>(), 0..2000)) {
        fuzz_segment_reader(&bytes);
    }

    #[test]
    fn hostile_segments_with_right_checksums_are_read_without_panic(
        documents in documents(30),
        changes in vec((any::<Index>(), any::<u8>()), 1..20),
        in_tail in any::<bool>(),
    ) {
        let mut bytes = build(&documents, &hasher()).unwrap().bytes;
        let sections_end = open(bytes.clone()).unwrap().layout.checksums;
        // Half of the time what matters most: the dictionary, the postings and the footer.
        let start = if in_tail { bytes.len() / 2 } else { 0 };
        for (place, byte) in changes {
            let place = start + place.index(bytes.len() - start);
            bytes[place] = byte;
        }
        reseal(&mut bytes, sections_end);
        fuzz_segment_reader(&bytes);
    }
}
