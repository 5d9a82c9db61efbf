//! Logs of each released format version are still read, and this version is still written so.

use std::collections::BTreeMap;

use bytes::Bytes;
use hikyaku_store::{Hider, RemovalReason, Sequence};
use hikyaku_vfs::{Disk, SimulatedDisk};

use super::fixture::{dir, event, open, open_from};
use crate::log::{Checkpoint, Record, rewrite};

/// The files of version 1.
const VERSION_1: [(&str, &[u8]); 2] = [
    (
        "00000001.2.log",
        include_bytes!("../../../testdata/log-1/00000001.2.log"),
    ),
    (
        "00000002.log",
        include_bytes!("../../../testdata/log-1/00000002.log"),
    ),
];

/// One record of each kind and flag; those of the first file, and those of the second.
fn records() -> [Vec<Record>; 2] {
    let targets = |numbers: &[u64]| numbers.iter().copied().map(Sequence).collect();
    let first = vec![
        event(r#"{"content":"left out when the file is rewritten"}"#),
        event(r#"{"content":"kept"}"#),
        Record::Event {
            vanish: true,
            json: Bytes::from_static(br#"{"kind":62}"#),
        },
    ];
    let reasons = [
        RemovalReason::Replaced,
        RemovalReason::Deleted,
        RemovalReason::Vanished,
        RemovalReason::Expired,
        RemovalReason::Operator,
    ];
    let removals = reasons.into_iter().map(|reason| Record::Removed {
        reason,
        targets: targets(&[1, 300, 2]),
    });
    let by = Hider(0x0102_0304);
    let hidings = [
        Record::Hidden {
            by,
            targets: targets(&[2, 3, u64::MAX]),
        },
        Record::Unhidden {
            by,
            targets: targets(&[]),
        },
    ];
    [first, removals.chain(hidings).collect()]
}

#[test]
fn version_1_is_read() {
    let disk = SimulatedDisk::new(1).disk();
    disk.create_dir_all(dir()).unwrap();
    for (name, bytes) in VERSION_1 {
        let mut file = disk.create_new(&dir().join(name)).unwrap();
        file.write_all_at(bytes, 0).unwrap();
    }
    let checkpoint = Checkpoint {
        generations: BTreeMap::from([(1, 2)]),
        ..Checkpoint::default()
    };
    let (log, found) = open_from(&disk, &checkpoint).unwrap();
    let found: Vec<Record> = found.into_iter().map(|(_, _, record)| record).collect();
    assert_eq!(found, records().concat()[1..]);
    assert!(log.torn.is_none());
}

fn write(disk: &Disk) {
    let (mut log, _) = open(disk).unwrap();
    for (index, records) in records().iter().enumerate() {
        for record in records {
            let sequence = log.writer.last_sequence().0 + 10;
            log.writer.append(record, Sequence(sequence)).unwrap();
            log.writer.commit(true).unwrap();
        }
        if index == 0 {
            let sealed = log.writer.seal().unwrap();
            rewrite(disk, &sealed, 2, |sequence, _| sequence.0 > 10).unwrap();
        }
    }
}

#[test]
fn version_1_is_written() {
    let disk = SimulatedDisk::new(1).disk();
    write(&disk);
    for (name, bytes) in VERSION_1 {
        let written = disk.map(&dir().join(name)).unwrap();
        assert!(written == bytes, "{name} is written in another way");
    }
}
