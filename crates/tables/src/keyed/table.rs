//! Hash and ordered tables behind the interface of every table.

use std::{
    fmt,
    ops::Bound,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use arc_swap::ArcSwap;
use hikyaku_vfs::{Disk, Lock};

use super::{
    open::Place,
    record::Record,
    snapshot::Snapshot,
    writer::{Request, Writer},
};
use crate::{
    Durability, Effect, Found, Interval, Kind, Outcome, Stamp, Table, TableError, TableSpec,
    Update, UpdateSink,
};

/// How large a hash or ordered table may become, and what a power cut may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyedOptions {
    /// Bytes of all records together (25 each are ours); an update that would pass it is refused
    /// ([`TableError::Full`]).
    pub limit_bytes: u64,
    /// Bytes of one key.
    pub key_bytes_max: usize,
    /// Bytes of one value.
    pub value_bytes_max: usize,
    /// Bytes of memory for what is read and written often.
    pub cache_bytes: usize,
    /// What is durable when an update has been answered.
    pub durability: Durability,
    /// Seconds between syncs with [`Durability::Interval`], by the stamps of the updates.
    pub interval_s: u64,
    /// Bytes of the journal from which on the B-tree is made durable and the journal begins anew: what
    /// a start after a crash has to carry out again.
    pub journal_bytes_max: u64,
}

impl Default for KeyedOptions {
    fn default() -> Self {
        Self {
            limit_bytes: 16 << 30,
            key_bytes_max: 4 << 10,
            value_bytes_max: 1 << 20,
            cache_bytes: 64 << 20,
            durability: Durability::Sync,
            interval_s: 1,
            journal_bytes_max: 16 << 20,
        }
    }
}

/// The largest value that can be allowed, so that a frame of the journal has a length in 32 bits.
const VALUE_BYTES_MAX: usize = 1 << 30;

impl KeyedOptions {
    /// Returns what a text says, with the defaults for the rest.
    pub fn of(spec: &TableSpec) -> Self {
        let (default, said) = (Self::default(), &spec.options);
        let value_bytes_max = said.value.unwrap_or(default.value_bytes_max);
        Self {
            limit_bytes: said.limit.unwrap_or(default.limit_bytes),
            key_bytes_max: default.key_bytes_max,
            value_bytes_max: value_bytes_max.min(VALUE_BYTES_MAX),
            cache_bytes: said.cache.unwrap_or(default.cache_bytes),
            durability: said.durability.unwrap_or(default.durability),
            interval_s: said.interval.unwrap_or(default.interval_s),
            journal_bytes_max: default.journal_bytes_max,
        }
    }

    /// Checks that a key and a value of so many bytes are not too long.
    pub(super) fn check(&self, key: &[u8], value_bytes: usize) -> Result<(), TableError> {
        if key.len() > self.key_bytes_max {
            let limit = self.key_bytes_max;
            return Err(TableError::KeyTooLong { limit });
        }
        if value_bytes > self.value_bytes_max {
            let limit = self.value_bytes_max;
            return Err(TableError::ValueTooLong { limit });
        }
        Ok(())
    }
}

/// A hash or an ordered table: the same B-tree, of which a hash table shows no order.
///
/// A hash table could place its records by a hash of their keys. It does not: keys that come in some
/// order (numbers, times, names with a common beginning) are then spread over the whole tree, and
/// each update of a batch writes a page of its own. Measured, in batches of 10,000, keys in order are
/// put 5.7 and 8.4 times as fast as keys without any (`examples/kinds.rs`, two runs); keys that
/// have no order anyway gain nothing by a hash.
///
/// One writer at a time; readers wait for nobody: they see the table as the last commit left it.
pub struct KeyedTable {
    kind: Kind,
    path: PathBuf,
    place: Place,
    snapshot: ArcSwap<Snapshot>,
    journal_bytes: AtomicU64,
    writer: Mutex<Writer>,
    /// The key that the next sweep begins behind.
    swept: Mutex<Option<Vec<u8>>>,
    /// Given up last.
    _lock: Box<dyn Lock>,
}

