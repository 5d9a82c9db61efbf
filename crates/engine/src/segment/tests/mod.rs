//! What a segment says, against a naive model, and merging against building.

mod damage;
mod documents;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use bytes::Bytes;
use hikyaku_event::{EventId, Kind};
use hikyaku_store::{Key, Sequence};
use hikyaku_vfs::SimulatedDisk;
use proptest::{collection::vec, prelude::*, sample::Index};

use super::*;

fn hasher() -> TermHasher {
    TermHasher::new(*b"key of the tests")
}

/// Terms of a small universe, so that lists have all lengths; author terms are apart from others.
fn term(number: u16) -> Term {
    hasher().tag(b't', &number.to_le_bytes())
}

fn author(number: u8) -> Term {
    hasher().author(&hikyaku_event::PublicKey::new([number; 32]))
}

fn id(number: u32) -> EventId {
    // Ids that somebody mined: all begin with the same bytes.
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&(number % 7).to_be_bytes());
    bytes[12..16].copy_from_slice(&number.to_be_bytes());
    EventId::new(bytes)
}

fn document() -> impl Strategy<Value = Document> {
    let created_at = prop_oneof![8 => 0..20_u64, 1 => Just(1 << 40), 1 => any::<u64>()];
    let expiry = proptest::option::weighted(0.2, any::<u64>());
    let terms = vec(prop_oneof![0..4_u16, 0..40_u16, any::<u16>()], 0..8);
    (
        created_at,
        any::<u16>(),
        0..4_u8,
        expiry,
        terms,
        0..8_u8,
        any::<u32>(),
    )
        .prop_map(
            |(created_at, kind, by, expires_at, terms, flags, position)| Document {
                key: Key {
                    created_at,
                    id: id(0),
                },
                sequence: Sequence(0),
                kind: Kind(kind),
                flags: Flags(flags).with(Flags::EXPIRING, expires_at.is_some()),
                position: u64::from(position) << (kind % 2 * 8),
                expires_at,
                author: author(by),
                terms: terms.into_iter().map(term).chain([author(by)]).collect(),
            },
        )
}

/// Documents with unique ids and sequences, in an order that is not that of their ids.
fn documents(most: usize) -> impl Strategy<Value = Vec<Document>> {
    vec(document(), 0..most).prop_map(|mut documents| {
        for (number, document) in (1..).zip(&mut documents) {
            document.key.id = id(u32::wrapping_mul(number, 0x9e37_79b1));
            document.sequence = Sequence(u64::from(number));
        }
        documents
    })
}

fn built(documents: &[Document]) -> Segment {
    let built = build(documents, &hasher()).unwrap();
    Segment::open(Bytes::from(built.bytes), "test").unwrap()
}

/// The same documents every time.
fn sample(count: u32) -> Vec<Document> {
    let numbers = (1..=count).map(|number| number.wrapping_mul(0x9e37_79b1));
    let sample = (1..).zip(numbers).map(|(sequence, number)| Document {
        key: Key {
            created_at: 1_700_000_000 + u64::from(number % 97),
            id: id(number),
        },
        sequence: Sequence(sequence),
        kind: Kind((number % 5) as u16),
        flags: Flags::default().with(Flags::PRIVATE, number % 5 == 4),
        position: sequence * 700,
        expires_at: (number % 6 == 0).then_some(1_800_000_000 + u64::from(number)),
        author: author((number % 3) as u8),
        terms: [number % 2, number % 11, number]
            .map(|number| term(number as u16))
            .to_vec(),
    });
    sample.collect()
}

