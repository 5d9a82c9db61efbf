//! The body of the log readers' fuzz target.

use std::path::Path;

use hikyaku_vfs::{Disk, SimulatedDisk};

use super::{
    EntryReader, Known, LogOptions, LogPosition, UpdateLog,
    batch::{BATCH_HEADER_LEN, BatchHeader, seal_batch},
    buffer::BatchBuffer,
    header::FileHeader,
    waiting::left_with,
};
use crate::Stamp;

/// Reads hostile bytes as a log file in every way there is, as the sealed one before the last, and as
/// what a process has left behind: nothing may panic.
pub fn fuzz_update_log(bytes: &[u8]) {
    let header = FileHeader {
        file: 1,
        server: 1,
        previous_len: 0,
        first: LogPosition(0),
        highest_before_us: 0,
        tables: vec!["a".to_owned()],
    };
    let next = |previous_len: usize, entries: u64| FileHeader {
        file: 2,
        previous_len: previous_len as u32,
        first: LogPosition(entries),
        ..header.clone()
    };
    let next_of_any = next(bytes.len(), 3).encode();
    let header = header.encode();
    read_and_open(&[("00000001.updates", bytes)]);
    let after_header = [&header, bytes].concat();
    read_and_open(&[("00000001.updates", &after_header)]);
    let chain = [
        ("00000001.updates", bytes),
        ("00000002.updates", &next_of_any),
    ];
    read_and_open(&chain);
    // As what waited, with whatever sum, and with the one that its entries have.
    let left = left_with(bytes);
    for waiting in [bytes, &left] {
        let log = ("00000001.updates", &header[..]);
        read_and_open(&[log, ("waiting-0", waiting)]);
        read_and_open(&[log, ("waiting-0", &left), ("waiting-1", waiting)]);
    }
    // As the entries of a batch that is intact.
    let mut batch = vec![0; BATCH_HEADER_LEN];
    batch.extend_from_slice(bytes);
    let mut batch = BatchBuffer::from(batch);
    let of_batch = BatchHeader {
        offset: header.len() as u32,
        durable: header.len() as u32,
        first: LogPosition(0),
        entries: 3,
        highest_us: 1,
    };
    seal_batch(&mut batch, &of_batch, 1);
    let file = [&header[..], &batch].concat();
    read_and_open(&[("00000001.updates", &file)]);
    let sealed = next(file.len(), 3).encode();
    read_and_open(&[("00000001.updates", &file), ("00000002.updates", &sealed)]);
}

fn read_and_open(files: &[(&str, &[u8])]) {
    let disk = SimulatedDisk::new(0).disk();
    let dir = Path::new("/log");
    let mut written = disk.create_dir_all(dir);
    for (name, bytes) in files {
        written = written
            .and_then(|()| disk.create_new(&dir.join(name)))
            .and_then(|mut file| file.write_all_at(bytes, 0));
    }
    assert!(written.is_ok(), "the simulated disk takes every file");
    read(&disk, dir);
    let tables = ["a".to_owned()];
    let options = LogOptions::new(1);
    let Ok(log) = UpdateLog::open(&disk, dir, options, &tables, Known::default()) else {
        return;
    };
    if let Ok(mut entries) = log.recover_from(LogPosition(0)) {
        while let Ok(Some(_)) = entries.next_to_recover() {}
    }
    if let Ok(mut follower) = log.follow_since(1) {
        while let Ok(Some(_)) = follower.next_update() {}
    }
}

fn read(disk: &Disk, dir: &Path) {
    if let Ok(Some(mut entries)) = EntryReader::of_folder(disk, dir, 0) {
        let all = |_: Stamp| true;
        while let Ok(Some(_)) = entries.next_update(all) {}
    }
}
