//! Damage is told from a torn tail, named, and never drops good records silently.

use std::collections::BTreeMap;

use hikyaku_store::Sequence;
use hikyaku_vfs::{Disk, SimulatedDisk};

use super::fixture::{Random, Written, commit, dir, event, file, fill, open, open_from, record};
use crate::log::{
    Checkpoint, Damage, LogError, SealedLog, Walked, frame::put_frame, remove, rewrite, salvage,
    verify,
};

/// A log with sealed files, a rewritten one, and an active one; stopped without notice.
struct Scene {
    disk: SimulatedDisk,
    checkpoint: Checkpoint,
    records: Vec<Written>,
    last_commit: usize,
}

fn scene() -> Scene {
    let simulated = SimulatedDisk::new(1);
    let disk = simulated.disk();
    let (mut log, _) = open(&disk).unwrap();
    let mut records = fill(&mut log, 4);
    let old = log.files.get(2).unwrap();
    rewrite(&disk, old, 2, |sequence, _| sequence.0 % 3 > 0).unwrap();
    remove(&disk, old).unwrap();
    records.retain(|(position, sequence, _)| position.file != 2 || sequence.0 % 3 > 0);
    records.extend(commit(&mut log.writer, 3, true).unwrap());
    records.extend(commit(&mut log.writer, 1, true).unwrap());
    let last_commit = commit(&mut log.writer, 3, true).unwrap();
    let checkpoint = Checkpoint {
        generations: BTreeMap::from([(2, 2)]),
        ..Checkpoint::default()
    };
    records.extend(last_commit.iter().cloned());
    Scene {
        disk: simulated,
        checkpoint,
        records,
        last_commit: last_commit.len(),
    }
}

/// One bit of each byte of all files.
fn bits(disk: &SimulatedDisk) -> impl Iterator<Item = (std::path::PathBuf, u64)> {
    let mut random = Random(1);
    let files = disk.files().into_iter();
    files.flat_map(move |(path, len)| {
        let bits: Vec<u64> = (0..len).map(|byte| byte * 8 + random.below(8)).collect();
        bits.into_iter().map(move |bit| (path.clone(), bit))
    })
}

#[test]
fn a_flipped_bit_anywhere_is_found_and_named() {
    let scene = scene();
    let (all, sure) = (&scene.records, scene.records.len() - scene.last_commit);
    let mut torn = 0;
    for (path, bit) in bits(&scene.disk) {
        let disk = scene.disk.fork();
        assert!(disk.flip_bit(&path, bit));
        match open_from(&disk.disk(), &scene.checkpoint) {
            Err(LogError::Corrupt { path: named, .. }) => {
                // A header's length of the file before is held against that file.
                let before = path == file(4) || path == file(3) || named == path;
                assert!(before, "{} for {}", named.display(), path.display());
            }
            Err(error) => panic!("{error}"),
            Ok((log, records)) => {
                let tail = log.torn.expect("the bit must be noticed");
                assert_eq!(path, file(4));
                assert_eq!(tail.path, path);
                assert!(tail.offset <= bit / 8);
                assert!(records.len() >= sure, "bit {bit}");
                assert_eq!(records[..], all[..records.len()]);
                torn += 1;
            }
        }
    }
    assert!(torn > 0);
}

#[test]
fn after_a_clean_stop_no_record_is_taken_for_torn() {
    let mut scene = scene();
    let disk = scene.disk.disk();
    let (log, records) = open_from(&disk, &scene.checkpoint).unwrap();
    assert_eq!(records, scene.records);
    scene.checkpoint.durable = Some(log.writer.end());
    drop(log);
    for (path, bit) in bits(&scene.disk) {
        let disk = scene.disk.fork();
        assert!(disk.flip_bit(&path, bit));
        let opened = open_from(&disk.disk(), &scene.checkpoint);
        let error = opened.err().map(|error| error.to_string());
        assert!(error.is_some_and(|error| error.contains("is damaged at offset")));
    }
}

#[test]
fn damage_behind_the_checkpoint_is_found_when_it_is_read_and_by_a_walk() {
    let scene = scene();
    let sealed = |path: &std::path::Path| path != file(4);
    for (path, bit) in bits(&scene.disk).filter(|(path, _)| sealed(path)) {
        let disk = scene.disk.fork();
        assert!(disk.flip_bit(&path, bit));
        let disk = disk.disk();
        let number = if path == file(1) {
            1
        } else if path == file(3) {
            3
        } else {
            2
        };
        let generation = 1 + u32::from(number == 2);
        let mut found = Vec::new();
        let mut good = Vec::new();
        let mut collect = |walked: Walked| match walked {
            Walked::Record(position, sequence, record) => good.push((position, sequence, record)),
            Walked::Damage(damage) => found.push(damage),
        };
        if let Ok(log) = SealedLog::open(&*disk, dir(), number, generation) {
            verify(&log, &mut collect);
            assert_eq!(found.len(), 1, "bit {bit} of {}", path.display());
            assert!(log.read_all(|_, _, _| Ok::<_, LogError>(())).is_err());
        } else {
            salvage(&disk, dir(), number, generation, false, &mut collect).unwrap();
            assert!(!found.is_empty(), "bit {bit} of {}", path.display());
        }
        assert!(found.iter().all(|damage| damage.path == path));
        let within =
            |damage: &Damage| (damage.offset..damage.offset + damage.len).contains(&(bit / 8));
        assert!(
            found.iter().any(within),
            "bit {bit} of {}: {found:?}",
            path.display()
        );
        // At most the record that the bit is in is lost.
        let here = |written: &&Written| written.0.file == number;
        let missing = scene
            .records
            .iter()
            .filter(here)
            .filter(|w| !good.contains(w))
            .count();
        assert!(missing <= 1, "bit {bit} of {}", path.display());
        assert!(good.iter().all(|written| scene.records.contains(written)));
    }
}

