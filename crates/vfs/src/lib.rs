//! The only door to files: a real disk ([`RealDisk`]), and a simulated one ([`SimulatedDisk`]) that
//! loses, tears and refuses.
//!
//! The promises are those of POSIX, no more: bytes are durable after `sync_data`, names after
//! `sync_dir`. The simulated disk keeps exactly these and breaks everything else at a crash.

mod mapping;
mod real;
mod real_mapping;
mod simulated;

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;

pub use mapping::{MappedFile, Window};
pub use real::{RealDisk, read_file};
pub use simulated::{Call, Fault, SimulatedDisk};

/// The multiple at which blocks begin, on disks and in memory. A disk whose blocks are longer is written
/// to by way of the system's memory.
pub const BLOCK_BYTES: usize = 4096;

/// A shared handle to a disk.
pub type Disk = Arc<dyn Vfs>;

/// A disk: directories, names, files.
pub trait Vfs: Send + Sync + fmt::Debug {
    /// Creates a directory and its parents, durably; fine if it is there. Only its owner may enter.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Creates a file for reading and writing, which only its owner may do; an error if it exists.
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn File>>;
    /// Opens an existing file for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Box<dyn File>>;
    /// Maps a whole file that will never change again, read-only. The file may be removed (not
    /// truncated) while mapped. Slices of the returned buffer share the mapping.
    fn map(&self, path: &Path) -> io::Result<Bytes>;
    /// Maps a file for reading and writing by many threads, with room to grow up to `capacity` bytes
    /// (`InvalidInput` if it has more already). While it is mapped nobody else may change it, other
    /// than by a rename or a removal.
    fn map_mut(&self, path: &Path, capacity: u64) -> io::Result<MappedFile>;
    /// Renames atomically within one directory, replacing the target. Durable after
    /// [`Vfs::sync_dir`].
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Lists the names of the files (not directories) in a directory, sorted.
    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>>;
    /// Tells whether a file exists.
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// Makes creations, renames and removals in a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Takes an exclusive lock on a file (created if missing), held until dropped or the process
    /// dies. `WouldBlock` if another holds it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>>;
}

/// Returns what of the bytes stands before the first block of the file that they fill, the blocks, and
/// what stands behind them.
fn parts_of(bytes: &[u8], offset: u64) -> (&[u8], &[u8], &[u8]) {
    let head = (offset.next_multiple_of(BLOCK_BYTES as u64) - offset) as usize;
    let (head, rest) = bytes.split_at_checked(head).unwrap_or((bytes, &[]));
    let (blocks, tail) = rest.split_at(rest.len() / BLOCK_BYTES * BLOCK_BYTES);
    (head, blocks, tail)
}

/// An exclusive lock, released when dropped.
pub trait Lock: Send + Sync {}

/// An open file. Positions are explicit; there is no cursor.
pub trait File: Send {
    /// Reads exactly `buffer.len()` bytes at `offset`; `UnexpectedEof` if there are fewer.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes all bytes at `offset`, growing the file if need be. After an error any part of them
    /// may have been written.
    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Writes as [`File::write_all_at`] does what will hardly be read soon: from the caller's memory
    /// to the disk, where that can be, without a copy that stays in the system's. Only whole blocks
    /// of [`BLOCK_BYTES`] go that way, and only if they lie in memory as they do in the file, counted
    /// from a multiple of it.
    fn write_through_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }
    /// Makes what was written durable, and the length. After an error what was written since the
    /// last success may be lost, even though it can still be read and a later call succeeds.
    fn sync_data(&mut self) -> io::Result<()>;
    /// Cuts or grows (with zeros) the file.
    fn set_len(&mut self, len: u64) -> io::Result<()>;
    /// Returns the length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Tells whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Makes sure that the blocks of `offset..offset + len` exist, written as zeros, so that a later
    /// write there can't run out of space. Grows the file; what stood in that range is lost. After
    /// an error (`StorageFull` when there is no room) the file has the length it had before.
    fn allocate(&mut self, offset: u64, len: u64) -> io::Result<()>;
    /// Does the same, and leaves it to the disk how: where that can be without writing, it takes less
    /// than half of the processor's time, and the first sync of what is written there takes longer.
    fn allocate_unwritten(&mut self, offset: u64, len: u64) -> io::Result<()> {
        self.allocate(offset, len)
    }
    /// Says that what stands there durably will hardly be read again, so that it need not be kept in
    /// memory. It can still be read.
    fn forget(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }
}

/// Locks; a panic elsewhere leaves nothing half done behind the locks of this crate.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
