//! What is written is read back, whatever becomes of the file it was written to.

use std::{collections::BTreeMap, io, sync::Arc};

use bytes::Bytes;
use hikyaku_store::Sequence;
use hikyaku_vfs::{Call, Disk, Fault, RealDisk, SimulatedDisk};

use super::fixture::{
    SMALL, Written, append, commit, dir, event, file, fill, open, open_from, record,
};
use crate::log::{
    Checkpoint, LogError, LogFiles, LogOptions, LogPosition, Walked, recover, remove, rewrite,
    verify,
};

fn assert_readable(files: &LogFiles, written: &[Written]) {
    for (position, sequence, record) in written {
        if files.get(position.file).is_some() {
            let read = files.read(*position).unwrap();
            assert_eq!(read, (*sequence, record.clone()), "{position}");
        }
    }
}

#[test]
fn records_are_read_back_from_sealed_files_and_after_reopening() {
    let disk = SimulatedDisk::new(1).disk();
    let (mut log, _) = open(&disk).unwrap();
    let written = fill(&mut log, 5);
    assert_readable(&log.files, &written);
    drop(log);
    let (log, records) = open(&disk).unwrap();
    assert_eq!(records, written);
    assert!(log.torn.is_none());
    assert_eq!(log.files.iter().count(), 4);
    assert_readable(&log.files, &written);
    assert_eq!(log.writer.last_sequence(), written.last().unwrap().1);
}

#[test]
fn the_real_disk_keeps_it_too() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("log");
    let disk: Disk = Arc::new(RealDisk);
    let open = || {
        let mut records = Vec::new();
        let log = recover(&disk, &dir, SMALL, &Checkpoint::default(), |p, s, r| {
            records.push((p, s, r));
            Ok::<_, LogError>(())
        });
        (log.unwrap(), records)
    };
    let (mut log, _) = open();
    let mut written = fill(&mut log, 3);
    written.extend(commit(&mut log.writer, 3, true).unwrap());
    drop(log);
    let (log, records) = open();
    assert_eq!(records, written);
    assert_readable(&log.files, &written);
}

#[test]
fn only_records_from_the_checkpoint_on_are_handed_over() {
    let disk = SimulatedDisk::new(1).disk();
    let (mut log, _) = open(&disk).unwrap();
    let mut written = fill(&mut log, 4);
    let checkpoint = Checkpoint {
        from_file: 3,
        ..Checkpoint::default()
    };
    written.retain(|(position, ..)| position.file >= 3);
    let (log, records) = open_from(&disk, &checkpoint).unwrap();
    assert_eq!(records, written);
    assert_eq!(log.files.iter().count(), 3);
}

#[test]
fn an_empty_active_file_keeps_the_last_sequence() {
    let disk = SimulatedDisk::new(1).disk();
    let (mut log, _) = open(&disk).unwrap();
    let written = fill(&mut log, 2);
    let (log, _) = open_from(
        &disk,
        &Checkpoint {
            from_file: 2,
            ..Checkpoint::default()
        },
    )
    .unwrap();
    assert_eq!(log.writer.last_sequence(), written.last().unwrap().1);
}

#[test]
fn a_rewritten_file_answers_for_the_old_positions_of_what_was_kept() {
    let disk = SimulatedDisk::new(1).disk();
    let (mut log, _) = open(&disk).unwrap();
    let written = fill(&mut log, 4);
    let mut generations = BTreeMap::new();
    let mut kept = written.clone();
    for (generation, keep_one_in) in [(2, 2), (3, 4), (4, u64::MAX)] {
        let old = log.files.get(2).unwrap().clone();
        let keep = |sequence: Sequence| sequence.0.is_multiple_of(keep_one_in);
        let new = rewrite(&disk, &old, generation, |sequence, _| keep(sequence)).unwrap();
        assert!(new.len() < old.len());
        generations.insert(2, generation);
        log.files = log.files.with(new);
        remove(&disk, &old).unwrap();

        let before = kept.clone();
        kept.retain(|(position, sequence, _)| position.file != 2 || keep(*sequence));
        assert_readable(&log.files, &kept);
        let mut dropped = before.iter().filter(|written| !kept.contains(written));
        let (gone, ..) = dropped.next().unwrap();
        assert!(log.files.read(*gone).is_err());
        let checkpoint = Checkpoint {
            generations: generations.clone(),
            ..Checkpoint::default()
        };
        let (log, records) = open_from(&disk, &checkpoint).unwrap();
        assert_eq!(records, kept);
        assert_readable(&log.files, &kept);
        verify(log.files.get(2).unwrap(), |walked| {
            assert!(matches!(walked, Walked::Record(..)), "{walked:?}");
        });
        // A reader with an older snapshot goes on.
        assert!(old.read(gone.offset).is_ok());
    }
}