#[test]
fn a_walk_reports_each_damaged_range_and_finds_all_else() {
    let scene = scene();
    let here = |written: &&Written| written.0.file == 1;
    let records: Vec<Written> = scene.records.iter().filter(here).cloned().collect();
    for damaged in [1, records.len() - 1] {
        assert!(
            scene
                .disk
                .flip_bit(&file(1), u64::from(records[damaged].0.offset + 30) * 8)
        );
    }
    let (mut found, mut good) = (Vec::new(), Vec::new());
    salvage(
        &scene.disk.disk(),
        dir(),
        1,
        1,
        false,
        |walked| match walked {
            Walked::Record(position, sequence, record) => good.push((position, sequence, record)),
            Walked::Damage(damage) => found.push((damage.offset, damage.len)),
        },
    )
    .unwrap();
    let offset = |index: usize| u64::from(records[index].0.offset);
    let (_, len) = scene
        .disk
        .files()
        .into_iter()
        .find(|(path, _)| *path == file(1))
        .unwrap();
    let last = records.len() - 1;
    let expected = [
        (offset(1), offset(2) - offset(1)),
        (offset(last), len - offset(last)),
    ];
    assert_eq!(found, expected);
    let mut rest = records;
    rest.remove(last);
    rest.remove(1);
    assert_eq!(good, rest);
}

#[test]
fn the_allocated_end_of_the_last_file_is_no_damage_to_a_walk() {
    let scene = scene();
    let mut good = Vec::new();
    salvage(
        &scene.disk.disk(),
        dir(),
        4,
        1,
        true,
        |walked| match walked {
            Walked::Record(position, sequence, record) => good.push((position, sequence, record)),
            Walked::Damage(damage) => panic!("{damage:?}"),
        },
    )
    .unwrap();
    let here = |written: &&Written| written.0.file == 4;
    assert!(scene.records.iter().filter(here).eq(&good));
}

/// Overwrites the end of the last record with something else, as a torn write would leave it.
fn tear(disk: &Disk, records: &[Written]) -> u32 {
    let torn = records.last().unwrap().0.offset;
    let mut log = disk.open(&file(1)).unwrap();
    log.write_all_at(b"torn", u64::from(torn) + 40).unwrap();
    log.sync_data().unwrap();
    torn
}

#[test]
fn a_torn_tail_is_cut_and_kept_aside() {
    let disk = SimulatedDisk::new(1).disk();
    let (mut log, _) = open(&disk).unwrap();
    let mut records = commit(&mut log.writer, 1, true).unwrap();
    records.extend(commit(&mut log.writer, 1, true).unwrap());
    drop(log);
    let offset = tear(&disk, &records);
    let before = disk.map(&file(1)).unwrap();

    let (mut log, survivors) = open(&disk).unwrap();
    assert_eq!(survivors, records[..1]);
    let torn = log.torn.unwrap();
    assert_eq!(torn.path, file(1));
    assert_eq!(torn.offset, u64::from(offset));
    assert_eq!(torn.kept, dir().join(format!("00000001.torn-{offset}")));
    let kept = disk.map(&torn.kept).unwrap();
    assert_eq!(kept.len() as u64, torn.len);
    assert!(before[offset as usize..].starts_with(&kept));
    assert!(
        before[offset as usize + kept.len()..]
            .iter()
            .all(|byte| *byte == 0)
    );

    // The log goes on there, and nothing of the old bytes comes back.
    let records = [survivors, commit(&mut log.writer, 2, true).unwrap()].concat();
    let (log, survivors) = open(&disk).unwrap();
    assert_eq!(survivors, records);
    assert!(log.torn.is_none());
}

#[test]
fn an_intact_record_behind_the_cut_never_comes_back() {
    let disk = SimulatedDisk::new(1).disk();
    let (mut log, _) = open(&disk).unwrap();
    // The end of a block: what is allocated from there on does not yet cover what is behind.
    let same_length = |letter: &str| event(letter.repeat(8192 - 48 - 28));
    log.writer.append(&same_length("a"), Sequence(1)).unwrap();
    let stale = log.writer.append(&same_length("b"), Sequence(2)).unwrap();
    log.writer.commit(true).unwrap();
    drop(log);
    let mut active = disk.open(&file(1)).unwrap();
    active.write_all_at(b"torn", 100).unwrap();

    let (mut log, records) = open(&disk).unwrap();
    assert!(log.torn.is_some());
    assert_eq!(records, []);
    let record = same_length("c");
    let position = log.writer.append(&record, Sequence(1)).unwrap();
    log.writer.commit(true).unwrap();
    assert_eq!(log.writer.end(), stale);
    drop(log);
    let (log, records) = open(&disk).unwrap();
    assert_eq!(records, [(position, Sequence(1), record)]);
    assert!(log.torn.is_none());
}

