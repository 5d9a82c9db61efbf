//! The log against a model, on a disk that fails, fills up and crashes, by seeds.
//!
//! `HIKYAKU_SEEDS=N` tries more of them; a failing one is printed, and `HIKYAKU_SEED=S` replays it.

use std::{io, thread};

use hikyaku_store::Sequence;
use hikyaku_vfs::{Disk, SimulatedDisk};

use super::fixture::{Random, Written, append, dir, open_from};
use crate::log::{Checkpoint, LogError, LogFiles, LogWriter, recovery::Recovered, remove, rewrite};

/// How many runs of the simulation a test makes, each with its own seed.
const SEEDS: u64 = 2000;

fn for_each_seed(run: impl Fn(u64)) {
    struct Report(u64);
    impl Drop for Report {
        fn drop(&mut self) {
            if thread::panicking() {
                eprintln!("failed with HIKYAKU_SEED={}", self.0);
            }
        }
    }
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seeds = match number("HIKYAKU_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("HIKYAKU_SEEDS").unwrap_or(SEEDS),
    };
    for seed in seeds {
        let _report = Report(seed);
        run(seed);
    }
}

/// What the log must hold.
#[derive(Clone, Default)]
struct Model {
    /// In order, the last of it perhaps not yet durable.
    written: Vec<Written>,
    /// How many of these were answered for.
    durable: usize,
    /// What the manifest says.
    checkpoint: Checkpoint,
    /// Makes each record another, also where a sequence is given out again.
    variant: u64,
}

impl Model {
    /// Compares with what a recovery found, and goes on from there.
    fn check(&mut self, found: &[Written]) {
        let from = |(position, ..): &&Written| position.file >= self.checkpoint.from_file;
        let expected: Vec<Written> = self.written.iter().filter(from).cloned().collect();
        let skipped = self.written.len() - expected.len();
        assert!(
            skipped + found.len() >= self.durable,
            "{} of {} durable records are there",
            skipped + found.len(),
            self.durable
        );
        assert_eq!(
            found,
            expected
                .get(..found.len())
                .expect("no record comes from nowhere")
        );
        self.written.truncate(skipped + found.len());
        self.durable = self.written.len();
    }
}

