//! A flipped bit anywhere in a store that was closed in order: named at opening or by verifying, and
//! never a wrong answer.

use std::{path::Path, task::Context};

use bytes::Bytes;
use hikyaku_event::Filter;
use hikyaku_store::{
    Budget, EventStore, LimitPolicy, Query, QueryStep, Reader, StoreError,
    testing::{Blocking, Dice},
};
use hikyaku_vfs::SimulatedDisk;

use super::{
    life::{history, live},
    machine::{Machine, Stop, root, tiny},
};
use crate::{
    error::EngineError,
    open,
    options::Durability,
    reader::EngineReader,
    verify::{self, VerifyReport},
};

/// One bit in so many bytes is tried.
const STRIDE: u64 = 13;

/// Reads the whole store, up to the end or to damage.
fn read(reader: &dyn hikyaku_store::StoreReader, query: Query) -> (Vec<Bytes>, bool) {
    let mut cursor = reader.query(query);
    let mut found = Vec::new();
    loop {
        let mut budget = Budget::new(1_000_000);
        let cx = &mut Context::from_waker(std::task::Waker::noop());
        match cursor.poll_next(cx, &mut budget) {
            std::task::Poll::Ready(Ok(QueryStep::Event(event))) => found.push(event.json),
            std::task::Poll::Ready(Ok(QueryStep::End(_))) => return (found, true),
            std::task::Poll::Ready(Ok(QueryStep::Yield)) => {}
            std::task::Poll::Ready(Err(StoreError::Corrupt(_))) => return (found, false),
            other => panic!("{other:?}"),
        }
    }
}

fn queries(now: u64) -> Vec<Query> {
    let query = |filter| Query {
        filters: vec![filter],
        reader: Reader::operator(),
        limits: LimitPolicy::UNLIMITED,
        now,
    };
    let kinds = |kinds: &[u16]| Filter {
        kinds: Some(
            kinds
                .iter()
                .map(|kind| hikyaku_event::Kind(*kind))
                .collect(),
        ),
        ..Filter::default()
    };
    vec![
        query(Filter::default()),
        query(kinds(&[1, 4, 7])),
        query(kinds(&[30_023])),
    ]
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// Tells whether a message names the file, or the log file before: a header states its length.
fn names(message: &str, path: &Path) -> bool {
    let name = name(path);
    let before = name
        .split_once('.')
        .and_then(|(stem, _)| stem.parse::<u32>().ok())
        .map(|number| format!("{:08}.", number.saturating_sub(1)));
    let placed = message.contains("offset") || message.contains("at byte");
    placed
        && (message.contains(&name)
            || (path.extension().is_some_and(|end| end == "log")
                && before.is_some_and(|before| message.contains(&before))))
}

fn check(disk: &SimulatedDisk, path: &Path, bit: u64, expected: &[(Query, Vec<Bytes>)]) {
    let place = format!("bit {bit} of {}", path.display());
    let mut opened = match open::open(&disk.disk(), root(), tiny(Durability::Sync)) {
        Ok(opened) => opened,
        Err(EngineError::Corrupt(message)) => {
            assert!(names(&message, path), "{place}: {message}");
            return;
        }
        Err(error) => panic!("{place}: {error:?}"),
    };
    assert_eq!(opened.report.torn_tail, None, "{place}");
    let core = &mut opened.core;
    let reader = EngineReader::new(core.published.clone(), core.hasher);
    for (query, expected) in expected {
        let (found, whole) = read(&reader, query.clone());
        assert!(expected.starts_with(&found), "{place}: a wrong answer");
        assert!(!whole || found.len() == expected.len(), "{place}: dropped");
    }
    let report: VerifyReport = verify::verify(&core.seal().unwrap(), &core.hasher, |_| {});
    let named = report.findings.iter().any(|finding| names(finding, path));
    assert!(named, "{place}: {report:#?}");
}

#[test]
fn a_flipped_bit_anywhere_is_named_and_never_a_wrong_answer() {
    let mut machine = Machine::new(1, tiny(Durability::Sync));
    let mut history = history();
    live(&mut machine, &mut history).unwrap();
    let expected: Vec<_> = queries(history.now)
        .into_iter()
        .map(|query| {
            let answer = Blocking(&machine.ledger.naive as &dyn EventStore).query(query.clone());
            (
                query,
                answer.events.into_iter().map(|event| event.json).collect(),
            )
        })
        .collect();
    machine.stop(Stop::Close, 1);
    let mut dice = Dice::new(1);
    let mut flipped = 0;
    for (path, len) in machine.disk.files() {
        let mut byte = dice.below(STRIDE as usize) as u64;
        while byte < len {
            let bit = byte * 8 + dice.below(8) as u64;
            let disk = machine.disk.fork();
            assert!(disk.flip_bit(&path, bit));
            check(&disk, &path, bit, &expected);
            flipped += 1;
            byte += 1 + dice.below(2 * STRIDE as usize) as u64;
        }
    }
    assert!(flipped > 500, "only {flipped} bits");
}
