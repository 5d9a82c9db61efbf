//! The shared buffer: where updates wait for the log's thread, in order.

use std::{mem, sync::Arc, time::Duration};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::{
    batch::{ALIGNMENT, BATCH_HEADER_LEN},
    buffer::BatchBuffer,
    entry::{Applied, ENTRY_OVERHEAD_MAX, Kept, Prepared, Unstamped},
    options::LogPosition,
    waiting::{Waiting, load_entries},
};
use crate::{Effect, Stamp, TableError};

/// The most bytes of a key and its value together: keeps a batch's length in 32 bits.
pub(super) const RECORD_BYTES_MAX: usize = 256 << 20;

/// Where updates wait. The lock is held for an append or a swap only, never during input or output.
#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    /// The log's thread waits here for something to do.
    work: Condvar,
    /// Updaters wait here for room.
    room: Condvar,
    bytes_max: usize,
    flush_bytes: usize,
}

#[derive(Debug)]
struct State {
    /// Bytes of the batch to come: its header and its entries, which are in [`Waiting`].
    len: usize,
    /// Up to this length entries are taken down without a further look; see [`State::set_open`].
    open: usize,
    entries: u32,
    /// The position of its first entry.
    first: LogPosition,
    stamp: Option<Stamp>,
    highest_us: u64,
    /// Bytes of the file that are allocated and not yet spoken for: the batch to come must fit.
    reserved: usize,
    /// The most bytes of the file that a waiting updater needs.
    wanted: usize,
    /// How often there was no room on the disk for what was wanted.
    refusals: u64,
    /// Whether somebody waits for the disk.
    hurry: bool,
    /// Where what waits is kept. Nothing is taken down without it: a recovery carries out what the
    /// log says already.
    waiting: Option<Waiting>,
    ended: Option<Arc<str>>,
}

/// What was taken from the queue.
#[derive(Debug)]
pub(super) struct Taken {
    /// Room for a batch's header, then the entries.
    pub(super) bytes: BatchBuffer,
    pub(super) entries: u32,
    pub(super) first: LogPosition,
    pub(super) highest_us: u64,
    /// Bytes of the file that somebody waits for.
    pub(super) wanted: usize,
}

impl Queue {
    /// Makes a queue that takes nothing down yet.
    pub(super) fn new(first: LogPosition, bytes_max: usize, flush_bytes: usize) -> Self {
        Self {
            state: Mutex::new(State {
                len: BATCH_HEADER_LEN,
                open: 0,
                entries: 0,
                first,
                stamp: None,
                highest_us: 0,
                reserved: 0,
                wanted: 0,
                refusals: 0,
                hurry: false,
                waiting: None,
                ended: None,
            }),
            work: Condvar::new(),
            room: Condvar::new(),
            bytes_max,
            flush_bytes,
        }
    }

    /// Takes updates down from now on, and keeps them there while they wait.
    pub(super) fn record(&self, waiting: Waiting) {
        let mut state = self.state.lock();
        state.waiting = Some(waiting);
        state.set_open(self.bytes_max);
    }

    /// Appends an effect. Waits while the queue is full; an error if the disk is, or the log has
    /// ended.
    pub(super) fn append(
        &self,
        table: u32,
        effect: &Effect<'_>,
        stamp: Stamp,
    ) -> Result<(), TableError> {
        let len = effect.bytes();
        if len > RECORD_BYTES_MAX {
            return Err(TableError::ValueTooLong {
                limit: RECORD_BYTES_MAX,
            });
        }
        self.append_prepared(len, stamp, &Prepared::effect(table, effect, stamp))
    }

    /// Appends how far another server's updates were applied.
    pub(super) fn append_applied(&self, applied: &Applied, stamp: Stamp) -> Result<(), TableError> {
        self.append_prepared(0, stamp, &Prepared::applied(applied, stamp))
    }

    /// `len`: bytes of the key and the value. What can be done before the lock is taken has been.
    #[inline]
    fn append_prepared(
        &self,
        len: usize,
        stamp: Stamp,
        entry: &Prepared,
    ) -> Result<(), TableError> {
        match entry {
            Prepared::Small(small) => self.append_entry(len, stamp, small),
            Prepared::Long(long) => self.append_entry(len, stamp, long),
        }
    }

    #[inline]
    fn append_entry(
        &self,
        len: usize,
        stamp: Stamp,
        entry: &impl Unstamped,
    ) -> Result<(), TableError> {
        let len = len + ENTRY_OVERHEAD_MAX;
        let mut state = self.state.lock();
        if state.len + len > state.open {
            match self.make_room(state, len)? {
                Some(made) => state = made,
                None => return Ok(()),
            }
        }
        let len_before = state.len;
        let len = if state.stamp == Some(stamp) {
            state.keep(entry)
        } else {
            state.stamp = Some(stamp);
            state.highest_us = state.highest_us.max(stamp.at_us);
            state.keep(&entry.with_stamp(stamp))
        };
        let is_first = len_before == BATCH_HEADER_LEN;
        let is_much = len_before < self.flush_bytes && len >= self.flush_bytes;
        drop(state);
        if is_first || is_much {
            self.work.notify_one();
        }
        Ok(())
    }

