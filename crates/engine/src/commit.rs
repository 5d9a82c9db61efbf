//! The writer's state: decides, logs, indexes and publishes commits. Synchronous and
//! single-threaded, so that tests can drive every interleaving; [`crate::engine`] gives it threads.

use std::{collections::BTreeMap, sync::Arc};

use arc_swap::ArcSwap;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use hikyaku_event::Timestamp;
use hikyaku_store::{Committed, CommittedEvent, Hider, Outcome, RemovalReason, Sequence, Write};

use crate::{
    batch::{Batch, Pending},
    error::EngineError,
    log::{LogError, LogFiles, LogWriter, Record},
    memory,
    options::{Durability, Options},
    segment::TermHasher,
    snapshot::{Part, PartId, Payload, Snapshot},
};

/// Who hides which event.
pub(crate) type Hiders = HashMap<Sequence, Vec<Hider>, FixedState>;

/// What the writer knows of a log file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LogFileUse {
    /// The events that were written to it and are still in it.
    pub(crate) events: u64,
    /// Those of them that are not removed.
    pub(crate) live: u64,
    /// Since when it holds events that must not stay for long.
    pub(crate) purge_since: Option<Timestamp>,
}

/// The writer's state.
pub(crate) struct Core {
    pub(crate) options: Options,
    pub(crate) hasher: TermHasher,
    pub(crate) log: LogWriter,
    pub(crate) files: LogFiles,
    /// Segment files, then the parts in memory in the order of writing.
    pub(crate) parts: Vec<Arc<Part>>,
    pub(crate) hiders: Hiders,
    pub(crate) log_use: BTreeMap<u32, LogFileUse>,
    pub(crate) next_sequence: Sequence,
    pub(crate) next_part: u64,
    /// The log files before this one are covered by segment files.
    pub(crate) replay_from: u32,
    pub(crate) published: Arc<ArcSwap<Snapshot>>,
    /// Why nothing can be written any more.
    pub(crate) stopped: Option<String>,
    /// Commits not yet synced (with [`Durability::Interval`]).
    pub(crate) unsynced: bool,
    /// The last sequence in closed log files.
    pub(crate) sealed_through: Sequence,
    pub(crate) statistics: Statistics,
}

/// What the writer has done since the store was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Commits to the log.
    pub commits: u64,
    /// Events stored.
    pub stored: u64,
    /// Events removed.
    pub removed: u64,
    /// Bytes handed to the log.
    pub log_bytes: u64,
    /// Background merges (flushes included).
    pub merges: u64,
}

/// One caller's writes and the time they are decided at.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) writes: Vec<Write>,
    pub(crate) now: Timestamp,
}

/// What a commit came to.
#[derive(Debug)]
pub(crate) struct Done {
    /// One list per request.
    pub(crate) outcomes: Vec<Vec<Outcome>>,
    pub(crate) committed: Committed,
}

impl Core {
    /// Decides the requests in order and commits them as one.
    pub(crate) fn commit(&mut self, requests: &[Request]) -> Result<Done, EngineError> {
        self.refuse_if_stopped()?;
        let mut batch = self.batch();
        let mut outcomes = Vec::with_capacity(requests.len());
        for request in requests {
            let decided: Result<Vec<_>, _> = request
                .writes
                .iter()
                .map(|write| batch.write(write, request.now))
                .collect();
            outcomes.push(decided?);
        }
        let now = requests
            .iter()
            .map(|request| request.now)
            .max()
            .unwrap_or_default();
        let decided = Decided::from(batch);
        let committed = self.carry_out(decided, now)?;
        Ok(Done {
            outcomes,
            committed,
        })
    }

    /// Removes what has expired by `now`; returns how many.
    pub(crate) fn sweep(&mut self, now: Timestamp) -> Result<u64, EngineError> {
        self.refuse_if_stopped()?;
        let mut batch = self.batch();
        let swept = batch.sweep(now)?;
        let decided = Decided::from(batch);
        self.carry_out(decided, now)?;
        Ok(swept)
    }

    /// Returns the reason as an error if nothing can be written any more.
    pub(crate) fn refuse_if_stopped(&self) -> Result<(), EngineError> {
        match &self.stopped {
            Some(why) => Err(EngineError::Stopped(why.clone())),
            None => Ok(()),
        }
    }