#[test]
fn tails_torn_at_one_place_are_all_kept() {
    let disk = SimulatedDisk::new(1).disk();
    let mut kept = Vec::new();
    for variant in 0..3 {
        let (mut log, _) = open(&disk).unwrap();
        let record = record(1, variant);
        let position = log.writer.append(&record, Sequence(1)).unwrap();
        log.writer.commit(true).unwrap();
        drop(log);
        tear(&disk, &[(position, Sequence(1), record)]);
        kept.push(open(&disk).unwrap().0.torn.unwrap().kept);
    }
    let expected = ["torn-48", "torn-48.2", "torn-48.3"];
    assert_eq!(
        kept,
        expected.map(|name| dir().join(format!("00000001.{name}")))
    );
}

#[test]
fn a_lost_sector_before_a_durable_end_is_corruption() {
    let disk = SimulatedDisk::new(1).disk();
    let (mut log, _) = open(&disk).unwrap();
    let records: Vec<Written> = (0..8)
        .flat_map(|_| commit(&mut log.writer, 1, true).unwrap())
        .collect();
    drop(log);
    let mut log = disk.open(&file(1)).unwrap();
    let (from, to) = (records[2].0.offset, records[5].0.offset);
    log.write_all_at(&vec![0; (to - from) as usize], u64::from(from))
        .unwrap();
    let Err(LogError::Corrupt {
        path,
        offset,
        expected,
        found,
    }) = open(&disk)
    else {
        panic!("zeros in the middle were taken for the end");
    };
    assert_eq!((path, offset), (file(1), u64::from(from)));
    assert!(expected.starts_with("checksum "), "{expected}");
    assert_eq!(found, "checksum 00000000");
}

#[test]
fn an_intact_record_of_a_lower_sequence_does_not_continue_the_log() {
    let disk = SimulatedDisk::new(1).disk();
    let (mut log, _) = open(&disk).unwrap();
    let records = commit(&mut log.writer, 2, true).unwrap();
    let end = log.writer.end().offset;
    drop(log);
    let mut stale = Vec::new();
    put_frame(&mut stale, &record(2, 0), Sequence(2), 1, end, 48);
    let mut active = disk.open(&file(1)).unwrap();
    active.write_all_at(&stale, u64::from(end)).unwrap();
    let (log, found) = open(&disk).unwrap();
    assert_eq!(found, records);
    assert_eq!(log.torn.unwrap().offset, u64::from(end));
}

#[test]
fn a_missing_cut_or_grown_file_is_corruption() {
    let change = |change: &dyn Fn(&Disk)| {
        let mut scene = scene();
        // Also where no record is read.
        scene.checkpoint.from_file = 4;
        let disk = scene.disk.disk();
        change(&disk);
        let result = open_from(&disk, &scene.checkpoint);
        let error = result.err().expect("the change must be noticed");
        assert!(matches!(error, LogError::Corrupt { .. }), "{error}");
        error.to_string()
    };
    let missing = change(&|disk| disk.remove(&file(1)).unwrap());
    assert!(missing.contains("00000001.log"), "{missing}");
    let second = dir().join("00000002.2.log");
    let missing = change(&|disk| disk.remove(&second).unwrap());
    assert!(missing.contains("00000002.2.log"), "{missing}");
    for path in [file(3), second] {
        for len in [0, 10, 100, 10_000] {
            change(&|disk| disk.open(&path).unwrap().set_len(len).unwrap());
        }
    }
}

#[test]
fn a_log_that_does_not_reach_what_the_manifest_knows_is_corrupt() {
    let simulated = SimulatedDisk::new(1);
    let disk = simulated.disk();
    let (mut log, _) = open(&disk).unwrap();
    fill(&mut log, 3);
    commit(&mut log.writer, 3, true).unwrap();
    let durable = log.writer.durable();
    drop(log);
    let checkpoint = Checkpoint {
        from_file: 2,
        durable: Some(durable),
        generations: BTreeMap::new(),
    };
    assert!(open_from(&simulated.fork().disk(), &checkpoint).is_ok());
    let cut = simulated.fork().disk();
    let mut active = cut.open(&file(3)).unwrap();
    active.set_len(u64::from(durable.offset) - 8).unwrap();
    assert!(open_from(&cut, &checkpoint).is_err());
    // Not even a whole file may be gone from the end, or all of them.
    let gone = simulated.fork().disk();
    gone.remove(&file(3)).unwrap();
    assert!(open_from(&gone, &checkpoint).is_err());
    assert!(open_from(&SimulatedDisk::new(2).disk(), &checkpoint).is_err());
}