struct Simulation {
    random: Random,
    disk: SimulatedDisk,
    model: Model,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let disk = SimulatedDisk::new(seed);
        disk.disk().create_dir_all(dir()).unwrap();
        Self {
            random: Random(seed),
            disk,
            model: Model::default(),
        }
    }

    fn run(&mut self) {
        for _ in 0..4 {
            // Faults may hit the recovery itself, and leave it to the next.
            self.arm();
            if let Some((mut log, records)) = self.recover() {
                self.model.check(&records);
                self.live(&mut log);
            }
            self.stop();
            self.disk.set_capacity(None);
            let (log, records) = open_from(&self.disk.disk(), &self.model.checkpoint).unwrap();
            self.model.check(&records);
            self.check_reads(&log.files);
            drop(log);
            self.stop();
        }
    }

    /// Arms a failure now and then, or leaves the disk little room.
    fn arm(&mut self) {
        if self.random.one_in(2) {
            let nth = 1 + self.random.below(60);
            let errors = [io::ErrorKind::Other, io::ErrorKind::StorageFull];
            let error = errors[self.random.below(2) as usize];
            self.disk.fail_nth_call(nth, error);
        }
        if self.random.one_in(3) {
            let room = self.random.below(8000);
            self.disk.set_capacity(Some(self.disk.used() + room));
        }
    }

    fn recover(&mut self) -> Option<(Recovered, Vec<Written>)> {
        match open_from(&self.disk.disk(), &self.model.checkpoint) {
            Ok(recovered) => Some(recovered),
            Err(LogError::Io { .. } | LogError::NoSpace { .. }) => None,
            Err(error) => panic!("{error}"),
        }
    }

    fn live(&mut self, log: &mut Recovered) {
        for _ in 0..self.random.below(60) {
            let result = match self.random.below(12) {
                0 => self.seal(log),
                1 => self.rewrite(&mut log.files),
                2 => log
                    .writer
                    .sync()
                    .inspect(|()| self.model.durable = self.model.written.len()),
                3 => {
                    self.write_manifest(&log.writer);
                    Ok(())
                }
                4 => {
                    self.check_reads(&log.files);
                    Ok(())
                }
                _ if log.writer.is_full() => self.seal(log),
                _ => self.commit(&mut log.writer),
            };
            match result {
                Ok(()) | Err(LogError::NoSpace { .. }) => {}
                Err(LogError::Stopped(_)) => break,
                Err(LogError::Io { .. }) => self.disk.clear_faults(),
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn commit(&mut self, writer: &mut LogWriter) -> Result<(), LogError> {
        self.model.variant += 1;
        let count = 1 + self.random.below(6);
        let written = append(writer, count, self.model.variant)?;
        let sync = !self.random.one_in(4);
        let result = writer.commit(sync);
        if !matches!(result, Err(LogError::NoSpace { .. })) {
            self.model.written.extend(written);
        }
        if sync && result.is_ok() {
            self.model.durable = self.model.written.len();
        }
        result
    }

    fn seal(&mut self, log: &mut Recovered) -> Result<(), LogError> {
        log.files = log.files.with(log.writer.seal()?);
        self.model.durable = self.model.written.len();
        Ok(())
    }

    fn rewrite(&mut self, files: &mut LogFiles) -> Result<(), LogError> {
        let count = files.iter().count() as u64;
        if count == 0 {
            return Ok(());
        }
        let file = 1 + self.random.below(count) as u32;
        let old = files.get(file).unwrap().clone();
        let (dice, share) = (self.random.next(), 1 + self.random.below(4));
        let keep = |sequence: Sequence| (sequence.0 ^ dice) % 4 < share;
        let new = rewrite(
            &self.disk.disk(),
            &old,
            old.generation() + 1,
            |sequence, _| keep(sequence),
        )?;
        if self.random.one_in(4) {
            // The manifest never came to name it.
            return Ok(());
        }
        self.model
            .checkpoint
            .generations
            .insert(file, new.generation());
        let dropped = |written: &Written| written.0.file == file && !keep(written.1);
        let durable = self.model.written.iter().take(self.model.durable);
        self.model.durable -= durable.filter(|written| dropped(written)).count();
        self.model.written.retain(|written| !dropped(written));
        *files = files.with(new);
        if self.random.one_in(4) {
            // The process ended before it was removed.
            return Ok(());
        }
        remove(&self.disk.disk(), &old)
    }

    fn write_manifest(&mut self, writer: &LogWriter) {
        self.model.checkpoint.durable = Some(writer.durable());
        self.model.checkpoint.from_file = 1 + self.random.below(writer.end().file.into()) as u32;
    }

    fn check_reads(&self, files: &LogFiles) {
        for (position, sequence, record) in &self.model.written {
            if files.get(position.file).is_some() {
                match files.read(*position) {
                    Ok(read) => assert_eq!(read, (*sequence, record.clone())),
                    Err(error) => panic!("{position}: {error}"),
                }
            }
        }
    }

    /// Ends the process, the machine, or only the use of the log.
    fn stop(&mut self) {
        match self.random.below(4) {
            0 => {}
            1 => self.disk = self.disk.kill(),
            _ => self.disk = self.disk.crash(self.random.next()),
        }
        self.disk.clear_faults();
    }
}

#[test]
fn what_was_answered_for_survives_and_nothing_else_appears() {
    for_each_seed(|seed| Simulation::new(seed).run());
}

/// A life of a log with everything in it; tells how much of it was answered for, and what was tried.
fn life(disk: &Disk, checkpoint: &mut Checkpoint, model: &mut Model) -> Result<(), LogError> {
    let (mut log, found) = open_from(disk, checkpoint)?;
    assert_eq!(found, model.written);
    for round in 0..16 {
        let written = append(&mut log.writer, 3, round)?;
        model.written.extend(written);
        log.writer.commit(true)?;
        model.durable = model.written.len();
        if log.writer.is_full() {
            log.files = log.files.with(log.writer.seal()?);
        }
    }
    let old = log.files.get(1).expect("files were sealed").clone();
    let new = rewrite(disk, &old, old.generation() + 1, |_, _| true)?;
    checkpoint.generations.insert(1, new.generation());
    remove(disk, &old)
}

#[test]
fn an_error_at_any_call_loses_nothing() {
    for error in [io::ErrorKind::Other, io::ErrorKind::StorageFull] {
        let mut base = SimulatedDisk::new(1);
        let mut checkpoint = Checkpoint::default();
        let mut before = Model::default();
        // The first life begins the log, the second finds one.
        for life_number in 0..2 {
            let mut nth = 1;
            loop {
                let disk = base.fork();
                disk.fail_nth_call(nth, error);
                let mut model = before.clone();
                let mut checkpoint = checkpoint.clone();
                let result = life(&disk.disk(), &mut checkpoint, &mut model);
                if result.is_ok() && disk.calls(None) < nth {
                    break;
                }
                if let Err(error) = result {
                    assert!(!matches!(error, LogError::Corrupt { .. }), "{error}");
                }
                for disk in [disk.fork(), disk.kill().crash(nth)] {
                    let opened = open_from(&disk.disk(), &checkpoint);
                    let (_, records) = opened
                        .unwrap_or_else(|error| panic!("life {life_number}, call {nth}: {error}"));
                    assert!(
                        records.len() >= model.durable,
                        "life {life_number}, call {nth}"
                    );
                    assert_eq!(records, model.written[..records.len()]);
                }
                nth += 1;
            }
            assert!(nth > 50, "only {nth} calls were made");
            life(&base.disk(), &mut checkpoint, &mut before).unwrap();
            base = base.kill();
        }
    }
}
