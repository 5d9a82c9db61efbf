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
    time::{Duration, Instant},
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
    /// How often it held its worker too long; the watchdog writes it, too.
    pub(crate) holds: AtomicU64,
    pub(crate) seconds: Histogram,
}

/// How long a handler may hold its worker before it is named.
pub(super) const HOLD_MAX: Duration = Duration::from_millis(10);

/// One worker, as the watchdog sees it.
#[derive(Debug)]
pub(crate) struct WorkerPage {
    /// Which handler it is in, and the how-manieth time it is in one; 0 for none.
    current: AtomicU64,
    /// Since when, in nanoseconds of the book's time.
    entered_ns: AtomicU64,
    /// The stay that the watchdog has seen last.
    seen: AtomicU64,
    /// The stay that was counted last as too long.
    named: AtomicU64,
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
    began: Instant,
}

impl HandlerBook {
    pub(crate) fn new(names: Vec<HandlerName>, workers: usize) -> Arc<Self> {
        let page = || WorkerPage {
            current: AtomicU64::new(0),
            entered_ns: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            named: AtomicU64::new(0),
            held: AtomicBool::new(false),
            cells: names.iter().map(|_| HandlerCells::default()).collect(),
        };
        Arc::new(Self {
            workers: (0..workers).map(|_| page()).collect(),
            names: names.into(),
            asleep: AtomicBool::new(false),
            watchdog: OnceLock::new(),
            began: Instant::now(),
        })
    }

    /// Tells whether a handler holds the worker for too long just now.
    pub(crate) fn is_held(&self, worker: usize) -> bool {
        self.workers
            .get(worker)
            .is_some_and(|page| page.held.load(Relaxed))
    }

    fn ns(&self, at: Instant) -> u64 {
        // As many nanoseconds are 584 years.
        at.saturating_duration_since(self.began).as_nanos() as u64
    }

    /// Notes that a worker enters a handler at this time; `times` differs from call to call. Returns
    /// the name of the stay.
    pub(super) fn enter(
        &self,
        page: &WorkerPage,
        handler: HandlerId,
        times: u64,
        at: Instant,
    ) -> u64 {
        let stay = times << 16 | u64::from(handler.0);
        page.entered_ns.store(self.ns(at), Relaxed);
        page.current.store(stay, SeqCst);
        self.stir();
        stay
    }

    /// Notes that a worker leaves a handler. Tells how long it was held, if that was too long.
    pub(super) fn leave(&self, page: &WorkerPage, stay: u64) -> Option<Duration> {
        page.current.store(0, Relaxed);
        // Who stays too long has been seen meanwhile: nobody else pays for a look at the clock.
        if page.seen.load(Relaxed) != stay {
            return None;
        }
        Some(self.time_in(page)).filter(|held| *held > HOLD_MAX)
    }

    /// Tells how long a worker is in its handler by now.
    pub(super) fn time_in(&self, page: &WorkerPage) -> Duration {
        let entered = page.entered_ns.load(Relaxed);
        Duration::from_nanos(self.ns(Instant::now()).saturating_sub(entered))
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
    fn stir(&self) {
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

    /// Notes that the watchdog has seen a stay.
    pub(super) fn see(&self, stay: u64) {
        self.seen.store(stay, Relaxed);
    }

    /// Counts a stay as too long, once.
    pub(super) fn count_hold(&self, stay: u64) {
        if self.named.swap(stay, Relaxed) != stay
            && let Some(cells) = self.cells(Self::handler_of(stay))
        {
            cells.holds.fetch_add(1, Relaxed);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_stay_that_was_seen_is_told_from_its_beginning() {
        let name = HandlerName {
            plugin: "Slow",
            task: "on_open".to_owned(),
        };
        let book = HandlerBook::new(vec![name], 1);
        let page = &book.workers[0];
        let long_ago = book.began;
        let enter = |times, at| book.enter(page, HandlerId(0), times, at);
        while book.began.elapsed() <= HOLD_MAX {
            std::thread::yield_now();
        }
        let unseen = enter(1, long_ago);
        assert_eq!(book.leave(page, unseen), None);
        let long = enter(2, long_ago);
        page.see(long);
        assert!(book.leave(page, long).is_some_and(|held| held > HOLD_MAX));
        // However many notice it.
        page.count_hold(long);
        page.count_hold(long);
        assert_eq!(page.cells[0].holds.load(Relaxed), 1);
        let short = enter(3, Instant::now() + HOLD_MAX);
        page.see(short);
        assert_eq!(book.leave(page, short), None);
    }
}
