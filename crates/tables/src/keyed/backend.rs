//! The B-tree's file through our door to files.

use std::{
    fmt, io,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
};

use hikyaku_vfs::{Disk, File};
use redb::StorageBackend;

/// Handles to read by, so that readers of different pages rarely wait for each other, and never for
/// a sync.
const READERS: usize = 4;

/// Bytes of a page of the B-tree.
const PAGE_BYTES: u64 = 4096;

const OPEN: u8 = 0;
const READ_ONLY: u8 = 1;
const CLOSED: u8 = 2;

/// An open file of a table; clones are handles to the same one.
#[derive(Clone)]
pub(super) struct Backend(Arc<Shared>);

struct Shared {
    /// What the B-tree may still do: [`OPEN`], [`READ_ONLY`] or [`CLOSED`].
    state: AtomicU8,
    len: AtomicU64,
    writer: Mutex<Box<dyn File>>,
    readers: Vec<Mutex<Box<dyn File>>>,
}

impl Backend {
    /// Opens an existing file.
    pub(super) fn open(disk: &Disk, path: &Path) -> io::Result<Self> {
        let readers = (0..READERS).map(|_| disk.open(path).map(Mutex::new));
        let writer = disk.open(path)?;
        Ok(Self(Arc::new(Shared {
            state: AtomicU8::new(OPEN),
            len: AtomicU64::new(writer.len()?),
            writer: Mutex::new(writer),
            readers: readers.collect::<io::Result<_>>()?,
        })))
    }

    /// Returns the bytes of the file.
    pub(super) fn bytes(&self) -> u64 {
        self.0.len.load(Ordering::Relaxed)
    }

    /// Lets the B-tree change nothing more: what it has in memory is not to be trusted.
    pub(super) fn stop_writing(&self) {
        self.0.state.fetch_max(READ_ONLY, Ordering::SeqCst);
    }

    /// Lets the B-tree do nothing more: another is opened on the file.
    pub(super) fn stop(&self) {
        self.0.state.fetch_max(CLOSED, Ordering::SeqCst);
    }

    fn reader(&self, offset: u64) -> io::Result<MutexGuard<'_, Box<dyn File>>> {
        self.check(READ_ONLY)?;
        let at = (offset / PAGE_BYTES) as usize % READERS;
        Ok(lock(self.0.readers.get(at).unwrap_or(&self.0.writer)))
    }

    fn writer(&self) -> io::Result<MutexGuard<'_, Box<dyn File>>> {
        let file = lock(&self.0.writer);
        self.check(OPEN)?;
        Ok(file)
    }

    fn check(&self, state_max: u8) -> io::Result<()> {
        if self.0.state.load(Ordering::SeqCst) > state_max {
            return Err(io::Error::other("its file failed before"));
        }
        Ok(())
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.check(READ_ONLY)?;
        Ok(self.bytes())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.reader(offset)?.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.writer()?.set_len(len)?;
        self.0.len.store(len, Ordering::Relaxed);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.writer()?.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.writer()?.write_all_at(data, offset)?;
        let end = offset + data.len() as u64;
        self.0.len.fetch_max(end, Ordering::Relaxed);
        Ok(())
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backend").finish_non_exhaustive()
    }
}

/// A file has no state of ours that a panic could leave half done.
fn lock(file: &Mutex<Box<dyn File>>) -> MutexGuard<'_, Box<dyn File>> {
    file.lock().unwrap_or_else(PoisonError::into_inner)
}