#[test]
fn generations_that_the_manifest_does_not_name_are_removed() {
    let simulated = SimulatedDisk::new(1);
    let disk = simulated.disk();
    let (mut log, _) = open(&disk).unwrap();
    let written = fill(&mut log, 3);
    let old = log.files.get(1).unwrap();
    rewrite(&disk, old, 2, |_, _| false).unwrap();
    rewrite(&disk, old, 3, |sequence, _| sequence.0 > 1).unwrap();
    let names = |disk: &Disk| disk.list(dir()).unwrap();
    assert_eq!(names(&disk).len(), 5);

    let (_, records) = open(&simulated.kill().disk()).unwrap();
    assert_eq!(records, written);
    let disk = simulated.crash(1).disk();
    let checkpoint = Checkpoint {
        generations: BTreeMap::from([(1, 3)]),
        ..Checkpoint::default()
    };
    let (_, records) = open_from(&disk, &checkpoint).unwrap();
    assert_eq!(records, written[1..]);
    let expected = ["00000001.3.log", "00000002.log", "00000003.log"];
    assert_eq!(names(&disk), expected.map(std::path::PathBuf::from));
}

#[test]
fn a_record_larger_than_a_file_passes_its_length() {
    let disk = SimulatedDisk::new(1).disk();
    let (mut log, _) = open(&disk).unwrap();
    let large = event(vec![b'x'; 10 * SMALL.file_bytes_max as usize]);
    let position = log.writer.append(&large, Sequence(1)).unwrap();
    log.writer.commit(true).unwrap();
    assert!(log.writer.is_full());
    let files = log.files.with(log.writer.seal().unwrap());
    assert!(!log.writer.is_full());
    assert_eq!(files.read(position).unwrap(), (Sequence(1), large));
    assert!(open(&disk).is_ok());
}

#[test]
fn a_record_larger_than_any_file_is_refused_with_its_commit() {
    let disk = SimulatedDisk::new(1).disk();
    let (mut log, _) = open(&disk).unwrap();
    let mut written = commit(&mut log.writer, 2, true).unwrap();
    append(&mut log.writer, 2, 0).unwrap();
    let large = event(Bytes::from(vec![b'x'; (256 << 20) + 1]));
    let refused = log.writer.append(&large, Sequence(5));
    assert!(matches!(refused, Err(LogError::TooLarge { .. })));
    written.extend(commit(&mut log.writer, 2, true).unwrap());
    assert_eq!(open(&disk).unwrap().1, written);
}

