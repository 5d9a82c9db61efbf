//! Random histories on the engine and on the naive store, with restarts and merges in between.

use hikyaku_engine::{Engine, Options};
use hikyaku_store::{
    EventStore,
    testing::{Dice, block_on, compare},
};
use hikyaku_vfs::SimulatedDisk;

use crate::suite::tiny;

/// An engine that can be closed and opened again.
struct Reopened {
    disk: SimulatedDisk,
    options: Options,
    engine: Option<Engine>,
}

impl Reopened {
    fn new(seed: u64, options: Options) -> Self {
        let disk = SimulatedDisk::new(seed);
        let engine = Engine::open(disk.disk(), "store".into(), options.clone()).unwrap();
        Self {
            disk,
            options,
            engine: Some(engine),
        }
    }

    fn disturb(&mut self, dice: &mut Dice) {
        match dice.below(8) {
            0 => {
                self.engine.take().unwrap().close();
                let opened = Engine::open(self.disk.disk(), "store".into(), self.options.clone());
                self.engine = Some(opened.unwrap());
            }
            1 => block_on(self.engine.as_ref().unwrap().compact()).unwrap(),
            _ => {}
        }
    }
}

impl AsRef<dyn EventStore + 'static> for Reopened {
    fn as_ref(&self) -> &(dyn EventStore + 'static) {
        self.engine.as_ref().unwrap()
    }
}

#[test]
fn random_histories_are_answered_as_by_the_naive_store() {
    compare(
        60,
        |seed| Reopened::new(seed, Options::default()),
        Reopened::disturb,
    );
}

#[test]
fn random_histories_in_tiny_segments_are_answered_as_by_the_naive_store() {
    compare(60, |seed| Reopened::new(seed, tiny()), Reopened::disturb);
}
