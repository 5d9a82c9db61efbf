//! A machine with a disk and a store on it, driven by hand as the engine's threads drive it.

use std::{path::PathBuf, pin::Pin, sync::Arc};

use arc_swap::ArcSwap;
use hikyaku_event::Timestamp;
use hikyaku_store::{
    CommittedFeed, EventStore, StoreError, StoreReader, Write, WriteFuture,
    testing::{History, compare_answers},
};
use hikyaku_vfs::{Lock, SimulatedDisk};

use super::ledger::{Ledger, Step};
use crate::{
    commit::{Core, Request},
    error::EngineError,
    log::{self, LogPosition, Record},
    maintenance::{Finished, Job, Maintenance},
    open::{self, OpeningReport},
    options::{Durability, Options},
    reader::EngineReader,
    segment::{DocId, TermHasher},
    snapshot::Snapshot,
    verify,
};

/// Options under which a handful of events fill the memory and the log file.
pub(super) fn tiny(durability: Durability) -> Options {
    Options {
        durability,
        log_file_bytes_max: 4096,
        log_allocation_bytes: 1024,
        memory_events_max: 4,
        purge_seconds_max: 10,
        ..Options::default()
    }
}

pub(super) fn root() -> PathBuf {
    "/store".into()
}

/// How a machine comes to a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// The program ends in order.
    Close,
    /// The program is killed; the disk keeps what it was told.
    Kill,
    /// The power fails.
    PowerCut,
}

/// What is under way in the background.
enum Work {
    None,
    Planned(Box<Job>),
    Done(Box<Finished>),
}

pub(super) struct Store {
    pub(super) core: Core,
    pub(super) maintenance: Maintenance,
    pub(super) report: OpeningReport,
    work: Work,
    _lock: Box<dyn Lock>,
}

pub(super) struct Machine {
    pub(super) disk: SimulatedDisk,
    pub(super) options: Options,
    /// `None` while the machine is stopped.
    pub(super) store: Option<Store>,
    pub(super) ledger: Ledger,
    /// How it was stopped last.
    stopped_by: Stop,
    /// Whether the power was cut since the store was last open.
    power_was_cut: bool,
}

impl Machine {
    /// A machine with an empty disk, stopped.
    pub(super) fn new(seed: u64, options: Options) -> Self {
        Self {
            disk: SimulatedDisk::new(seed),
            options,
            store: None,
            ledger: Ledger::default(),
            stopped_by: Stop::Close,
            power_was_cut: false,
        }
    }

    /// Opens the store. What it holds then must be one of the states that the ledger allows.
    pub(super) fn start(&mut self) -> Result<(), EngineError> {
        let opened = open::open(&self.disk.disk(), root(), self.options.clone())?;
        self.ledger
            .reopen(&opened.core, !std::mem::take(&mut self.power_was_cut));
        let torn = opened.report.torn_tail.is_some();
        assert!(!torn || self.stopped_by != Stop::Close, "a clean stop tore");
        self.store = Some(Store {
            core: opened.core,
            maintenance: opened.maintenance,
            report: opened.report,
            work: Work::None,
            _lock: opened.lock,
        });
        Ok(())
    }

    pub(super) fn store(&mut self) -> &mut Store {
        self.store.as_mut().expect("the machine is running")
    }

    pub(super) fn is_stopped(&self) -> bool {
        let stopped = |store: &Store| store.core.stopped.is_some();
        self.store.as_ref().is_none_or(stopped)
    }

    /// Commits requests as one, then does what a commit leaves to be done.
    pub(super) fn write(
        &mut self,
        batches: Vec<Vec<Write>>,
        now: Timestamp,
    ) -> Result<(), EngineError> {
        let step = Step::Write(batches.concat(), now);
        let request = |writes| Request { writes, now };
        let requests: Vec<_> = batches.into_iter().map(request).collect();
        let core = &mut self.store().core;
        match core.commit(&requests) {
            Ok(done) => {
                let end = core.next_sequence;
                self.ledger.answer(step, done.outcomes.concat(), end);
                self.note_sync();
                let settled = self.store().core.settle();
                self.note_sync();
                settled
            }
            Err(error) => self.failed(step, error),
        }
    }

    pub(super) fn sweep(&mut self, now: Timestamp) -> Result<(), EngineError> {
        let core = &mut self.store().core;
        let step = Step::Sweep(now);
        if let Err(error) = core.sweep(now) {
            return self.failed(step, error);
        }
        let end = core.next_sequence;
        let turned = if core.must_turn_over(now) {
            core.turn_over()
        } else {
            Ok(())
        };
        self.ledger.answer(step, Vec::new(), end);
        self.note_sync();
        turned
    }

    pub(super) fn turn_over(&mut self) -> Result<(), EngineError> {
        let turned = self.store().core.turn_over();
        self.note_sync();
        turned
    }

    pub(super) fn sync(&mut self) -> Result<(), EngineError> {
        let synced = self.store().core.sync();
        self.note_sync();
        synced
    }

    fn note_sync(&mut self) {
        let core = &self.store().core;
        if core.stopped.is_none() && !core.unsynced {
            self.ledger.sync();
        }
    }

