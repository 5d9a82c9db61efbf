//! One worker's requests by shape, and all workers' together.

use std::{
    cell::RefCell,
    fmt,
    hash::BuildHasher as _,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use crate::{
    cells::Cells,
    shape::Shape,
    snapshot::{Book, Snapshot},
    statements::{Statements, nanoseconds},
};

/// Shapes that one worker tells apart. A real relay's clients make some dozens.
const SHAPES_MAX: usize = 256;
/// A shape that is new takes another's place only once in so many tries, so that a client that makes
/// shapes up does not make each of its requests a search.
const TRIES: u32 = 16;
/// Characters of an example.
const EXAMPLE_MAX: usize = 400;

/// A part of a request's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Waiting for a connection to the database, or for a turn.
    Wait,
    /// The store or the database at work.
    Query,
    /// Reading its answer.
    Decode,
    /// Our own work: checking signatures, a route's handler.
    Handler,
    /// Writing: to the store for what is published; to a client that does not read for the others.
    Write,
}

/// How many phases there are.
pub(crate) const PHASES: usize = 5;

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ending {
    /// It was answered.
    #[default]
    Done,
    /// By an error of ours.
    Failed,
    /// The client did not want the answer any more.
    Cancelled,
}

/// What a request cost.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cost {
    /// From its arrival to the end of its answer.
    pub total: Duration,
    /// How it ended.
    pub ending: Ending,
    /// Events that were looked at.
    pub examined: u64,
    /// Events (rows, values) that were answered.
    pub returned: u64,
    /// Bytes of the answer; of what is published, bytes received.
    pub bytes: u64,
    pub(crate) phases_ns: [u64; PHASES],
}

impl Cost {
    /// Begins with the whole time.
    pub fn new(total: Duration) -> Self {
        Self {
            total,
            ..Self::default()
        }
    }

    /// Adds to a part of its time. Parts need not make up the whole: the rest is other requests' turn.
    pub fn spend(&mut self, phase: Phase, time: Duration) {
        if let Some(cell) = self.phases_ns.get_mut(phase as usize) {
            *cell = cell.saturating_add(nanoseconds(time));
        }
    }
}

/// Names a shape in one ledger; good until the shape gives way, and then it is nobody's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShapeId {
    slot: u16,
    generation: u32,
}

/// What readers see of one ledger. The lock is taken by the worker for a new shape or example alone.
struct Page {
    slots: Box<[Slot]>,
    used: AtomicUsize,
    other: Cells,
    book: Mutex<Book>,
}

#[derive(Default)]
struct Slot {
    cells: Cells,
    name: Mutex<Name>,
}

#[derive(Default)]
struct Name {
    shape: Option<Shape>,
    example: Option<Box<str>>,
    example_ns: u64,
}

/// One worker's ledger. Only its thread writes.
pub struct Ledger {
    page: Arc<Page>,
    hasher: FixedState,
    /// Where each shape is.
    index: RefCell<Index>,
}

#[derive(Default)]
struct Index {
    slots: HashTable<u16>,
    /// The shapes again, to be compared without a lock.
    shapes: Vec<(Shape, u32)>,
    tries: u32,
}

/// All workers' ledgers, to be read.
#[derive(Clone)]
pub struct Observations {
    pages: Arc<[Arc<Page>]>,
    started_us: u64,
}

