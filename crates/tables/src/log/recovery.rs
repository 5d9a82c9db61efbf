//! Opening a log after whatever happened: checks what must be there, and cuts a torn tail.

use std::{
    collections::VecDeque,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use hikyaku_vfs::{Disk, File};

use super::{
    batch::{ALIGNMENT, Batch, BatchDamage},
    header::{FileHeader, HEADER_LEN_MAX, file_path, parse_name, unfinished},
    options::{LogOptions, LogPosition},
    segments::{Segment, Segments},
    waiting::left_behind,
    writer::{Active, LogWriter, begin_first},
};
use crate::TableError;

/// The longest file that is written, but for its last batch: keeps offsets in 32 bits.
const FILE_BYTES_LIMIT: u32 = 1 << 30;

/// What the checkpoint knows of the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// All before it is in the tables, and was durable in the log.
    pub(crate) position: LogPosition,
    /// The file that was written to then; 0 if there was none.
    pub(crate) file: u32,
    /// Whether there were updates since that the log was not told of.
    pub(crate) unlogged: bool,
}

/// The rest of a batch that nobody was told about, cut from the end of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornTail {
    /// The log file it was cut from.
    pub path: PathBuf,
    /// Where.
    pub offset: u64,
    /// How many bytes were cut.
    pub len: u64,
    /// The file that they are kept in.
    pub kept: PathBuf,
}

/// An open log.
pub(super) struct Recovered {
    pub(super) writer: LogWriter,
    pub(super) segments: Segments,
    pub(super) torn: Option<TornTail>,
}

/// Tells whether a folder has log files.
pub(crate) fn has_files(disk: &Disk, dir: &Path) -> Result<bool, TableError> {
    disk.create_dir_all(dir)
        .map_err(TableError::io("create", dir))?;
    let names = disk.list(dir).map_err(TableError::io("list", dir))?;
    Ok(names.iter().any(|name| parse_name(name).is_some()))
}

/// Returns the number of the server that wrote a folder's newest log file; none if there is no file.
pub(crate) fn written_by(disk: &Disk, dir: &Path) -> Result<Option<u32>, TableError> {
    let names = match disk.list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        names => names.map_err(TableError::io("list", dir))?,
    };
    let newest = names.iter().filter_map(|name| parse_name(name)).max();
    let header = newest.map(|file| read_header(disk, &file_path(dir, file), file));
    Ok(header.transpose()?.map(|segment| segment.header.server))
}

/// Opens the log in a folder (made if missing), and begins one where there is none. All that the
/// writer stands on is durable then.
pub(super) fn recover(
    disk: &Disk,
    dir: &Path,
    options: &LogOptions,
    tables: &[String],
    known: Known,
) -> Result<Recovered, TableError> {
    disk.create_dir_all(dir)
        .map_err(TableError::io("create", dir))?;
    let first_file = remove_unfinished(disk, dir)?;
    let mut list = read_list(disk, dir, first_file, known)?;
    if let Some(first) = list.front()
        && first.header.first > known.position
        && !known.unlogged
    {
        return Err(TableError::corrupt(
            &file_path(dir, first.file()),
            0,
            format_args!("position {}, from which on it is needed", known.position.0),
            format_args!("position {} first", first.header.first.0),
        ));
    }
    let mut torn = None;
    let active = if let Some(last) = list.pop_back() {
        let (active, cut) = ReadActive::open(disk, dir, last)?.recover(disk, dir, known)?;
        torn = cut;
        active
    } else {
        let header = FileHeader {
            file: known.file + 1,
            server: options.server,
            previous_len: 0,
            first: LogPosition(known.position.0 + u64::from(known.unlogged)),
            highest_before_us: 0,
            tables: tables.to_vec(),
        };
        begin_first(disk, dir, header)?
    };
    let mut writer = LogWriter {
        disk: disk.clone(),
        dir: dir.to_path_buf(),
        active,
        file_bytes_max: options.file_bytes_max.min(FILE_BYTES_LIMIT),
        writes_ahead: options.waited_for,
    };
    append_left_behind(&mut writer)?;
    list.push_back(writer.active.segment());
    let mut header = writer.next_header();
    // Who follows must notice that something is missing.
    let is_gap = known.unlogged && header.first <= known.position;
    if is_gap || header.server != options.server || header.tables != tables {
        header.first.0 += u64::from(is_gap);
        header.server = options.server;
        header.tables = tables.to_vec();
        if !writer.begin_next(header, 0).map_err(TableError::Stopped)? {
            return Err(TableError::Full);
        }
        list.push_back(writer.active.segment());
    }
    Ok(Recovered {
        writer,
        segments: Segments::new(disk, dir, list),
        torn,
    })
}

