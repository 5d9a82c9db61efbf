//! What the simulated disk keeps over a crash, and what it may lose.

use std::{collections::BTreeSet, path::Path};

use hikyaku_vfs::{Disk, SimulatedDisk};
use proptest::prelude::*;

const SEEDS: u64 = 300;

fn path() -> &'static Path {
    Path::new("/dir/file")
}

fn dir() -> &'static Path {
    Path::new("/dir")
}

/// A disk with one file whose content and name are durable.
fn with_durable_file(bytes: &[u8]) -> SimulatedDisk {
    let disk = SimulatedDisk::new(7);
    disk.disk().create_dir_all(dir()).unwrap();
    create(&disk.disk(), path(), bytes);
    disk.disk().sync_dir(dir()).unwrap();
    disk
}

fn create(disk: &Disk, path: &Path, bytes: &[u8]) {
    let mut file = disk.create_new(path).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.sync_data().unwrap();
}

fn read(disk: &SimulatedDisk, path: &Path) -> Vec<u8> {
    disk.disk().map(path).unwrap().to_vec()
}

/// All contents of the file that crashes leave, over many seeds.
fn after_crashes(change: impl Fn(&Disk)) -> BTreeSet<Vec<u8>> {
    let crashed = (0..SEEDS).map(|seed| {
        let disk = with_durable_file(&[b'a'; 1024]);
        change(&disk.disk());
        read(&disk.crash(seed), path())
    });
    crashed.collect()
}

#[test]
fn synced_bytes_and_names_survive_every_crash() {
    let contents = after_crashes(|disk| {
        let mut file = disk.open(path()).unwrap();
        file.write_all_at(b"durable", 1000).unwrap();
        file.sync_data().unwrap();
    });
    let mut expected = vec![b'a'; 1000];
    expected.extend(b"durable");
    expected.resize(1024, b'a');
    assert_eq!(contents, BTreeSet::from([expected]));
}

#[test]
fn an_unsynced_write_survives_by_sectors() {
    let contents = after_crashes(|disk| {
        let mut file = disk.open(path()).unwrap();
        file.write_all_at(&[b'b'; 600], 100).unwrap();
    });
    let with = |from: usize, to: usize| {
        let mut bytes = vec![b'a'; 1024];
        bytes[from..to].fill(b'b');
        bytes
    };
    let expected = [with(0, 0), with(100, 512), with(512, 700), with(100, 700)];
    assert_eq!(contents, BTreeSet::from(expected));
}

#[test]
fn of_two_unsynced_writes_to_a_sector_any_may_be_what_is_left() {
    let contents = after_crashes(|disk| {
        let mut file = disk.open(path()).unwrap();
        file.write_all_at(&[b'b'; 1024], 0).unwrap();
        file.write_all_at(&[b'c'; 1024], 0).unwrap();
    });
    let firsts: BTreeSet<u8> = contents.iter().map(|bytes| bytes[0]).collect();
    assert_eq!(firsts, BTreeSet::from(*b"abc"));
    assert!(contents.iter().any(|bytes| bytes[0] != bytes[1023]));
}

#[test]
fn an_unsynced_length_survives_or_not_whatever_becomes_of_the_bytes() {
    let contents = after_crashes(|disk| {
        let mut file = disk.open(path()).unwrap();
        file.write_all_at(&[b'b'; 512], 1024).unwrap();
        file.set_len(10).unwrap();
    });
    let lengths: BTreeSet<usize> = contents.iter().map(Vec::len).collect();
    assert_eq!(lengths, BTreeSet::from([10, 1024, 1536]));
    let grown = contents.iter().filter(|bytes| bytes.len() == 1536);
    let tails: BTreeSet<u8> = grown.map(|bytes| bytes[1535]).collect();
    assert_eq!(tails, BTreeSet::from([0, b'b']));
}

#[test]
fn an_unsynced_name_may_be_lost_though_the_bytes_are_synced() {
    let mut seen = BTreeSet::new();
    for seed in 0..SEEDS {
        let disk = with_durable_file(b"old");
        create(&disk.disk(), Path::new("/dir/new"), b"new");
        disk.disk().rename(Path::new("/dir/new"), path()).unwrap();
        let disk = disk.crash(seed);
        let exists = disk.disk().exists(Path::new("/dir/new")).unwrap();
        seen.insert((exists, read(&disk, path())));
    }
    // A rename happens as a whole: the target is the one or the other.
    let expected = [
        (false, b"old".to_vec()),
        (true, b"old".to_vec()),
        (false, b"new".to_vec()),
    ];
    assert_eq!(seen, BTreeSet::from(expected));
}

#[test]
fn a_removal_is_durable_after_its_directory_is_synced() {
    for seed in 0..SEEDS {
        let disk = with_durable_file(b"old");
        disk.disk().remove(path()).unwrap();
        disk.disk().sync_dir(dir()).unwrap();
        assert!(!disk.crash(seed).disk().exists(path()).unwrap());
    }
}

#[test]
fn old_handles_are_dead_after_a_crash() {
    let disk = with_durable_file(b"old");
    let mut file = disk.disk().open(path()).unwrap();
    let _lock = disk.disk().lock(Path::new("/dir/lock")).unwrap();
    let after = disk.crash(1);
    assert!(disk.disk().open(path()).is_err());
    assert!(file.write_all_at(b"new", 0).is_err());
    assert!(file.read_exact_at(&mut [0], 0).is_err());
    assert!(file.sync_data().is_err());
    assert_eq!(read(&after, path()), b"old");
    assert!(after.disk().lock(Path::new("/dir/lock")).is_ok());
}

#[test]
fn a_killed_process_loses_nothing_but_what_a_crash_takes_later() {
    let mut later = BTreeSet::new();
    for seed in 0..SEEDS {
        let disk = with_durable_file(b"old");
        let mut file = disk.disk().open(path()).unwrap();
        file.write_all_at(b"new", 0).unwrap();
        let disk = disk.kill();
        assert!(file.write_all_at(b"dead", 0).is_err());
        assert_eq!(read(&disk, path()), b"new");
        later.insert(read(&disk.crash(seed), path()));
    }
    assert_eq!(later, BTreeSet::from([b"old".to_vec(), b"new".to_vec()]));
}

proptest! {
    #[test]
    fn the_same_seed_leaves_the_same(seed: u64, writes in prop::collection::vec((0_u64..3000, 0_usize..1500), 1..8)) {
        let run = || {
            let disk = with_durable_file(b"old");
            let mut file = disk.disk().open(path()).unwrap();
            for (number, (offset, len)) in writes.iter().enumerate() {
                file.write_all_at(&vec![number as u8 + 1; *len], *offset).unwrap();
            }
            read(&disk.crash(seed), path())
        };
        prop_assert_eq!(run(), run());
    }
}
