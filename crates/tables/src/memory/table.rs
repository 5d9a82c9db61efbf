//! The table in memory: many parts, each behind a lock of its own.

use std::{
    cell::Cell,
    cmp::Reverse,
    collections::BinaryHeap,
    hash::BuildHasher,
    ops::Bound,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    vec,
};

use foldhash::quality::RandomState;

use super::{record::Record, shard::Shard};
use crate::{
    Attributes, Effect, Found, Interval, Kind, Outcome, Stamp, Table, TableError, TableSpec,
    Update, UpdateSink,
    rules::{self, Answer, Bounds, Decision},
};

/// Parts of a table. Two threads meet in one of them rarely enough, and a walk in order, which asks
/// every part, is not much more work for it.
const SHARDS: usize = 64;

/// Keys that one part is asked for at a time, so that a long list does not hold its lock for long.
const KEYS_AT_ONCE: usize = 1024;

/// Places that are looked at for records that have expired, when an update has found no room.
const SWEEP_FOR_ROOM: usize = 1024;

/// Bytes of a buffer that a thread keeps for its next update.
const SCRATCH_KEPT: usize = 1 << 16;

thread_local! {
    /// Where the new value of an update is made. It is taken while in use, so that a sink that
    /// updates another table finds an empty one.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// How large a table in memory may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryOptions {
    /// Bytes of all records together; an update that would pass it is refused ([`TableError::Full`]).
    pub limit_bytes: u64,
    /// Bytes of one key.
    pub key_bytes_max: usize,
    /// Bytes of one value.
    pub value_bytes_max: usize,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self {
            limit_bytes: 256 << 20,
            key_bytes_max: 4 << 10,
            // As memcached.
            value_bytes_max: 1 << 20,
        }
    }
}

impl MemoryOptions {
    /// Returns what a text says, with the defaults for the rest.
    pub fn of(spec: &TableSpec) -> Self {
        let default = Self::default();
        Self {
            limit_bytes: spec.options.limit.unwrap_or(default.limit_bytes),
            value_bytes_max: spec.options.value.unwrap_or(default.value_bytes_max),
            ..default
        }
    }
}

/// A table in memory. Single records are found by their hash; an order is kept from the first time
/// that somebody asks for one.
///
/// A read waits for as long as another thread copies a record of the same part (one in 64), never
/// for the sink.
#[derive(Debug)]
pub struct MemoryTable {
    shards: Box<[Part]>,
    hasher: RandomState,
    options: MemoryOptions,
    sink: Option<Arc<dyn UpdateSink>>,
    usage: Usage,
    /// The part that the next sweep begins with.
    swept: AtomicUsize,
}

/// A part with its locks, apart from its neighbours' cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Part {
    /// Held by an update for as long as the sink is told: only where there is one. It is taken
    /// before the records' lock, which is given up meanwhile: readers don't wait for the sink.
    turn: Mutex<()>,
    records: Mutex<Shard>,
}