impl KeyedTable {
    /// Opens a table, or makes it. `kind` is hash or ordered.
    pub fn open(
        disk: &Disk,
        path: &Path,
        kind: Kind,
        options: KeyedOptions,
        sink: Option<Arc<dyn UpdateSink>>,
    ) -> Result<Self, TableError> {
        let place = Place {
            disk: Arc::clone(disk),
            path: path.to_path_buf(),
            cache_bytes: options.cache_bytes,
        };
        let lock = place.lock()?;
        place.make()?;
        let (writer, snapshot) = Writer::open(place.clone(), options, sink)?;
        Ok(Self {
            kind,
            path: path.to_path_buf(),
            place,
            snapshot: ArcSwap::from_pointee(snapshot),
            journal_bytes: AtomicU64::new(writer.journal_bytes()),
            writer: Mutex::new(writer),
            swept: Mutex::new(None),
            _lock: lock,
        })
    }

    /// Whatever panicked with the lock held left the files as a crash would: known good by what is
    /// in the journal.
    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, snapshot: Snapshot) {
        self.snapshot.store(Arc::new(snapshot));
    }

    fn carry_out(
        &self,
        requests: &[Request<'_>],
        stamp: Stamp,
        outcomes: &mut Vec<Result<Outcome, TableError>>,
    ) {
        let mut writer = self.writer();
        writer.carry_out(requests, stamp, outcomes, |snapshot| self.publish(snapshot));
        self.journal_bytes
            .store(writer.journal_bytes(), Ordering::Relaxed);
    }

    fn carry_out_one(&self, request: Request<'_>, stamp: Stamp) -> Result<Outcome, TableError> {
        let mut outcomes = Vec::with_capacity(1);
        self.carry_out(&[request], stamp, &mut outcomes);
        outcomes.pop().unwrap_or(Ok(Outcome::NotFound))
    }

    fn keys(
        &self,
        lower: Bound<&[u8]>,
        within: impl Fn(&[u8]) -> bool,
        limit: usize,
    ) -> Result<Vec<Vec<u8>>, TableError> {
        let mut keys = Vec::new();
        if limit > 0 {
            let snapshot = self.snapshot.load_full();
            snapshot.walk(&self.path, lower, |key, _| {
                let wanted = within(key);
                if wanted {
                    keys.push(key.to_vec());
                }
                Ok(wanted && keys.len() < limit)
            })?;
        }
        Ok(keys)
    }

    fn check_ordered(&self, what: &'static str) -> Result<(), TableError> {
        match self.kind {
            Kind::Ordered => Ok(()),
            _ => Err(TableError::Unsupported { kind: "hash", what }),
        }
    }
}

impl Table for KeyedTable {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn updates_wait(&self) -> bool {
        true
    }

