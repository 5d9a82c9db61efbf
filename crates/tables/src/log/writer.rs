//! The writer: owns the file that is written to, appends batches to it, and begins the next one.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use hikyaku_vfs::{BLOCK_BYTES, Disk, File};

use super::{
    batch::{BatchHeader, seal_batch},
    header::{FileHeader, file_path, unfinished},
    options::LogPosition,
    queue::Taken,
    segments::Segment,
};
use crate::{TableError, error::is_no_space};

/// Bytes behind the end that stay in memory, for those who follow.
const RECENT_BYTES: u32 = 4 << 20;
/// So much at least is forgotten at once.
const FORGOTTEN_BYTES: u32 = 1 << 20;

/// From so many bytes on a batch goes around the page cache, if nobody is going to read it: copying it
/// to pages that nobody has touched yet costs most of what the log's thread does. Fewer bytes are not
/// worth a wait for the disk before the sync's.
const THROUGH_BYTES_MIN: usize = 64 << 10;

/// The file that is written to.
pub(super) struct Active {
    pub(super) file: Box<dyn File>,
    pub(super) header: Arc<FileHeader>,
    /// Where its first batch begins.
    pub(super) start: u32,
    /// The end of what is written, which is durable between two batches.
    pub(super) end: u32,
    /// The end of what is allocated.
    pub(super) allocated: u32,
    /// The end of what need not be in memory any more.
    pub(super) forgotten: u32,
    /// The position behind its last entry.
    pub(super) end_position: LogPosition,
    /// The highest time of all stamps.
    pub(super) highest_us: u64,
}

/// Appends to the active file. After an error nothing works until the log is opened anew: what is on
/// the disk is uncertain.
pub(super) struct LogWriter {
    pub(super) disk: Disk,
    pub(super) dir: PathBuf,
    pub(super) active: Active,
    pub(super) file_bytes_max: u32,
    /// What is allocated is written.
    pub(super) writes_ahead: bool,
}

/// Why the log has stopped.
pub(super) type Stop = String;

impl LogWriter {
    /// Writes a batch and makes it durable. Its place must have been reserved. `is_read_soon`: somebody
    /// is going to read it.
    pub(super) fn write(&mut self, taken: &mut Taken, is_read_soon: bool) -> Result<(), Stop> {
        let file = self.active.header.file;
        let header = BatchHeader {
            offset: self.active.end,
            durable: self.active.end,
            first: taken.first,
            entries: taken.entries,
            highest_us: taken.highest_us,
        };
        seal_batch(&mut taken.bytes, &header, file);
        let Active { file, end, .. } = &mut self.active;
        let stays = is_read_soon || self.writes_ahead || taken.bytes.len() < THROUGH_BYTES_MIN;
        let written = if stays {
            file.write_all_at(&taken.bytes, (*end).into())
        } else {
            file.write_through_at(&taken.bytes, (*end).into())
        };
        let written = written.and_then(|()| file.sync_data());
        written.map_err(|error| self.stop("write to", &error))?;
        self.active.end += taken.bytes.len() as u32;
        self.active.allocated = self.active.allocated.max(self.active.end);
        self.active.end_position.0 += u64::from(taken.entries);
        self.active.highest_us = self.active.highest_us.max(taken.highest_us);
        self.active.forget_old();
        Ok(())
    }

    /// Makes sure that so many bytes are allocated behind the end: twice as many as would be good, or
    /// as are good, or at least as are needed, whatever the disk has room for. Returns how many are.
    pub(super) fn reserve(&mut self, good: usize, needed: usize) -> Result<usize, Stop> {
        let path = self.path();
        self.active
            .reserve(good, needed, self.writes_ahead)
            .map_err(|error| stop("allocate", &path, &error))
    }

    /// Tells whether the active file has reached its length.
    pub(super) fn is_full(&self) -> bool {
        self.active.end >= self.file_bytes_max
    }

