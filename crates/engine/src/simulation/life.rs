//! One life of a store in which everything happens: the ground for failures at every call.

use hikyaku_store::testing::History;

use super::machine::Machine;
use crate::error::EngineError;

/// In this history there are all kinds of writes, and what they lead to.
const SEED: u64 = 3;
const EVENTS: usize = 60;
const ROUNDS: usize = 14;

pub(super) fn history() -> History {
    History::of(SEED, EVENTS)
}

/// Opens the store and uses it; a job is planned, run and applied with commits in between. What the
/// disk refuses is left out; an error if the store does not open or has stopped.
pub(super) fn live(machine: &mut Machine, history: &mut History) -> Result<(), EngineError> {
    machine.start()?;
    for round in 0..ROUNDS {
        let batches = vec![history.batch(), history.batch()];
        go_on(machine.write(batches, history.now))?;
        for _ in 0..2 {
            go_on(machine.work(Some(history.now), false).map(|_| ()))?;
        }
        if round % 5 == 4 {
            history.now += 11;
            go_on(machine.sweep(history.now))?;
        }
        if round == 7 {
            go_on(machine.turn_over())?;
            go_on(machine.work_off(Some(history.now), true))?;
        }
    }
    Ok(())
}

/// What is only unavailable leaves everything as it was.
fn go_on(result: Result<(), EngineError>) -> Result<(), EngineError> {
    match result {
        Err(EngineError::Unavailable(_)) => Ok(()),
        other => other,
    }
}
