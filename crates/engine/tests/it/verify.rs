//! Verify finds what is wrong, and repair makes a store of what is right.

use std::{path::Path, sync::Arc};

use hikyaku_engine::{Engine, Options, repair};
use hikyaku_event::{Event, Filter};
use hikyaku_store::{
    Reader,
    testing::{Blocking, block_on, draft},
};
use hikyaku_vfs::{Disk, RealDisk};

use crate::suite::tiny;

const NOW: u64 = 1_000_000;

fn disk() -> Disk {
    Arc::new(RealDisk)
}

fn open(folder: &Path) -> Engine {
    Engine::open(disk(), folder.into(), tiny()).unwrap()
}

/// A store with segments, tombstones and several log files.
fn fill(folder: &Path) -> Vec<Arc<Event>> {
    let engine = open(folder);
    let store = Blocking(&engine);
    let mut kept = Vec::new();
    for number in 0..60 {
        let event = draft(number % 5, 1, 1_000 + u64::from(number))
            .tag(&["t", "courier"])
            .content(&format!("note {number}"))
            .build();
        store.put(&event, NOW);
        if number % 6 == 0 {
            store.remove(event.id(), NOW);
        } else {
            kept.push(event);
        }
    }
    kept.reverse();
    engine.close();
    kept
}

fn answers(engine: &Engine) -> Vec<Vec<u8>> {
    let answer = Blocking(engine).all(Filter::default(), &Reader::operator(), NOW);
    answer
        .events
        .iter()
        .map(|event| event.json.to_vec())
        .collect()
}

fn expected(kept: &[Arc<Event>]) -> Vec<Vec<u8>> {
    kept.iter().map(|event| event.json().to_vec()).collect()
}

#[test]
fn a_sound_store_verifies_before_and_after_compaction() {
    let folder = tempfile::tempdir().unwrap();
    let kept = fill(folder.path());
    let engine = open(folder.path());
    let report = engine.verify(|_| {}).unwrap();
    assert!(report.is_sound(), "{report:?}");
    assert!(report.records >= 60 && report.segments > 0, "{report:?}");
    block_on(engine.compact()).unwrap();
    let report = engine.verify(|_| {}).unwrap();
    assert!(report.is_sound(), "{report:?}");
    assert_eq!(answers(&engine), expected(&kept));
}

#[test]
fn repair_rebuilds_lost_indexes() {
    let folder = tempfile::tempdir().unwrap();
    let kept = fill(folder.path());
    std::fs::remove_file(folder.path().join("MANIFEST")).unwrap();
    let refused = Engine::open(disk(), folder.path().into(), tiny()).unwrap_err();
    assert!(refused.to_string().contains("hikyaku repair"), "{refused}");
    for entry in std::fs::read_dir(folder.path().join("segments")).unwrap() {
        std::fs::write(entry.unwrap().path(), b"not a segment").unwrap();
    }
    let report = repair(&disk(), folder.path().into(), &Options::default()).unwrap();
    assert!(
        report.damage.is_empty() && report.segments > 0,
        "{report:?}"
    );
    let engine = open(folder.path());
    assert_eq!(answers(&engine), expected(&kept));
    assert!(engine.verify(|_| {}).unwrap().is_sound());
}

#[test]
fn repair_keeps_every_intact_record_of_a_damaged_log() {
    let folder = tempfile::tempdir().unwrap();
    let kept = fill(folder.path());
    let log = folder.path().join("log/00000001.log");
    let mut bytes = std::fs::read(&log).unwrap();
    let note = bytes
        .windows(7)
        .position(|window| window == b"note 2\"")
        .unwrap();
    bytes[note] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    let engine = open(folder.path());
    let report = engine.verify(|_| {}).unwrap();
    let named = report
        .findings
        .iter()
        .any(|finding| finding.contains("00000001.log"));
    assert!(named, "{report:?}");
    drop(engine);
    let report = repair(&disk(), folder.path().into(), &Options::default()).unwrap();
    assert_eq!(report.damage.len(), 1, "{report:?}");
    assert!(report.kept_in.unwrap().join("00000001.log").exists());
    let engine = open(folder.path());
    let left: Vec<_> = kept
        .into_iter()
        .filter(|event| event.content() != "note 2")
        .collect();
    assert_eq!(answers(&engine), expected(&left));
    let report = engine.verify(|_| {}).unwrap();
    assert!(report.is_sound(), "{report:?}");
}

#[test]
fn verify_reads_the_records_of_removed_events_too() {
    let folder = tempfile::tempdir().unwrap();
    fill(folder.path());
    let log = folder.path().join("log/00000001.log");
    let mut bytes = std::fs::read(&log).unwrap();
    // Removed right after it was stored: no index leads to it.
    let note = bytes.windows(7).position(|window| window == b"note 0\"");
    bytes[note.unwrap()] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    let report = open(folder.path()).verify(|_| {}).unwrap();
    let [finding] = report.findings.as_slice() else {
        panic!("{report:?}")
    };
    assert!(
        finding.contains("00000001.log is damaged at offset"),
        "{finding}"
    );
}
