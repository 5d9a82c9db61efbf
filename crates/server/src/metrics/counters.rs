//! Figures of plugins' own.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// The counters that plugins have made.
#[derive(Debug, Default)]
pub(crate) struct Counters(Mutex<Vec<Registered>>);

#[derive(Debug)]
struct Registered {
    name: &'static str,
    help: &'static str,
    value: Arc<AtomicU64>,
}

impl Counters {
    /// Returns the counter of this name, new or not.
    pub(crate) fn register(&self, name: &'static str, help: &'static str) -> Arc<AtomicU64> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = all.iter().find(|counter| counter.name == name) {
            return Arc::clone(&old.value);
        }
        let value = Arc::new(AtomicU64::new(0));
        all.push(Registered {
            name,
            help,
            value: Arc::clone(&value),
        });
        value
    }

    /// Shows what somebody else counts.
    pub(crate) fn show(&self, name: &'static str, help: &'static str, value: Arc<AtomicU64>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(Registered { name, help, value });
    }

    /// Returns each counter's name, help and value.
    pub(super) fn read(&self) -> Vec<(&'static str, &'static str, u64)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter()
            .map(|counter| (counter.name, counter.help, counter.value.load(Relaxed)))
            .collect()
    }
}
