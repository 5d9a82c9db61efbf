//! A table's own threads: one for updates of a table that waits for its disk, in batches, and whatever
//! else changes much of it; and one for what may take long and stops nobody: copies, searches.

use std::{
    io, mem,
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use hikyaku_tables::{Attributes, Change, Condition, Outcome, Stamp, Table, TableError, Update};
use tokio::sync::oneshot;

use crate::clock;

/// Updates that are given to the table at once, at least; a batch is not split.
const UPDATES_AT_ONCE: usize = 4096;

/// Records that are looked at each second for those that have expired: about a millisecond's work.
const SWEPT_AT_ONCE: usize = 10_000;

/// Something to do with a table that may take long; what it returns is for the protocol that asked.
pub(crate) type Task = Box<dyn FnOnce(&dyn Table, Stamp) -> Result<Vec<u8>, TableError> + Send>;

/// What came of one part of a batch.
pub(crate) enum Settled {
    /// An update.
    Update(Result<Outcome, TableError>),
    /// A task.
    Task(Result<Vec<u8>, TableError>),
}

/// What a connection asks of a table's writer, in order.
#[derive(Default)]
pub(crate) struct Batch {
    /// The keys and values of the updates.
    bytes: Vec<u8>,
    parts: Vec<Part>,
}

enum Part {
    Update(Packed),
    Task(Task),
}

/// An update whose bytes lie one behind the other in the batch: the key, the change's (an entry
/// and then what it must not be before), and the condition's.
struct Packed {
    at: usize,
    key: usize,
    value: usize,
    not_before: usize,
    compared: usize,
    /// With empty slices.
    condition: Condition<'static>,
    change: Change<'static>,
    attributes: Attributes,
}

impl Batch {
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.parts.len()
    }

    /// Returns the bytes of its updates.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn push_task(&mut self, task: Task) {
        self.parts.push(Part::Task(task));
    }

    /// Copies an update.
    pub(crate) fn push(&mut self, update: &Update<'_>) {
        const NONE: &[u8] = &[];
        let at = self.bytes.len();
        let (change, value, not_before) = match update.change {
            Change::Put(value) => (Change::Put(NONE), value, NONE),
            Change::Append(value) => (Change::Append(NONE), value, NONE),
            Change::Prepend(value) => (Change::Prepend(NONE), value, NONE),
            Change::Rotate { bytes, size } => (Change::Rotate { bytes: NONE, size }, bytes, NONE),
            Change::RotateEntry {
                entry,
                size,
                identity,
                not_before,
            } => {
                let change = Change::RotateEntry {
                    entry: NONE,
                    size,
                    identity,
                    not_before: NONE,
                };
                (change, entry, not_before)
            }
            Change::AddInteger { by, width } => (Change::AddInteger { by, width }, NONE, NONE),
            Change::AddDouble(by) => (Change::AddDouble(by), NONE, NONE),
            Change::Increment { by, initial } => (Change::Increment { by, initial }, NONE, NONE),
            Change::Decrement { by, initial } => (Change::Decrement { by, initial }, NONE, NONE),
            Change::Touch => (Change::Touch, NONE, NONE),
            Change::Remove => (Change::Remove, NONE, NONE),
        };
        let (condition, compared) = match update.condition {
            Condition::Any => (Condition::Any, NONE),
            Condition::Absent => (Condition::Absent, NONE),
            Condition::Present => (Condition::Present, NONE),
            Condition::Unique(unique) => (Condition::Unique(unique), NONE),
            Condition::Value(value) => (Condition::Value(NONE), value),
        };
        for part in [update.key, value, not_before, compared] {
            self.bytes.extend_from_slice(part);
        }
        self.parts.push(Part::Update(Packed {
            at,
            key: update.key.len(),
            value: value.len(),
            not_before: not_before.len(),
            compared: compared.len(),
            condition,
            change,
            attributes: update.attributes,
        }));
    }
}

