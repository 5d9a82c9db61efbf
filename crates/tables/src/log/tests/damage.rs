//! A torn tail is cut; damage is refused.

use hikyaku_vfs::{Disk, SimulatedDisk};

use super::fixture::{all, dir, known, numbers, open, open_with, tiny};
use crate::{
    LogOptions, LogPosition, TableError,
    log::{EntryReader, Known, testing::fuzz_update_log},
};
use proptest::prelude::*;

/// One file takes all.
fn large() -> LogOptions {
    LogOptions {
        file_bytes_max: 1 << 20,
        ..tiny()
    }
}

fn append(disk: &Disk, name: &str, bytes: &[u8], at: u64) {
    let mut file = disk.open(&dir().join(name)).unwrap();
    file.write_all_at(bytes, at).unwrap();
}

/// A log of five batches in one file; returns where each begins and where the last ends.
fn five_batches() -> (SimulatedDisk, Vec<u64>) {
    let disk = SimulatedDisk::new(1);
    let mut running = open_with(&disk, large(), Known::default()).unwrap();
    let mut ends = vec![running.log.bytes()];
    for number in 0..5 {
        running.log_each(number..number + 1);
        ends.push(running.log.bytes());
    }
    drop(running);
    forget_what_waited(&disk);
    (disk, ends)
}

/// What the process before left behind would be put in the place of what was cut.
fn forget_what_waited(disk: &SimulatedDisk) {
    for index in 0..2 {
        let path = dir().join(format!("waiting-{index}"));
        disk.disk().remove(&path).unwrap();
    }
}

#[test]
fn a_torn_tail_is_cut_and_kept_aside() {
    let (disk, ends) = five_batches();
    let end = ends[5];
    append(&disk.disk(), "00000001.updates", b"half a batch", end);
    let running = open_with(&disk, large(), Known::default()).unwrap();
    let torn = running.log.torn_tail().unwrap().clone();
    assert_eq!((torn.offset, torn.len), (end, 12));
    assert_eq!(torn.kept, dir().join(format!("00000001.torn-{end}")));
    assert_eq!(&disk.disk().map(&torn.kept).unwrap()[..], b"half a batch");
    assert_eq!(all(&running.log), [0, 1, 2, 3, 4]);
    drop(running);
    let running = open_with(&disk, large(), Known::default()).unwrap();
    assert_eq!(running.log.torn_tail(), None);
    drop(running);
    append(&disk.disk(), "00000001.updates", b"another half", end);
    let running = open_with(&disk, large(), Known::default()).unwrap();
    let kept = &running.log.torn_tail().unwrap().kept;
    assert_eq!(*kept, dir().join(format!("00000001.torn-{end}.2")));
}

#[test]
fn damage_before_what_was_durable_refuses_with_file_and_offset() {
    let (whole, ends) = five_batches();
    for bit in 0..ends[5] * 8 {
        let disk = whole.fork();
        let path = dir().join("00000001.updates");
        assert!(disk.flip_bit(&path, bit));
        let opened = open_with(&disk, large(), Known::default());
        let byte = bit / 8;
        if byte >= ends[4] {
            // Nothing says that the last batch was durable: it may be torn.
            let running = opened.unwrap();
            assert_eq!(all(&running.log), [0, 1, 2, 3], "bit {bit}");
            drop(running);
            let disk = whole.fork();
            assert!(disk.flip_bit(&path, bit));
            let opened = open_with(&disk, large(), known(LogPosition(5), 1));
            let Err(TableError::Corrupt(message)) = opened else {
                panic!("bit {bit} was not noticed");
            };
            assert!(
                message.contains(&format!("offset {}", ends[4])),
                "{message}"
            );
            continue;
        }
        // A flipped length or magic, in the header or in a batch, is named where that begins.
        let begins = ends.iter().rev().find(|at| **at <= byte).unwrap_or(&0);
        match opened {
            Err(TableError::Corrupt(message)) => {
                let place = format!("00000001.updates is damaged at offset {begins}:");
                assert!(message.contains(&place), "bit {bit}: {message}");
            }
            // The version's bits, before the checksum is right.
            other => panic!("bit {bit}: {:?}", other.map(|running| all(&running.log))),
        }
    }
}

#[test]
fn a_missing_file_is_noticed_wherever_it_is() {
    let disk = SimulatedDisk::new(1);
    let mut running = open(&disk);
    running.log_each(0..60);
    let (end, file) = (running.log.position(), running.log.file());
    drop(running);
    for missing in 1..=file {
        let disk = disk.fork();
        let path = dir().join(format!("{missing:08}.updates"));
        disk.disk().remove(&path).unwrap();
        let needed = if missing == 1 { LogPosition(0) } else { end };
        let opened = open_with(&disk, tiny(), known(needed, file));
        assert!(matches!(opened, Err(TableError::Corrupt(_))), "{missing}");
    }
}

#[test]
fn a_sealed_file_of_another_length_is_damaged() {
    let disk = SimulatedDisk::new(1);
    let mut running = open(&disk);
    running.log_each(0..60);
    drop(running);
    let path = dir().join("00000002.updates");
    let len = disk.disk().open(&path).unwrap().len().unwrap();
    for len in [len - 1, len + 1] {
        let disk = disk.fork();
        disk.disk().open(&path).unwrap().set_len(len).unwrap();
        let opened = open_with(&disk, tiny(), Known::default());
        assert!(matches!(opened, Err(TableError::Corrupt(_))));
    }
}

#[test]
fn damage_in_a_sealed_file_is_told_to_who_reads_it() {
    let disk = SimulatedDisk::new(1);
    let mut running = open(&disk);
    running.log_each(0..60);
    assert!(disk.flip_bit(&dir().join("00000002.updates"), 8 * 200));
    let mut follower = running.log.follow(LogPosition(0)).unwrap();
    let error = loop {
        match follower.next_update() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the damage was not noticed"),
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("00000002.updates"), "{error}");
    // It stays where it is, and others are not concerned.
    assert!(follower.next_update().is_err());
    let (_, end) = running.log.shared.segments.bounds();
    assert_eq!(
        numbers(&mut running.log.follow(LogPosition(59)).unwrap()),
        [59]
    );
    assert_eq!(end, LogPosition(60));
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let (disk, _) = five_batches();
    let disk = disk.disk();
    let path = dir().join("00000001.updates");
    let mut file = disk.open(&path).unwrap();
    let mut bytes = vec![0; 64];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes[8] = 2;
    let len = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    let crc = crc32fast::hash(&bytes[..len - 4]);
    bytes[len - 4..len].copy_from_slice(&crc.to_le_bytes());
    file.write_all_at(&bytes[..len], 0).unwrap();
    let read = EntryReader::of_folder(&disk, dir(), 0);
    let Err(TableError::Newer(message)) = read.map(|_| ()) else {
        panic!("a newer version was read");
    };
    assert!(message.contains("version 2"), "{message}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        fuzz_update_log(&bytes);
    }

    #[test]
    fn damaged_logs_never_panic(flips in proptest::collection::vec((0_u64..6000, 1_u8..), 1..20)) {
        let (disk, _) = five_batches();
        let mut bytes = disk.disk().map(&dir().join("00000001.updates")).unwrap().to_vec();
        for (at, with) in flips {
            let len = bytes.len() as u64;
            bytes[(at % len) as usize] ^= with;
        }
        fuzz_update_log(&bytes);
    }
}
