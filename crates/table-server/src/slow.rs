//! A table that waits for its disk, or says so: for tests and fuzzing.

use hikyaku_tables::{
    Effect, Found, Interval, Kind, MemoryTable, Outcome, Stamp, Table, TableError, Update,
};

/// A table in memory whose updates go to its writer, as those of tables on disk do.
#[derive(Debug)]
pub(crate) struct Slow(pub(crate) MemoryTable);

impl Table for Slow {
    fn kind(&self) -> Kind {
        self.0.kind()
    }
    fn updates_wait(&self) -> bool {
        true
    }
    fn get(&self, key: &[u8], now: u64, value: &mut Vec<u8>) -> Result<Option<Found>, TableError> {
        self.0.get(key, now, value)
    }
    fn size(&self, key: &[u8], now: u64) -> Result<Option<usize>, TableError> {
        self.0.size(key, now)
    }
    fn update(&self, update: &Update<'_>, stamp: Stamp) -> Result<Outcome, TableError> {
        self.0.update(update, stamp)
    }
    fn check(&self, key: &[u8], value_bytes: usize) -> Result<(), TableError> {
        self.0.check(key, value_bytes)
    }
    fn apply(&self, effect: Effect<'_>, stamp: Stamp) -> Result<(), TableError> {
        self.0.apply(effect, stamp)
    }
    fn count(&self) -> u64 {
        self.0.count()
    }
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }
    fn keys_after(&self, after: Option<&[u8]>, limit: usize) -> Result<Vec<Vec<u8>>, TableError> {
        self.0.keys_after(after, limit)
    }
    fn last_key(&self) -> Result<Option<Vec<u8>>, TableError> {
        self.0.last_key()
    }
    fn range(&self, interval: &Interval, limit: usize) -> Result<Vec<Vec<u8>>, TableError> {
        self.0.range(interval, limit)
    }
    fn with_prefix(&self, prefix: &[u8], limit: usize) -> Result<Vec<Vec<u8>>, TableError> {
        self.0.with_prefix(prefix, limit)
    }
    fn vanish(&self, stamp: Stamp) -> Result<(), TableError> {
        self.0.vanish(stamp)
    }
    fn optimise(&self, options: &str) -> Result<(), TableError> {
        self.0.optimise(options)
    }
    fn copy(&self, to: &std::path::Path) -> Result<(), TableError> {
        self.0.copy(to)
    }
    fn sync(&self) -> Result<(), TableError> {
        self.0.sync()
    }
}
