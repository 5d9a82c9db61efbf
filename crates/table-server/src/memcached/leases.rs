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
