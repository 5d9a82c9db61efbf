//! What was purged is gone from the bytes, not only from the answers.

use std::sync::Arc;

use hikyaku_event::Event;
use hikyaku_store::{
    Outcome, RemovalReason, Write,
    testing::{draft, key},
};
use hikyaku_vfs::SimulatedDisk;

use super::machine::{Machine, Stop, root, tiny};
use crate::options::Durability;

const NOW: u64 = 1_000;

fn machine() -> Machine {
    let mut machine = Machine::new(1, tiny(Durability::Sync));
    machine.start().unwrap();
    machine
}

fn put(machine: &mut Machine, event: &Arc<Event>, now: u64) {
    let write = Write::Event {
        event: event.clone(),
        vanish: true,
    };
    machine.write(vec![vec![write]], now).unwrap();
}

fn remove(machine: &mut Machine, event: &Event, now: u64) {
    let write = Write::Remove {
        id: event.id(),
        reason: RemovalReason::Operator,
    };
    machine.write(vec![vec![write]], now).unwrap();
}

/// Returns the files of the store that contain these bytes.
fn files_with(disk: &SimulatedDisk, needle: &[u8]) -> Vec<String> {
    let found = disk.files().into_iter().filter(|(path, _)| {
        let bytes = disk.disk().map(path).unwrap();
        bytes.windows(needle.len()).any(|window| window == needle)
    });
    found
        .map(|(path, _)| path.strip_prefix(root()).unwrap().display().to_string())
        .collect()
}

/// Does what is due at a time.
fn sweep(machine: &mut Machine, now: u64) {
    machine.sweep(now).unwrap();
    machine.work_off(Some(now), false).unwrap();
    machine.check();
}

/// Some events around, so that log files are mostly alive.
fn surround(machine: &mut Machine, count: u64, from: u64) {
    for number in from..from + count {
        put(machine, &draft(9, 1, number).content("stays").build(), NOW);
    }
}

#[test]
fn what_an_operator_removed_leaves_the_log_in_time_wherever_it_is() {
    // In a file that segments cover; in one that waits for its segment; in the active one.
    for after in [8, 3, 0] {
        let mut machine = machine();
        surround(&mut machine, 6, 0);
        let event = draft(1, 1, 50).content("to be purged").build();
        put(&mut machine, &event, NOW);
        surround(&mut machine, after, 100);
        if after == 8 {
            machine.work_off(Some(NOW), false).unwrap();
        }
        assert_eq!(files_with(&machine.disk, b"to be purged").len(), 1);
        remove(&mut machine, &event, NOW);
        sweep(&mut machine, NOW + 11);
        assert_eq!(files_with(&machine.disk, b"to be purged"), [""; 0]);
        assert!(!files_with(&machine.disk, b"stays").is_empty());
    }
}

#[test]
fn what_vanished_leaves_the_log_in_time_and_the_request_stays() {
    let mut machine = machine();
    for number in 0..9 {
        let mine = draft(1, 1, number).content("of one who vanishes").build();
        put(&mut machine, &mine, NOW);
        surround(&mut machine, 2, 10 * number + 200);
    }
    let request = draft(1, 62, 100).tag(&["relay", "ALL_RELAYS"]);
    put(&mut machine, &request.content("please").build(), NOW);
    machine.work_off(Some(NOW), false).unwrap();
    sweep(&mut machine, NOW + 11);
    assert_eq!(files_with(&machine.disk, b"of one who vanishes"), [""; 0]);
    assert_eq!(files_with(&machine.disk, b"please").len(), 1);
}

#[test]
fn a_purge_is_not_forgotten_by_a_restart() {
    for stop in [Stop::Close, Stop::Kill, Stop::PowerCut] {
        for worked in [false, true] {
            let mut machine = machine();
            surround(&mut machine, 6, 0);
            let event = draft(1, 1, 50).content("to be purged").build();
            put(&mut machine, &event, NOW);
            surround(&mut machine, 6, 100);
            remove(&mut machine, &event, NOW);
            if worked {
                machine.work_off(Some(NOW), false).unwrap();
            }
            machine.stop(stop, 7);
            machine.start().unwrap();
            sweep(&mut machine, NOW + 11);
            let left = files_with(&machine.disk, b"to be purged");
            assert_eq!(left, [""; 0], "{stop:?}, worked: {worked}");
        }
    }
}