impl Part {
    fn keys(
        &self,
        lower: Bound<&[u8]>,
        within: impl Fn(&[u8]) -> bool,
        limit: usize,
    ) -> vec::IntoIter<Vec<u8>> {
        lock(&self.records).keys(lower, within, limit).into_iter()
    }
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Usage {
    bytes: AtomicU64,
    count: AtomicU64,
}

impl MemoryTable {
    /// Makes an empty table.
    pub fn new(options: MemoryOptions, sink: Option<Arc<dyn UpdateSink>>) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Part::default()).collect(),
            hasher: RandomState::default(),
            options,
            sink,
            usage: Usage::default(),
            swept: AtomicUsize::new(0),
        }
    }

    fn sweep_part(&self, records: &mut Shard, now: u64, slots: usize) -> u64 {
        let (count, bytes) = records.sweep(now, slots);
        self.usage.count.fetch_sub(count, Ordering::Relaxed);
        self.release(bytes);
        count
    }

    fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash_one(key)
    }

    /// Returns a key's part: by bits of its hash that the hash table does not use first.
    #[expect(clippy::expect_used, reason = "a remainder by the length is within it")]
    fn part(&self, hash: u64) -> &Part {
        let at = (hash >> 40) as usize % SHARDS;
        self.shards.get(at).expect("there are as many parts")
    }

    fn turn<'a>(&self, part: &'a Part) -> Option<MutexGuard<'a, ()>> {
        self.sink.as_ref().map(|_| lock(&part.turn))
    }

    /// Makes room for what a record becomes larger by, or says that there is none.
    fn reserve(&self, more: u64) -> Result<(), TableError> {
        if more == 0 {
            return Ok(());
        }
        let fits = |bytes: u64| Some(bytes + more).filter(|&sum| sum <= self.options.limit_bytes);
        let bytes = &self.usage.bytes;
        let reserved = bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits);
        reserved.map(drop).map_err(|_| TableError::Full)
    }

    fn release(&self, bytes: u64) {
        if bytes > 0 {
            self.usage.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    fn sweep_parts(&self, now: u64, records: usize) -> u64 {
        let each = records.div_ceil(SHARDS).max(64);
        let mut gone = 0;
        for _ in 0..records.div_ceil(each) {
            let at = self.swept.fetch_add(1, Ordering::Relaxed) % SHARDS;
            if let Some(part) = self.shards.get(at) {
                let _turn = self.turn(part);
                gone += self.sweep_part(&mut lock(&part.records), now, each);
            }
        }
        gone
    }

    /// Tries an update again if there was no room and a look around finds some.
    fn with_room<T>(
        &self,
        stamp: Stamp,
        mut update: impl FnMut() -> Result<T, TableError>,
    ) -> Result<T, TableError> {
        match update() {
            Err(TableError::Full) if self.sweep_parts(stamp.seconds(), SWEEP_FOR_ROOM) > 0 => {
                update()
            }
            result => result,
        }
    }

    fn check_key(&self, key: &[u8]) -> Result<(), TableError> {
        if key.len() > self.options.key_bytes_max {
            return Err(TableError::KeyTooLong {
                limit: self.options.key_bytes_max,
            });
        }
        Ok(())
    }

    fn update_with(
        &self,
        update: &Update<'_>,
        stamp: Stamp,
        new: &mut Vec<u8>,
    ) -> Result<Outcome, TableError> {
        self.check_key(update.key)?;
        let bounds = Bounds {
            width: None,
            value_bytes_max: self.options.value_bytes_max,
        };
        let now = stamp.seconds();
        let key = update.key;
        let hash = self.hash(key);
        let part = self.part(hash);
        let _turn = self.turn(part);
        let records = lock(&part.records);
        let record = records.find(hash, key);
        let current = record.filter(|record| !record.has_expired(now));
        let decision = rules::decide(current.map(Record::current), update, bounds, new)?;
        match decision {
            Decision::Put(attributes, answer) => {
                let unique = self.put(part, records, hash, (key, new), attributes, stamp)?;
                Ok(match answer {
                    Answer::Stored => Outcome::Stored { unique },
                    Answer::Integer(sum) => Outcome::Integer(sum),
                    Answer::Double(sum) => Outcome::Double(sum),
                    Answer::Number { value, is_new } => Outcome::Number {
                        value,
                        unique,
                        is_new,
                    },
                })
            }
            Decision::Touch(attributes) => {
                let unique = current.map_or(0, Record::unique);
                let mut records = records;
                if let Some(sink) = &self.sink {
                    new.clear();
                    new.extend_from_slice(records.find(hash, key).map_or(&[], Record::value));
                    drop(records);
                    let effect = Effect::Put {
                        key,
                        value: new,
                        attributes,
                    };
                    sink.updated(effect, stamp)?;
                    records = lock(&part.records);
                }
                if let Some(record) = records.find_mut(hash, key) {
                    record.set_expiry(attributes.expires_at);
                }
                Ok(Outcome::Stored { unique })
            }
            Decision::Remove => {
                self.remove(part, records, hash, key, stamp)?;
                Ok(Outcome::Removed)
            }
            Decision::NotStored => Ok(Outcome::NotStored),
            Decision::Differs => Ok(Outcome::Differs),
            Decision::NotFound => Ok(Outcome::NotFound),
        }
    }

    /// Puts a record whose part is locked, and tells the sink. Returns its unique number.
    fn put<'a>(
        &self,
        part: &'a Part,
        mut records: MutexGuard<'a, Shard>,
        hash: u64,
        (key, value): (&[u8], &[u8]),
        attributes: Attributes,
        stamp: Stamp,
    ) -> Result<u64, TableError> {
        let after = Record::bytes_of(key, value);
        let before = records.find(hash, key).map_or(0, Record::bytes);
        self.reserve(after.saturating_sub(before))?;
        if let Some(sink) = &self.sink {
            drop(records);
            let effect = Effect::Put {
                key,
                value,
                attributes,
            };
            if let Err(error) = sink.updated(effect, stamp) {
                self.release(after.saturating_sub(before));
                return Err(error);
            }
            // Only a holder of the turn changes the records: they are as they were.
            records = lock(&part.records);
        }
        let unique = records.next_unique();
        let hasher = |key: &[u8]| self.hash(key);
        if records.put(hash, key, value, attributes, unique, hasher) {
            self.usage.count.fetch_add(1, Ordering::Relaxed);
        }
        self.release(before.saturating_sub(after));
        Ok(unique)
    }

    /// Removes a record whose part is locked, and tells the sink.
    fn remove<'a>(
        &self,
        part: &'a Part,
        mut records: MutexGuard<'a, Shard>,
        hash: u64,
        key: &[u8],
        stamp: Stamp,
    ) -> Result<(), TableError> {
        if let Some(sink) = &self.sink {
            drop(records);
            sink.updated(Effect::Remove { key }, stamp)?;
            records = lock(&part.records);
        }
        if let Some(bytes) = records.remove(hash, key) {
            self.usage.count.fetch_sub(1, Ordering::Relaxed);
            self.release(bytes);
        }
        Ok(())
    }

    /// Lists keys from `lower` on in order, as long as `within` says so: the parts' lists merged,
    /// each fetched piece by piece.
    fn keys(
        &self,
        lower: Bound<&[u8]>,
        within: impl Fn(&[u8]) -> bool,
        limit: usize,
    ) -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        if limit == 0 {
            return keys;
        }
        // Twice what an even spread has of each part, so that most need not be asked again.
        let piece = (limit / SHARDS * 2 + 4).min(limit).min(KEYS_AT_ONCE);
        let mut lists: Vec<_> = self
            .shards
            .iter()
            .map(|part| part.keys(lower, &within, piece))
            .collect();
        let firsts = lists.iter_mut().enumerate();
        let mut heads: BinaryHeap<_> = firsts
            .filter_map(|(at, list)| Some(Reverse((list.next()?, at))))
            .collect();
        while keys.len() < limit
            && let Some(Reverse((key, at))) = heads.pop()
        {
            if let (Some(list), Some(part)) = (lists.get_mut(at), self.shards.get(at)) {
                let mut next = list.next();
                if next.is_none() {
                    *list = part.keys(Bound::Excluded(&key), &within, piece);
                    next = list.next();
                }
                heads.extend(next.map(|next| Reverse((next, at))));
            }
            keys.push(key);
        }
        keys
    }
}

