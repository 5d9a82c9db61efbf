//! The table itself: which record is guarded by which stripe, and what a change goes through.

use std::{
    cell::Cell,
    fmt,
    hash::{BuildHasher, Hasher},
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use foldhash::quality::FixedState;
use hikyaku_vfs::{Disk, Lock};

use super::{
    blocks::BLOCK,
    follower::Follower,
    key::Digits,
    layout::clean_mark,
    options::FixedOptions,
    records::{Records, Slot, disk_error},
    stripe::{Locked, Stripe},
};
use crate::{
    Attributes, Change, Condition, Effect, Outcome, Stamp, TableError, Update, UpdateSink,
    rules::{self, Answer, Bounds, Current, Decision},
};

/// How many stripes there are: a power of two, so that finding one is two instructions.
pub(super) const STRIPES: usize = 1024;

/// How often the width can be changed while a table is open. A reader may be anywhere, so no mapping
/// goes before the table does; its disk space does.
const GENERATIONS: usize = 1024;

/// Bytes of a buffer that a thread keeps for its next update.
const SCRATCH_KEPT: usize = 1 << 16;

thread_local! {
    /// Where an update reads the old value and makes the new one. It is taken while in use, so that a
    /// sink that updates another table finds an empty one.
    static SCRATCH: Cell<Scratch> = const { Cell::new((Vec::new(), Vec::new())) };
}

type Scratch = (Vec<u8>, Vec<u8>);

/// A table whose keys are the numbers from 1, and whose values have a limited width: an array in a
/// mapped file.
///
/// Updates of different records do not wait for each other (but where two of them share a stripe, one
/// in 1,024), and reads wait for nobody. Each update is whole after the death of the process. After a
/// power cut everything before the last [`crate::Table::sync`] stands; a record that was updated later
/// has one of its values since, or may be torn: `docs/format/fixed-table.md` says when.
pub struct FixedTable {
    stripes: Box<[Stripe; STRIPES]>,
    /// The records of the file that was opened.
    first: Records,
    /// Those of the files that have taken its place.
    later: Box<[OnceLock<Arc<Records>>; GENERATIONS]>,
    /// Which one is in use: 0 is the first.
    current: AtomicUsize,
    sink: Option<Arc<dyn UpdateSink>>,
    /// Whether there is a follower. Changed while all stripes are locked.
    followed: AtomicBool,
    follower: RwLock<Option<Arc<dyn Follower>>>,
    /// Held by whatever is about the whole table: one at a time.
    pub(super) maintenance: Mutex<()>,
    /// Held by a sync, and while another file takes the place of the one that was synced.
    pub(super) syncing: Mutex<()>,
    pub(super) disk: Disk,
    pub(super) path: PathBuf,
    pub(super) options: FixedOptions,
    _lock: Box<dyn Lock>,
}

/// Locks; nothing under these locks is left half done by a panic.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FixedTable {
    /// `count`: how many records there are.
    pub(super) fn with(
        records: Records,
        count: u64,
        (disk, path, options): (Disk, PathBuf, FixedOptions),
        sink: Option<Arc<dyn UpdateSink>>,
        lock: Box<dyn Lock>,
    ) -> Self {
        let table = Self {
            stripes: Box::new(std::array::from_fn(|_| Stripe::default())),
            first: records,
            later: Box::new([const { OnceLock::new() }; GENERATIONS]),
            current: AtomicUsize::new(0),
            sink,
            followed: AtomicBool::new(false),
            follower: RwLock::new(None),
            maintenance: Mutex::new(()),
            syncing: Mutex::new(()),
            disk,
            path,
            options,
            _lock: lock,
        };
        table.stripe(0).lock().set_count(|_| count);
        table
    }

    /// Returns the bytes that a value may have.
    pub fn width(&self) -> usize {
        self.records().layout().width
    }

    /// Returns the largest key.
    pub fn limit(&self) -> u64 {
        self.records().limit()
    }

    /// Reads a record into a buffer, without allocation: returns the length of its value. A buffer that
    /// is too short is an error ([`TableError::ValueTooLong`], with the buffer's length).
    #[inline]
    pub fn get(&self, key: u64, buffer: &mut [u8]) -> Result<Option<usize>, TableError> {
        let index = key.wrapping_sub(1);
        let read = || self.records().read(index, buffer);
        match self.stripe(index).try_read(read) {
            Some(Some(len)) => Ok(Some(len)),
            _ => self.get_unusual(key, buffer),
        }
    }

    /// As [`FixedTable::get`], for whatever there may be.
    #[inline(never)]
    fn get_unusual(&self, key: u64, buffer: &mut [u8]) -> Result<Option<usize>, TableError> {
        let index = self.records().index(key)?;
        let slot = self.stripe(index).read(|| {
            let slot = self.records().slot(index);
            if let Slot::Value(len) = slot
                && let Some(place) = buffer.get_mut(..len)
            {
                self.records().value(index, place);
            }
            slot
        });
        match slot {
            Slot::Absent => Ok(None),
            Slot::Value(len) if len <= buffer.len() => Ok(Some(len)),
            Slot::Value(_) => Err(TableError::ValueTooLong {
                limit: buffer.len(),
            }),
            Slot::Damaged(len) => Err(self.records().damaged(index, len)),
        }
    }

    /// Reads a record: replaces what is in `value`.
    pub(super) fn get_vec(&self, key: u64, value: &mut Vec<u8>) -> Result<bool, TableError> {
        self.records().index(key)?;
        let slot = self.stripe(key - 1).read(|| {
            let slot = self.records().slot(key - 1);
            if let Slot::Value(len) = slot {
                value.resize(len, 0);
                self.records().value(key - 1, value);
            }
            slot
        });
        match slot {
            Slot::Value(_) => Ok(true),
            Slot::Absent => Ok(false),
            Slot::Damaged(len) => Err(self.records().damaged(key - 1, len)),
        }
    }

    /// Returns the length of a record's value.
    pub fn value_len(&self, key: u64) -> Result<Option<usize>, TableError> {
        self.records().index(key)?;
        match self.stripe(key - 1).read(|| self.records().slot(key - 1)) {
            Slot::Value(len) => Ok(Some(len)),
            Slot::Absent => Ok(None),
            Slot::Damaged(len) => Err(self.records().damaged(key - 1, len)),
        }
    }

    /// Writes a record, whatever was there.
    #[inline]
    pub fn put(&self, key: u64, value: &[u8], stamp: Stamp) -> Result<(), TableError> {
        self.put_named(key, None, value, stamp)
    }

    /// As [`FixedTable::put`]. `digits`: the key's, if they are known.
    #[inline]
    pub(super) fn put_named(
        &self,
        key: u64,
        digits: Option<&[u8]>,
        value: &[u8],
        stamp: Stamp,
    ) -> Result<(), TableError> {
        // The record comes from memory while the lock is taken.
        self.records().prefetch(key.wrapping_sub(1));
        let locked = self.stripe(key.wrapping_sub(1)).lock();
        let records = self.records();
        let index = records.index(key)?;
        let width = records.layout().width;
        if value.len() > width {
            return Err(TableError::ValueTooLong { limit: width });
        }
        records.prepare(index)?;
        if let Some(sink) = &self.sink {
            match digits {
                Some(digits) => tell_named_put(&**sink, digits, value, stamp),
                None => tell_put(&**sink, key, value, stamp),
            }?;
        }
        if !self.is_overwritten(records, &locked, index, value) {
            let old = records.slot(index);
            self.store(records, &locked, index, old, Some(value));
        }
        Ok(())
    }

    /// Rotates bytes into a record: see [`Change::Rotate`].
    pub fn rotate(
        &self,
        key: u64,
        bytes: &[u8],
        size: Option<usize>,
        stamp: Stamp,
    ) -> Result<(), TableError> {
        let change = Change::Rotate { bytes, size };
        self.change(key, Condition::Any, change, stamp).map(|_| ())
    }

    /// Changes a record if a condition holds: see [`Change`].
    pub fn change(
        &self,
        key: u64,
        condition: Condition<'_>,
        change: Change<'_>,
        stamp: Stamp,
    ) -> Result<Outcome, TableError> {
        let update = Update {
            condition,
            ..Update::new(b"", change)
        };
        let mut scratch = SCRATCH.take();
        let outcome = self.change_with(key, &update, stamp, &mut scratch);
        if scratch.0.capacity().max(scratch.1.capacity()) <= SCRATCH_KEPT {
            SCRATCH.set(scratch);
        }
        outcome
    }

    fn change_with(
        &self,
        key: u64,
        update: &Update<'_>,
        stamp: Stamp,
        (old, new): &mut Scratch,
    ) -> Result<Outcome, TableError> {
        let locked = self.stripe(key.wrapping_sub(1)).lock();
        let records = self.records();
        let index = records.index(key)?;
        let slot = records.slot(index);
        let current = match slot {
            Slot::Absent => None,
            Slot::Value(len) => {
                old.resize(len, 0);
                records.value(index, old);
                Some(Current {
                    value: old,
                    attributes: Attributes::default(),
                    unique: match update.condition {
                        Condition::Unique(_) => unique(old),
                        _ => 0,
                    },
                })
            }
            Slot::Damaged(len) => {
                old.clear();
                // What does not ask what was there heals the record.
                match (update.condition, update.change) {
                    (Condition::Any, Change::Put(_) | Change::Remove) => Some(Current {
                        value: old,
                        attributes: Attributes::default(),
                        unique: 0,
                    }),
                    _ => return Err(records.damaged(index, len)),
                }
            }
        };
        let width = records.layout().width;
        let bounds = Bounds {
            width: Some(width),
            value_bytes_max: width,
        };
        match rules::decide(current, update, bounds, new)? {
            Decision::Put(_, answer) => {
                records.prepare(index)?;
                if let Some(sink) = &self.sink {
                    tell_put(&**sink, key, new, stamp)?;
                }
                if !self.is_overwritten(records, &locked, index, new) {
                    self.store(records, &locked, index, slot, Some(new));
                }
                Ok(match answer {
                    Answer::Stored => Outcome::Stored {
                        unique: unique(new),
                    },
                    Answer::Integer(sum) => Outcome::Integer(sum),
                    Answer::Double(sum) => Outcome::Double(sum),
                    Answer::Number { value, is_new } => Outcome::Number {
                        value,
                        unique: unique(new),
                        is_new,
                    },
                })
            }
            // There is nothing to touch, and the record is there.
            Decision::Touch(_) => Ok(Outcome::Stored {
                unique: unique(old),
            }),
            Decision::Remove => {
                records.prepare(index)?;
                if let Some(sink) = &self.sink {
                    let mut digits = Digits::default();
                    let key = digits.of(key);
                    sink.updated(Effect::Remove { key }, stamp)?;
                }
                self.store(records, &locked, index, slot, None);
                Ok(Outcome::Removed)
            }
            Decision::NotStored => Ok(Outcome::NotStored),
            Decision::Differs => Ok(Outcome::Differs),
            Decision::NotFound => Ok(Outcome::NotFound),
        }
    }

    /// Tells the sink that all records go.
    pub(super) fn tell_vanish(&self, stamp: Stamp) -> Result<(), TableError> {
        let Some(sink) = &self.sink else {
            return Ok(());
        };
        sink.updated(Effect::Vanish, stamp)
    }

    /// Writes a record under its stripe's lock, if that is one instruction and nobody follows. False
    /// if it is not so: see [`FixedTable::store`].
    #[inline]
    fn is_overwritten(
        &self,
        records: &Records,
        locked: &Locked<'_>,
        index: u64,
        value: &[u8],
    ) -> bool {
        !self.followed.load(Ordering::Relaxed) && records.overwrite(locked, index, value)
    }

    /// Writes a record, under its stripe's lock. From here on nothing can fail.
    fn store(
        &self,
        records: &Records,
        locked: &Locked<'_>,
        index: u64,
        old: Slot,
        new: Option<&[u8]>,
    ) {
        let followed = self.followed.load(Ordering::Relaxed);
        if followed {
            self.follow(|follower| follower.before(records, index / BLOCK));
        }
        if old == Slot::Absent && new.is_some() && !records.blocks.has(index / BLOCK) {
            records.blocks.set(index / BLOCK);
        }
        records.intend(index, new, || {
            locked.write(|| records.write(index, old, new));
        });
        match (old, new) {
            (Slot::Absent, Some(_)) => locked.set_count(|count| count.wrapping_add(1)),
            (Slot::Value(_) | Slot::Damaged(_), None) => {
                locked.set_count(|count| count.wrapping_sub(1));
            }
            _ => {}
        }
        if followed {
            self.follow(|follower| follower.after(index, new));
        }
    }

    #[cold]
    fn follow(&self, tell: impl FnOnce(&dyn Follower)) {
        let follower = self.follower.read();
        let follower = follower.unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(follower) = follower {
            tell(&*follower);
        }
    }

    /// Sets or takes away the follower. All stripes must be locked.
    pub(super) fn set_follower(&self, _all: &AllLocked<'_>, follower: Option<Arc<dyn Follower>>) {
        self.followed.store(follower.is_some(), Ordering::Relaxed);
        *self
            .follower
            .write()
            .unwrap_or_else(PoisonError::into_inner) = follower;
    }

    /// Returns what guards a record.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "taken modulo the length")]
    pub(super) fn stripe(&self, index: u64) -> &Stripe {
        &self.stripes[(index / BLOCK) as usize % STRIPES]
    }

    /// Locks all stripes: no record changes until they are let go. Readers go on.
    pub(super) fn lock_all(&self) -> AllLocked<'_> {
        AllLocked(self.stripes.iter().map(Stripe::lock).collect())
    }

    /// Returns how many records there are: each is counted as it stood at some moment of the call.
    pub(super) fn counted(&self) -> u64 {
        let counts = self.stripes.iter().map(Stripe::count);
        let count = counts.fold(0_u64, u64::wrapping_add);
        // The number that a file was left with may have been wrong.
        if count > i64::MAX as u64 { 0 } else { count }
    }

    /// Returns the records of the file that is in use.
    #[inline]
    pub(super) fn records(&self) -> &Records {
        match self.current.load(Ordering::Acquire) {
            0 => &self.first,
            later => self.later(later),
        }
    }

    #[expect(
        clippy::expect_used,
        reason = "a number is made current once its file is there"
    )]
    fn later(&self, current: usize) -> &Records {
        let records = self.later.get(current - 1).and_then(OnceLock::get);
        records.expect("the current file is there")
    }

    /// Puts another file in use. All stripes must be locked, and readers kept out.
    pub(super) fn replace(&self, _all: &AllLocked<'_>, records: Arc<Records>) {
        let current = self.current.load(Ordering::Relaxed);
        if let Some(place) = self.later.get(current) {
            // It is empty: only this function sets it, one number after another.
            let _ = place.set(records);
            self.current.store(current + 1, Ordering::Release);
        }
    }

    /// Tells whether [`FixedTable::replace`] has room for another file.
    pub(super) fn can_replace(&self) -> bool {
        self.current.load(Ordering::Relaxed) < GENERATIONS
    }
}