/// Writes what waited when the process before ended, as far as it is not in the log yet.
fn append_left_behind(writer: &mut LogWriter) -> Result<(), TableError> {
    for mut taken in left_behind(&writer.disk, &writer.dir)? {
        if taken.first == writer.active.end_position {
            let len = taken.bytes.len() + ALIGNMENT;
            let reserved = writer.reserve(len, len).map_err(TableError::Stopped)?;
            if reserved < len {
                return Err(TableError::Full);
            }
            writer
                .write(&mut taken, true)
                .map_err(TableError::Stopped)?;
        }
    }
    Ok(())
}

/// Reads the files of a log that nobody writes to, and changes nothing: up to the first damage of
/// the last one.
pub(super) fn read_only(disk: &Disk, dir: &Path) -> Result<Segments, TableError> {
    let names = disk.list(dir).map_err(TableError::io("list", dir))?;
    let first = names.iter().filter_map(|name| parse_name(name)).min();
    let mut list = read_list(disk, dir, first, Known::default())?;
    if let Some(last) = list.pop_back() {
        let mut active = ReadActive::open(disk, dir, last)?;
        active.scan();
        list.push_back(active.segment);
    }
    Ok(Segments::new(disk, dir, list))
}

/// Removes what was never finished; returns the number of the first file, if there is any.
fn remove_unfinished(disk: &Disk, dir: &Path) -> Result<Option<u32>, TableError> {
    let mut first = None;
    for name in disk.list(dir).map_err(TableError::io("list", dir))? {
        if name.extension().is_some_and(|extension| extension == "tmp") {
            let path = dir.join(&name);
            disk.remove(&path)
                .map_err(TableError::io("remove", &path))?;
        }
        if let Some(file) = parse_name(&name) {
            first = Some(first.unwrap_or(file).min(file));
        }
    }
    disk.sync_dir(dir).map_err(TableError::io("sync", dir))?;
    Ok(first)
}

/// Reads the headers of all files: none may be missing, nor have another length than it was sealed
/// with.
fn read_list(
    disk: &Disk,
    dir: &Path,
    first_file: Option<u32>,
    known: Known,
) -> Result<VecDeque<Segment>, TableError> {
    let mut list: VecDeque<Segment> = VecDeque::new();
    let names = disk.list(dir).map_err(TableError::io("list", dir))?;
    let last = names.iter().filter_map(|name| parse_name(name)).max();
    let last_needed = last.unwrap_or(0).max(known.file);
    let first_needed = first_file.unwrap_or(known.file);
    for file in first_needed.max(1)..=last_needed {
        let path = file_path(dir, file);
        if !names.iter().any(|name| parse_name(name) == Some(file)) {
            return Err(TableError::corrupt(&path, 0, "a log file", "none"));
        }
        let segment = read_header(disk, &path, file)?;
        if let Some(before) = list.back_mut() {
            let stated = segment.header.previous_len;
            if stated != before.end || segment.header.first < before.header.first {
                return Err(TableError::corrupt(
                    &file_path(dir, before.file()),
                    stated.min(before.end) as usize,
                    format_args!("a file sealed at {stated} bytes"),
                    format_args!("{} bytes", before.end),
                ));
            }
            before.end_position = segment.header.first;
        }
        list.push_back(segment);
    }
    Ok(list)
}

fn read_header(disk: &Disk, path: &Path, file: u32) -> Result<Segment, TableError> {
    let read = || {
        let open = disk.open(path)?;
        let len = open.len()?;
        let mut bytes = vec![0; len.min(64) as usize];
        open.read_exact_at(&mut bytes, 0)?;
        let header_len = FileHeader::stated_len(&bytes).min(HEADER_LEN_MAX) as u64;
        bytes.resize(header_len.min(len) as usize, 0);
        open.read_exact_at(&mut bytes, 0)?;
        Ok((bytes, len))
    };
    let (bytes, len) = read().map_err(TableError::io("read", path))?;
    let (header, start) = FileHeader::decode(&bytes, path, file)?;
    let end = u32::try_from(len).map_err(|_| {
        TableError::corrupt(path, u32::MAX as usize, "the file's end", "more bytes")
    })?;
    Ok(Segment {
        start: start as u32,
        end,
        end_position: header.first,
        header: Arc::new(header),
    })
}

/// The last file as it was found.
struct ReadActive {
    path: PathBuf,
    file: Box<dyn File>,
    bytes: Vec<u8>,
    /// How far it is intact.
    segment: Segment,
    /// The end of what the last intact batch says is durable.
    durable: usize,
    highest_us: u64,
}

impl ReadActive {
    fn open(disk: &Disk, dir: &Path, segment: Segment) -> Result<Self, TableError> {
        let path = file_path(dir, segment.file());
        let read = || {
            let file = disk.open(&path)?;
            let mut bytes = vec![0; file.len()? as usize];
            file.read_exact_at(&mut bytes, 0)?;
            Ok((file, bytes))
        };
        let (file, bytes) = read().map_err(TableError::io("read", &path))?;
        Ok(Self {
            path,
            file,
            bytes,
            durable: segment.start as usize,
            highest_us: segment.header.highest_before_us,
            segment: Segment {
                end: segment.start,
                ..segment
            },
        })
    }

