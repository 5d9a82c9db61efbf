//! How the simulated disk fails when it is told to.

use std::{collections::BTreeSet, io, path::Path};

use hikyaku_vfs::{Call, Disk, Fault, SimulatedDisk};

fn path() -> &'static Path {
    Path::new("/file")
}

fn with_file(seed: u64, bytes: &[u8]) -> SimulatedDisk {
    let disk = SimulatedDisk::new(seed);
    let mut file = disk.disk().create_new(path()).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.sync_data().unwrap();
    disk.disk().sync_dir(Path::new("/")).unwrap();
    disk
}

fn read(disk: &Disk) -> Vec<u8> {
    disk.map(path()).unwrap().to_vec()
}

#[test]
fn the_nth_call_fails_once_or_from_then_on() {
    for lasting in [false, true] {
        let disk = with_file(1, b"abc");
        disk.inject(Fault {
            call: Some(Call::Map),
            nth: 2,
            error: io::ErrorKind::TimedOut,
            lasting,
        });
        assert!(disk.disk().open(path()).is_ok());
        assert!(disk.disk().map(path()).is_ok());
        let error = disk.disk().map(path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(disk.disk().map(path()).is_err(), lasting);
        assert_eq!(disk.calls(Some(Call::Map)), 3);
        disk.clear_faults();
        assert!(disk.disk().map(path()).is_ok());
    }
}

#[test]
fn calls_of_all_kinds_are_counted_and_fail() {
    let disk = with_file(1, b"abc");
    let before = disk.calls(None);
    disk.fail_nth_call(2, io::ErrorKind::Other);
    assert!(disk.disk().exists(path()).unwrap());
    assert!(disk.disk().open(path()).is_err());
    assert!(disk.disk().open(path()).is_ok());
    assert_eq!(disk.calls(None), before + 3);
}

#[test]
fn a_failed_write_may_have_written_any_part() {
    let contents: BTreeSet<Vec<u8>> = (0..100)
        .map(|seed| {
            let disk = with_file(seed, b"aaaa");
            disk.fail_nth_call(2, io::ErrorKind::Other);
            let mut file = disk.disk().open(path()).unwrap();
            assert!(file.write_all_at(b"bbbb", 0).is_err());
            read(&disk.disk())
        })
        .collect();
    let expected = [b"aaaa", b"baaa", b"bbaa", b"bbba", b"bbbb"];
    assert_eq!(contents, expected.map(|bytes| bytes.to_vec()).into());
}

#[test]
fn what_a_failed_sync_lost_no_later_sync_brings_back() {
    let mut lost = 0;
    for seed in 0..100 {
        let disk = with_file(seed, b"old");
        let mut file = disk.disk().open(path()).unwrap();
        file.write_all_at(b"new", 0).unwrap();
        disk.fail_nth_call(1, io::ErrorKind::Other);
        assert!(file.sync_data().is_err());
        assert_eq!(read(&disk.disk()), b"new");
        file.sync_data().unwrap();
        let crashed = disk.kill().crash(seed);
        lost += usize::from(read(&crashed.disk()) == b"old");

        // Only what is written again is written.
        let disk = with_file(seed, b"old");
        let mut file = disk.disk().open(path()).unwrap();
        file.write_all_at(b"new", 0).unwrap();
        disk.fail_nth_call(1, io::ErrorKind::Other);
        assert!(file.sync_data().is_err());
        file.write_all_at(b"new", 0).unwrap();
        file.sync_data().unwrap();
        assert_eq!(read(&disk.crash(seed).disk()), b"new");
    }
    assert!((20..100).contains(&lost), "{lost} of 100 were lost");
}

#[test]
fn a_full_disk_refuses_to_grow_but_takes_writes_to_what_is_allocated() {
    let disk = with_file(1, b"abc");
    let mut file = disk.disk().open(path()).unwrap();
    file.allocate(3, 7).unwrap();
    disk.set_capacity(Some(12));
    assert_eq!(disk.used(), 10);
    let error = file.allocate(10, 3).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!(file.len().unwrap(), 10);
    let error = file.write_all_at(b"0123456789", 3).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!(
        file.set_len(13).unwrap_err().kind(),
        io::ErrorKind::StorageFull
    );
    file.write_all_at(b"0123456", 3).unwrap();
    disk.set_capacity(Some(13));
    file.set_len(13).unwrap();
}

#[test]
fn a_flipped_bit_is_seen_and_stays() {
    let disk = with_file(1, b"abc");
    assert!(disk.flip_bit(path(), 9));
    assert!(!disk.flip_bit(path(), 24));
    assert_eq!(read(&disk.disk()), b"a`c");
    assert_eq!(read(&disk.crash(1).disk()), b"a`c");
    assert_eq!(disk.files(), [(path().to_path_buf(), 3)]);
}