    /// Makes room for an entry that is not taken down without a further look; `None` if nothing is.
    #[cold]
    fn make_room<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        len: usize,
    ) -> Result<Option<MutexGuard<'a, State>>, TableError> {
        if state.waiting.is_none() {
            return Ok(None);
        }
        if state.ended.is_some() || !self.fits(&state, len) {
            state = self.wait_for_room(state, len)?;
        }
        if let Some(waiting) = &state.waiting {
            waiting.reserve(state.len - BATCH_HEADER_LEN, len)?;
        }
        Ok(Some(state))
    }

    fn fits(&self, state: &State, len: usize) -> bool {
        let len = state.len + len;
        let has_room = state.entries == 0 || len <= self.bytes_max && state.entries < u32::MAX;
        has_room && len + ALIGNMENT <= state.reserved
    }

    fn wait_for_room<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        len: usize,
    ) -> Result<MutexGuard<'a, State>, TableError> {
        let refusals = state.refusals;
        loop {
            if let Some(why) = &state.ended {
                return Err(TableError::Stopped(why.to_string()));
            }
            if self.fits(&state, len) {
                return Ok(state);
            }
            if state.refusals != refusals {
                return Err(TableError::Full);
            }
            state.wanted = state.wanted.max(BATCH_HEADER_LEN + len + ALIGNMENT);
            self.work.notify_one();
            self.room.wait(&mut state);
        }
    }

    /// Returns the position that the next entry will have.
    pub(super) fn end(&self) -> LogPosition {
        let state = self.state.lock();
        LogPosition(state.first.0 + u64::from(state.entries))
    }

    /// Makes the log's thread begin with what there is.
    pub(super) fn hurry(&self) {
        let mut state = self.state.lock();
        if state.entries > 0 && !state.hurry {
            state.hurry = true;
            drop(state);
            self.work.notify_one();
        }
    }

    /// Waits until there is something to write or to allocate, and then a little longer, for more to
    /// come; false at the end.
    pub(super) fn wait_for_work(&self, linger: Duration) -> bool {
        let idle = |state: &State| state.ended.is_none() && state.entries == 0 && state.wanted == 0;
        let mut state = self.state.lock();
        while idle(&state) {
            self.work.wait(&mut state);
        }
        let may_linger = |state: &mut State| {
            state.ended.is_none()
                && !state.hurry
                && state.wanted == 0
                && state.len < self.flush_bytes
        };
        self.work.wait_while_for(&mut state, may_linger, linger);
        state.ended.is_none()
    }

    /// Takes all that waits, to be written at an offset; `spare` is the buffer it comes in.
    pub(super) fn take(&self, mut spare: BatchBuffer, offset: u32) -> Taken {
        let mut state = self.state.lock();
        let len = mem::replace(&mut state.len, BATCH_HEADER_LEN);
        let entries = mem::take(&mut state.entries);
        let first = state.first;
        state.first.0 += u64::from(entries);
        let next = state.first;
        let highest_us = mem::take(&mut state.highest_us);
        let wanted = mem::take(&mut state.wanted);
        state.stamp = None;
        state.hurry = false;
        let mut file = None;
        if entries > 0 {
            file = state.waiting.as_mut().map(|waiting| waiting.turn(next));
            let len = len.next_multiple_of(ALIGNMENT);
            state.reserved = state.reserved.saturating_sub(len);
        }
        state.set_open(self.bytes_max);
        drop(state);
        self.room.notify_all();
        spare.begin(offset, len);
        if let (Some(file), Some(place)) = (file, spare.get_mut(BATCH_HEADER_LEN..)) {
            load_entries(&file, place);
        }
        Taken {
            bytes: spare,
            entries,
            first,
            highest_us,
            wanted,
        }
    }

    /// States how many bytes of the file are allocated behind what was taken, and whether that is
    /// less than was wanted because the disk is full.
    pub(super) fn set_reserved(&self, reserved: usize, refused: bool) {
        let mut state = self.state.lock();
        state.reserved = reserved;
        if refused {
            state.refusals += 1;
        }
        state.set_open(self.bytes_max);
        drop(state);
        self.room.notify_all();
    }

    /// Refuses all updates from now on.
    pub(super) fn end_with(&self, why: &Arc<str>) {
        let mut state = self.state.lock();
        if state.ended.is_none() {
            state.ended = Some(Arc::clone(why));
        }
        state.set_open(self.bytes_max);
        drop(state);
        self.work.notify_all();
        self.room.notify_all();
    }
}

impl State {
    /// States up to which length nothing stands in an entry's way: neither the queue's length, nor
    /// what is allocated, in the log or where it waits.
    fn set_open(&mut self, bytes_max: usize) {
        let is_open = self.ended.is_none();
        let waiting = self.waiting.as_ref().filter(|_| is_open);
        self.open = waiting.map_or(0, |waiting| {
            let allocated = self.reserved.saturating_sub(ALIGNMENT);
            let kept = BATCH_HEADER_LEN + waiting.reserved();
            // An entry has more than a byte.
            bytes_max.min(allocated).min(kept).min(u32::MAX as usize)
        });
    }

    /// Keeps an entry, and returns the length of the batch to come. What it needs was reserved.
    #[inline]
    fn keep(&mut self, entry: &impl Kept) -> usize {
        if let Some(waiting) = &mut self.waiting {
            waiting.keep(self.len - BATCH_HEADER_LEN, entry);
        }
        self.entries += 1;
        self.len += entry.len();
        self.len
    }
}