#[test]
fn a_full_disk_refuses_a_commit_and_takes_later_ones_when_there_is_room() {
    let simulated = SimulatedDisk::new(1);
    let disk = simulated.disk();
    let (mut log, _) = open(&disk).unwrap();
    let mut written = commit(&mut log.writer, 2, true).unwrap();
    simulated.set_capacity(Some(simulated.used() + 300));
    let end = log.writer.end();
    let mut refused = 0;
    while refused < 3 {
        match commit(&mut log.writer, 9, true) {
            Ok(records) => written.extend(records),
            Err(LogError::NoSpace { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(log.writer.last_sequence(), written.last().unwrap().1);
    simulated.set_capacity(None);
    written.extend(commit(&mut log.writer, 9, true).unwrap());
    assert!(log.writer.end() > end);
    let (_, records) = open(&simulated.crash(1).disk()).unwrap();
    assert_eq!(records, written);
}

#[test]
fn a_full_disk_puts_sealing_off() {
    let simulated = SimulatedDisk::new(1);
    let disk = simulated.disk();
    let (mut log, _) = open(&disk).unwrap();
    let mut written = commit(&mut log.writer, 60, true).unwrap();
    assert!(log.writer.is_full());
    simulated.set_capacity(Some(simulated.used()));
    let refused = log.writer.seal();
    assert!(matches!(refused, Err(LogError::NoSpace { .. })));
    simulated.set_capacity(None);
    written.extend(commit(&mut log.writer, 2, true).unwrap());
    log.writer.seal().unwrap();
    written.extend(commit(&mut log.writer, 2, true).unwrap());
    assert_eq!(open(&disk).unwrap().1, written);
}

#[test]
fn after_a_failed_write_or_sync_the_writer_refuses_all_until_reopened() {
    for call in [Call::Write, Call::Sync] {
        let simulated = SimulatedDisk::new(1);
        let disk = simulated.disk();
        let (mut log, _) = open(&disk).unwrap();
        let written = commit(&mut log.writer, 2, true).unwrap();
        simulated.inject(Fault {
            call: Some(call),
            nth: 1,
            error: io::ErrorKind::StorageFull,
            lasting: false,
        });
        let stopped = commit(&mut log.writer, 2, true);
        assert!(matches!(stopped, Err(LogError::Stopped(_))), "{stopped:?}");
        let refused = [
            log.writer.append(&record(9, 0), Sequence(9)).map(|_| ()),
            log.writer.commit(false),
            log.writer.sync(),
            log.writer.seal().map(|_| ()),
        ];
        for refused in refused {
            assert!(matches!(refused, Err(LogError::Stopped(_))), "{refused:?}");
        }
        drop(log);
        let (mut log, records) = open(&disk).unwrap();
        assert_eq!(records[..2], written);
        commit(&mut log.writer, 2, true).unwrap();
    }
}

#[test]
fn one_commit_is_one_write_and_one_sync() {
    let simulated = SimulatedDisk::new(1);
    let options = LogOptions::default();
    let nothing = |_, _, _| Ok::<_, LogError>(());
    let checkpoint = Checkpoint::default();
    let recovered = recover(&simulated.disk(), dir(), options, &checkpoint, nothing);
    let mut log = recovered.unwrap();
    commit(&mut log.writer, 1, true).unwrap();
    let calls = || (simulated.calls(Some(Call::Write)), simulated.calls(None));
    let (writes, all) = calls();
    for _ in 0..10 {
        commit(&mut log.writer, 100, true).unwrap();
    }
    assert_eq!(calls(), (writes + 10, all + 20));
    log.writer.commit(true).unwrap();
    assert_eq!(calls(), (writes + 10, all + 20));
}

#[test]
fn a_commit_is_there_as_a_whole_or_not_at_all() {
    let simulated = SimulatedDisk::new(1);
    let (mut log, _) = open(&simulated.disk()).unwrap();
    let first = commit(&mut log.writer, 3, true).unwrap();
    let end = u64::from(log.writer.end().offset);
    let second = commit(&mut log.writer, 3, true).unwrap();
    let whole = u64::from(log.writer.end().offset);
    drop(log);
    for kept in (end..whole).step_by(8) {
        let disk = simulated.fork().disk();
        let mut torn = disk.open(&file(1)).unwrap();
        torn.write_all_at(&vec![0; (whole - kept) as usize], kept)
            .unwrap();
        let (log, records) = open(&disk).unwrap();
        assert_eq!(records, first, "torn at {kept}");
        assert_eq!(
            log.torn.map(|torn| torn.offset),
            (kept > end).then_some(end)
        );
        assert_eq!(log.writer.last_sequence(), first.last().unwrap().1);
    }
    let (_, records) = open(&simulated.disk()).unwrap();
    assert_eq!(records, [first, second].concat());
}

#[test]
fn positions_pack_into_numbers_of_the_same_order() {
    let positions = [(0, 0), (1, 48), (1, u32::MAX), (2, 0), (u32::MAX, 8)];
    let positions = positions.map(|(file, offset)| LogPosition { file, offset });
    let packed = positions.map(LogPosition::to_u64);
    assert!(packed.is_sorted());
    assert_eq!(packed.map(LogPosition::from_u64), positions);
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let disk = SimulatedDisk::new(1).disk();
    drop(open(&disk).unwrap());
    let mut header = disk.map(&file(1)).unwrap()[..48].to_vec();
    header[8] = 2;
    let crc = crc32fast::hash(&header[..44]);
    header[44..].copy_from_slice(&crc.to_le_bytes());
    let mut log = disk.open(&file(1)).unwrap();
    log.write_all_at(&header, 0).unwrap();
    let error = open(&disk).err().unwrap();
    assert!(matches!(error, LogError::Newer { version: 2, .. }));
    let message = error.to_string();
    assert!(message.contains("00000001.log"), "{message}");
    assert!(message.contains("version 2"), "{message}");
}
