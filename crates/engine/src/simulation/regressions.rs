//! What the simulation and reading the code have found, each as short as it can be told.

use std::io;

use hikyaku_store::{
    RemovalReason, Write,
    testing::{draft, for_each_seed},
};
use hikyaku_vfs::{Call, Fault};

use super::machine::{Machine, Stop, tiny};
use crate::{error::EngineError, options::Durability};

const NOW: u64 = 1_000;

/// A store of two segments and a closed log file that waits for its own; a flush is due, then a merge.
fn machine(seed: u64) -> Machine {
    let mut machine = Machine::new(seed, tiny(Durability::Sync));
    machine.start().unwrap();
    write(&mut machine, 0);
    machine.work_off(Some(NOW), false).unwrap();
    write(&mut machine, 10);
    machine
}

/// Writes so many events that the log file is closed.
fn write(machine: &mut Machine, from: u64) {
    for number in from..from + 4 {
        let event = draft(1, 1, number).content("regression").build();
        let vanish = false;
        let batch = vec![Write::Event { event, vanish }];
        machine.write(vec![batch], NOW).unwrap();
    }
}

fn fail(machine: &Machine, call: Call, nth: u64, lasting: bool) {
    machine.disk.inject(Fault {
        call: Some(call),
        nth,
        error: io::ErrorKind::Other,
        lasting,
    });
}

/// Plans and runs the next job; it must fail for now.
fn run_failing(machine: &mut Machine) {
    assert!(machine.work(Some(NOW), false).unwrap(), "nothing to do");
    let failed = machine.work(Some(NOW), false);
    assert!(
        matches!(failed, Err(EngineError::Unavailable(_))),
        "{failed:?}"
    );
    machine.disk.clear_faults();
}

fn note(machine: &mut Machine) {
    let note = machine.store().core.plan_note();
    machine.store().maintenance.run(note).unwrap();
}

fn reopen(machine: &mut Machine) {
    if let Err(error) = machine.start() {
        panic!("the store does not open: {error}");
    }
    machine.check();
    machine.work_off(Some(NOW), true).unwrap();
    machine.verify().unwrap();
}

#[test]
fn a_job_counts_though_cleaning_up_after_it_failed() {
    for nth in 1..4 {
        for lasting in [false, true] {
            let mut machine = machine(nth);
            fail(&machine, Call::Remove, nth, lasting);
            // Flushes, merges, rewrites: none of them depends on what is removed afterwards.
            machine.work_off(Some(NOW), true).unwrap();
            machine.disk.clear_faults();
            write(&mut machine, 20);
            machine.work_off(Some(NOW), true).unwrap();
            machine.stop(Stop::PowerCut, nth);
            reopen(&mut machine);
        }
    }
}

#[test]
fn the_numbers_of_a_failed_job_are_not_used_again() {
    for_each_seed(30, |seed| {
        let mut machine = machine(seed);
        // The flush's manifest is named, but whether that is durable is open: the second sync of a
        // folder, after that of the segments.
        fail(&machine, Call::SyncDir, 2, false);
        run_failing(&mut machine);
        // The next attempt is cut off while it writes its segment.
        fail(&machine, Call::Sync, 1, true);
        run_failing(&mut machine);
        machine.stop(Stop::PowerCut, seed);
        reopen(&mut machine);
    });
}

#[test]
fn after_a_failed_manifest_nothing_is_removed_before_one_is_written() {
    for_each_seed(30, |seed| {
        let mut machine = machine(seed);
        note(&mut machine);
        fail(&machine, Call::SyncDir, 2, false);
        run_failing(&mut machine);
        // It is what the last manifest but the failed one was: that may be on the disk all the same.
        note(&mut machine);
        machine.stop(Stop::PowerCut, seed);
        reopen(&mut machine);
    });
}

#[test]
fn a_manifest_found_at_opening_is_durable_before_what_it_replaced_is_removed() {
    for_each_seed(200, |seed| {
        let mut machine = machine(seed);
        machine.work_off(Some(NOW), false).unwrap();
        let id = draft(1, 1, 0).content("regression").build().id();
        let reason = RemovalReason::Operator;
        let removal = vec![Write::Remove { id, reason }];
        machine.write(vec![removal], NOW).unwrap();
        // The compaction's manifest is named, and the program killed before that is durable.
        fail(&machine, Call::SyncDir, 2, true);
        let failed = machine.work_off(Some(NOW), true);
        assert!(
            matches!(failed, Err(EngineError::Unavailable(_))),
            "{failed:?}"
        );
        machine.stop(Stop::Kill, seed);
        machine.start().unwrap();
        machine.store = None;
        machine.stop(Stop::PowerCut, seed);
        reopen(&mut machine);
    });
}

#[test]
fn a_segment_that_the_disk_does_not_take_is_not_called_corrupt() {
    let mut machine = machine(1);
    fail(&machine, Call::Write, 1, false);
    run_failing(&mut machine);
    machine.work_off(Some(NOW), true).unwrap();
}

#[test]
fn a_tail_that_was_half_kept_aside_is_kept_at_the_next_opening() {
    let mut machine = machine(1);
    fail(&machine, Call::Sync, 1, false);
    let event = draft(1, 1, 50).content(&"x".repeat(2000)).build();
    let vanish = false;
    let stopped = machine.write(vec![vec![Write::Event { event, vanish }]], NOW);
    assert!(matches!(stopped, Err(EngineError::Stopped(_))));
    machine.stop(Stop::Kill, 1);
    // Half of what was written is gone.
    let log = machine.disk.files();
    let (path, _) = log
        .iter()
        .rfind(|(path, _)| path.extension().is_some_and(|end| end == "log"))
        .unwrap();
    let mut file = machine.disk.disk().open(path).unwrap();
    file.write_all_at(&[7; 500], 700).unwrap();
    file.sync_data().unwrap();
    drop(file);
    // The opening ends before the kept bytes have their name, and again before they are synced.
    fail(&machine, Call::Rename, 1, false);
    assert!(machine.start().is_err());
    machine.stop(Stop::Kill, 1);
    machine.start().unwrap();
    assert!(machine.store().report.torn_tail.is_some());
    machine.stop(Stop::PowerCut, 2);
    reopen(&mut machine);
}
