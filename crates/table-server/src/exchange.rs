//! What a protocol is written against: bytes in, bytes out, tables beside it; no socket, no clock.

use std::{mem, sync::Arc};

use hikyaku_tables::{Outcome, Stamp, TableError, Update};

use crate::{
    catalogue::{Catalogue, TableId},
    config::TableServerConfig,
    metrics::{Count, Metrics, WorkerMetrics},
    replication::{Handover, Replication},
    tally::{Asked, Tally},
    verb::Verb,
    writer::{Batch, Settled, Task},
};

/// Parts of a batch at most, and the bytes of them from which on no more is added.
const BATCH_PARTS_MAX: usize = 1024;
const BATCH_BYTES_MAX: usize = 256 * 1024;

/// What a protocol has done, and what it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// It went on: it took from the input, or wrote, or both. It is asked again.
    Went,
    /// The input does not hold the whole of the next request. This many bytes of it, in all, are
    /// needed to go on, as far as can be told (at least one more than there are).
    Read(usize),
    /// What was left to the table's writer must be answered first. Nothing was taken.
    Settle,
    /// The connection ends when the output is sent.
    Close,
    /// The connection is no client's any more, when the output is sent. All is settled.
    HandOver(Handover),
}

/// What became of an update that was handed in.
#[derive(Debug)]
pub(crate) enum Handed {
    /// It is done.
    Done(Result<Outcome, TableError>),
    /// The writer has it: what comes of it comes to [`Protocol::settle`].
    Left,
    /// It can't be now: return [`Step::Settle`], and hand it in again.
    NotNow,
}

/// One side of a conversation with a client.
pub(crate) trait Protocol {
    /// Carries out one request, or a bounded part of it.
    ///
    /// While the exchange [is not settled](Exchange::is_settled), nothing may be written to the
    /// output: answers would overtake those that are left. A request that is no update returns
    /// [`Step::Settle`] then, before it takes anything from the input.
    fn step(&mut self, exchange: &mut Exchange<'_>) -> Step;
    /// Answers what was [left](Handed::Left): all of it, in order.
    fn settle(&mut self, settled: Vec<Settled>, exchange: &mut Exchange<'_>);
}

/// What all protocols of a worker use.
#[derive(Debug)]
pub(crate) struct Desk<'a> {
    pub(crate) catalogue: &'a Catalogue,
    pub(crate) config: &'a TableServerConfig,
    /// The worker's own counts.
    pub(crate) counts: &'a WorkerMetrics,
    /// Everybody's.
    pub(crate) metrics: &'a Metrics,
    /// Who follows and is followed, if the tables are a set with one update log.
    pub(crate) replication: Option<&'a Arc<Replication>>,
    /// When the server started, in microseconds since 1970.
    pub(crate) started_us: u64,
    /// The time of what is carried out now, and the server's number.
    pub(crate) stamp: Stamp,
}

/// What a connection has left to a table's writer.
#[derive(Default)]
pub(crate) struct Deferred {
    pub(crate) table: Option<TableId>,
    pub(crate) batch: Batch,
    /// The batch is for the table's thread for what takes long.
    pub(crate) is_aside: bool,
    /// What asked for it.
    pub(crate) tally: Tally,
}

/// Where an exchange stands between two steps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing {
    taken: usize,
    written: usize,
}

impl Standing {
    /// Returns how many bytes were taken and written.
    pub(crate) fn passed(self) -> usize {
        self.taken + self.written
    }
}

/// The state of one conversation while a protocol is at work.
pub(crate) struct Exchange<'a> {
    desk: &'a Desk<'a>,
    input: &'a [u8],
    taken: usize,
    /// Where answers go.
    pub(crate) output: &'a mut Vec<u8>,
    /// Room for a value.
    pub(crate) value: &'a mut Vec<u8>,
    deferred: &'a mut Deferred,
    /// What the request of this step asks for, and how many more ask for the same.
    asked: Asked,
    again: u64,
}

impl<'a> Exchange<'a> {
    pub(crate) fn new(
        desk: &'a Desk<'a>,
        input: &'a [u8],
        output: &'a mut Vec<u8>,
        value: &'a mut Vec<u8>,
        deferred: &'a mut Deferred,
    ) -> Self {
        Self {
            desk,
            input,
            taken: 0,
            output,
            value,
            deferred,
            asked: Asked::default(),
            again: 0,
        }
    }

    /// Says what the request of this step asks for; the last word counts.
    #[inline]
    pub(crate) fn asks(&mut self, table: impl Into<Option<TableId>>, verb: Verb) {
        self.asked = Asked::new(table.into(), verb);
    }

    /// Says which table it is that is asked.
    #[inline]
    pub(crate) fn asks_of(&mut self, table: TableId) {
        self.asked = self.asked.of(Some(table));
    }

