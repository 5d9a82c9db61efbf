//! Reading the log: what there is, then what comes.

use std::{
    path::Path,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use hikyaku_vfs::{Disk, File};

use super::{
    batch::{BATCH_HEADER_LEN, BODY_LEN_MAX, Batch, BatchDamage},
    entry::{Body, Entry},
    header::file_path,
    options::LogPosition,
    progress::WhenDurable,
    recovery::read_only,
    segments::{Segment, Segments},
    update_log::Shared,
};
use crate::{Effect, Stamp, TableError};

/// How much is read from a file at once; a longer batch is read whole.
const CHUNK_BYTES: u64 = 128 << 10;

/// An update as the log has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Logged<'a> {
    /// Its table's name.
    pub table: &'a str,
    /// What it did.
    pub effect: Effect<'a>,
    /// When, and on which server first.
    pub stamp: Stamp,
}

/// Reads a log in order, only what is durable.
pub struct Follower {
    shared: Arc<Shared>,
    reader: EntryReader,
    /// Updates that were first made on this server are left out.
    except: Option<u32>,
    since_us: u64,
}

impl Follower {
    pub(super) fn new(shared: Arc<Shared>, from: LogPosition) -> Result<Self, TableError> {
        let reader = EntryReader::new(Arc::clone(&shared.segments), from)?;
        Ok(Self::with(shared, reader, 0))
    }

    pub(super) fn since(shared: Arc<Shared>, at_us: u64) -> Result<Self, TableError> {
        let reader = EntryReader::since(Arc::clone(&shared.segments), at_us)?;
        Ok(Self::with(shared, reader, at_us))
    }

    fn with(shared: Arc<Shared>, reader: EntryReader, since_us: u64) -> Self {
        shared.followers.fetch_add(1, Ordering::Relaxed);
        Self {
            shared,
            reader,
            except: None,
            since_us,
        }
    }

    /// Leaves out what was first made on a server: the one that the updates are shipped to.
    #[must_use]
    pub fn except(mut self, server: u32) -> Self {
        self.except = Some(server);
        self
    }

    /// Returns the next update; `None` at the log's present end. An error if the log does not have it
    /// any more, or if the disk or the bytes are bad: the follower stays where it is.
    pub fn next_update(&mut self) -> Result<Option<Logged<'_>>, TableError> {
        let (since_us, except) = (self.since_us, self.except);
        self.reader.next_update(|stamp| {
            stamp.at_us >= since_us && except.is_none_or(|server| server != stamp.origin)
        })
    }

    /// Returns where to go on: the position behind the last update that was returned, or further on if
    /// others were left out.
    pub fn position(&self) -> LogPosition {
        self.reader.position
    }

    /// Resolves when there is something behind [`Follower::position`].
    pub fn more(&self) -> WhenDurable {
        WhenDurable::new(Arc::clone(&self.shared), self.next_position())
    }

    /// Waits until there is something behind [`Follower::position`], for at most a time; false if
    /// there is nothing yet.
    pub fn wait(&self, at_most: Duration) -> Result<bool, TableError> {
        self.shared.progress.wait_for(self.next_position(), at_most)
    }

    fn next_position(&self) -> LogPosition {
        LogPosition(self.reader.position.0.saturating_add(1))
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.shared.followers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower")
            .field("position", &self.position())
            .finish_non_exhaustive()
    }
}

/// Reads the entries of a log's files.
pub(crate) struct EntryReader {
    segments: Arc<Segments>,
    segment: Segment,
    file: Option<Box<dyn File>>,
    /// Bytes of the file, and where they stand in it.
    chunk: Vec<u8>,
    chunk_at: u32,
    /// Where in the file the next batch begins.
    next_batch: u32,
    /// What is left of a batch: a range of the chunk.
    left: std::ops::Range<usize>,
    /// The position of the next entry in the file; what is before `position` is read over.
    at: LogPosition,
    stamp: Option<Stamp>,
    position: LogPosition,
}

impl EntryReader {
    pub(super) fn new(segments: Arc<Segments>, from: LogPosition) -> Result<Self, TableError> {
        let segment = segments.find(from)?;
        Ok(Self::at_segment(segments, segment, from))
    }

    fn since(segments: Arc<Segments>, at_us: u64) -> Result<Self, TableError> {
        let segment = segments
            .find_time(at_us)
            .ok_or_else(|| segments.not_in_log(LogPosition(0)))?;
        let from = segment.header.first;
        Ok(Self::at_segment(segments, segment, from))
    }

    /// Reads a folder that nobody writes to, from a time on; `None` if it has no log files.
    pub(crate) fn of_folder(
        disk: &Disk,
        dir: &Path,
        at_us: u64,
    ) -> Result<Option<Self>, TableError> {
        let segments = Arc::new(read_only(disk, dir)?);
        let Some(segment) = segments.find_time(at_us) else {
            return Ok(None);
        };
        let from = segment.header.first;
        Ok(Some(Self::at_segment(segments, segment, from)))
    }

    fn at_segment(segments: Arc<Segments>, segment: Segment, from: LogPosition) -> Self {
        Self {
            segments,
            file: None,
            chunk: Vec::new(),
            chunk_at: segment.start,
            next_batch: segment.start,
            left: 0..0,
            at: segment.header.first,
            stamp: None,
            position: from,
            segment,
        }
    }

