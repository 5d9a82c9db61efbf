//! The disk that the operating system gives us.

use std::{
    fs,
    io::{self, Read},
    num::NonZeroU64,
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use rustix::{
    fs::{Advice, FallocateFlags, OFlags, fadvise, fallocate, fcntl_getfl, fcntl_setfl},
    io::Errno,
};

use crate::{
    BLOCK_BYTES, File, Lock, MappedFile, Vfs, mapping, parts_of, real_mapping::RealMapping,
};

/// How many zeros one call writes: large enough that the calls do not count.
const ZEROS_LEN: usize = 1 << 20;
static ZEROS: [u8; ZEROS_LEN] = [0; ZEROS_LEN];

/// The real disk. Files are readable and writable by their owner only (0600), directories 0700.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl Vfs for RealDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        if dir.as_os_str().is_empty() || dir.is_dir() {
            return Ok(());
        }
        let parent = dir.parent().unwrap_or(Path::new("/"));
        self.create_dir_all(parent)?;
        match fs::DirBuilder::new().mode(0o700).create(dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists || !dir.is_dir() => {
                Err(error)
            }
            _ => self.sync_dir(parent),
        }
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let file = options().create_new(true).open(path)?;
        Ok(Box::new(RealFile(file)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        Ok(Box::new(RealFile(options().open(path)?)))
    }

    fn map(&self, path: &Path) -> io::Result<Bytes> {
        mapping::map_read_only(&fs::File::open(path)?)
    }

    fn map_mut(&self, path: &Path, capacity: u64) -> io::Result<MappedFile> {
        RealMapping::of(options().open(path)?, capacity)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                names.push(PathBuf::from(entry.file_name()));
            }
        }
        names.sort();
        Ok(names)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        match fs::metadata(path) {
            Ok(metadata) => Ok(metadata.is_file()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        // An empty path is the parent that a relative path of one name has.
        let dir = if dir.as_os_str().is_empty() {
            Path::new(".")
        } else {
            dir
        };
        fs::File::open(dir)?.sync_all()
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        let file = options().create(true).truncate(false).open(path)?;
        file.try_lock()?;
        Ok(Box::new(RealLock(file)))
    }
}

/// Reads a whole file of the operator's, that need not be ours to write.
///
/// # Errors
/// As opening and reading do, and if it has more bytes than that.
pub fn read_file(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = fs::File::open(path)?;
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::Error::other(format!("more than {bytes_max} bytes")));
    }
    Ok(bytes)
}

fn options() -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

/// The lock (flock) goes when its file is closed, so also when the process dies.
struct RealLock(#[expect(dead_code, reason = "held open for the lock on it")] fs::File);

impl Lock for RealLock {}

struct RealFile(fs::File);

impl RealFile {
    /// Writes whole blocks from where they lie; false if the file system, or the memory, is not made
    /// for that.
    fn write_direct(&self, blocks: &[u8], offset: u64) -> io::Result<bool> {
        let flags = fcntl_getfl(&self.0)?;
        if fcntl_setfl(&self.0, flags | OFlags::DIRECT).is_err() {
            return Ok(false);
        }
        let written = self.0.write_all_at(blocks, offset);
        fcntl_setfl(&self.0, flags)?;
        match written {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported
                ) =>
            {
                Ok(false)
            }
            written => written.map(|()| true),
        }
    }
}

impl File for RealFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }

    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn write_through_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let (head, blocks, tail) = parts_of(bytes, offset);
        let is_aligned = blocks.as_ptr().addr().is_multiple_of(BLOCK_BYTES);
        let at = offset + head.len() as u64;
        if blocks.is_empty() || !is_aligned || !self.write_direct(blocks, at)? {
            return self.write_all_at(bytes, offset);
        }
        self.write_all_at(head, offset)?;
        self.write_all_at(tail, at + blocks.len() as u64)
    }

    fn sync_data(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    /// Writes zeros rather than calling fallocate: a commit into blocks that were only reserved has
    /// to mark them written in the file system's journal, which doubles the time of its sync.
    fn allocate(&mut self, offset: u64, len: u64) -> io::Result<()> {
        let len_before = self.len()?;
        let end = offset.checked_add(len).ok_or(io::ErrorKind::InvalidInput)?;
        let mut at = offset;
        while at < end {
            let count = (end - at).min(ZEROS_LEN as u64) as usize;
            let zeros = ZEROS.get(..count).unwrap_or(&ZEROS);
            if let Err(error) = self.0.write_all_at(zeros, at) {
                // Gives the blocks back; the first error is the one to report.
                let _ = self.0.set_len(len_before);
                return Err(error);
            }
            at += count as u64;
        }
        Ok(())
    }

    fn allocate_unwritten(&mut self, offset: u64, len: u64) -> io::Result<()> {
        let len_before = self.len()?;
        match fallocate(&self.0, FallocateFlags::empty(), offset, len) {
            // Of a file system that can't.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.allocate(offset, len),
            Err(error) => {
                // As above.
                let _ = self.0.set_len(len_before);
                Err(error.into())
            }
            Ok(()) => Ok(()),
        }
    }

    fn forget(&self, offset: u64, len: u64) {
        // Advice. No length would mean up to the file's end.
        if let Some(len) = NonZeroU64::new(len) {
            let _ = fadvise(&self.0, offset, Some(len), Advice::DontNeed);
        }
    }
}
