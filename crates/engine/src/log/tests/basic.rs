//! What is written is read back.

use super::fixture::{commit, disk, open};

#[test]
fn records_are_read_back_after_reopening_and_from_sealed_files() {
    let disk = disk(1).disk();
    let (mut log, _) = open(&disk).unwrap();
    let mut written = Vec::new();
    for _ in 0..40 {
        written.extend(commit(&mut log.writer, 3, true).unwrap());
        if log.writer.is_full() {
            log.files = log.files.with(log.writer.seal().unwrap());
        }
    }
    let active = log.writer.end().file;
    assert!(active > 3);
    for (position, sequence, record) in &written {
        if position.file < active {
            assert_eq!(
                log.files.read(*position).unwrap(),
                (*sequence, record.clone())
            );
        }
    }
    drop(log);
    let (log, records) = open(&disk).unwrap();
    assert_eq!(records, written);
    assert!(log.torn.is_none());
    assert_eq!(log.files.iter().count() as u32, active - 1);
}