    /// Returns the next update whose stamp is wanted.
    pub(crate) fn next_update(
        &mut self,
        wanted: impl Fn(Stamp) -> bool,
    ) -> Result<Option<Logged<'_>>, TableError> {
        let (stamp, body) = loop {
            let Some((stamp, body)) = self.next_entry()? else {
                return Ok(None);
            };
            if !matches!(body, Body::Applied(_)) && wanted(stamp) {
                break (stamp, body);
            }
        };
        self.logged(stamp, &body).map(Some)
    }

    /// Returns the next update or note of what was applied, for a recovery.
    pub(crate) fn next_to_recover(&mut self) -> Result<Option<Recoverable<'_>>, TableError> {
        let Some((stamp, body)) = self.next_entry()? else {
            return Ok(None);
        };
        if let Body::Applied(applied) = body {
            return Ok(Some(Recoverable::Applied(applied)));
        }
        let logged = self.logged(stamp, &body)?;
        Ok(Some(Recoverable::Update(logged)))
    }

    fn logged(&self, stamp: Stamp, body: &Body) -> Result<Logged<'_>, TableError> {
        let effect = body.effect(&self.chunk);
        let found = effect.and_then(|(table, effect)| {
            let table = self.segment.header.tables.get(table as usize)?;
            Some(Logged {
                table,
                effect,
                stamp,
            })
        });
        found.ok_or_else(|| {
            self.corrupt(
                self.next_batch,
                "an update of a table that the header names",
                "another",
            )
        })
    }

    fn next_entry(&mut self) -> Result<Option<(Stamp, Body)>, TableError> {
        loop {
            while self.left.is_empty() {
                if !self.read_batch()? {
                    return Ok(None);
                }
            }
            let bytes = self.chunk.get(..self.left.end).unwrap_or_default();
            let Some(entry) = Entry::read(bytes, self.left.start, self.stamp) else {
                let at = self.chunk_at + self.left.start as u32;
                return Err(self.corrupt(at, "an entry of a known kind", "another"));
            };
            self.left.start = entry.end;
            self.stamp = Some(entry.stamp);
            let position = self.at;
            self.at.0 += 1;
            if position >= self.position {
                self.position = self.at;
                return Ok(Some((entry.stamp, entry.body)));
            }
        }
    }

    /// Takes the next batch; false at the end.
    fn read_batch(&mut self) -> Result<bool, TableError> {
        if self.next_batch >= self.segment.end && !self.advance()? {
            return Ok(false);
        }
        let mut len = CHUNK_BYTES;
        loop {
            let start = (self.next_batch - self.chunk_at) as usize;
            let bytes = self.chunk.get(start..).unwrap_or_default();
            let file = self.segment.file();
            match Batch::read(bytes, file, self.next_batch as usize, Some(self.at)) {
                Ok(batch) => {
                    self.next_batch += batch.len() as u32;
                    let start = start + BATCH_HEADER_LEN;
                    if batch.end() > self.position {
                        self.left = start..start + batch.body_len;
                        self.stamp = None;
                    } else {
                        self.at = batch.end();
                    }
                    return Ok(true);
                }
                Err(BatchDamage::Cut { needed, left }) => {
                    let there = u64::from(self.segment.end - self.next_batch);
                    if left as u64 >= there || needed > BODY_LEN_MAX + CHUNK_BYTES as usize {
                        let damage = BatchDamage::Cut { needed, left };
                        return Err(self.damage(&damage));
                    }
                    len = len.max(needed as u64).min(there);
                    self.read_chunk(len)?;
                }
                Err(damage) => return Err(self.damage(&damage)),
            }
        }
    }

    /// Finds out what was added meanwhile; false if nothing.
    fn advance(&mut self) -> Result<bool, TableError> {
        let (now, next) = self.segments.pair(self.segment.file());
        let Some(now) = now else {
            // It is not kept any more. That does not matter if it was read to its end.
            let next = self.segments.find(self.at)?;
            if next.header.first != self.at {
                return Err(self.segments.not_in_log(self.at));
            }
            self.go_to(next);
            return Ok(self.next_batch < self.segment.end);
        };
        if now.end > self.segment.end {
            self.segment = now;
            return Ok(true);
        }
        let Some(next) = next else {
            return Ok(false);
        };
        if next.header.first != self.at {
            // Updates were made without the log in between.
            return Err(self.segments.not_in_log(self.at));
        }
        self.go_to(next);
        Ok(self.next_batch < self.segment.end)
    }

    fn go_to(&mut self, segment: Segment) {
        self.file = None;
        self.chunk.clear();
        self.chunk_at = segment.start;
        self.next_batch = segment.start;
        self.segment = segment;
    }

    /// Reads so many bytes from the next batch on.
    fn read_chunk(&mut self, len: u64) -> Result<(), TableError> {
        let path = file_path(&self.segments.dir, self.segment.file());
        if self.file.is_none() {
            let opened = self.segments.disk.open(&path);
            if opened.is_err() && self.segments.pair(self.segment.file()).0.is_none() {
                return Err(self.segments.not_in_log(self.at));
            }
            self.file = Some(opened.map_err(TableError::io("open", &path))?);
        }
        self.chunk.resize(len as usize, 0);
        self.chunk_at = self.next_batch;
        let Some(file) = &self.file else {
            return Ok(());
        };
        let read = file.read_exact_at(&mut self.chunk, self.next_batch.into());
        if read.is_err() {
            self.chunk.clear();
        }
        read.map_err(TableError::io("read", &path))
    }

    fn damage(&self, damage: &BatchDamage) -> TableError {
        self.corrupt(self.next_batch, &damage.expected(), &damage.to_string())
    }

    fn corrupt(&self, offset: u32, expected: &str, found: &str) -> TableError {
        let path = file_path(&self.segments.dir, self.segment.file());
        TableError::corrupt(&path, offset as usize, expected, found)
    }
}

/// What a recovery finds.
pub(crate) enum Recoverable<'a> {
    /// An update to carry out again.
    Update(Logged<'a>),
    /// How far another server's updates are in what was before.
    Applied(super::Applied),
}