    fn get(&self, key: &[u8], now: u64, value: &mut Vec<u8>) -> Result<Option<Found>, TableError> {
        let read = |record: Record<'_>| {
            (!record.has_expired(now)).then(|| {
                value.clear();
                value.extend_from_slice(record.value);
                record.found()
            })
        };
        Ok(self.snapshot.load().get(&self.path, key, read)?.flatten())
    }

    fn size(&self, key: &[u8], now: u64) -> Result<Option<usize>, TableError> {
        let read = |record: Record<'_>| (!record.has_expired(now)).then_some(record.value.len());
        Ok(self.snapshot.load().get(&self.path, key, read)?.flatten())
    }

    fn update(&self, update: &Update<'_>, stamp: Stamp) -> Result<Outcome, TableError> {
        self.carry_out_one(Request::Update(update), stamp)
    }

    fn update_all(
        &self,
        updates: &[Update<'_>],
        stamp: Stamp,
        outcomes: &mut Vec<Result<Outcome, TableError>>,
    ) {
        let requests: Vec<_> = updates.iter().map(Request::Update).collect();
        self.carry_out(&requests, stamp, outcomes);
    }

    fn check(&self, key: &[u8], value_bytes: usize) -> Result<(), TableError> {
        self.writer().options().check(key, value_bytes)
    }

    fn apply(&self, effect: Effect<'_>, stamp: Stamp) -> Result<(), TableError> {
        self.carry_out_one(Request::Effect(effect), stamp).map(drop)
    }

    fn count(&self) -> u64 {
        self.snapshot.load().count(&self.path).unwrap_or_default()
    }

    fn bytes(&self) -> u64 {
        self.snapshot.load().file_bytes() + self.journal_bytes.load(Ordering::Relaxed)
    }

    fn keys_after(&self, after: Option<&[u8]>, limit: usize) -> Result<Vec<Vec<u8>>, TableError> {
        let lower = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.keys(lower, |_| true, limit)
    }

    fn last_key(&self) -> Result<Option<Vec<u8>>, TableError> {
        self.snapshot.load().last_key(&self.path)
    }

    fn range(&self, interval: &Interval, limit: usize) -> Result<Vec<Vec<u8>>, TableError> {
        self.check_ordered("list a range of keys")?;
        let first = || Ok(self.keys_after(None, 1)?.pop());
        let Some((lower, upper)) = interval.keys(first, || self.last_key())? else {
            return Ok(Vec::new());
        };
        let lower = lower.as_ref().map(Vec::as_slice);
        let within = |key: &[u8]| match &upper {
            Bound::Included(last) => key <= last.as_slice(),
            Bound::Excluded(end) => key < end.as_slice(),
            Bound::Unbounded => true,
        };
        self.keys(lower, within, limit)
    }

    fn with_prefix(&self, prefix: &[u8], limit: usize) -> Result<Vec<Vec<u8>>, TableError> {
        self.check_ordered("find keys by their beginning")?;
        let within = |key: &[u8]| key.starts_with(prefix);
        self.keys(Bound::Included(prefix), within, limit)
    }

    /// Looks without stopping updates, and removes in one commit what it found.
    fn sweep(&self, now: u64, records: usize) -> Result<u64, TableError> {
        let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        let snapshot = self.snapshot.load_full();
        let lower = swept.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut left = records;
        let mut last = None;
        let mut expired = Vec::new();
        snapshot.walk(&self.path, lower, |key, stored| {
            if left == 0 {
                return Ok(false);
            }
            left -= 1;
            if Record::read(key, stored).is_some_and(|record| record.has_expired(now)) {
                expired.push(key.to_vec());
            }
            if left == 0 {
                last = Some(key.to_vec());
            }
            Ok(true)
        })?;
        *swept = last;
        let mut writer = self.writer();
        let (gone, snapshot) = writer.remove_expired(&expired, now)?;
        if let Some(snapshot) = snapshot {
            self.publish(snapshot);
        }
        Ok(gone)
    }

    fn vanish(&self, stamp: Stamp) -> Result<(), TableError> {
        self.apply(Effect::Vanish, stamp)
    }

    /// Writes the table anew, in order and without holes; needs as much room beside it meanwhile.
    /// Updates wait, readers don't.
    fn optimise(&self, options: &str) -> Result<(), TableError> {
        if !options.is_empty() {
            return Err(TableError::Syntax(format!(
                "a hash or ordered table is optimised without options, not with {options:?}"
            )));
        }
        let mut writer = self.writer();
        let snapshot = writer.rewrite(&self.snapshot.load_full())?;
        self.publish(snapshot);
        Ok(())
    }

    fn copy(&self, to: &Path) -> Result<(), TableError> {
        self.place.write_copy(to, &self.snapshot.load_full())
    }

    fn sync(&self) -> Result<(), TableError> {
        self.writer().sync()
    }
}

impl Drop for KeyedTable {
    fn drop(&mut self) {
        self.writer().close();
    }
}

impl fmt::Debug for KeyedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedTable")
            .field("kind", &self.kind)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}
