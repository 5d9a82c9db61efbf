//! The open tables.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

use hikyaku_vfs::{Disk, Lock};

use super::{Checkpoint, Logging, NamedTable, Replayed};
use crate::{
    Kind, LogPosition, Table, TableError, UpdateLog, WhenDurable,
    log::{Applied, Known},
};

/// Tables that are open together, with one update log.
///
/// Dropping it closes it in order; who wants to know whether that worked calls [`Tables::close`].
pub struct Tables {
    pub(super) inner: Arc<Inner>,
    pub(super) checkpointer: Mutex<Option<JoinHandle<()>>>,
    pub(super) replayed: Replayed,
    pub(super) ended: AtomicBool,
}

/// What the checkpoints' thread shares.
pub(super) struct Inner {
    pub(super) disk: Disk,
    pub(super) folder: PathBuf,
    pub(super) tables: Vec<Open>,
    pub(super) log: Option<UpdateLog>,
    pub(super) logging: Logging,
    pub(super) checkpoint_bytes: u64,
    pub(super) server: u32,
    /// What is known of a log that is not written to.
    pub(super) known: Known,
    pub(super) applied: Mutex<BTreeMap<u32, Applied>>,
    /// Held while a checkpoint is made.
    pub(super) checkpointing: Mutex<()>,
    pub(super) _lock: Box<dyn Lock>,
}

/// A table that is open.
pub(super) struct Open {
    pub(super) named: NamedTable,
    pub(super) table: Arc<dyn Table>,
}

impl Tables {
    /// Returns the table of a name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Table>> {
        self.inner.get(name)
    }

    /// Returns all tables with their names, the default table first.
    pub fn iter(&self) -> impl Iterator<Item = (&NamedTable, &Arc<dyn Table>)> {
        let tables = self.inner.tables.iter();
        tables.map(|open| (&open.named, &open.table))
    }

    /// Returns the update log, if there is one.
    pub fn log(&self) -> Option<&UpdateLog> {
        self.inner.log.as_ref()
    }

    /// Returns whether and how updates are taken down.
    pub fn logging(&self) -> Logging {
        self.inner.logging
    }

    /// Returns this server's number.
    pub fn server(&self) -> u32 {
        self.inner.server
    }

    /// Returns what opening the tables had to carry out again.
    pub fn replayed(&self) -> Replayed {
        self.replayed
    }

    /// Returns what the answers to all updates that have returned must wait for: `None` if for
    /// nothing. (With [`Logging::Sync`]: that they are durable in the log.)
    pub fn settled(&self) -> Option<WhenDurable> {
        let log = self.log().filter(|_| self.logging() == Logging::Sync)?;
        let position = log.position();
        (log.durable() < position).then(|| log.when_durable(position))
    }

    /// Makes everything so far durable, in the log and in the tables, and notes up to where: a
    /// recovery begins there. Updates go on meanwhile.
    pub fn checkpoint(&self) -> Result<(), TableError> {
        self.inner.checkpoint()
    }

    /// Writes a copy of all tables (but those in memory) to a folder (made if missing) while they are
    /// in use. It opens as a set of tables does, and as one that has applied this server's updates up
    /// to the position that is returned: opened under another number, it can follow from there.
    /// Durable when it returns.
    pub fn copy(&self, folder: &Path) -> Result<LogPosition, TableError> {
        let inner = &*self.inner;
        let made = inner.disk.create_dir_all(folder);
        made.map_err(TableError::io("create", folder))?;
        if Checkpoint::read(&inner.disk, folder)?.is_some() {
            let path = folder.join("checkpoint");
            let there = io::Error::from(io::ErrorKind::AlreadyExists);
            return Err(TableError::io("write", &path)(there));
        }
        let (mut applied, position) = inner.present();
        for open in &inner.tables {
            if open.table.kind() != Kind::Memory {
                open.table.copy(&folder.join(&open.named.spec.file))?;
            }
        }
        if let Some(log) = &inner.log {
            // What is in the copy must never be missing from the log.
            log.wait_durable(log.position())?;
            let own = Applied {
                source: inner.server,
                position: position.0,
                at_us: log.newest_us(),
            };
            applied.insert(own.source, own);
        }
        let known = Known {
            position,
            file: 0,
            unlogged: false,
        };
        Checkpoint { known, applied }.write(&inner.disk, folder)?;
        Ok(position)
    }

    /// Closes in order: writes what waits, refuses updates from now on (with a log), syncs, and notes
    /// that a recovery has nothing to do.
    pub fn close(self) -> Result<(), TableError> {
        self.end()
    }

    fn end(&self) -> Result<(), TableError> {
        if self.ended.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let closed = self.inner.log.as_ref().map_or(Ok(()), UpdateLog::close);
        let thread = self
            .checkpointer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            // A panic there was printed, and checkpoints can be made without it.
            let _ = thread.join();
        }
        closed.and_then(|()| self.inner.checkpoint())
    }
}

impl Drop for Tables {
    fn drop(&mut self) {
        // An unclean end is what a recovery is for.
        let _ = self.end();
    }
}

impl std::fmt::Debug for Tables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.inner.tables.iter().map(|open| open.named.to_string());
        f.debug_list().entries(names).finish()
    }
}

impl Inner {
    pub(super) fn get(&self, name: &str) -> Option<&Arc<dyn Table>> {
        let open = self.tables.iter().find(|open| open.named.name == name);
        open.map(|open| &open.table)
    }

    /// Tells whether a table's updates are logged. (A log of an earlier program has also those of
    /// tables in memory.)
    pub(super) fn is_logged(&self, name: &str) -> bool {
        self.get(name)
            .is_none_or(|table| table.kind() != Kind::Memory)
    }

    /// Makes a checkpoint whenever the log has grown by enough, until it ends.
    pub(super) fn make_checkpoints(&self) {
        let Some(log) = &self.log else { return };
        let mut noted = log.written_bytes();
        while log.wait_written(noted.saturating_add(self.checkpoint_bytes)) {
            noted = log.written_bytes();
            // One that fails is made up for by the next, or by a longer recovery.
            let _ = self.checkpoint();
        }
    }

    /// Makes a checkpoint.
    pub(super) fn checkpoint(&self) -> Result<(), TableError> {
        let _one_at_a_time = self
            .checkpointing
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // The position comes before the syncs: what is before it is in the tables by then.
        let (applied, position) = self.present();
        if let Some(log) = &self.log {
            log.wait_durable(position)?;
        }
        for open in &self.tables {
            open.table.sync()?;
        }
        let known = match &self.log {
            None => self.known,
            Some(log) => Known {
                position,
                file: log.file(),
                unlogged: false,
            },
        };
        Checkpoint { known, applied }.write(&self.disk, &self.folder)?;
        if let Some(log) = &self.log {
            log.checkpointed(position)?;
        }
        Ok(())
    }

    /// Returns what was applied, and a position at which it was.
    fn present(&self) -> (BTreeMap<u32, Applied>, LogPosition) {
        let applied = self.applied();
        let log = self.log.as_ref();
        let position = log.map_or(self.known.position, UpdateLog::position);
        (applied.clone(), position)
    }

    pub(super) fn applied(&self) -> MutexGuard<'_, BTreeMap<u32, Applied>> {
        self.applied.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