    fn failed(&mut self, step: Step, error: EngineError) -> Result<(), EngineError> {
        if matches!(error, EngineError::Stopped(_)) {
            self.ledger.leave_open(step);
        }
        Err(error)
    }

    /// Takes the next step of the background work: plans a job, runs it, or applies its result.
    /// Tells whether there was something to do.
    pub(super) fn work(&mut self, now: Option<Timestamp>, all: bool) -> Result<bool, EngineError> {
        match std::mem::replace(&mut self.store().work, Work::None) {
            Work::None => {
                let core = &mut self.store().core;
                let mut job = core.plan(now);
                if all && job.is_none() {
                    job = core.plan_compaction();
                }
                let Some(job) = job else { return Ok(false) };
                // As the writer thread does: what a manifest says must not be ahead of the log.
                self.sync()?;
                self.store().work = Work::Planned(Box::new(job));
                Ok(true)
            }
            Work::Planned(job) => {
                let finished = self.store().maintenance.run(*job)?;
                self.store().work = Work::Done(Box::new(finished));
                Ok(true)
            }
            Work::Done(finished) => {
                self.store().core.apply(*finished);
                Ok(true)
            }
        }
    }

    /// Works until nothing is left to do; with `all`, everything is compacted.
    pub(super) fn work_off(
        &mut self,
        now: Option<Timestamp>,
        all: bool,
    ) -> Result<(), EngineError> {
        for _ in 0..1000 {
            if !self.work(now, all)? {
                return Ok(());
            }
        }
        panic!("the background work comes to no end");
    }

    /// Ends the program or the machine.
    pub(super) fn stop(&mut self, how: Stop, seed: u64) {
        self.stopped_by = how;
        if how == Stop::Close && self.close().is_err() {
            self.stopped_by = Stop::Kill;
        }
        let disk = match self.stopped_by {
            Stop::PowerCut => self.disk.crash(seed),
            Stop::Kill => self.disk.kill(),
            Stop::Close => self.disk.clone(),
        };
        self.power_was_cut |= how == Stop::PowerCut;
        self.store = None;
        self.disk = disk;
        self.disk.clear_faults();
        self.disk.set_capacity(None);
    }

    fn close(&mut self) -> Result<(), EngineError> {
        while !matches!(self.store().work, Work::None) {
            self.work(None, false)?;
        }
        self.sync()?;
        let note = self.store().core.plan_note();
        self.store().maintenance.run(note).map(|_| ())
    }

    /// The store, to be asked.
    pub(super) fn reading(&self) -> Reading {
        let core = &self.store.as_ref().expect("the machine is running").core;
        Reading {
            published: core.published.clone(),
            hasher: core.hasher,
        }
    }

    /// Compares answers with what the ledger says.
    pub(super) fn ask(&self, history: &mut History, questions: usize) {
        let Ledger {
            naive, sequences, ..
        } = &self.ledger;
        compare_answers(&self.reading(), naive, sequences, history, questions);
    }

    /// Checks what the writer believes against what is there.
    pub(super) fn check(&mut self) {
        let core = &self.store().core;
        let mut live = std::collections::BTreeMap::<u32, u64>::new();
        for part in &core.parts {
            for doc in (0..part.segment.len()).map(DocId) {
                let position = LogPosition::from_u64(part.segment.position(doc).unwrap());
                *live.entry(position.file).or_default() += u64::from(part.is_stored(doc));
            }
        }
        for (file, usage) in &core.log_use {
            let live = live.get(file).copied().unwrap_or_default();
            assert_eq!(usage.live, live, "living events of log file {file}");
        }
        for sealed in core.files.iter() {
            let mut events = 0;
            log::verify(sealed, |walked| match walked {
                log::Walked::Record(_, _, Record::Event { .. }) => events += 1,
                log::Walked::Record(..) => {}
                log::Walked::Damage(damage) => panic!("{damage:?}"),
            });
            let usage = core.log_use.get(&sealed.file()).copied();
            assert_eq!(usage.unwrap_or_default().events, events, "{sealed:?}");
        }
    }

    /// Closes the log file and checks every checksum, and every document against its event.
    pub(super) fn verify(&mut self) -> Result<(), EngineError> {
        let sealed = self.store().core.seal();
        self.note_sync();
        let report = verify::verify(&*sealed?, &self.store().core.hasher, |_| {});
        assert!(report.is_sound(), "{report:#?}");
        Ok(())
    }
}

/// The readers' side of a store.
pub(super) struct Reading {
    published: Arc<ArcSwap<Snapshot>>,
    hasher: TermHasher,
}

impl EventStore for Reading {
    fn reader(&self) -> Box<dyn StoreReader> {
        Box::new(EngineReader::new(self.published.clone(), self.hasher))
    }

    fn write(&self, _: Vec<Write>, _: Timestamp) -> WriteFuture {
        unreachable!("only read")
    }

    fn committed(&self) -> CommittedFeed {
        unreachable!("only read")
    }

    fn sweep(&self, _: Timestamp) -> Pin<Box<dyn Future<Output = Result<u64, StoreError>> + Send>> {
        unreachable!("only read")
    }
}
