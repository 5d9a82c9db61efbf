//! Claims that hold for the real disk and the simulated one.

use std::{io, path::Path, sync::Arc};

use hikyaku_vfs::{Disk, RealDisk, SimulatedDisk};

/// Runs a claim on both disks, each with an empty folder.
fn on_both(claim: impl Fn(&Disk, &Path)) {
    let folder = tempfile::tempdir().unwrap();
    let real: Disk = Arc::new(RealDisk);
    let simulated = SimulatedDisk::new(1).disk();
    for (disk, dir) in [
        (real, folder.path().join("a/b")),
        (simulated, "/a/b".into()),
    ] {
        disk.create_dir_all(&dir).unwrap();
        disk.create_dir_all(&dir).unwrap();
        claim(&disk, &dir);
    }
}

fn write(disk: &Disk, path: &Path, bytes: &[u8]) {
    let mut file = disk.create_new(path).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.sync_data().unwrap();
}

fn read(disk: &Disk, path: &Path) -> Vec<u8> {
    let file = disk.open(path).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn kind<T>(result: io::Result<T>) -> io::ErrorKind {
    result.map(|_| ()).unwrap_err().kind()
}

#[test]
fn what_is_written_is_read_and_mapped() {
    on_both(|disk, dir| {
        let path = dir.join("file");
        let mut file = disk.create_new(&path).unwrap();
        assert!(file.is_empty().unwrap());
        file.write_all_at(b"world", 6).unwrap();
        file.write_all_at(b"hello", 0).unwrap();
        file.sync_data().unwrap();
        assert_eq!(read(disk, &path), b"hello\0world");
        assert_eq!(&disk.map(&path).unwrap()[..], b"hello\0world");
        let mut beyond = [0; 6];
        let result = file.read_exact_at(&mut beyond, 6);
        assert_eq!(kind(result), io::ErrorKind::UnexpectedEof);
        let result = file.read_exact_at(&mut beyond, 100);
        assert_eq!(kind(result), io::ErrorKind::UnexpectedEof);
    });
}

#[test]
fn what_is_forgotten_can_still_be_read() {
    on_both(|disk, dir| {
        let mut file = disk.create_new(&dir.join("a")).unwrap();
        let bytes: Vec<u8> = (0..20_000_u32).map(|at| at as u8).collect();
        file.write_all_at(&bytes, 0).unwrap();
        file.sync_data().unwrap();
        file.forget(4096, 8192);
        // No length is nothing, not all.
        file.forget(0, 0);
        file.write_all_at(b"unsynced", 4100).unwrap();
        file.forget(0, u64::MAX);
        let mut read = vec![0; bytes.len()];
        file.read_exact_at(&mut read, 0).unwrap();
        assert_eq!(&read[4100..4108], b"unsynced");
        assert_eq!(
            (&read[..4100], &read[4108..]),
            (&bytes[..4100], &bytes[4108..])
        );
    });
}

#[test]
fn what_is_written_through_is_what_was_given_wherever_it_lies() {
    on_both(|disk, dir| {
        let path = dir.join("a");
        let mut file = disk.create_new(&path).unwrap();
        let bytes: Vec<u8> = (0..60_000_u32).map(|at| ((at * at) >> 8) as u8).collect();
        let lies_at = bytes.as_ptr().addr();
        let mut expected = vec![0xee; 100_000];
        file.write_all_at(&expected, 0).unwrap();
        // In the page cache, behind which it may not stay.
        assert_eq!(read(disk, &path), expected);
        for (offset, len) in [
            (0_usize, 60_000),
            (4096, 8192),
            (5000, 50_000),
            (70_001, 100),
            (9, 8180),
        ] {
            for start in [0, 8].map(|off| (off + offset).wrapping_sub(lies_at) % 4096) {
                let given = &bytes[start..][..len.min(bytes.len() - start)];
                file.write_through_at(given, offset as u64).unwrap();
                expected[offset..][..given.len()].copy_from_slice(given);
                assert!(read(disk, &path) == expected, "{offset}, {len}, {start}");
            }
        }
        // Behind the end, in what is allocated and was not written.
        file.allocate_unwritten(100_000, 100_000).unwrap();
        expected.resize(200_000, 0);
        let start = (101_000_usize.wrapping_sub(lies_at)) % 4096;
        file.write_through_at(&bytes[start..], 101_000).unwrap();
        file.sync_data().unwrap();
        expected[101_000..][..bytes.len() - start].copy_from_slice(&bytes[start..]);
        assert!(read(disk, &path) == expected);
    });
}

#[test]
fn an_empty_file_is_mapped_as_nothing() {
    on_both(|disk, dir| {
        let path = dir.join("file");
        write(disk, &path, b"");
        assert!(disk.map(&path).unwrap().is_empty());
    });
}

#[test]
fn a_mapping_outlives_its_file() {
    on_both(|disk, dir| {
        let path = dir.join("file");
        write(disk, &path, b"still here");
        let slice = disk.map(&path).unwrap().slice(6..);
        disk.remove(&path).unwrap();
        assert!(!disk.exists(&path).unwrap());
        assert_eq!(&slice[..], b"here");
    });
}

#[test]
fn a_file_is_cut_and_grown_with_zeros() {
    on_both(|disk, dir| {
        let path = dir.join("file");
        write(disk, &path, b"abcdef");
        let mut file = disk.open(&path).unwrap();
        file.set_len(2).unwrap();
        file.set_len(4).unwrap();
        assert_eq!(read(disk, &path), b"ab\0\0");
    });
}

#[test]
fn allocated_space_is_zeros_behind_what_is_there() {
    on_both(|disk, dir| {
        let path = dir.join("file");
        write(disk, &path, b"ab");
        let mut file = disk.open(&path).unwrap();
        let len = (3 << 20) + 5;
        file.allocate(2, len).unwrap();
        let bytes = read(disk, &path);
        assert_eq!(bytes.len() as u64, 2 + len);
        assert_eq!(&bytes[..2], b"ab");
        assert!(bytes[2..].iter().all(|byte| *byte == 0));
        let result = file.allocate(u64::MAX, 2);
        assert!(result.is_err());
    });
}

#[test]
fn a_file_is_created_once_and_opened_only_if_it_is_there() {
    on_both(|disk, dir| {
        let path = dir.join("file");
        assert_eq!(kind(disk.open(&path)), io::ErrorKind::NotFound);
        assert_eq!(kind(disk.map(&path)), io::ErrorKind::NotFound);
        assert_eq!(kind(disk.remove(&path)), io::ErrorKind::NotFound);
        write(disk, &path, b"");
        assert_eq!(kind(disk.create_new(&path)), io::ErrorKind::AlreadyExists);
        let elsewhere = dir.join("none/file");
        assert_eq!(kind(disk.create_new(&elsewhere)), io::ErrorKind::NotFound);
        assert_eq!(kind(disk.list(&dir.join("none"))), io::ErrorKind::NotFound);
    });
}

#[test]
fn a_rename_replaces_its_target() {
    on_both(|disk, dir| {
        let (from, to) = (dir.join("from"), dir.join("to"));
        write(disk, &from, b"new");
        write(disk, &to, b"old");
        disk.rename(&from, &to).unwrap();
        disk.sync_dir(dir).unwrap();
        assert_eq!(read(disk, &to), b"new");
        assert!(!disk.exists(&from).unwrap());
        assert_eq!(kind(disk.rename(&from, &to)), io::ErrorKind::NotFound);
    });
}

#[test]
fn a_listing_is_sorted_and_without_directories() {
    on_both(|disk, dir| {
        disk.create_dir_all(&dir.join("folder")).unwrap();
        for name in ["b", "c", "a"] {
            write(disk, &dir.join(name), b"");
        }
        write(disk, &dir.join("folder/d"), b"");
        let names = disk.list(dir).unwrap();
        assert_eq!(names, ["a", "b", "c"].map(std::path::PathBuf::from));
        assert!(!disk.exists(&dir.join("folder")).unwrap());
    });
}

#[test]
fn a_lock_is_held_by_one_until_it_is_dropped() {
    on_both(|disk, dir| {
        let path = dir.join("lock");
        let held = disk.lock(&path).unwrap();
        assert_eq!(kind(disk.lock(&path)), io::ErrorKind::WouldBlock);
        drop(held);
        let _held = disk.lock(&path).unwrap();
    });
}

#[test]
fn real_files_and_folders_are_their_owners_alone() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let disk: Disk = Arc::new(RealDisk);
    let dir = folder.path().join("a/b");
    disk.create_dir_all(&dir).unwrap();
    write(&disk, &dir.join("file"), b"");
    let _lock = disk.lock(&dir.join("lock")).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder.path().join("a")), 0o700);
    assert_eq!(mode(&dir), 0o700);
    assert_eq!(mode(&dir.join("file")), 0o600);
    assert_eq!(mode(&dir.join("lock")), 0o600);
}