impl fmt::Debug for Observations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observations")
            .field("workers", &self.pages.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Observations {
    /// Makes the ledgers of so many workers. `started_us` is now, in microseconds since 1970; `seed` is
    /// unknown to clients.
    pub fn new(workers: usize, started_us: u64, seed: u64) -> (Self, Vec<Ledger>) {
        let ledgers: Vec<_> = (0..workers).map(|_| Ledger::new(seed)).collect();
        let observations = Self {
            pages: ledgers.iter().map(|l| Arc::clone(&l.page)).collect(),
            started_us,
        };
        (observations, ledgers)
    }

    /// Returns these and others together, as of one server.
    #[must_use]
    pub fn with(&self, others: &Self) -> Self {
        Self {
            pages: self
                .pages
                .iter()
                .chain(others.pages.iter())
                .cloned()
                .collect(),
            started_us: self.started_us,
        }
    }

    /// Adds all ledgers up. `now_us` is the time, in microseconds since 1970.
    pub fn snapshot(&self, now_us: u64) -> Snapshot {
        let mut snapshot = Snapshot::new(self.started_us, now_us);
        for page in self.pages.iter() {
            let used = page.used.load(Ordering::Acquire);
            for slot in page.slots.iter().take(used) {
                // Held meanwhile, so that the counts are of this shape.
                let name = lock(&slot.name);
                let Some(shape) = &name.shape else { continue };
                let mut figures = slot.cells.figures(shape.to_string());
                figures.example = name.example.as_deref().map(str::to_owned);
                figures.example_ns = name.example_ns;
                snapshot.add(figures);
            }
            if page.other.calls() > 0 {
                snapshot.add(page.other.figures(Shape::Other.to_string()));
            }
            snapshot.add_book(&lock(&page.book));
        }
        snapshot.sort();
        snapshot
    }
}

impl Ledger {
    fn new(seed: u64) -> Self {
        Self {
            page: Arc::new(Page {
                slots: (0..SHAPES_MAX).map(|_| Slot::default()).collect(),
                used: AtomicUsize::new(0),
                other: Cells::default(),
                book: Mutex::default(),
            }),
            hasher: FixedState::with_seed(seed),
            index: RefCell::default(),
        }
    }

    /// Returns the name of a shape here; it may be kept. `None` if there are too many of them.
    pub fn id(&self, shape: &Shape) -> Option<ShapeId> {
        let hash = self.hasher.hash_one(shape);
        let index = &mut *self.index.borrow_mut();
        let shapes = &index.shapes;
        let same = |slot: &u16| {
            shapes
                .get(usize::from(*slot))
                .is_some_and(|(s, _)| s == shape)
        };
        if let Some(slot) = index.slots.find(hash, same) {
            let (_, generation) = shapes.get(usize::from(*slot))?;
            return Some(ShapeId {
                slot: *slot,
                generation: *generation,
            });
        }
        let slot = index.room(&self.page, &self.hasher)?;
        let place = index.shapes.get_mut(usize::from(slot));
        let generation = if let Some((old, generation)) = place {
            *old = shape.clone();
            *generation += 1;
            *generation
        } else {
            index.shapes.push((shape.clone(), 0));
            0
        };
        let shapes = &index.shapes;
        index.slots.insert_unique(hash, slot, |slot| {
            let shape = shapes.get(usize::from(*slot)).map(|(shape, _)| shape);
            shape.map_or(0, |shape| self.hasher.hash_one(shape))
        });
        let kept = self.page.slots.get(usize::from(slot))?;
        {
            let mut name = lock(&kept.name);
            // What the slot had is told as "other" from here on.
            kept.cells.give_to(&self.page.other);
            *name = Name {
                shape: Some(shape.clone()),
                ..Name::default()
            };
        }
        let used = self
            .page
            .used
            .load(Ordering::Relaxed)
            .max(usize::from(slot) + 1);
        self.page.used.store(used, Ordering::Release);
        Some(ShapeId { slot, generation })
    }

    /// Adds a request. `example` is asked for one if it took longer than all of its shape before.
    pub fn record(
        &self,
        shape: Option<ShapeId>,
        cost: &Cost,
        statements: Option<&Statements>,
        example: impl FnOnce() -> Option<String>,
    ) {
        let mut cost = *cost;
        if let Some(statements) = statements {
            let parts = [
                statements.wait_ns,
                statements.query_ns,
                statements.decode_ns,
            ];
            for (cell, ns) in cost.phases_ns.iter_mut().zip(parts) {
                *cell = cell.saturating_add(ns);
            }
        }
        self.record_many(shape, &cost, 1, example);
        if let Some(statements) = statements {
            let shape = shape.and_then(|id| self.shape(id)).unwrap_or(Shape::Other);
            lock(&self.page.book).add(&shape, statements);
        }
    }

    /// Adds `calls` requests of one shape that took `cost` together: each gets its equal part, and
    /// `example` is asked for one if that is longer than all of the shape before. Returns false if the
    /// shape has no place, or has given way: they are counted as "other".
    pub fn record_many(
        &self,
        shape: Option<ShapeId>,
        cost: &Cost,
        calls: u64,
        example: impl FnOnce() -> Option<String>,
    ) -> bool {
        let Some(slot) = shape.and_then(|id| self.slot(id)) else {
            self.page.other.add(cost, calls);
            return false;
        };
        if slot.cells.add(cost, calls)
            && let Some(text) = example()
        {
            let mut name = lock(&slot.name);
            name.example = Some(cut(text));
            name.example_ns = nanoseconds(cost.total) / calls.max(1);
        }
        true
    }

    fn slot(&self, id: ShapeId) -> Option<&Slot> {
        let index = self.index.borrow();
        let (_, generation) = index.shapes.get(usize::from(id.slot))?;
        if *generation != id.generation {
            return None;
        }
        self.page.slots.get(usize::from(id.slot))
    }

    fn shape(&self, id: ShapeId) -> Option<Shape> {
        let index = self.index.borrow();
        let (shape, generation) = index.shapes.get(usize::from(id.slot))?;
        (*generation == id.generation).then(|| shape.clone())
    }
}

impl Index {
    /// Returns a slot for a new shape: one that is free, or that of the shape that took least time.
    fn room(&mut self, page: &Page, hasher: &FixedState) -> Option<u16> {
        if self.shapes.len() < SHAPES_MAX {
            return Some(self.shapes.len() as u16);
        }
        self.tries = self.tries.wrapping_add(1);
        if !self.tries.is_multiple_of(TRIES) {
            return None;
        }
        let (slot, _) = page
            .slots
            .iter()
            .enumerate()
            .min_by_key(|(_, slot)| slot.cells.total_ns())?;
        let (old, _) = self.shapes.get(slot)?;
        let found = self
            .slots
            .find_entry(hasher.hash_one(old), |other| usize::from(*other) == slot);
        if let Ok(entry) = found {
            entry.remove();
        }
        Some(slot as u16)
    }
}

/// Bounds an example.
fn cut(mut text: String) -> Box<str> {
    if text.len() > EXAMPLE_MAX {
        text.truncate(text.floor_char_boundary(EXAMPLE_MAX));
        text.push('\u{2026}');
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FilterShape;

    fn kinds(first: u8, second: u8) -> Shape {
        let shape = FilterShape::default().tag(0, first, 1).tag(1, second, 1);
        Shape::Req(std::iter::once(shape).collect())
    }

    fn table() -> Shape {
        Shape::Table {
            table: "seen".into(),
            command: "get",
        }
    }

    fn taking(us: u64) -> Cost {
        Cost {
            total: Duration::from_micros(us),
            examined: 2,
            returned: 1,
            ..Cost::default()
        }
    }

    fn ledger() -> (Observations, Ledger) {
        let (observations, mut ledgers) = Observations::new(1, 0, 7);
        (observations, ledgers.pop().unwrap())
    }

    #[test]
    fn requests_of_a_shape_add_up_over_workers() {
        let (observations, ledgers) = Observations::new(2, 5, 7);
        for (ledger, us) in ledgers.iter().zip([10, 1000]) {
            let mut cost = taking(us);
            cost.spend(Phase::Query, Duration::from_micros(us / 2));
            let example = || Some(format!("took {us}"));
            ledger.record(ledger.id(&kinds(b'a', b'b')), &cost, None, example);
        }
        let snapshot = observations.snapshot(9);
        assert_eq!((snapshot.started_us, snapshot.taken_us), (5, 9));
        let [shape] = &snapshot.shapes[..] else {
            panic!("{snapshot:?}")
        };
        assert_eq!((shape.calls, shape.examined, shape.returned), (2, 4, 2));
        assert_eq!((shape.total_ns, shape.max_ns), (1_010_000, 1_000_000));
        assert_eq!(shape.phases_ns.query, 505_000);
        assert_eq!(shape.example.as_deref(), Some("took 1000"));
        assert_eq!(shape.histogram.count(), 2);
    }

    #[test]
    fn made_up_shapes_cost_no_memory_and_push_no_busy_one_out() {
        let (observations, ledger) = ledger();
        let busy = kinds(b'p', b'p');
        let mut calls = 0;
        for first in 0..=255 {
            for second in 0..40 {
                ledger.record(ledger.id(&kinds(first, second)), &taking(1), None, || None);
                ledger.record(ledger.id(&busy), &taking(50), None, || None);
                calls += 2;
            }
        }
        let snapshot = observations.snapshot(0);
        assert!(snapshot.shapes.len() <= SHAPES_MAX + 1);
        assert_eq!(snapshot.shapes.iter().map(|s| s.calls).sum::<u64>(), calls);
        let first = &snapshot.shapes[0];
        assert_eq!(first.shape, busy.to_string());
        assert_eq!(first.calls, calls / 2);
        let other = snapshot.shapes.iter().find(|s| s.shape == "other").unwrap();
        assert!(other.calls > 1000);
    }

    #[test]
    fn a_name_whose_shape_gave_way_is_nobodys() {
        let (observations, ledger) = ledger();
        let old = ledger.id(&kinds(1, 1));
        for first in 2..=255 {
            for second in 0..40 {
                ledger.record(ledger.id(&kinds(first, second)), &taking(1), None, || None);
            }
        }
        ledger.record(old, &taking(5), None, || Some("too late".into()));
        let snapshot = observations.snapshot(0);
        let late = |shape: &&crate::ShapeFigures| shape.example.is_some();
        assert!(snapshot.shapes.iter().find(late).is_none());
    }

    #[test]
    fn examples_are_bounded() {
        let (observations, ledger) = ledger();
        let id = ledger.id(&table());
        ledger.record(id, &taking(1), None, || Some("\u{3042}".repeat(1000)));
        let shapes = observations.snapshot(0).shapes;
        assert!(shapes[0].example.as_ref().unwrap().len() <= EXAMPLE_MAX + 3);
    }

    #[test]
    fn many_at_once_share_their_time() {
        let (observations, ledger) = ledger();
        let many =
            |id, example| ledger.record_many(id, &taking(100), 50, || Some(String::from(example)));
        assert!(many(ledger.id(&table()), "one"));
        assert!(!many(None, "two"));
        let shapes = observations.snapshot(0).shapes;
        let told = |name| shapes.iter().find(|shape| shape.shape == name).unwrap();
        let shape = told("TABLE seen get");
        assert_eq!((shape.calls, shape.max_ns), (50, 2000));
        assert_eq!(shape.histogram.count(), 50);
        assert_eq!(shape.example.as_deref(), Some("one"));
        assert_eq!(shape.example_ns, 2000);
        assert_eq!(told("other").calls, 50);
    }
}
