//! A failure at the first, second, third ... call of the disk, until a whole life needs no more.

use std::io;

use hikyaku_store::testing::{Dice, History};
use hikyaku_vfs::{Call, Fault};

use super::{
    life::{history, live},
    machine::{Machine, Stop, tiny},
};
use crate::{commit::Request, error::EngineError, options::Durability};

fn machine() -> Machine {
    Machine::new(1, tiny(Durability::Sync))
}

/// Opens the store on the healthy disk: it holds what it must, and works.
fn check_healthy(machine: &mut Machine, history: &mut History) {
    if let Err(error) = machine.start() {
        panic!("the store does not open: {error}");
    }
    machine.check();
    machine.ask(history, 1);
    machine.work_off(Some(history.now), true).unwrap();
    machine.verify().unwrap();
    machine.ask(history, 1);
}

/// A stopped store refuses writes and is still read.
fn check_stopped(machine: &mut Machine, history: &mut History) {
    let now = history.now;
    let writes = std::iter::repeat_with(|| history.batch())
        .find(|batch| !batch.is_empty())
        .unwrap_or_default();
    let refused = machine.store().core.commit(&[Request { writes, now }]);
    assert!(matches!(refused, Err(EngineError::Stopped(_))));
    let refused = machine.store().core.sync();
    assert!(matches!(refused, Err(EngineError::Stopped(_))));
    machine.ask(history, 1);
}

#[test]
fn the_life_that_failures_hit_has_everything_in_it() {
    let (mut machine, mut history) = (machine(), history());
    live(&mut machine, &mut history).unwrap();
    machine.stop(Stop::Close, 1);
    let names: Vec<String> = machine
        .disk
        .files()
        .iter()
        .map(|(path, _)| path.to_string_lossy().into_owned())
        .collect();
    let some = |claim: &dyn Fn(&String) -> bool| names.iter().any(claim);
    assert!(some(&|name| name.ends_with(".2.log")), "{names:?}");
    assert!(some(&|name| name.ends_with(".tombstones")), "{names:?}");
    assert!(
        names
            .iter()
            .filter(|name| name.ends_with(".segment"))
            .count()
            > 1
    );
    let all = [
        Call::Create,
        Call::Open,
        Call::Map,
        Call::Rename,
        Call::Remove,
        Call::List,
        Call::SyncDir,
        Call::Write,
        Call::Sync,
        Call::SetLen,
        Call::Allocate,
    ];
    check_healthy(&mut machine, &mut history);
    for call in all {
        assert!(machine.disk.calls(Some(call)) > 0, "{call:?}");
    }
}

#[test]
fn a_failure_at_any_call_loses_nothing_that_was_answered() {
    let mut dice = Dice::new(1);
    for lasting in [false, true] {
        for nth in 1.. {
            let (mut machine, mut history) = (machine(), history());
            machine.disk.inject(Fault {
                call: None,
                nth,
                error: *dice.pick(&[io::ErrorKind::Other, io::ErrorKind::StorageFull]),
                lasting,
            });
            let result = live(&mut machine, &mut history);
            let needed = machine.disk.calls(None) >= nth;
            match result {
                Ok(()) => {}
                Err(EngineError::Stopped(_)) if machine.store.is_some() => {
                    check_stopped(&mut machine, &mut history);
                }
                Err(EngineError::Unavailable(_)) if machine.store.is_none() => {}
                Err(error) => panic!("call {nth} (lasting: {lasting}): {error:?}"),
            }
            let stop = *dice.pick(&[Stop::Kill, Stop::PowerCut]);
            machine.stop(stop, nth);
            check_healthy(&mut machine, &mut history);
            if !needed {
                assert!(nth > 200, "only {nth} calls were made");
                break;
            }
        }
    }
}

#[test]
fn a_failed_write_or_sync_of_the_log_stops_writes_until_the_store_is_reopened() {
    for call in [Call::Write, Call::Sync] {
        let (mut machine, mut history) = (machine(), history());
        machine.start().unwrap();
        let writes = |history: &mut History| vec![history.batch(), history.batch()];
        machine.write(writes(&mut history), history.now).unwrap();
        machine.disk.inject(Fault {
            call: Some(call),
            nth: 1,
            error: io::ErrorKind::Other,
            lasting: false,
        });
        let failed = machine.write(writes(&mut history), history.now);
        assert!(matches!(failed, Err(EngineError::Stopped(_))), "{failed:?}");
        check_stopped(&mut machine, &mut history);
        machine.stop(Stop::Kill, 1);
        check_healthy(&mut machine, &mut history);
        machine.write(writes(&mut history), history.now).unwrap();
    }
}

#[test]
fn a_full_disk_refuses_and_an_open_store_goes_on_when_there_is_room() {
    for room in (0..12_000).step_by(150) {
        let (mut machine, mut history) = (machine(), history());
        machine.start().unwrap();
        machine.disk.set_capacity(Some(machine.disk.used() + room));
        let mut refused = 0;
        for _ in 0..12 {
            let batches = vec![history.batch(), history.batch()];
            let results = [
                machine.write(batches, history.now),
                machine.work_off(Some(history.now), true),
            ];
            for result in results {
                match result {
                    Ok(()) => {}
                    Err(EngineError::Unavailable(_)) => refused += 1,
                    Err(error) => panic!("with room for {room} bytes: {error:?}"),
                }
            }
        }
        assert!(room > 8000 || refused > 0, "{room} bytes were enough");
        machine.check();
        machine.ask(&mut history, 1);
        machine.disk.set_capacity(None);
        machine.write(vec![history.batch()], history.now).unwrap();
        machine.work_off(Some(history.now), true).unwrap();
        machine.check();
        machine.ask(&mut history, 1);
        machine.stop(Stop::PowerCut, room);
        check_healthy(&mut machine, &mut history);
    }
}

#[test]
fn openings_that_are_cut_short_at_any_call_come_to_the_same_end() {
    for seed in 0..16 {
        let (mut machine, mut history) = (machine(), history());
        machine.disk.inject(Fault {
            call: None,
            nth: 150 + 37 * seed,
            error: io::ErrorKind::Other,
            lasting: true,
        });
        let _ = live(&mut machine, &mut history);
        machine.stop(Stop::PowerCut, seed);
        for nth in 1.. {
            let stop = if nth % 2 == 0 {
                Stop::Kill
            } else {
                Stop::PowerCut
            };
            machine.disk.inject(Fault {
                call: None,
                nth,
                error: io::ErrorKind::Other,
                lasting: seed % 2 == 0,
            });
            let opened = machine.start();
            let done = machine.disk.calls(None) < nth;
            match opened {
                Ok(()) => machine.ask(&mut history, 1),
                Err(EngineError::Unavailable(_)) => {}
                Err(error) => panic!("cut short at call {nth}: {error:?}"),
            }
            machine.stop(stop, nth);
            if done {
                break;
            }
        }
        check_healthy(&mut machine, &mut history);
    }
}