    /// Remembers why the log has stopped, if it has.
    fn note_stop<T>(&mut self, result: Result<T, LogError>) -> Result<T, EngineError> {
        let result = result.map_err(EngineError::from);
        if let Err(EngineError::Stopped(why)) = &result {
            self.stopped = Some(why.clone());
        }
        result
    }

    fn batch(&self) -> Batch<'_> {
        Batch::new(self.view(), &self.hasher, &self.hiders, self.next_sequence)
    }

    fn view(&self) -> Snapshot {
        Snapshot {
            sequence: Sequence(self.next_sequence.0 - 1),
            parts: self.parts.clone(),
            files: self.files.clone(),
        }
    }

    /// Logs what was decided, makes it durable, then visible.
    fn carry_out(
        &mut self,
        mut decided: Decided,
        now: Timestamp,
    ) -> Result<Committed, EngineError> {
        if decided.records.is_empty() {
            return Ok(Committed::default());
        }
        let mut pending = decided.pending.iter_mut();
        for (record, sequence) in &decided.records {
            let position = self.log.append(record, *sequence)?;
            if let Record::Event { .. } = record
                && let Some(pending) = pending.next()
            {
                pending.position = position;
            }
        }
        let sync = self.options.durability == Durability::Sync;
        let written = self.log.commit(sync);
        self.note_stop(written)?;
        // From here on it is in the log: an error below would be one of memory, not of the disk.
        self.unsynced = !sync;
        self.statistics.commits += 1;
        self.statistics.stored += decided.pending.len() as u64;
        self.statistics.removed += decided.losses.len() as u64;
        let log_file = self.log.end().file;
        self.note_use(&decided, log_file, now);
        self.parts = decided.parts;
        self.next_sequence = decided.next_sequence;
        for (sequence, hiders) in decided.hiders {
            if hiders.is_empty() {
                self.hiders.remove(&sequence);
            } else {
                self.hiders.insert(sequence, hiders);
            }
        }
        if !decided.pending.is_empty() {
            let part = self.index(&decided.pending, log_file)?;
            self.parts.push(Arc::new(part));
        }
        self.publish();
        let events = decided
            .pending
            .into_iter()
            .map(|pending| CommittedEvent {
                sequence: pending.sequence,
                event: pending.event,
            })
            .collect();
        Ok(Committed { events })
    }

    fn index(&mut self, pending: &[Pending], log_file: u32) -> Result<Part, EngineError> {
        let documents: Vec<_> = pending
            .iter()
            .map(|pending| pending.document(&self.hasher))
            .collect();
        let payloads: Vec<_> = pending
            .iter()
            .map(|pending| pending.event.json().clone())
            .collect();
        let id = self.take_part_id();
        let mut part = memory::build(id, log_file, &documents, &payloads, &self.hasher)?;
        for pending in pending {
            let hidden = self.hiders.contains_key(&pending.sequence);
            if !pending.removed && !hidden {
                continue;
            }
            // Several documents of one id stand side by side: told apart by their sequence.
            let mut doc = part.segment.first_at_or_after_key(&pending.key())?;
            while part.segment.sequence(doc)? != pending.sequence {
                doc.0 += 1;
            }
            if pending.removed {
                part.remove(doc);
            } else {
                part.set_hidden(doc, true);
            }
        }
        Ok(part)
    }

    fn note_use(&mut self, decided: &Decided, log_file: u32, now: Timestamp) {
        let stored = decided.pending.len() as u64;
        let current = self.log_use.entry(log_file).or_default();
        current.events += stored;
        current.live += stored;
        for loss in &decided.losses {
            let file = self
                .log_use
                .entry(loss.log_file.unwrap_or(log_file))
                .or_default();
            file.live = file.live.saturating_sub(1);
            if must_leave_the_log(loss.reason) {
                file.purge_since.get_or_insert(now);
            }
        }
        if decided.pending.iter().any(Pending::is_carried_out_vanish) {
            // What its key had replaced or deleted before is no index's any more, and must go too.
            purge_dead(&mut self.log_use, now);
        }
    }

    pub(crate) fn take_part_id(&mut self) -> PartId {
        self.next_part += 1;
        PartId(self.next_part)
    }

    /// Shows readers the store as it is now.
    pub(crate) fn publish(&self) {
        self.published.store(Arc::new(self.view()));
    }

    /// Makes what `Durability::Interval` left unsynced durable.
    pub(crate) fn sync(&mut self) -> Result<(), EngineError> {
        self.refuse_if_stopped()?;
        if !self.unsynced {
            return Ok(());
        }
        let synced = self.log.commit(true);
        self.note_stop(synced)?;
        self.unsynced = false;
        Ok(())
    }

    /// Does what a commit leaves to be done, after its answers are on their way: merges small parts
    /// in memory, and closes the log file when it or the memory is full.
    pub(crate) fn settle(&mut self) -> Result<(), EngineError> {
        loop {
            let log_file = self.log.end().file;
            let first = self.first_in_memory(log_file);
            let runs = self.parts.get(first..).unwrap_or_default();
            let count = memory::due(runs);
            if count == 0 {
                break;
            }
            let inputs = self.parts.split_off(self.parts.len() - count);
            let id = self.take_part_id();
            match memory::merge(id, log_file, &inputs, &self.hasher) {
                Ok(merged) => self.parts.extend(merged.map(Arc::new)),
                Err(error) => {
                    self.parts.extend(inputs);
                    return Err(error);
                }
            }
            self.publish();
        }
        let in_memory: u32 = self
            .parts
            .get(self.first_in_memory(self.log.end().file)..)
            .unwrap_or_default()
            .iter()
            .map(|part| part.segment.len())
            .sum();
        if self.log.is_full() || in_memory >= self.options.memory_events_max {
            self.turn_over()?;
        }
        Ok(())
    }

    /// Closes the log file and starts the next one. What was in memory for it waits for its flush.
    pub(crate) fn turn_over(&mut self) -> Result<(), EngineError> {
        self.refuse_if_stopped()?;
        let sealed = self.log.seal();
        let sealed = self.note_stop(sealed)?;
        self.unsynced = false;
        self.sealed_through = self.log.last_sequence();
        self.files = self.files.with(sealed);
        self.publish();
        Ok(())
    }

    /// Closes the log file if it holds anything; returns the store with all of its log closed.
    pub(crate) fn seal(&mut self) -> Result<Arc<Snapshot>, EngineError> {
        if self.log.last_sequence() > self.sealed_through {
            self.turn_over()?;
        }
        Ok(self.published.load_full())
    }

    /// Returns the index of the first part in memory whose log file is `log_file`.
    fn first_in_memory(&self, log_file: u32) -> usize {
        let of_file = |part: &Arc<Part>| matches!(part.payload, Payload::Memory { log_file: file, .. } if file == log_file);
        self.parts
            .iter()
            .rposition(|part| !of_file(part))
            .map_or(0, |index| index + 1)
    }

    /// Returns how many closed log files wait for their segment.
    pub(crate) fn waiting_flushes(&self) -> usize {
        (self.log.end().file - self.replay_from) as usize
    }
}

/// Notes that the dead events of every log file must leave it (NIP-62).
pub(crate) fn purge_dead(log_use: &mut BTreeMap<u32, LogFileUse>, since: Timestamp) {
    for usage in log_use
        .values_mut()
        .filter(|usage| usage.live < usage.events)
    {
        usage.purge_since.get_or_insert(since);
    }
}

/// Tells whether what was removed for this reason must be rewritten out of the log in time,
/// whatever else its file holds.
pub(crate) const fn must_leave_the_log(reason: RemovalReason) -> bool {
    matches!(reason, RemovalReason::Vanished | RemovalReason::Operator)
}

/// A batch without its borrows.
struct Decided {
    parts: Vec<Arc<Part>>,
    pending: Vec<Pending>,
    records: Vec<(Record, Sequence)>,
    losses: Vec<crate::batch::Loss>,
    hiders: Hiders,
    next_sequence: Sequence,
}

impl From<Batch<'_>> for Decided {
    fn from(batch: Batch<'_>) -> Self {
        Self {
            next_sequence: batch.next_sequence(),
            parts: batch.view.parts,
            pending: batch.pending,
            records: batch.records,
            losses: batch.losses,
            hiders: batch.hiders,
        }
    }
}
