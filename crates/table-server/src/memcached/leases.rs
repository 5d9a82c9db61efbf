//! Who has won the right to renew a record, and which records are stale: the flags `N`, `R` and `I`
//! of meta commands.
//!
//! These marks are hints of a moment, not data: they are kept in memory beside the table, belong to
//! one state of a record (by its unique number), and are gone when the server stops.

use std::{
    collections::HashMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

/// Marks kept for one table. At so many all are forgotten: a client renews a record once more.
const MARKS_MAX: usize = 65_536;

/// What is known of one state of a record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The state.
    pub(super) unique: u64,
    /// It is to be renewed.
    pub(super) is_stale: bool,
    /// Somebody has been told to renew it.
    pub(super) is_won: bool,
}

/// The marks of one table.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    /// So that a table without marks, as most are, costs no lock.
    count: AtomicUsize,
    marks: Mutex<HashMap<Box<[u8]>, Mark>>,
}

impl Leases {
    /// Returns what is known of a record in this state.
    pub(super) fn mark(&self, key: &[u8], unique: u64) -> Mark {
        let unmarked = Mark {
            unique,
            ..Mark::default()
        };
        if self.count.load(Relaxed) == 0 {
            return unmarked;
        }
        let marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let found = marks.get(key).copied();
        found
            .filter(|mark| mark.unique == unique)
            .unwrap_or(unmarked)
    }

    /// Notes a mark, in the place of any other of the record.
    pub(super) fn set(&self, key: &[u8], mark: Mark) {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        if marks.len() >= MARKS_MAX {
            marks.clear();
        }
        marks.insert(key.into(), mark);
        self.count.store(marks.len(), Relaxed);
    }

    /// Tells whether the caller is the first who is to renew this state of a record.
    pub(super) fn win(&self, key: &[u8], unique: u64) -> bool {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let known = marks.get_mut(key).filter(|mark| mark.unique == unique);
        if let Some(mark) = known {
            return !std::mem::replace(&mut mark.is_won, true);
        }
        if marks.len() >= MARKS_MAX {
            marks.clear();
        }
        let mark = Mark {
            unique,
            is_stale: false,
            is_won: true,
        };
        marks.insert(key.into(), mark);
        self.count.store(marks.len(), Relaxed);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::atomic::Ordering, thread};

    use super::*;

    #[test]
    fn a_state_of_a_record_is_won_once() {
        let leases = Leases::default();
        let seen_by_both = leases.mark(b"key", 7);
        assert!(!seen_by_both.is_won);
        assert!(leases.win(b"key", 7));
        assert!(!leases.win(b"key", 7), "the other was told so too");
        assert!(leases.mark(b"key", 7).is_won);
        // It has changed meanwhile: what was won is another state.
        assert!(leases.win(b"key", 8));
        assert!(!leases.mark(b"key", 7).is_won);
        let stale = Mark {
            unique: 9,
            is_stale: true,
            is_won: false,
        };
        leases.set(b"key", stale);
        assert!(leases.win(b"key", 9));
        assert!(!leases.win(b"key", 9));
        assert!(leases.mark(b"key", 9).is_stale);
    }

    #[test]
    fn of_two_who_ask_at_once_one_wins() {
        const ROUNDS: u64 = 5_000;
        let leases = Leases::default();
        let arrived = AtomicUsize::new(0);
        let ask = || {
            let won = (0..ROUNDS).filter(|unique| {
                // Both begin a round at the same moment, as nearly as can be.
                arrived.fetch_add(1, Ordering::SeqCst);
                while arrived.load(Ordering::SeqCst) < 2 * (*unique as usize + 1) {
                    thread::yield_now();
                }
                leases.win(b"key", *unique)
            });
            won.collect::<Vec<_>>()
        };
        let ask = &ask;
        let mut won = thread::scope(|scope| {
            let other = scope.spawn(ask);
            let mut won = ask();
            won.extend(other.join().unwrap());
            won
        });
        won.sort_unstable();
        // A round waits for both, so nobody asks for a state before or after the other does.
        assert_eq!(won, (0..ROUNDS).collect::<Vec<_>>());
    }
}
