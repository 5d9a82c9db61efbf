//! The writer: owns the active file, appends commits to it, and seals it when it is full.

use std::{
    io,
    path::{Path, PathBuf},
};

use hikyaku_store::Sequence;
use hikyaku_vfs::{Disk, File};

use super::{
    error::{LogError, is_no_space},
    frame::{PAYLOAD_LEN_MAX, continue_commit, put_frame},
    header::{FileHeader, HEADER_LEN, file_path, unfinished},
    position::LogPosition,
    record::Record,
    sealed::SealedLog,
};

/// The least that is allocated when a whole chunk does not fit: a file system's block.
const BLOCK_BYTES: u32 = 4096;

/// A commit's buffer that has grown beyond this (by an import, say) is given back.
const BUFFER_BYTES_KEPT: usize = 4 << 20;

/// Sizes of the log's files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogOptions {
    /// How much is allocated at once, ahead of the commits.
    pub(crate) chunk_bytes: u32,
    /// The length at which a file is full. One commit may pass it.
    pub(crate) file_bytes_max: u32,
}

impl Default for LogOptions {
    /// Chunks of 4 MiB: a few thousand events for one allocation of some milliseconds. Files of
    /// 64 MiB: large enough that a terabyte is not too many mappings, small enough to reclaim whole.
    fn default() -> Self {
        Self {
            chunk_bytes: 4 << 20,
            file_bytes_max: 64 << 20,
        }
    }
}

/// Appends to the active file.
pub(crate) struct LogWriter {
    disk: Disk,
    dir: PathBuf,
    options: LogOptions,
    active: ActiveFile,
    /// The frames of the commit to come.
    buffer: Vec<u8>,
    /// Where the last of them begins.
    last_frame: usize,
    buffered_sequence: Sequence,
    /// The last one in the file.
    last_sequence: Sequence,
    stopped: Option<String>,
}

/// The file that is written to.
pub(super) struct ActiveFile {
    pub(super) file: Box<dyn File>,
    pub(super) number: u32,
    /// The end of what is written.
    pub(super) end: u32,
    /// The end of what is durable.
    pub(super) durable: u32,
    /// The end of what is allocated.
    pub(super) allocated: u32,
}

impl LogWriter {
    pub(super) fn new(
        disk: Disk,
        dir: &Path,
        options: LogOptions,
        active: ActiveFile,
        last_sequence: Sequence,
    ) -> Self {
        Self {
            disk,
            dir: dir.to_path_buf(),
            options,
            active,
            buffer: Vec::new(),
            last_frame: 0,
            buffered_sequence: last_sequence,
            last_sequence,
            stopped: None,
        }
    }

    /// Adds a record to the commit to come, and tells where it will be. Each record, facts
    /// included, has a sequence of its own, above the one before; there may be gaps.
    ///
    /// After an error all that was appended for that commit is dropped.
    pub(crate) fn append(
        &mut self,
        record: &Record,
        sequence: Sequence,
    ) -> Result<LogPosition, LogError> {
        self.check_running()?;
        assert!(
            sequence > self.buffered_sequence,
            "records are appended in the order of their sequences"
        );
        let start = self.buffer.len();
        if start > 0 {
            continue_commit(&mut self.buffer, self.last_frame, self.active.number);
        }
        self.last_frame = start;
        let position = self.position_of(start);
        if let (Some(position), durable) = (position, self.active.durable) {
            let (file, offset) = (position.file, position.offset);
            put_frame(&mut self.buffer, record, sequence, file, offset, durable);
        }
        let len = self.buffer.len() - start;
        match position.zip(self.position_of(self.buffer.len())) {
            Some((position, _)) if len <= PAYLOAD_LEN_MAX => {
                self.buffered_sequence = sequence;
                Ok(position)
            }
            _ => {
                self.drop_buffered();
                Err(LogError::TooLarge { len })
            }
        }
    }

    /// Writes what was appended, and (`sync`) makes it durable with all before it.
    ///
    /// After [`LogError::NoSpace`] nothing is written and what was appended is dropped; a later
    /// commit works when there is room. After [`LogError::Stopped`] nothing works until the log is
    /// reopened.
    pub(crate) fn commit(&mut self, sync: bool) -> Result<(), LogError> {
        self.check_running()?;
        self.write_buffer().inspect_err(|_| self.drop_buffered())?;
        self.last_sequence = self.buffered_sequence;
        self.drop_buffered();
        if sync { self.sync() } else { Ok(()) }
    }

    /// Makes all that was committed durable.
    pub(crate) fn sync(&mut self) -> Result<(), LogError> {
        self.check_running()?;
        if self.active.durable < self.active.end {
            let synced = self.active.file.sync_data();
            synced.map_err(|error| self.stop("sync", &error))?;
            self.active.durable = self.active.end;
        }
        Ok(())
    }

    /// Returns the end of the log: where the next record goes.
    pub(crate) fn end(&self) -> LogPosition {
        self.position(self.active.end)
    }

    /// Returns the end of what is durable. The manifest may state it: damage before it is known to
    /// be corruption.
    pub(crate) fn durable(&self) -> LogPosition {
        self.position(self.active.durable)
    }

    /// Returns the sequence of the last record that was committed.
    pub(crate) fn last_sequence(&self) -> Sequence {
        self.last_sequence
    }