    /// Goes over all intact batches from the front; returns what is wrong behind them.
    fn scan(&mut self) -> BatchDamage {
        loop {
            let at = self.segment.end as usize;
            let batch = match self.batch_at(at, Some(self.segment.end_position)) {
                Ok(batch) => batch,
                Err(damage) => return damage,
            };
            self.segment.end += batch.len() as u32;
            self.segment.end_position = batch.end();
            self.durable = self.durable.max(batch.header.durable as usize);
            self.highest_us = self.highest_us.max(batch.header.highest_us);
        }
    }

    fn batch_at(&self, at: usize, expected: Option<LogPosition>) -> Result<Batch, BatchDamage> {
        let rest = self.bytes.get(at..).unwrap_or_default();
        Batch::read(rest, self.segment.file(), at, expected)
    }

    /// Cuts the file behind its last intact batch, and makes what is left durable. An error if more
    /// than that is known to have been durable.
    fn recover(
        mut self,
        disk: &Disk,
        dir: &Path,
        known: Known,
    ) -> Result<(Active, Option<TornTail>), TableError> {
        let damage = self.scan();
        let end = self.segment.end as usize;
        if self.segment.end_position < known.position || self.states_more(end) {
            return Err(TableError::corrupt(
                &self.path,
                end,
                damage.expected(),
                damage,
            ));
        }
        let torn = self.keep_torn_tail(disk, dir, end)?;
        let mut finish = || {
            // Cutting also takes the zeros that were allocated: what was written behind the end must
            // never be seen again, and the blocks may not have survived as zeros.
            self.file.set_len(end as u64)?;
            // A sync that failed before may have left pages that can be read but will never be
            // written. So what nobody has stated to be durable is written again.
            let unsure = self.bytes.get(self.durable..end).unwrap_or_default();
            self.file.write_all_at(unsure, self.durable as u64)?;
            self.file.sync_data()
        };
        finish().map_err(TableError::io("cut and sync", &self.path))?;
        let active = Active {
            file: self.file,
            header: self.segment.header,
            start: self.segment.start,
            end: self.segment.end,
            allocated: self.segment.end,
            forgotten: 0,
            end_position: self.segment.end_position,
            highest_us: self.highest_us,
        };
        Ok((active, torn))
    }

    /// Tells whether an intact batch behind the end, at whatever offset, says that more was durable.
    fn states_more(&self, end: usize) -> bool {
        let candidates = (end + ALIGNMENT..self.bytes.len()).step_by(ALIGNMENT);
        // That it states its own offset is quickly seen, and leaves next to nothing to checksum.
        let states_offset = |at: &usize| {
            let rest = self.bytes.get(*at..).unwrap_or_default();
            Batch::stated_offset(rest).is_some_and(|offset| offset as usize == *at)
        };
        candidates
            .filter(states_offset)
            .filter_map(|at| self.batch_at(at, None).ok())
            .any(|batch| batch.header.durable as usize > end)
    }

    /// Writes what stands after the end, if anything, to a file of its own: `00000007.torn-OFFSET`,
    /// or with a number after it where that is taken by other bytes.
    fn keep_torn_tail(
        &self,
        disk: &Disk,
        dir: &Path,
        end: usize,
    ) -> Result<Option<TornTail>, TableError> {
        let tail = self.bytes.get(end..).unwrap_or_default();
        let len = tail.iter().rposition(|byte| *byte != 0);
        let Some(tail) = len.and_then(|last| tail.get(..=last)) else {
            return Ok(None);
        };
        let name = format!("{:08}.torn-{end}", self.segment.file());
        let kept = keep_aside(disk, dir, &name, tail);
        let kept = kept.map_err(TableError::io("keep cut bytes of", &self.path))?;
        Ok(Some(TornTail {
            path: self.path.clone(),
            offset: end as u64,
            len: tail.len() as u64,
            kept,
        }))
    }
}

fn keep_aside(disk: &Disk, dir: &Path, name: &str, bytes: &[u8]) -> std::io::Result<PathBuf> {
    let mut kept = dir.join(name);
    let mut taken = 1;
    while disk.exists(&kept)? {
        let there = disk.open(&kept)?;
        let mut found = vec![0; there.len()? as usize];
        there.read_exact_at(&mut found, 0)?;
        // A start that got no further than this has kept the same bytes.
        if found == bytes {
            return Ok(kept);
        }
        taken += 1;
        kept = dir.join(format!("{name}.{taken}"));
    }
    let path = unfinished(&kept);
    if disk.exists(&path)? {
        disk.remove(&path)?;
    }
    let mut file = disk.create_new(&path)?;
    file.write_all_at(bytes, 0)?;
    file.sync_data()?;
    disk.rename(&path, &kept)?;
    disk.sync_dir(dir)?;
    Ok(kept)
}