/// All stripes, locked.
pub(super) struct AllLocked<'a>(Vec<Locked<'a>>);

impl AllLocked<'_> {
    /// Changes what readers may be reading, as [`Locked::write`].
    pub(super) fn write<R>(&self, change: impl FnOnce() -> R) -> R {
        self.0.iter().for_each(Locked::begin);
        let result = change();
        self.0.iter().for_each(Locked::end);
        result
    }

    /// Sets how many records there are.
    pub(super) fn set_count(&self, count: u64) {
        for (number, stripe) in self.0.iter().enumerate() {
            stripe.set_count(|_| if number == 0 { count } else { 0 });
        }
    }
}

fn tell_put(sink: &dyn UpdateSink, key: u64, value: &[u8], stamp: Stamp) -> Result<(), TableError> {
    let mut digits = Digits::default();
    tell_named_put(sink, digits.of(key), value, stamp)
}

fn tell_named_put(
    sink: &dyn UpdateSink,
    key: &[u8],
    value: &[u8],
    stamp: Stamp,
) -> Result<(), TableError> {
    let effect = Effect::Put {
        key,
        value,
        attributes: Attributes::default(),
    };
    sink.updated(effect, stamp)
}

/// Returns the unique number of a value: a hash of it, the same on every machine.
pub(super) fn unique(value: &[u8]) -> u64 {
    let mut hasher = FixedState::with_seed(0).build_hasher();
    hasher.write(value);
    hasher.finish()
}

impl fmt::Debug for FixedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FixedTable")
            .field("path", &self.path)
            .field("records", self.records())
            .finish_non_exhaustive()
    }
}

impl Drop for FixedTable {
    /// Leaves a mark that all is in order, so that the next one need not count. Without it, all is
    /// in order as well.
    fn drop(&mut self) {
        let map = self.records().map();
        let count = self.counted();
        if map.sync().is_ok() {
            map.store(super::layout::CLEAN_OFFSET, &clean_mark(count));
            let _ = map.sync();
        }
    }
}

impl FixedTable {
    /// Makes everything durable that was updated before.
    pub(super) fn sync_now(&self) -> Result<(), TableError> {
        let _syncing = locked(&self.syncing);
        // Who has told the sink of an update holds its stripe until the record is written.
        drop(self.lock_all());
        self.records().map().sync().map_err(disk_error)
    }
}