    /// Begins the next file, at this position, with at least so many bytes allocated. False if the
    /// disk has no room for it: the active file goes on.
    pub(super) fn begin_next(&mut self, header: FileHeader, reserved: usize) -> Result<bool, Stop> {
        let path = file_path(&self.dir, header.file);
        let next = write_unfinished(&self.disk, &path, header).and_then(|mut next| {
            next.highest_us = self.active.highest_us;
            if next.reserve(reserved, reserved, self.writes_ahead)? < reserved {
                return Err(io::ErrorKind::StorageFull.into());
            }
            Ok(next)
        });
        let next = match next {
            Err(error) if is_no_space(&error) => {
                let _ = self.disk.remove(&unfinished(&path));
                return Ok(false);
            }
            next => next.map_err(|error| stop("begin", &path, &error))?,
        };
        let active = &mut self.active;
        let finished = active
            .file
            .set_len(u64::from(active.end))
            .and_then(|()| active.file.sync_data());
        finished.map_err(|error| self.stop("finish", &error))?;
        name_finished(&self.disk, &self.dir, &path)
            .map_err(|error| stop("begin", &path, &error))?;
        self.active = next;
        Ok(true)
    }

    /// Returns the header that the next file has if it begins where this one ends.
    pub(super) fn next_header(&self) -> FileHeader {
        let active = &self.active;
        FileHeader {
            file: active.header.file + 1,
            previous_len: active.end,
            first: active.end_position,
            highest_before_us: active.highest_us,
            ..FileHeader::clone(&active.header)
        }
    }

    fn stop(&self, action: &str, error: &io::Error) -> Stop {
        stop(action, &self.path(), error)
    }

    fn path(&self) -> PathBuf {
        file_path(&self.dir, self.active.header.file)
    }
}

impl Active {
    /// Returns how readers see it.
    pub(super) fn segment(&self) -> Segment {
        Segment {
            header: Arc::clone(&self.header),
            start: self.start,
            end: self.end,
            end_position: self.end_position,
        }
    }

    /// What is old is read by a restore or a late follower, if by anybody. Kept in memory it would push
    /// out what is asked for, and each batch would be copied to pages that nobody has touched yet.
    fn forget_old(&mut self) {
        let old = self.end.saturating_sub(RECENT_BYTES) / FORGOTTEN_BYTES * FORGOTTEN_BYTES;
        if old > self.forgotten {
            self.file
                .forget(self.forgotten.into(), (old - self.forgotten).into());
            self.forgotten = old;
        }
    }

    fn reserve(&mut self, good: usize, needed: usize, is_written: bool) -> io::Result<usize> {
        let reserved = |active: &Self| (active.allocated - active.end) as usize;
        let good = good.max(needed);
        if reserved(self) >= good {
            return Ok(reserved(self));
        }
        for wanted in [good.saturating_mul(2), good, needed] {
            if reserved(self) >= wanted {
                break;
            }
            let len = (wanted - reserved(self)).next_multiple_of(BLOCK_BYTES);
            let Some(target) = u32::try_from(len)
                .ok()
                .and_then(|len| self.allocated.checked_add(len))
            else {
                continue;
            };
            let (offset, len) = (self.allocated.into(), len as u64);
            let allocated = if is_written {
                self.file.allocate(offset, len)
            } else {
                self.file.allocate_unwritten(offset, len)
            };
            match allocated {
                Ok(()) => {
                    self.allocated = target;
                    break;
                }
                Err(error) if is_no_space(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(reserved(self))
    }
}

fn stop(action: &str, path: &Path, error: &io::Error) -> Stop {
    format!("could not {action} {}: {error}", path.display())
}

/// Begins the first file of a log: under its name there is always a whole header.
pub(super) fn begin_first(
    disk: &Disk,
    dir: &Path,
    header: FileHeader,
) -> Result<Active, TableError> {
    let path = file_path(dir, header.file);
    let begin = || {
        let active = write_unfinished(disk, &path, header)?;
        name_finished(disk, dir, &path)?;
        Ok(active)
    };
    begin().map_err(TableError::io("begin", &path))
}

fn write_unfinished(disk: &Disk, path: &Path, header: FileHeader) -> io::Result<Active> {
    let path = unfinished(path);
    if disk.exists(&path)? {
        disk.remove(&path)?;
    }
    let bytes = header.encode();
    let mut file = disk.create_new(&path)?;
    file.write_all_at(&bytes, 0)?;
    file.sync_data()?;
    Ok(Active {
        file,
        start: bytes.len() as u32,
        end: bytes.len() as u32,
        allocated: bytes.len() as u32,
        forgotten: 0,
        end_position: header.first,
        highest_us: header.highest_before_us,
        header: Arc::new(header),
    })
}

fn name_finished(disk: &Disk, dir: &Path, path: &Path) -> io::Result<()> {
    disk.rename(&unfinished(path), path)?;
    disk.sync_dir(dir)
}
