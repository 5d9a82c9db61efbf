//! What stands behind a mapping on the real disk: a sparse file.

use std::{
    fs, io,
    ops::Range,
    os::unix::fs::{FileExt, MetadataExt},
    sync::Mutex,
};

use memmap2::{MmapOptions, MmapRaw};
use rustix::{
    fs::{FallocateFlags, SeekFrom, fallocate, seek},
    io::Errno,
};

use crate::{
    MappedFile, locked,
    mapping::{Backing, Memory},
};

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

pub(crate) struct RealMapping {
    file: fs::File,
    memory: Memory,
    /// Looking for holes moves the file's cursor.
    cursor: Mutex<()>,
}

impl RealMapping {
    pub(crate) fn of(file: fs::File, capacity: u64) -> io::Result<MappedFile> {
        let len = file.metadata()?.len();
        let size = usize::try_from(capacity).map_err(|_| io::ErrorKind::InvalidInput)?;
        if len > capacity || size == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let memory: MmapRaw = MmapOptions::new().len(size).map_raw(&file)?;
        let memory = Memory::new(memory);
        let backing = Self {
            file,
            memory: memory.clone(),
            cursor: Mutex::new(()),
        };
        Ok(MappedFile::new(memory, len, capacity, Box::new(backing)))
    }

    /// Writes zeros into the holes of a range, where the file system can't allocate them.
    fn fill_holes(&self, range: Range<u64>) -> io::Result<()> {
        let mut at = range.start;
        while at < range.end {
            let data = self.next_data(at)?.unwrap_or(range.end..range.end);
            let hole_end = data.start.min(range.end);
            self.write_zeros(at..hole_end)?;
            at = data.end.max(hole_end);
        }
        Ok(())
    }

    fn write_zeros(&self, range: Range<u64>) -> io::Result<()> {
        let mut at = range.start;
        while at < range.end {
            let count = (range.end - at).min(ZEROS.len() as u64);
            let zeros = ZEROS.get(..count as usize).unwrap_or(&ZEROS);
            self.file.write_all_at(zeros, at)?;
            at += count;
        }
        Ok(())
    }
}

/// Tells whether the file system has no such call.
fn is_unsupported(error: Errno) -> bool {
    matches!(error, Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL)
}

impl Backing for RealMapping {
    /// Unlike for a log, blocks are only reserved: a table's are written in no order, and many of
    /// them never.
    fn allocate(&self, range: Range<u64>) -> io::Result<()> {
        let len = range.end - range.start;
        match fallocate(&self.file, FallocateFlags::empty(), range.start, len) {
            Err(error) if is_unsupported(error) => self.fill_holes(range),
            result => Ok(result?),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.memory.flush()?;
        self.file.sync_data()
    }

    fn clear(&self, range: Range<u64>) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let len = range.end - range.start;
        match fallocate(&self.file, flags, range.start, len) {
            Err(error) if is_unsupported(error) => {
                let mut at = range.start;
                while let Some(data) = self.next_data(at)? {
                    let data = data.start..data.end.min(range.end);
                    at = data.end;
                    if data.is_empty() {
                        break;
                    }
                    self.write_zeros(data)?;
                }
                Ok(())
            }
            result => Ok(result?),
        }
    }

    fn next_data(&self, from: u64) -> io::Result<Option<Range<u64>>> {
        let _cursor = locked(&self.cursor);
        let len = self.file.metadata()?.len();
        let start = match seek(&self.file, SeekFrom::Data(from)) {
            Ok(start) => start,
            Err(Errno::NXIO) => return Ok(None),
            // No holes are known of: all of it may be data.
            Err(error) if is_unsupported(error) => from,
            Err(error) => return Err(error.into()),
        };
        if start >= len {
            return Ok(None);
        }
        let end = match seek(&self.file, SeekFrom::Hole(start)) {
            Ok(end) => end,
            Err(error) if is_unsupported(error) => len,
            Err(error) => return Err(error.into()),
        };
        Ok(Some(start..end.max(start + 1)))
    }

    fn disk_bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.blocks() * 512)
    }
}
