//! The log as its users see it.

use std::{
    fmt,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use hikyaku_vfs::Disk;

use super::{
    Applied, Known,
    follower::{EntryReader, Follower},
    options::{LogOptions, LogPosition},
    progress::{Progress, WhenDurable},
    pump::Pump,
    queue::Queue,
    recovery::{Recovered, TornTail, recover},
    segments::Segments,
    waiting::Waiting,
};
use crate::{Effect, Stamp, TableError, UpdateSink};

/// What the log's thread and its users share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) options: LogOptions,
    pub(super) queue: Queue,
    pub(super) progress: Progress,
    pub(super) segments: Arc<Segments>,
    /// From where on a recovery needs the entries.
    pub(super) needed: AtomicU64,
    /// The highest time of all durable stamps.
    pub(super) highest_us: AtomicU64,
    /// How many [`Follower`]s there are.
    pub(super) followers: AtomicUsize,
}

impl Shared {
    /// Makes the log's thread begin, if it has not yet taken what is before a position.
    pub(super) fn hurry_for(&self, position: LogPosition) {
        if self.progress.durable() < position && position <= self.queue.end() {
            self.queue.hurry();
        }
    }

    /// Tells whether what is written is going to be read.
    pub(super) fn is_followed(&self) -> bool {
        self.followers.load(Ordering::Relaxed) > 0
    }

    /// Removes files that need not be kept.
    pub(super) fn retire(&self) -> Result<(), TableError> {
        let needed = LogPosition(self.needed.load(Ordering::Acquire));
        let highest_us = self.highest_us.load(Ordering::Relaxed);
        self.segments.retire(&self.options, needed, highest_us)
    }
}

/// The update log of a set of tables.
///
/// Dropping it writes what waits, and ends its thread.
pub struct UpdateLog {
    pub(super) shared: Arc<Shared>,
    torn: Option<TornTail>,
    pump: Mutex<Option<Pump>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl UpdateLog {
    /// Opens the log in a folder (made if missing) for tables of these names, whatever happened to
    /// it. It takes nothing down before [`UpdateLog::start`].
    pub(crate) fn open(
        disk: &Disk,
        dir: &Path,
        options: LogOptions,
        tables: &[String],
        known: Known,
    ) -> Result<Self, TableError> {
        let Recovered {
            writer,
            segments,
            torn,
        } = recover(disk, dir, &options, tables, known)?;
        let end = writer.active.end_position;
        let shared = Arc::new(Shared {
            queue: Queue::new(end, options.queue_bytes_max, options.flush_bytes()),
            progress: Progress::new(end),
            segments: Arc::new(segments),
            needed: AtomicU64::new(known.position.0),
            highest_us: AtomicU64::new(writer.active.highest_us),
            followers: AtomicUsize::new(0),
            options,
        });
        Ok(Self {
            torn,
            pump: Mutex::new(Some(Pump::new(Arc::clone(&shared), writer))),
            thread: Mutex::new(None),
            shared,
        })
    }

    /// Begins to take updates down.
    pub(crate) fn start(&self) -> Result<(), TableError> {
        let Some(pump) = self.prepare()? else {
            return Ok(());
        };
        let thread = thread::Builder::new().name("update-log".to_owned());
        let thread = thread.spawn(move || pump.run())?;
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(())
    }

    /// Begins to take updates down, and leaves the work of the thread to the caller.
    pub(super) fn prepare(&self) -> Result<Option<Pump>, TableError> {
        let mut pump = self.pump.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pump) = pump.as_mut() {
            pump.prepare().map_err(TableError::Stopped)?;
            let Segments { disk, dir, .. } = &*self.shared.segments;
            let bytes = self.shared.options.queue_bytes_max;
            let waiting = Waiting::begin(disk, dir, self.position(), bytes)?;
            self.shared.queue.record(waiting);
        }
        Ok(pump.take())
    }

    /// Returns the sink of the table with a number (its index among the names that the log was
    /// opened with). It refuses when the disk is full or the log has stopped, and waits while too
    /// much waits for the disk already.
    pub(crate) fn sink(&self, table: u32) -> Arc<dyn UpdateSink> {
        Arc::new(TableSink {
            shared: Arc::clone(&self.shared),
            table,
        })
    }

    /// Takes down how far another server's updates were applied: after them, so that it is durable
    /// only if they are.
    pub(crate) fn note_applied(&self, applied: &Applied) -> Result<(), TableError> {
        let stamp = Stamp {
            at_us: applied.at_us,
            origin: self.server(),
        };
        self.shared.queue.append_applied(applied, stamp)
    }

