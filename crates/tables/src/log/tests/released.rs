//! Logs of each released format version are still read, and this version is still written so.

use std::path::Path;

use hikyaku_vfs::{Disk, SimulatedDisk};

use super::fixture::{at, dir, put, tables, tiny};
use crate::{
    Attributes, Effect, LogPosition, Stamp, UpdateLog,
    log::{Known, Recoverable, entry::Applied},
};

/// The files of version 1.
const VERSION_1: [(&str, &[u8]); 2] = [
    (
        "00000001.updates",
        include_bytes!("../../../testdata/update-log-1/00000001.updates"),
    ),
    (
        "00000002.updates",
        include_bytes!("../../../testdata/update-log-1/00000002.updates"),
    ),
];

const APPLIED: Applied = Applied {
    source: 0x0102_0304,
    position: 0x0506_0708_090a_0b0c,
    at_us: 0x0d0e_0f10_1112_1314,
};

/// The batches of both files: one effect of each kind, with and without attributes, with new and the
/// same stamps.
fn batches() -> [Vec<(u32, Effect<'static>, Stamp)>; 2] {
    let theirs = Stamp {
        at_us: 1_700_000_000_000_000,
        origin: 3,
    };
    let attributes = Attributes {
        flags: 7,
        expires_at: 1_800_000_000,
    };
    let long: &[u8] = &[b'x'; 700];
    let with_attributes = Effect::Put {
        key: b"key",
        value: b"",
        attributes,
    };
    [
        vec![
            (0, put(b"key", b"value"), at(1_700_000_000_000_001)),
            (1, put(b"12345678", long), at(1_700_000_000_000_001)),
            (1, with_attributes, theirs),
        ],
        vec![
            (0, Effect::Remove { key: b"key" }, theirs),
            (1, Effect::Vanish, at(1_700_000_000_000_002)),
        ],
    ]
}

fn write(disk: &SimulatedDisk) {
    let log = UpdateLog::open(&disk.disk(), dir(), tiny(), &tables(), Known::default()).unwrap();
    let mut pump = log.prepare().unwrap().unwrap();
    for batch in batches() {
        for (table, effect, stamp) in batch {
            log.sink(table).updated(effect, stamp).unwrap();
        }
        log.note_applied(&APPLIED).unwrap();
        assert!(pump.turn());
    }
}

/// Returns a file without the zeros that were allocated.
fn written(disk: &Disk, path: &Path) -> Vec<u8> {
    let mut bytes = disk.map(path).unwrap().to_vec();
    let len = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    bytes.truncate(len.next_multiple_of(8));
    bytes
}

#[test]
fn version_1_is_written() {
    let disk = SimulatedDisk::new(1);
    write(&disk);
    for (name, bytes) in VERSION_1 {
        let written = written(&disk.disk(), &dir().join(name));
        assert!(written == bytes, "{name} is written in another way");
    }
}

#[test]
fn version_1_is_read() {
    let disk = SimulatedDisk::new(1).disk();
    disk.create_dir_all(dir()).unwrap();
    for (name, bytes) in VERSION_1 {
        let mut file = disk.create_new(&dir().join(name)).unwrap();
        file.write_all_at(bytes, 0).unwrap();
    }
    let log = UpdateLog::open(&disk, dir(), tiny(), &tables(), Known::default()).unwrap();
    assert_eq!(log.torn_tail(), None);
    assert_eq!(log.durable(), LogPosition(7));
    let mut entries = log.recover_from(LogPosition(0)).unwrap();
    for batch in batches() {
        for (table, effect, stamp) in batch {
            let Some(Recoverable::Update(logged)) = entries.next_to_recover().unwrap() else {
                panic!("an update is missing");
            };
            assert_eq!(logged.table, tables()[table as usize]);
            assert_eq!(logged.effect, effect);
            let origin = if stamp.origin == 0 { 7 } else { stamp.origin };
            assert_eq!(logged.stamp, Stamp { origin, ..stamp });
        }
        let Some(Recoverable::Applied(applied)) = entries.next_to_recover().unwrap() else {
            panic!("how far others were applied is missing");
        };
        assert_eq!(applied, APPLIED);
    }
    assert!(entries.next_to_recover().unwrap().is_none());
}