impl Table for MemoryTable {
    fn kind(&self) -> Kind {
        Kind::Memory
    }

    fn updates_wait(&self) -> bool {
        false
    }

    fn get(&self, key: &[u8], now: u64, value: &mut Vec<u8>) -> Result<Option<Found>, TableError> {
        let hash = self.hash(key);
        let records = lock(&self.part(hash).records);
        let record = records.find(hash, key);
        Ok(record
            .filter(|record| !record.has_expired(now))
            .map(|record| {
                value.clear();
                value.extend_from_slice(record.value());
                record.found()
            }))
    }

    fn size(&self, key: &[u8], now: u64) -> Result<Option<usize>, TableError> {
        let hash = self.hash(key);
        let records = lock(&self.part(hash).records);
        let record = records.find(hash, key);
        Ok(record
            .filter(|record| !record.has_expired(now))
            .map(|record| record.value().len()))
    }

    fn update(&self, update: &Update<'_>, stamp: Stamp) -> Result<Outcome, TableError> {
        let mut new = SCRATCH.take();
        let outcome = self.with_room(stamp, || self.update_with(update, stamp, &mut new));
        if new.capacity() <= SCRATCH_KEPT {
            SCRATCH.set(new);
        }
        outcome
    }

    fn check(&self, key: &[u8], value_bytes: usize) -> Result<(), TableError> {
        self.check_key(key)?;
        let limit = self.options.value_bytes_max;
        if value_bytes > limit {
            return Err(TableError::ValueTooLong { limit });
        }
        Ok(())
    }

