//! The log's files, as readers and the retention see them.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use hikyaku_vfs::Disk;

use super::{
    header::{FileHeader, file_path},
    options::{LogOptions, LogPosition},
};
use crate::TableError;

/// A log file.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    pub(super) header: Arc<FileHeader>,
    /// Where its first batch begins.
    pub(super) start: u32,
    /// Where its last durable batch ends.
    pub(super) end: u32,
    /// The position behind its last durable entry.
    pub(super) end_position: LogPosition,
}

impl Segment {
    pub(super) fn file(&self) -> u32 {
        self.header.file
    }
}

/// All files of a log.
#[derive(Debug)]
pub(super) struct Segments {
    pub(super) disk: Disk,
    pub(super) dir: PathBuf,
    /// In order, without gaps in their numbers; the last one is written to.
    list: Mutex<VecDeque<Segment>>,
    /// Held while a file is removed.
    retention: Mutex<()>,
}

impl Segments {
    pub(super) fn new(disk: &Disk, dir: &Path, list: VecDeque<Segment>) -> Self {
        Self {
            disk: disk.clone(),
            dir: dir.to_path_buf(),
            list: Mutex::new(list),
            retention: Mutex::new(()),
        }
    }

    /// Adds the next file.
    pub(super) fn push(&self, segment: Segment) {
        self.lock().push_back(segment);
    }

    /// States how far the last file is durable.
    pub(super) fn extend(&self, end: u32, end_position: LogPosition) {
        if let Some(last) = self.lock().back_mut() {
            last.end = end;
            last.end_position = end_position;
        }
    }

    /// Returns the file that has a position, or will have it next.
    pub(super) fn find(&self, position: LogPosition) -> Result<Segment, TableError> {
        let list = self.lock();
        let found = list.iter().rev().find(|it| it.header.first <= position);
        found
            .filter(|segment| position <= segment.end_position)
            .cloned()
            .ok_or_else(|| not_in_log(&list, position))
    }

    /// Returns the file from which on all entries of a time and later are found.
    pub(super) fn find_time(&self, at_us: u64) -> Option<Segment> {
        let list = self.lock();
        let later = |segment: &&Segment| segment.header.highest_before_us < at_us;
        list.iter().rev().find(later).or(list.front()).cloned()
    }

    /// Returns the file of a number and the one after it, as they are now.
    pub(super) fn pair(&self, file: u32) -> (Option<Segment>, Option<Segment>) {
        let list = self.lock();
        let get = |file| list.iter().find(|segment| segment.file() == file).cloned();
        (get(file), get(file + 1))
    }

    /// Returns the error for a position that can't be read.
    pub(super) fn not_in_log(&self, wanted: LogPosition) -> TableError {
        not_in_log(&self.lock(), wanted)
    }

    /// Returns the bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.lock()
            .iter()
            .map(|segment| u64::from(segment.end))
            .sum()
    }

    /// Returns the positions of the first entry and behind the last durable one.
    pub(super) fn bounds(&self) -> (LogPosition, LogPosition) {
        bounds(&self.lock())
    }

    /// Removes the oldest files while they are more or older than what is to be kept, but none with
    /// entries from `needed` on. `highest_us` is the newest update's time.
    pub(super) fn retire(
        &self,
        options: &LogOptions,
        needed: LogPosition,
        highest_us: u64,
    ) -> Result<(), TableError> {
        let _one_at_a_time = self
            .retention
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        while let Some(oldest) = self.take_retired(options, needed, highest_us) {
            let path = file_path(&self.dir, oldest.file());
            let removed = self.disk.remove(&path);
            // One after the other: no crash may leave a gap in the numbers.
            let removed = removed.and_then(|()| self.disk.sync_dir(&self.dir));
            if let Err(error) = removed {
                self.lock().push_front(oldest);
                return Err(TableError::io("remove", &path)(error));
            }
        }
        Ok(())
    }

    fn take_retired(
        &self,
        options: &LogOptions,
        needed: LogPosition,
        highest_us: u64,
    ) -> Option<Segment> {
        let mut list = self.lock();
        let next = list.get(1)?;
        let is_needed = next.header.first > needed;
        let bytes: u64 = list.iter().map(|segment| u64::from(segment.end)).sum();
        let oldest_kept = options.retain_us.map(|age| highest_us.saturating_sub(age));
        let is_old = oldest_kept.is_some_and(|oldest| next.header.highest_before_us < oldest);
        let retired = !is_needed && (bytes > options.retain_bytes || is_old);
        if retired { list.pop_front() } else { None }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Segment>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bounds(list: &VecDeque<Segment>) -> (LogPosition, LogPosition) {
    let first = list.front().map(|segment| segment.header.first);
    let end = list.back().map(|segment| segment.end_position);
    (first.unwrap_or_default(), end.unwrap_or_default())
}

fn not_in_log(list: &VecDeque<Segment>, wanted: LogPosition) -> TableError {
    let (first, end) = bounds(list);
    TableError::NotInLog {
        wanted: wanted.0,
        first: first.0,
        end: end.0,
    }
}