impl Packed {
    fn update<'a>(&self, bytes: &'a [u8]) -> Update<'a> {
        let mut rest = bytes.get(self.at..).unwrap_or_default();
        let mut take = |len| {
            let (part, behind) = rest.split_at_checked(len).unwrap_or_default();
            rest = behind;
            part
        };
        let (key, value) = (take(self.key), take(self.value));
        let (not_before, compared) = (take(self.not_before), take(self.compared));
        Update {
            key,
            condition: match self.condition {
                Condition::Value(_) => Condition::Value(compared),
                Condition::Any => Condition::Any,
                Condition::Absent => Condition::Absent,
                Condition::Present => Condition::Present,
                Condition::Unique(unique) => Condition::Unique(unique),
            },
            change: match self.change {
                Change::Put(_) => Change::Put(value),
                Change::Append(_) => Change::Append(value),
                Change::Prepend(_) => Change::Prepend(value),
                Change::Rotate { size, .. } => Change::Rotate { bytes: value, size },
                Change::RotateEntry { size, identity, .. } => Change::RotateEntry {
                    entry: value,
                    size,
                    identity,
                    not_before,
                },
                other => other,
            },
            attributes: self.attributes,
        }
    }
}

/// Carries out batches in order; returns what came of each part of each.
pub(crate) fn carry_out(table: &dyn Table, stamp: Stamp, batches: &mut [Batch]) -> Vec<Settled> {
    let mut settled = Vec::new();
    let mut outcomes = Vec::new();
    let mut updates = Vec::new();
    let mut flush = |updates: &mut Vec<Update<'_>>, settled: &mut Vec<Settled>| {
        if !updates.is_empty() {
            table.update_all(updates, stamp, &mut outcomes);
            settled.extend(outcomes.drain(..).map(Settled::Update));
            updates.clear();
        }
    };
    for batch in batches {
        for part in mem::take(&mut batch.parts) {
            match part {
                Part::Update(packed) => updates.push(packed.update(&batch.bytes)),
                Part::Task(task) => {
                    flush(&mut updates, &mut settled);
                    settled.push(Settled::Task(task(table, stamp)));
                }
            }
        }
    }
    flush(&mut updates, &mut settled);
    settled
}

/// A batch, and where its outcomes go.
struct Order {
    batch: Batch,
    done: oneshot::Sender<Outcomes>,
}

/// What came of a batch.
pub(crate) struct Outcomes {
    /// Of each part, in order.
    pub(crate) settled: Vec<Settled>,
    /// How long it took to carry out, with those that were carried out together with it.
    pub(crate) worked: Duration,
}

/// The way to a table's threads. They end when the last of these is gone.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    orders: mpsc::Sender<Order>,
    aside: mpsc::Sender<Order>,
}

/// A table's threads.
#[derive(Debug)]
pub(crate) struct WriterThread([JoinHandle<()>; 2]);

impl WriterThread {
    /// Waits for the end: all that was sent has been carried out.
    pub(crate) fn join(self) -> Result<(), String> {
        let mut ended = Ok(());
        for thread in self.0 {
            let name = thread.thread().name().unwrap_or_default().to_owned();
            ended = ended.and(thread.join().map_err(|_| name));
        }
        ended
    }
}

impl Writer {
    pub(crate) fn start(
        name: &str,
        table: &Arc<dyn Table>,
        server_id: u32,
    ) -> io::Result<(Self, WriterThread)> {
        let start = |name| {
            let (orders, received) = mpsc::channel();
            let table = Arc::clone(table);
            let thread = thread::Builder::new().name(name);
            let thread = thread.spawn(move || work(&*table, &received, server_id))?;
            io::Result::Ok((orders, thread))
        };
        let (orders, writing) = start(format!("table-{name}"))?;
        let (aside, reading) = start(format!("table-{name}-aside"))?;
        Ok((Self { orders, aside }, WriterThread([writing, reading])))
    }