    /// States that a recovery needs nothing before a position any more.
    pub(crate) fn checkpointed(&self, position: LogPosition) -> Result<(), TableError> {
        self.shared.needed.store(position.0, Ordering::Release);
        self.shared.retire()
    }

    /// Returns the bytes that were written since the log was opened.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.shared.progress.written()
    }

    /// Waits until so many bytes were written since the log was opened; false at its end.
    pub(crate) fn wait_written(&self, bytes: u64) -> bool {
        self.shared.progress.wait_written(bytes)
    }

    /// Returns the number of the file that is written to.
    pub(crate) fn file(&self) -> u32 {
        let (_, end) = self.shared.segments.bounds();
        let last = self.shared.segments.find(end);
        last.map_or(0, |segment| segment.file())
    }

    /// Returns what was cut from the log's end when it was opened, if anything.
    pub fn torn_tail(&self) -> Option<&TornTail> {
        self.torn.as_ref()
    }

    /// Returns this server's number.
    pub fn server(&self) -> u32 {
        self.shared.options.server
    }

    /// Returns the end of the log: all updates that have returned are before it.
    pub fn position(&self) -> LogPosition {
        self.shared.queue.end()
    }

    /// Returns the end of what is durable.
    pub fn durable(&self) -> LogPosition {
        self.shared.progress.durable()
    }

    /// Returns the first position that can still be followed from.
    pub fn first_position(&self) -> LogPosition {
        self.shared.segments.bounds().0
    }

    /// Returns the bytes of the log's files, as far as they are durable.
    pub fn bytes(&self) -> u64 {
        self.shared.segments.bytes()
    }

    /// Returns the newest time of all durable updates, in microseconds since 1970.
    pub fn newest_us(&self) -> u64 {
        self.shared.highest_us.load(Ordering::Relaxed)
    }

    /// Waits until all before a position is durable; the log's thread begins at once. An error if the
    /// log has stopped before.
    pub fn wait_durable(&self, position: LogPosition) -> Result<(), TableError> {
        self.shared.hurry_for(position);
        self.shared.progress.wait(position)
    }

    /// Waits as [`UpdateLog::wait_durable`] does, for at most a time; false if that was not enough.
    pub fn wait_durable_for(
        &self,
        position: LogPosition,
        at_most: Duration,
    ) -> Result<bool, TableError> {
        self.shared.hurry_for(position);
        self.shared.progress.wait_for(position, at_most)
    }

    /// Returns a future of what [`UpdateLog::wait_durable`] waits for.
    pub fn when_durable(&self, position: LogPosition) -> WhenDurable {
        WhenDurable::new(Arc::clone(&self.shared), position)
    }

    /// Reads the entries that a recovery from a position on needs.
    pub(crate) fn recover_from(&self, position: LogPosition) -> Result<EntryReader, TableError> {
        EntryReader::new(Arc::clone(&self.shared.segments), position)
    }

    /// Follows the log from a position: first what there is, then what comes. An error if the log
    /// does not have that position (any more).
    pub fn follow(&self, from: LogPosition) -> Result<Follower, TableError> {
        Follower::new(Arc::clone(&self.shared), from)
    }

    /// Follows the log's updates of a time (microseconds since 1970) and later, as far back as there
    /// are any.
    pub fn follow_since(&self, at_us: u64) -> Result<Follower, TableError> {
        Follower::since(Arc::clone(&self.shared), at_us)
    }

    /// Writes what waits, and ends; an error if that or something before has failed. Updates are
    /// refused from now on.
    pub fn close(&self) -> Result<(), TableError> {
        self.shared.queue.end_with(&Arc::from("it was closed"));
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            // A panic there was printed; what it did not write is noticed below.
            let _ = thread.join();
        }
        self.shared.progress.wait(self.position())
    }
}

impl Drop for UpdateLog {
    fn drop(&mut self) {
        // Whoever wants to know calls `close`.
        let has_thread = self.thread.get_mut().is_ok_and(|thread| thread.is_some());
        if has_thread {
            let _ = self.close();
        }
    }
}

impl fmt::Debug for UpdateLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpdateLog")
            .field("position", &self.position())
            .finish_non_exhaustive()
    }
}

/// What one table tells of its updates.
#[derive(Debug)]
struct TableSink {
    shared: Arc<Shared>,
    table: u32,
}

impl UpdateSink for TableSink {
    fn updated(&self, effect: Effect<'_>, stamp: Stamp) -> Result<(), TableError> {
        let stamp = Stamp {
            origin: if stamp.origin == 0 {
                self.shared.options.server
            } else {
                stamp.origin
            },
            ..stamp
        };
        self.shared.queue.append(self.table, &effect, stamp)
    }
}