    fn apply(&self, effect: Effect<'_>, stamp: Stamp) -> Result<(), TableError> {
        match effect {
            Effect::Put {
                key,
                value,
                attributes,
            } => {
                self.check(key, value.len())?;
                let hash = self.hash(key);
                let part = self.part(hash);
                self.with_room(stamp, || {
                    let _turn = self.turn(part);
                    let records = lock(&part.records);
                    self.put(part, records, hash, (key, value), attributes, stamp)
                        .map(drop)
                })
            }
            Effect::Remove { key } => {
                let hash = self.hash(key);
                let part = self.part(hash);
                let _turn = self.turn(part);
                self.remove(part, lock(&part.records), hash, key, stamp)
            }
            Effect::Vanish => self.vanish(stamp),
        }
    }

    fn count(&self) -> u64 {
        self.usage.count.load(Ordering::Relaxed)
    }

    fn bytes(&self) -> u64 {
        self.usage.bytes.load(Ordering::Relaxed)
    }

    fn keys_after(&self, after: Option<&[u8]>, limit: usize) -> Result<Vec<Vec<u8>>, TableError> {
        let lower = after.map_or(Bound::Unbounded, Bound::Excluded);
        Ok(self.keys(lower, |_| true, limit))
    }

    fn last_key(&self) -> Result<Option<Vec<u8>>, TableError> {
        let last = self
            .shards
            .iter()
            .map(|part| lock(&part.records).last_key());
        Ok(last.max().flatten())
    }

    fn range(&self, interval: &Interval, limit: usize) -> Result<Vec<Vec<u8>>, TableError> {
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
        Ok(self.keys(lower, within, limit))
    }

    fn with_prefix(&self, prefix: &[u8], limit: usize) -> Result<Vec<Vec<u8>>, TableError> {
        let within = |key: &[u8]| key.starts_with(prefix);
        Ok(self.keys(Bound::Included(prefix), within, limit))
    }

    fn vanish(&self, stamp: Stamp) -> Result<(), TableError> {
        let _turns: Vec<_> = self
            .shards
            .iter()
            .filter_map(|part| self.turn(part))
            .collect();
        if let Some(sink) = &self.sink {
            sink.updated(Effect::Vanish, stamp)?;
        }
        // All at once, so that nobody sees a part of the table gone; the memory is given back after.
        let mut parts: Vec<_> = self.shards.iter().map(|part| lock(&part.records)).collect();
        let taken: Vec<_> = parts.iter_mut().map(|records| records.take()).collect();
        // Nobody has reserved room: who does holds a part's lock, or its turn.
        self.usage.count.store(0, Ordering::Relaxed);
        self.usage.bytes.store(0, Ordering::Relaxed);
        drop(parts);
        drop(taken);
        Ok(())
    }

    fn optimise(&self, options: &str) -> Result<(), TableError> {
        if !options.is_empty() {
            return Err(TableError::Syntax(format!(
                "a table in memory is optimised without options, not with {options:?}"
            )));
        }
        for part in &self.shards {
            lock(&part.records).shrink(|key| self.hash(key));
        }
        Ok(())
    }

    fn sweep(&self, now: u64, records: usize) -> Result<u64, TableError> {
        Ok(self.sweep_parts(now, records))
    }

    fn copy(&self, _to: &Path) -> Result<(), TableError> {
        Err(TableError::Unsupported {
            kind: "memory",
            what: "be copied to a file",
        })
    }

    fn sync(&self) -> Result<(), TableError> {
        Ok(())
    }
}

/// A thread that panicked with the lock held has changed a record wholly or not at all.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