    /// Tells whether that is what the request of this step asks for, and was carried out at once.
    #[inline]
    pub(crate) fn asked_for(&self, table: TableId, verb: Verb) -> bool {
        self.asked == Asked::new(Some(table), verb)
    }

    /// Says that so many more requests of this step ask for the same.
    #[inline]
    pub(crate) fn asks_again(&mut self, requests: u64) {
        self.again += requests;
    }

    /// Returns what was received and not yet taken. It does not borrow the exchange.
    pub(crate) fn input(&self) -> &'a [u8] {
        self.input.get(self.taken..).unwrap_or_default()
    }

    /// Takes from the input.
    pub(crate) fn take(&mut self, bytes: usize) {
        self.taken = (self.taken + bytes).min(self.input.len());
    }

    /// Returns how much of the input was taken.
    pub(crate) fn taken(&self) -> usize {
        self.taken
    }

    /// Returns where it stands: for [`Exchange::count_step`].
    pub(crate) fn standing(&self) -> Standing {
        Standing {
            taken: self.taken,
            written: self.output.len(),
        }
    }

    /// Counts what was done since it stood there: in `tally`, or beside what was left. `base`: where the
    /// input begins.
    #[inline]
    pub(crate) fn count_step(&mut self, before: Standing, tally: &mut Tally, base: usize) {
        let asked = mem::take(&mut self.asked);
        let calls = 1 + mem::take(&mut self.again);
        if !tally.count_same(asked, calls) {
            self.count_other((asked, calls), before, tally, base);
        }
    }

    #[inline(never)]
    fn count_other(
        &mut self,
        (asked, calls): (Asked, u64),
        before: Standing,
        tally: &mut Tally,
        base: usize,
    ) {
        let at = base + before.taken;
        if asked.is_none() {
            // The rest of the request before it.
        } else if let Some(asked) = asked.was_left() {
            let bytes = self.standing().passed() - before.passed();
            self.deferred.tally.add(asked, bytes, at);
            tally.leave_out(bytes);
        } else {
            tally.turn_to((asked, calls), before.passed(), at);
        }
    }

    /// Returns the tables.
    pub(crate) fn catalogue(&self) -> &'a Catalogue {
        self.desk.catalogue
    }

    /// Returns the limits.
    pub(crate) fn config(&self) -> &'a TableServerConfig {
        self.desk.config
    }

    /// Returns everybody's counts.
    pub(crate) fn metrics(&self) -> &'a Metrics {
        self.desk.metrics
    }

    /// Returns who follows and is followed, if anybody can.
    pub(crate) fn replication(&self) -> Option<&'a Arc<Replication>> {
        self.desk.replication
    }

    /// Returns when the server started, in microseconds since 1970.
    pub(crate) fn started_us(&self) -> u64 {
        self.desk.started_us
    }

    /// Returns the time of what is carried out now, and the server's number.
    pub(crate) fn stamp(&self) -> Stamp {
        self.desk.stamp
    }

    /// Adds to a count.
    pub(crate) fn count(&self, count: Count, by: u64) {
        self.desk.counts.add(count, by);
    }

    /// Tells whether nothing is left to a writer.
    pub(crate) fn is_settled(&self) -> bool {
        self.deferred.batch.is_empty()
    }

    /// Hands an update in: it is carried out at once, unless its table waits for the disk.
    pub(crate) fn update(&mut self, id: TableId, update: &Update<'_>) -> Handed {
        let served = self.desk.catalogue.table(id);
        if served.updates_wait {
            if !self.may_leave(id, false) {
                return Handed::NotNow;
            }
            self.deferred.batch.push(update);
            self.asked = self.asked.left();
            return Handed::Left;
        }
        if !self.is_settled() {
            return Handed::NotNow;
        }
        Handed::Done(served.table.update(update, self.desk.stamp))
    }

    /// Leaves something that may take long to the table's writer. Never [`Handed::Done`].
    pub(crate) fn task(&mut self, id: TableId, task: Task) -> Handed {
        self.leave(id, task, false)
    }

    /// Leaves something that may take long, and need not wait for updates of others, nor they for it.
    /// Never [`Handed::Done`].
    pub(crate) fn task_aside(&mut self, id: TableId, task: Task) -> Handed {
        self.leave(id, task, true)
    }

    fn leave(&mut self, id: TableId, task: Task, is_aside: bool) -> Handed {
        if !self.may_leave(id, is_aside) {
            return Handed::NotNow;
        }
        self.deferred.batch.push_task(task);
        self.asked = self.asked.left();
        Handed::Left
    }

    fn may_leave(&mut self, id: TableId, is_aside: bool) -> bool {
        let batch = &self.deferred.batch;
        if batch.is_empty() {
            self.deferred.table = Some(id);
            self.deferred.is_aside = is_aside;
            return true;
        }
        self.deferred.table == Some(id)
            && self.deferred.is_aside == is_aside
            && batch.len() < BATCH_PARTS_MAX
            && batch.bytes() < BATCH_BYTES_MAX
    }
}