    /// Tells whether the active file has reached its length.
    pub(crate) fn is_full(&self) -> bool {
        self.active.end >= self.options.file_bytes_max
    }

    /// Ends the active file and begins the next. What was committed becomes durable; nothing may be
    /// waiting for a commit. After [`LogError::NoSpace`] the active file goes on.
    pub(crate) fn seal(&mut self) -> Result<SealedLog, LogError> {
        self.check_running()?;
        assert!(self.buffer.is_empty(), "a file is sealed between commits");
        let header = FileHeader {
            file: self.active.number + 1,
            generation: 1,
            previous_len: self.active.end,
            sealed_len: 0,
            first_sequence: Sequence(self.last_sequence.0 + 1),
        };
        let path = file_path(&self.dir, header.file, 1);
        let next = match write_unfinished(&self.disk, &path, &header) {
            Err(error) if is_no_space(&error) => {
                let _ = self.disk.remove(&unfinished(&path));
                return Err(LogError::NoSpace { path });
            }
            other => other.map_err(|error| self.stop("begin the next file after", &error))?,
        };

        let finish = |active: &mut ActiveFile| {
            active.file.set_len(u64::from(active.end))?;
            active.file.sync_data()
        };
        finish(&mut self.active).map_err(|error| self.stop("finish", &error))?;
        let sealed = SealedLog::open(&*self.disk, &self.dir, self.active.number, 1);
        let sealed = sealed.map_err(|error| {
            self.stopped = Some(error.to_string());
            LogError::Stopped(error.to_string())
        })?;
        name_finished(&self.disk, &self.dir, &path)
            .map_err(|error| self.stop("begin the next file after", &error))?;

        self.active = next;
        Ok(sealed)
    }

    fn drop_buffered(&mut self) {
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER_BYTES_KEPT);
        self.buffered_sequence = self.last_sequence;
    }

    fn write_buffer(&mut self) -> Result<(), LogError> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let end = self.active.end + self.buffer.len() as u32;
        self.allocate(end)?;
        let (active, buffer) = (&mut self.active, &self.buffer);
        let written = active.file.write_all_at(buffer, u64::from(active.end));
        written.map_err(|error| self.stop("write", &error))?;
        self.active.end = end;
        Ok(())
    }

    /// Makes sure that there are blocks up to `end`: by whole chunks if there is room for them, by
    /// what is needed if not.
    fn allocate(&mut self, end: u32) -> Result<(), LogError> {
        if end <= self.active.allocated {
            return Ok(());
        }
        let least = end.checked_next_multiple_of(BLOCK_BYTES).unwrap_or(end);
        let chunk = end
            .checked_next_multiple_of(self.options.chunk_bytes.max(1))
            .unwrap_or(end)
            .min(self.options.file_bytes_max)
            .max(least);
        for target in [chunk, least] {
            let offset = self.active.allocated;
            let len = u64::from(target - offset);
            match self.active.file.allocate(u64::from(offset), len) {
                Ok(()) => {
                    self.active.allocated = target;
                    return Ok(());
                }
                Err(error) if is_no_space(&error) => {}
                Err(error) => return Err(self.stop("allocate", &error)),
            }
        }
        Err(LogError::NoSpace { path: self.path() })
    }

    fn check_running(&self) -> Result<(), LogError> {
        let stopped = self.stopped.clone();
        stopped.map_or(Ok(()), |why| Err(LogError::Stopped(why)))
    }

    fn stop(&mut self, action: &str, error: &io::Error) -> LogError {
        let why = format!("could not {action} {}: {error}", self.path().display());
        self.stopped = Some(why.clone());
        LogError::Stopped(why)
    }

    fn path(&self) -> PathBuf {
        file_path(&self.dir, self.active.number, 1)
    }

    fn position(&self, offset: u32) -> LogPosition {
        let file = self.active.number;
        LogPosition { file, offset }
    }

    /// Where a byte of the buffer will be; `None` if that is beyond what an offset can say.
    fn position_of(&self, buffered: usize) -> Option<LogPosition> {
        let offset = self.active.end.checked_add(u32::try_from(buffered).ok()?)?;
        Some(self.position(offset))
    }
}

/// Begins a file: under its name there is always a whole header.
pub(super) fn begin_file(
    disk: &Disk,
    dir: &Path,
    header: &FileHeader,
) -> Result<ActiveFile, LogError> {
    let path = file_path(dir, header.file, header.generation);
    let begin = || {
        let active = write_unfinished(disk, &path, header)?;
        name_finished(disk, dir, &path)?;
        Ok(active)
    };
    begin().map_err(LogError::io("begin", &path))
}

fn write_unfinished(disk: &Disk, path: &Path, header: &FileHeader) -> io::Result<ActiveFile> {
    let path = unfinished(path);
    if disk.exists(&path)? {
        disk.remove(&path)?;
    }
    let mut file = disk.create_new(&path)?;
    file.write_all_at(&header.encode(), 0)?;
    file.sync_data()?;
    Ok(ActiveFile {
        file,
        number: header.file,
        end: HEADER_LEN as u32,
        durable: HEADER_LEN as u32,
        allocated: HEADER_LEN as u32,
    })
}

fn name_finished(disk: &Disk, dir: &Path, path: &Path) -> io::Result<()> {
    disk.rename(&unfinished(path), path)?;
    disk.sync_dir(dir)
}
