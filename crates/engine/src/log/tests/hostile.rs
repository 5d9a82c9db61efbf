//! Bytes that nobody wrote: nothing may panic, and what was encoded is decoded.

use bytes::Bytes;
use hikyaku_store::{Hider, RemovalReason, Sequence};
use hikyaku_vfs::SimulatedDisk;
use proptest::prelude::*;

use super::fixture::{file, fill, open};
use crate::log::{Record, rewrite, testing::fuzz_log_reader};

fn any_targets() -> impl Strategy<Value = Vec<Sequence>> {
    let near = (any::<u64>(), prop::collection::vec(0_u64..300, 0..20))
        .prop_map(|(base, steps)| steps.iter().map(|step| base.wrapping_add(*step)).collect());
    let far = prop::collection::vec(any::<u64>(), 0..20);
    prop_oneof![near, far].prop_map(|numbers: Vec<u64>| numbers.into_iter().map(Sequence).collect())
}

fn any_record() -> impl Strategy<Value = Record> {
    let reasons = prop::sample::select(vec![
        RemovalReason::Replaced,
        RemovalReason::Deleted,
        RemovalReason::Vanished,
        RemovalReason::Expired,
        RemovalReason::Operator,
    ]);
    prop_oneof![
        (any::<bool>(), any::<Vec<u8>>()).prop_map(|(vanish, json)| Record::Event {
            vanish,
            json: json.into(),
        }),
        (reasons, any_targets()).prop_map(|(reason, targets)| Record::Removed { reason, targets }),
        (any::<u32>(), any_targets()).prop_map(|(by, targets)| Record::Hidden {
            by: Hider(by),
            targets,
        }),
        (any::<u32>(), any_targets()).prop_map(|(by, targets)| Record::Unhidden {
            by: Hider(by),
            targets,
        }),
    ]
}

proptest! {
    #[test]
    fn a_record_is_decoded_as_it_was_encoded(record in any_record()) {
        let mut payload = Vec::new();
        record.encode(&mut payload);
        let (kind, flags) = record.kind_and_flags();
        let payload = Bytes::from(payload);
        prop_assert_eq!(Record::decode(kind, flags, &payload), Some(record.clone()));
        // Each fact has one encoding, and not a byte more.
        if !matches!(record, Record::Event { .. }) {
            let longer = Bytes::from([&payload[..], &[0]].concat());
            prop_assert_eq!(Record::decode(kind, flags, &longer), None);
            let shorter = payload.slice(..payload.len() - 1);
            prop_assert_ne!(Record::decode(kind, flags, &shorter), Some(record));
        }
    }

    #[test]
    fn records_of_any_kind_survive_the_log(records in prop::collection::vec(any_record(), 0..20)) {
        let disk = SimulatedDisk::new(1).disk();
        let (mut log, _) = open(&disk).unwrap();
        for (index, record) in records.iter().enumerate() {
            log.writer.append(record, Sequence(index as u64 * 3 + 1)).unwrap();
        }
        log.writer.commit(true).unwrap();
        let (_, read) = open(&disk).unwrap();
        let read: Vec<Record> = read.into_iter().map(|(_, _, record)| record).collect();
        prop_assert_eq!(read, records);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        fuzz_log_reader(&bytes);
    }

    #[test]
    fn changed_log_files_are_read_without_a_panic(
        rewritten: bool,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let disk = SimulatedDisk::new(1).disk();
        let (mut log, _) = open(&disk).unwrap();
        fill(&mut log, 2);
        let mut bytes = disk.map(&file(1)).unwrap().to_vec();
        if rewritten {
            let sealed = log.files.get(1).unwrap();
            let new = rewrite(&disk, sealed, 2, |sequence, _| sequence.0 % 2 == 0).unwrap();
            bytes = disk.map(new.path()).unwrap().to_vec();
        }
        for (index, byte) in changes {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        fuzz_log_reader(&bytes);
    }
}
