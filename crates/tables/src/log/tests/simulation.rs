//! Random lives of a log with power cuts at any moment, by seeds. `HIKYAKU_SEEDS=N` plays more.

use hikyaku_vfs::SimulatedDisk;

use super::fixture::{all, known, open_with, tiny};
use crate::{LogOptions, LogPosition, TableError};

/// A small generator of numbers; what a seed plays follows from it.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    pub(super) fn below(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % sides
    }
}

pub(super) fn seeds(default: u64) -> std::ops::Range<u64> {
    let seeds = std::env::var("HIKYAKU_SEEDS").ok();
    0..seeds.map_or(default, |seeds| seeds.parse().unwrap())
}

#[test]
fn after_any_power_cut_there_is_what_was_durable_and_a_suffix_is_lost() {
    let mut lost = 0;
    let mut torn = 0;
    for seed in seeds(2000) {
        let mut dice = Dice::new(seed);
        let mut disk = SimulatedDisk::new(seed);
        let (mut told, mut noted) = (0, known(LogPosition(0), 0));
        let options = LogOptions {
            retain_bytes: 1500,
            queue_bytes_max: 4096,
            ..tiny()
        };
        for _ in 0..3 {
            let mut running = open_with(&disk, options.clone(), noted)
                .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let durable = running.log.durable();
            assert!(durable >= noted.position, "seed {seed}");
            for _ in 0..dice.below(60) {
                match dice.below(10) {
                    0..6 => {
                        running.tell(told).unwrap();
                        told += 1;
                    }
                    6..9 => assert!(running.pump.turn()),
                    _ => {
                        noted = known(running.log.durable(), running.log.file());
                        running.log.checkpointed(noted.position).unwrap();
                    }
                }
            }
            if dice.below(2) == 0 {
                // The power fails in the middle of a write, or of its sync.
                disk.fail_nth_call(1 + dice.below(4), std::io::ErrorKind::Other);
                running.pump.turn();
            }
            let durable = running.log.durable().0;
            let first = running.log.first_position();
            drop(running.pump);
            disk = disk.crash(dice.below(u64::MAX));
            let running = open_with(&disk, options.clone(), noted)
                .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            torn += u32::from(running.log.torn_tail().is_some());
            let found = all(&running.log);
            let end = running.log.position().0;
            assert!(
                (durable..=told).contains(&end),
                "seed {seed}: {durable} {end} {told}"
            );
            let from = running.log.first_position();
            assert_eq!(found, (from.0..end).collect::<Vec<_>>(), "seed {seed}");
            assert!(from <= noted.position.max(first), "seed {seed}");
            lost += told - end;
            told = end;
        }
    }
    assert!(lost > 0 && torn > 0, "no power cut took anything");
}

#[test]
fn a_kill_at_any_moment_takes_nothing_that_was_told() {
    for seed in seeds(300) {
        let mut dice = Dice::new(seed);
        let mut disk = SimulatedDisk::new(seed);
        let mut told = 0;
        let options = LogOptions {
            queue_bytes_max: 4096,
            ..tiny()
        };
        for _ in 0..4 {
            let mut running = open_with(&disk, options.clone(), known(LogPosition(0), 0)).unwrap();
            assert_eq!(
                all(&running.log),
                (0..told).collect::<Vec<_>>(),
                "seed {seed}"
            );
            for _ in 0..dice.below(40) {
                if dice.below(4) == 0 {
                    assert!(running.pump.turn());
                } else {
                    running.tell(told).unwrap();
                    told += 1;
                }
            }
            if dice.below(3) == 0 {
                disk.fail_nth_call(1 + dice.below(4), std::io::ErrorKind::Other);
                running.pump.turn();
            }
            disk = disk.kill();
        }
    }
}

#[test]
fn what_waited_is_believed_only_if_it_is_whole() {
    let disk = SimulatedDisk::new(1);
    let mut running = open_with(&disk, tiny(), known(LogPosition(0), 0)).unwrap();
    running.log_each(0..2);
    running.tell(2).unwrap();
    running.tell(3).unwrap();
    let disk = disk.kill();
    let path = super::fixture::dir().join("waiting-0");
    for bit in 0..(24 + 48) * 8 {
        let disk = disk.fork();
        assert!(disk.flip_bit(&path, bit));
        let opened = open_with(&disk, tiny(), known(LogPosition(0), 0));
        if bit / 8 == 23 {
            // It is of another version.
            let refused = opened.map(|_| ()).unwrap_err();
            assert!(matches!(refused, TableError::Newer(_)), "{refused}");
            continue;
        }
        assert_eq!(all(&opened.unwrap().log), [0, 1], "bit {bit}");
    }
    let running = open_with(&disk, tiny(), known(LogPosition(0), 0)).unwrap();
    assert_eq!(all(&running.log), [0, 1, 2, 3]);
}
