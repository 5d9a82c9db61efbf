//! Random lives of a store with crashes, failures and full disks in them, by seeds.

use std::io;

use hikyaku_store::testing::{History, for_each_seed};
use hikyaku_vfs::Fault;

use super::machine::{Machine, Stop, root, tiny};
use crate::{error::EngineError, options::Durability};

/// How many seeds a test plays.
const SEEDS: u64 = 1000;
/// Times that a store is opened in one seed.
const LIVES: usize = 4;
/// Few enough that they are quickly signed, enough to delete and replace each other.
const EVENTS: usize = 40;

/// An error that may come of a failing disk.
fn expect_of_disk(error: &EngineError) {
    let expected = matches!(error, EngineError::Unavailable(_) | EngineError::Stopped(_));
    assert!(expected, "a failing disk was answered with {error:?}");
}

struct Simulation {
    machine: Machine,
    history: History,
    /// Whether anything may fail.
    faulty: bool,
}

impl Simulation {
    fn new(seed: u64, durability: Durability) -> Self {
        Self {
            machine: Machine::new(seed, tiny(durability)),
            history: History::of(seed, EVENTS),
            faulty: false,
        }
    }

    fn play(&mut self) {
        for _ in 0..LIVES {
            self.start();
            self.live();
            self.machine.ask(&mut self.history, 1);
            let seed = self.history.dice.roll();
            let stop = [Stop::Close, Stop::Kill, Stop::PowerCut, Stop::PowerCut];
            let stop = *self.history.dice.pick(&stop);
            self.machine.stop(stop, seed);
            self.faulty = false;
        }
        self.start();
        self.machine.work_off(Some(self.history.now), true).unwrap();
        self.machine.verify().unwrap();
        self.machine.check();
        self.machine.ask(&mut self.history, 2);
    }

    /// Opens the store; now and then only after openings that were cut short.
    fn start(&mut self) {
        while self.history.dice.chance(30) {
            self.arm(30);
            match self.machine.start() {
                Ok(()) => self.machine.store = None,
                Err(error) => expect_of_disk(&error),
            }
            let stop = [Stop::Kill, Stop::PowerCut];
            let (stop, seed) = (*self.history.dice.pick(&stop), self.history.dice.roll());
            self.machine.stop(stop, seed);
        }
        if let Err(error) = self.machine.start() {
            panic!("the store does not open: {error}");
        }
        self.machine.check();
        self.machine.ask(&mut self.history, 1);
        self.check_files();
    }

    /// Arms a failure of one of the next calls, or of all from there on.
    fn arm(&mut self, calls: usize) {
        let dice = &mut self.history.dice;
        self.faulty = true;
        self.machine.disk.inject(Fault {
            call: None,
            nth: 1 + dice.below(calls) as u64,
            error: *dice.pick(&[io::ErrorKind::Other, io::ErrorKind::StorageFull]),
            lasting: dice.chance(50),
        });
    }

    fn live(&mut self) {
        for _ in 0..self.history.dice.below(30) {
            if let Err(error) = self.step() {
                assert!(self.faulty, "a healthy disk was answered with {error}");
                expect_of_disk(&error);
            }
            if self.machine.is_stopped() {
                break;
            }
        }
    }

    fn step(&mut self) -> Result<(), EngineError> {
        let now = self.history.now;
        match self.history.dice.below(24) {
            0 => {
                self.history.pass_time();
                self.machine.sweep(self.history.now)
            }
            1 => self.machine.turn_over(),
            2 => self.machine.sync(),
            3 => {
                self.machine.check();
                self.machine.ask(&mut self.history, 1);
                Ok(())
            }
            4 => self.machine.verify(),
            5 => self.machine.work(Some(now), true).map(|_| ()),
            6..13 => self.machine.work(Some(now), false).map(|_| ()),
            13 => {
                match self.history.dice.below(4) {
                    0 => self.arm(40),
                    1 => {
                        let room = self.history.dice.below(3000) as u64;
                        self.faulty = true;
                        let capacity = self.machine.disk.used() + room;
                        self.machine.disk.set_capacity(Some(capacity));
                    }
                    _ => self.machine.disk.set_capacity(None),
                }
                Ok(())
            }
            _ => {
                let requests = 1 + self.history.dice.below(2);
                let batches = (0..requests).map(|_| self.history.batch()).collect();
                self.machine.write(batches, now)
            }
        }
    }

    /// A store that was just opened has no files that nothing names.
    fn check_files(&self) {
        let files = self.machine.disk.files();
        for (path, _) in files {
            let name = path.strip_prefix(root()).unwrap().to_string_lossy();
            assert!(!name.ends_with(".tmp") || name == "MANIFEST.tmp", "{name}");
        }
    }
}

#[test]
fn what_was_answered_survives_every_crash_and_nothing_else_appears() {
    for_each_seed(SEEDS, |seed| {
        Simulation::new(seed, Durability::Sync).play();
    });
}

#[test]
fn with_syncs_by_interval_what_was_synced_survives_every_crash() {
    for_each_seed(SEEDS, |seed| {
        Simulation::new(seed, Durability::Interval(1)).play();
    });
}
