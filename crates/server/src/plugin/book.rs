//! What is kept about each handler: its name, how often and how long it ran, how it failed, and
//! which one a worker is in just now.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Relaxed, SeqCst},
        },
    },
    thread::Thread,
};

use crate::metrics::Histogram;

/// Who a handler is: its plugin, and what it does for it.
#[derive(Debug, Clone)]
pub(crate) struct HandlerName {
    pub(crate) plugin: &'static str,
    pub(crate) task: String,
}

/// A handler's number among those of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HandlerId(pub(crate) u16);

/// One handler's cells on one worker. All but `holds` are written by its thread alone.
#[derive(Debug, Default)]
pub(crate) struct HandlerCells {
    pub(crate) panics: AtomicU64,
    pub(crate) timeouts: AtomicU64,
    /// Calls not made because too many were under way.
    pub(crate) dropped: AtomicU64,
    /// How often it held its worker too long; written by the watchdog.
    pub(crate) holds: AtomicU64,
    pub(crate) seconds: Histogram,
}

/// One worker, as the watchdog sees it.
#[derive(Debug)]
pub(crate) struct WorkerPage {
    /// Which handler it is in, and the how-manieth time it is in one; 0 for none.
    current: AtomicU64,
    /// It has been in the same handler for too long.
    held: AtomicBool,
    cells: Box<[HandlerCells]>,
}

/// All handlers of a server, by worker.
#[derive(Debug)]
pub(crate) struct HandlerBook {
    pub(crate) names: Box<[HandlerName]>,
    pub(crate) workers: Box<[WorkerPage]>,
    /// Nobody watches until the next handler is entered.
    asleep: AtomicBool,
    watchdog: OnceLock<Thread>,
}

impl HandlerBook {
    pub(crate) fn new(names: Vec<HandlerName>, workers: usize) -> Arc<Self> {
        let page = || WorkerPage {
            current: AtomicU64::new(0),
            held: AtomicBool::new(false),
            cells: names.iter().map(|_| HandlerCells::default()).collect(),
        };
        Arc::new(Self {
            workers: (0..workers).map(|_| page()).collect(),
            names: names.into(),
            asleep: AtomicBool::new(false),
            watchdog: OnceLock::new(),
        })
    }

    /// Tells whether a handler holds the worker for too long just now.
    pub(crate) fn is_held(&self, worker: usize) -> bool {
        self.workers
            .get(worker)
            .is_some_and(|page| page.held.load(Relaxed))
    }

    /// Names the thread that is woken when handlers run again.
    pub(crate) fn watched_by(&self, watchdog: Thread) {
        // There is one watchdog for each server.
        let _ = self.watchdog.set(watchdog);
    }

    /// Says that nobody watches. What is entered afterwards wakes the watchdog.
    pub(crate) fn fall_asleep(&self) {
        self.asleep.store(true, SeqCst);
    }

    pub(crate) fn wake_up(&self) {
        self.asleep.store(false, SeqCst);
    }

    /// Wakes the watchdog if it sleeps.
    pub(crate) fn stir(&self) {
        if self.asleep.load(SeqCst)
            && let Some(watchdog) = self.watchdog.get()
        {
            watchdog.unpark();
        }
    }
}

impl WorkerPage {
    pub(crate) fn cells(&self, handler: HandlerId) -> Option<&HandlerCells> {
        self.cells.get(usize::from(handler.0))
    }

    pub(crate) fn all_cells(&self) -> &[HandlerCells] {
        &self.cells
    }

    /// Notes that the worker is in a handler; `times` differs from call to call.
    pub(crate) fn enter(&self, handler: HandlerId, times: u64) {
        self.current
            .store(times << 16 | u64::from(handler.0), SeqCst);
    }

    pub(crate) fn leave(&self) {
        self.current.store(0, Relaxed);
    }

    /// Returns what differs from one stay in a handler to the next; 0 in none.
    pub(crate) fn current(&self) -> u64 {
        self.current.load(SeqCst)
    }

    /// Returns the handler of a stay.
    pub(crate) fn handler_of(stay: u64) -> HandlerId {
        HandlerId((stay & 0xffff) as u16)
    }

    pub(crate) fn set_held(&self, held: bool) {
        self.held.store(held, Relaxed);
    }
}

/// Adds one without a locked instruction: only one thread writes.
pub(crate) fn count(cell: &AtomicU64) {
    cell.store(cell.load(Relaxed).wrapping_add(1), Relaxed);
}