#[test]
fn a_purge_that_comes_while_its_file_is_rewritten_is_carried_out_too() {
    let mut machine = machine();
    let first = draft(1, 1, 1).content("first to go").build();
    let second = draft(1, 1, 2).content("second to go").build();
    put(&mut machine, &first, NOW);
    put(&mut machine, &second, NOW);
    surround(&mut machine, 6, 100);
    machine.work_off(Some(NOW), false).unwrap();
    remove(&mut machine, &first, NOW);
    let later = NOW + 11;
    assert!(machine.work(Some(later), false).unwrap(), "planned");
    remove(&mut machine, &second, later);
    assert!(machine.work(Some(later), false).unwrap(), "run");
    assert!(machine.work(Some(later), false).unwrap(), "applied");
    assert_eq!(files_with(&machine.disk, b"first to go"), [""; 0]);
    sweep(&mut machine, later + 11);
    assert_eq!(files_with(&machine.disk, b"second to go"), [""; 0]);
}

#[test]
fn compaction_drops_removed_ids_from_the_segments() {
    let mut machine = machine();
    let event = draft(1, 1, 50).content("to be purged").build();
    put(&mut machine, &event, NOW);
    surround(&mut machine, 8, 100);
    machine.work_off(Some(NOW), false).unwrap();
    assert!(files_with(&machine.disk, event.id().as_bytes()).len() == 1);
    remove(&mut machine, &event, NOW);
    machine.turn_over().unwrap();
    machine.work_off(Some(NOW), true).unwrap();
    assert_eq!(files_with(&machine.disk, event.id().as_bytes()), [""; 0]);
    assert_eq!(files_with(&machine.disk, b"to be purged"), [""; 0]);
    machine.verify().unwrap();
}

#[test]
fn a_file_all_of_whose_events_are_removed_before_its_flush_is_emptied() {
    let mut machine = machine();
    let events: Vec<_> = (0..3)
        .map(|number| draft(1, 1, number).content("to be purged").build())
        .collect();
    for event in &events {
        put(&mut machine, event, NOW);
    }
    for event in &events {
        remove(&mut machine, event, NOW);
    }
    sweep(&mut machine, NOW + 11);
    assert_eq!(files_with(&machine.disk, b"to be purged"), [""; 0]);
    machine.stop(Stop::PowerCut, 1);
    machine.start().unwrap();
    machine.check();
    // An operator's removal lets the event return.
    let write = Write::Event {
        event: events[0].clone(),
        vanish: true,
    };
    let step = crate::commit::Request {
        writes: vec![write],
        now: NOW,
    };
    let done = machine.store().core.commit(&[step]).unwrap();
    assert!(matches!(done.outcomes[0][0], Outcome::Stored(_)));
    assert_eq!(events[0].pubkey(), key(1));
}

#[test]
fn what_a_vanished_key_had_replaced_or_deleted_before_leaves_the_log_too() {
    for restart in [false, true] {
        let mut machine = machine();
        surround(&mut machine, 6, 0);
        let first = draft(1, 0, 50).content("an older version").build();
        put(&mut machine, &first, NOW);
        // In another log file, which the request reaches by itself.
        surround(&mut machine, 9, 200);
        put(
            &mut machine,
            &draft(1, 0, 60).content("a newer version").build(),
            NOW,
        );
        surround(&mut machine, 9, 100);
        machine.work_off(Some(NOW), false).unwrap();
        assert_eq!(files_with(&machine.disk, b"an older version").len(), 1);
        let request = draft(1, 62, 500).tag(&["relay", "ALL_RELAYS"]).build();
        put(&mut machine, &request, NOW);
        if restart {
            machine.stop(Stop::Kill, 1);
            machine.start().unwrap();
        }
        sweep(&mut machine, NOW + 11);
        assert_eq!(files_with(&machine.disk, b"an older version"), [""; 0]);
        assert_eq!(files_with(&machine.disk, b"a newer version"), [""; 0]);
        assert!(!files_with(&machine.disk, b"stays").is_empty());
    }
}