/// Checks every accessor against the documents themselves.
fn check(segment: &Segment, documents: &[Document]) {
    let mut sorted: Vec<&Document> = documents.iter().collect();
    sorted.sort_by_key(|document| (document.key, Reverse(document.sequence)));
    assert_eq!(segment.len() as usize, sorted.len());
    assert_eq!(segment.is_empty(), sorted.is_empty());
    let times = || sorted.iter().map(|document| document.key.created_at);
    assert_eq!(segment.newest(), times().max().unwrap_or(0));
    assert_eq!(segment.oldest(), times().min().unwrap_or(0));
    let sequences = || sorted.iter().map(|document| document.sequence);
    let range = (
        sequences().min().unwrap_or_default(),
        sequences().max().unwrap_or_default(),
    );
    assert_eq!(segment.sequences(), range);

    let mut lists = BTreeMap::<Term, BTreeSet<u32>>::new();
    for (doc, document) in (0..).zip(&sorted) {
        let id = DocId(doc);
        assert_eq!(segment.key(id).unwrap(), document.key);
        assert_eq!(segment.created_at(id).unwrap(), document.key.created_at);
        assert_eq!(segment.id(id).unwrap(), document.key.id);
        assert_eq!(segment.kind(id).unwrap(), document.kind);
        let flags = document
            .flags
            .with(Flags::EXPIRING, document.expires_at.is_some());
        assert_eq!(segment.flags(id).unwrap(), flags);
        assert_eq!(segment.sequence(id).unwrap(), document.sequence);
        assert_eq!(segment.position(id).unwrap(), document.position);
        assert_eq!(segment.expires_at(id).unwrap(), document.expires_at);
        let author = segment.term(document.author).unwrap().unwrap();
        assert_eq!(segment.author_ordinal(id).unwrap(), author.ordinal);
        assert_eq!(segment.find(&document.key.id).unwrap(), Some(id));
        assert_eq!(segment.first_at_or_after_key(&document.key).unwrap(), id);
        for term in document.terms.iter().chain([&document.author]) {
            lists.entry(*term).or_default().insert(doc);
        }
    }
    assert!(segment.created_at(DocId(segment.len())).is_err());
    assert_eq!(segment.find(&EventId::new([7; 32])).unwrap(), None);
    assert_eq!(segment.terms_len() as usize, lists.len());
    assert_eq!(segment.term(hasher().private()).unwrap(), None);

    let around = times().flat_map(|time| [time.saturating_sub(1), time, time.saturating_add(1)]);
    for time in around.chain([0, u64::MAX]) {
        let first = |matches: &dyn Fn(u64) -> bool| {
            let place = sorted
                .iter()
                .position(|document| matches(document.key.created_at));
            DocId(place.unwrap_or(sorted.len()) as u32)
        };
        let not_newer = segment.first_not_newer_than(time).unwrap();
        assert_eq!(not_newer, first(&|created_at| created_at <= time));
        let older = segment.first_older_than(time).unwrap();
        assert_eq!(older, first(&|created_at| created_at < time));
    }

    for (ordinal, (term, docs)) in (0..).zip(&lists) {
        let list = segment.term(*term).unwrap().unwrap();
        assert_eq!((list.ordinal, list.len as usize), (ordinal, docs.len()));
        let found = (0..list.len).map(|index| segment.posting(list, index).unwrap().0);
        assert!(found.eq(docs.iter().copied()));
        assert!(segment.posting(list, list.len).is_err());
        for from in [0, 1, list.len / 2, list.len] {
            for doc in 0..=segment.len() {
                let expected = docs
                    .iter()
                    .skip(from as usize)
                    .take_while(|other| **other < doc);
                let expected = from.min(list.len) + expected.count() as u32;
                assert_eq!(segment.seek(list, from, DocId(doc)).unwrap(), expected);
            }
        }
    }
    segment.verify_all().unwrap();
}

#[test]
fn a_segment_may_be_empty() {
    check(&built(&[]), &[]);
    let mut bytes = Vec::new();
    merge(&[], &mut bytes).unwrap();
    check(&Segment::in_memory(bytes).unwrap(), &[]);
}

/// The reader of format version 1 stays: this file is never made anew.
#[test]
fn a_segment_of_version_1_is_read() {
    let bytes = include_bytes!("../../../testdata/segment-v1");
    let segment = Segment::open(Bytes::from_static(bytes), "segment-v1").unwrap();
    check(&segment, &sample(40));
}

#[test]
fn segments_are_written_as_version_1() {
    let bytes = build(&sample(40), &hasher()).unwrap().bytes;
    assert!(bytes == include_bytes!("../../../testdata/segment-v1"));
}

#[test]
fn of_two_documents_with_one_id_the_later_written_is_found() {
    for later_first in [false, true] {
        let mut documents = sample(20);
        documents[11].key = documents[3].key;
        if later_first {
            documents.swap(3, 11);
        }
        let segment = built(&documents);
        let found = segment.find(&documents[3].key.id).unwrap().unwrap();
        assert_eq!(segment.sequence(found).unwrap(), Sequence(12));
        segment.verify_all().unwrap();
    }
}

#[test]
fn ids_that_are_alike_fill_no_bucket() {
    // All begin with the same 4 bytes, as if somebody had mined them.
    let documents = sample(7000);
    let documents: Vec<_> = documents
        .into_iter()
        .filter(|document| document.key.id.as_bytes()[..4] == [0; 4])
        .collect();
    assert!(documents.len() > 900);
    let segment = built(&documents);
    let buckets = 1 << layout::bucket_bits(segment.len());
    let bounds = (0..=buckets).map(|bucket| {
        let table = segment.layout.id_table;
        segment.word(table, bucket, buckets + 1).unwrap()
    });
    let bounds: Vec<_> = bounds.collect();
    let longest = bounds
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .max()
        .unwrap();
    assert!(longest < 20, "{longest}");
}