    /// Hands a batch over; its outcomes come in the order of its parts. They never come if the
    /// thread is gone, which is a defect.
    pub(crate) fn send(&self, batch: Batch) -> oneshot::Receiver<Outcomes> {
        Self::hand_over(&self.orders, batch)
    }

    /// Hands over a batch that is carried out beside all others that are sent.
    pub(crate) fn send_aside(&self, batch: Batch) -> oneshot::Receiver<Outcomes> {
        Self::hand_over(&self.aside, batch)
    }

    fn hand_over(way: &mpsc::Sender<Order>, batch: Batch) -> oneshot::Receiver<Outcomes> {
        let (done, outcomes) = oneshot::channel();
        let _ = way.send(Order { batch, done });
        outcomes
    }
}

impl Writer {
    /// Has all records removed; nobody waits for it.
    pub(crate) fn vanish(&self) {
        let mut batch = Batch::default();
        batch.push_task(Box::new(|table, stamp| {
            let vanished = table.vanish(stamp);
            if let Err(error) = &vanished {
                tracing::warn!(%error, "a table could not be emptied");
            }
            vanished.map(|()| Vec::new())
        }));
        drop(self.send(batch));
    }

    /// Has some of the records removed that have expired; resolves when that is done.
    pub(crate) async fn sweep(&self) {
        let mut batch = Batch::default();
        batch.push_task(Box::new(|table, stamp| {
            let swept = table.sweep(stamp.seconds(), SWEPT_AT_ONCE);
            if let Err(error) = &swept {
                tracing::warn!(%error, "expired records are not removed");
            }
            swept.map(|_| Vec::new())
        }));
        // A writer that has stopped takes the server with it.
        let _ = self.send(batch).await;
    }
}

fn work(table: &dyn Table, received: &mpsc::Receiver<Order>, server_id: u32) {
    while let Ok(first) = received.recv() {
        // All that waits is made durable together.
        let mut parts = first.batch.len();
        let mut orders = vec![first];
        while parts < UPDATES_AT_ONCE {
            let Ok(order) = received.try_recv() else {
                break;
            };
            parts += order.batch.len();
            orders.push(order);
        }
        let stamp = Stamp {
            at_us: clock::now_us(),
            origin: server_id,
        };
        let (mut batches, waiting): (Vec<_>, Vec<_>) = orders
            .into_iter()
            .map(|Order { batch, done }| {
                let parts = batch.len();
                (batch, (parts, done))
            })
            .unzip();
        let begun = Instant::now();
        let mut settled = carry_out(table, stamp, &mut batches).into_iter();
        let worked = begun.elapsed();
        for (parts, done) in waiting {
            let settled = settled.by_ref().take(parts).collect();
            // A connection that has gone does not hear of it.
            let _ = done.send(Outcomes { settled, worked });
        }
    }
}

#[cfg(test)]
mod tests {
    use hikyaku_tables::{MemoryOptions, MemoryTable};

    use super::*;

    fn of_task(task: impl FnOnce() + Send + 'static) -> Batch {
        let mut batch = Batch::default();
        batch.push_task(Box::new(move |_, _| {
            task();
            Ok(Vec::new())
        }));
        batch
    }

    #[test]
    fn what_is_aside_does_not_hold_up_the_rest() {
        let table: Arc<dyn Table> = Arc::new(MemoryTable::new(MemoryOptions::default(), None));
        let (writer, threads) = Writer::start("a", &table, 1).unwrap();
        let (go_on, wait) = mpsc::channel();
        let long = writer.send_aside(of_task(move || wait.recv().unwrap()));
        let short = writer.send(of_task(move || go_on.send(()).unwrap()));
        short.blocking_recv().unwrap();
        long.blocking_recv().unwrap();
        drop(writer);
        threads.join().unwrap();
    }
}