#[test]
fn what_was_moved_in_the_log_has_its_new_position() {
    let segment = built(&sample(30));
    let input = MergeInput {
        segment: &segment,
        keep: &|_| true,
        moved: Some(&|position| position + (1 << 40)),
    };
    let mut bytes = Vec::new();
    merge(&[input], &mut bytes).unwrap();
    let merged = Segment::in_memory(bytes).unwrap();
    for doc in (0..30).map(DocId) {
        let expected = segment.position(doc).unwrap() + (1 << 40);
        assert_eq!(merged.position(doc).unwrap(), expected);
    }
    merged.verify_all().unwrap();
}

#[test]
fn a_merged_segment_indexes_what_all_inputs_index() {
    let inputs = [built(&sample(3)), built(&sample(0))];
    let inputs = inputs.each_ref().map(|segment| MergeInput {
        segment,
        keep: &|_| true,
        moved: None,
    });
    let mut bytes = Vec::new();
    merge(&inputs, &mut bytes).unwrap();
    let families = Segment::in_memory(bytes).unwrap().families();
    assert_eq!(families, Families::ALL);
    assert_eq!(
        Families::from_bits(0b110)
            .and(Families::from_bits(0b011))
            .bits(),
        0b010
    );
}

#[test]
fn a_segment_written_to_a_file_is_read_through_its_mapping() {
    let disk = SimulatedDisk::new(1).disk();
    let path = Path::new("segments/1");
    let documents = sample(300);
    disk.create_dir_all(Path::new("segments")).unwrap();
    let mut file = disk.create_new(path).unwrap();
    let segment = built(&documents);
    let input = MergeInput {
        segment: &segment,
        keep: &|_| true,
        moved: None,
    };
    merge(&[input], &mut FileSink::new(file.as_mut())).unwrap();
    file.sync_data().unwrap();
    drop(file);
    check(
        &Segment::open(disk.map(path).unwrap(), "segment").unwrap(),
        &documents,
    );
}

#[test]
fn a_sink_that_fails_fails_the_merge() {
    let simulated = SimulatedDisk::new(1);
    let disk = simulated.disk();
    disk.create_dir_all(Path::new("segments")).unwrap();
    let mut file = disk.create_new(Path::new("segments/1")).unwrap();
    simulated.set_capacity(Some(20_000));
    let segment = built(&sample(300));
    let input = MergeInput {
        segment: &segment,
        keep: &|_| true,
        moved: None,
    };
    let merged = merge(&[input], &mut FileSink::new(file.as_mut()));
    assert!(matches!(merged, Err(SegmentError::Sink(_))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_segment_says_what_its_documents_say(documents in documents(60)) {
        check(&built(&documents), &documents);
    }

    #[test]
    fn the_order_of_building_leads_from_numbers_to_the_input(documents in documents(60)) {
        let built = build(&documents, &hasher()).unwrap();
        let segment = Segment::in_memory(built.bytes).unwrap();
        for (doc, index) in (0..).zip(built.order) {
            let sequence = documents[index as usize].sequence;
            prop_assert_eq!(segment.sequence(DocId(doc)).unwrap(), sequence);
        }
    }

    #[test]
    fn merging_is_building_from_what_is_kept(
        documents in documents(80),
        parts in 1..5_usize,
        places in vec(any::<(Index, bool)>(), 80),
    ) {
        let mut split = vec![Vec::new(); parts];
        let mut dropped = BTreeSet::new();
        for (document, (part, drop)) in documents.iter().zip(&places) {
            split[part.index(parts)].push(document.clone());
            if *drop {
                dropped.insert(document.sequence);
            }
        }
        let segments: Vec<_> = split.iter().map(|part| built(part)).collect();
        let keeps: Vec<_> = segments
            .iter()
            .map(|segment| |doc| !dropped.contains(&segment.sequence(doc).unwrap()))
            .collect();
        let inputs: Vec<_> = segments
            .iter()
            .zip(&keeps)
            .map(|(segment, keep)| MergeInput { segment, keep, moved: None })
            .collect();
        let mut bytes = Vec::new();
        let map = merge(&inputs, &mut bytes).unwrap();

        let kept = documents.iter().filter(|document| !dropped.contains(&document.sequence));
        let kept: Vec<_> = kept.cloned().collect();
        prop_assert_eq!(&bytes, &build(&kept, &hasher()).unwrap().bytes);
        let merged = Segment::open(Bytes::from(bytes), "test").unwrap();
        for (number, input) in inputs.iter().enumerate() {
            for doc in (0..input.segment.len()).map(DocId) {
                let sequence = input.segment.sequence(doc).unwrap();
                let new = map.get(number, doc);
                prop_assert_eq!(new.is_none(), dropped.contains(&sequence));
                if let Some(new) = new {
                    prop_assert_eq!(merged.sequence(new).unwrap(), sequence);
                }
            }
        }
    }
}
