//! Opening a log after whatever happened: checks what must be there, hands over what the indexes do
//! not have yet, and cuts a torn tail.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use hikyaku_store::Sequence;
use hikyaku_vfs::{Disk, File};

use super::{
    error::LogError,
    files::LogFiles,
    frame::FrameDamage,
    header::{FileHeader, FileName, HEADER_LEN, file_path, unfinished},
    position::LogPosition,
    record::Record,
    scan::Scan,
    sealed::SealedLog,
    writer::{ActiveFile, LogOptions, LogWriter, begin_file},
};

/// What the manifest knows of the log.
#[derive(Debug, Clone, Default)]
pub(crate) struct Checkpoint {
    /// The first file whose records are to be handed over. 0 is the first there is.
    pub(crate) from_file: u32,
    /// A position up to which the log was durable when the manifest was written; after a clean stop
    /// its end. A log that does not reach it intact is damaged.
    pub(crate) durable: Option<LogPosition>,
    /// The generation of each file that was rewritten.
    pub(crate) generations: BTreeMap<u32, u32>,
}

/// An open log.
pub(crate) struct Recovered {
    /// Goes on after the last intact record.
    pub(crate) writer: LogWriter,
    /// All files but the active one.
    pub(crate) files: LogFiles,
    /// What was cut, if anything.
    pub(crate) torn: Option<TornTail>,
}

/// The rest of a commit that was never answered for, cut from the end of the log.
#[derive(Debug, Clone)]
pub(crate) struct TornTail {
    /// The log file it was cut from.
    pub(crate) path: PathBuf,
    /// Where.
    pub(crate) offset: u64,
    /// How many bytes were cut.
    pub(crate) len: u64,
    /// The file that they are kept in.
    pub(crate) kept: PathBuf,
}

/// Opens the log in a folder (made if missing), and begins one where there is none.
///
/// Checks that no file is missing or has another length than it was sealed with; hands over all
/// records from the checkpoint on; removes generations that are not current and files that were
/// never finished. All that the writer stands on is durable then.
pub(crate) fn recover<E: From<LogError>>(
    disk: &Disk,
    dir: &Path,
    options: LogOptions,
    checkpoint: &Checkpoint,
    mut visit: impl FnMut(LogPosition, Sequence, Record) -> Result<(), E>,
) -> Result<Recovered, E> {
    disk.create_dir_all(dir)
        .map_err(LogError::io("create", dir))?;
    let listing = Listing::read(disk, dir, checkpoint)?;
    let Some(active_number) = listing.last else {
        listing.remove_leftovers(disk, dir)?;
        let header = FileHeader {
            file: 1,
            generation: 1,
            previous_len: 0,
            sealed_len: 0,
            first_sequence: Sequence(1),
        };
        let active = begin_file(disk, dir, &header)?;
        return Ok(Recovered {
            writer: LogWriter::new(disk.clone(), dir, options, active, Sequence(0)),
            files: LogFiles::default(),
            torn: None,
        });
    };

    let mut sealed = Vec::new();
    for file in 1..active_number {
        let generation = listing.generation(file);
        sealed.push(SealedLog::open(&**disk, dir, file, generation)?);
    }
    let mut active = ReadActive::open(disk, dir, active_number)?;
    let headers = sealed.iter().map(SealedLog::header);
    check_lengths(&sealed, headers.skip(1).chain([&active.header]))?;

    for sealed in sealed
        .iter()
        .filter(|log| log.file() >= checkpoint.from_file)
    {
        sealed.read_all(&mut visit)?;
    }
    while let Some(commit) = active.next_commit(checkpoint)? {
        for (position, sequence, record) in commit {
            visit(position, sequence, record)?;
        }
    }
    let last_sequence = active.scan.last_sequence();
    let torn = active.keep_torn_tail(disk, dir)?;
    let active = active.finish()?;
    listing.remove_leftovers(disk, dir)?;
    Ok(Recovered {
        writer: LogWriter::new(disk.clone(), dir, options, active, last_sequence),
        files: LogFiles::new(sealed),
        torn,
    })
}

/// What the folder holds.
struct Listing<'a> {
    checkpoint: &'a Checkpoint,
    /// The number of the last file.
    last: Option<u32>,
    /// Files of other generations and unfinished ones.
    leftovers: Vec<PathBuf>,
}

impl<'a> Listing<'a> {
    /// Lists the folder; an error if a file is missing.
    fn read(disk: &Disk, dir: &Path, checkpoint: &'a Checkpoint) -> Result<Self, LogError> {
        let mut listing = Self {
            checkpoint,
            last: None,
            leftovers: Vec::new(),
        };
        let mut present = Vec::new();
        for name in disk.list(dir).map_err(LogError::io("list", dir))? {
            match FileName::parse(&name) {
                FileName::Log { file, generation } if generation == listing.generation(file) => {
                    present.push(file);
                }
                FileName::Log { .. } | FileName::Unfinished => listing.leftovers.push(name),
                FileName::Other => {}
            }
        }
        present.sort_unstable();
        listing.last = present.last().copied();

        let durable = checkpoint.durable.map_or(0, |position| position.file);
        // The last file was never sealed, so it can't have been rewritten.
        let rewritten = checkpoint.generations.keys().map(|file| file + 1).max();
        let needed = [durable, checkpoint.from_file, rewritten.unwrap_or(0)];
        let last_needed = needed.into_iter().chain(listing.last).max().unwrap_or(0);
        let mut present = present.into_iter();
        for file in 1..=last_needed {
            if present.next() != Some(file) {
                let path = file_path(dir, file, listing.generation(file));
                return Err(LogError::corrupt(&path, 0, "a log file", "none"));
            }
        }
        Ok(listing)
    }

    fn generation(&self, file: u32) -> u32 {
        let generations = &self.checkpoint.generations;
        generations.get(&file).copied().unwrap_or(1)
    }

    /// Removes the leftovers, and makes all names durable.
    fn remove_leftovers(&self, disk: &Disk, dir: &Path) -> Result<(), LogError> {
        for name in &self.leftovers {
            let path = dir.join(name);
            // What was kept aside meanwhile may have had this name until it was finished.
            let remove = || {
                if disk.exists(&path)? {
                    disk.remove(&path)?;
                }
                Ok(())
            };
            remove().map_err(LogError::io("remove", &path))?;
        }
        disk.sync_dir(dir).map_err(LogError::io("sync", dir))
    }
}

/// Checks that each sealed file has the length that the header of the one after it states.
fn check_lengths<'a>(
    sealed: &[SealedLog],
    next_headers: impl Iterator<Item = &'a FileHeader>,
) -> Result<(), LogError> {
    for (log, next) in sealed.iter().zip(next_headers) {
        let (expected, found) = (u64::from(next.previous_len), log.sealed_len());
        if expected != found {
            return Err(LogError::corrupt(
                log.path(),
                expected.min(found) as usize,
                format_args!("a file sealed at {expected} bytes"),
                format_args!("one sealed at {found}"),
            ));
        }
        let (first, next_first) = (log.header().first_sequence, next.first_sequence);
        if next_first < first {
            return Err(LogError::corrupt(
                log.path(),
                0,
                format_args!("a first sequence of {} at most", next_first.0),
                first.0,
            ));
        }
    }
    Ok(())
}

/// The records of one commit.
type Records = Vec<(LogPosition, Sequence, Record)>;

/// The active file as it was found.
struct ReadActive {
    path: PathBuf,
    file: Box<dyn File>,
    header: FileHeader,
    scan: Scan,
    /// The end of what the last intact record says is durable.
    durable: usize,
}

impl ReadActive {
    fn open(disk: &Disk, dir: &Path, number: u32) -> Result<Self, LogError> {
        let path = file_path(dir, number, 1);
        let (file, bytes) = read_whole(disk, &path)?;
        let header = FileHeader::decode(&bytes, &path, number, 1)?;
        let below_first = Sequence(header.first_sequence.0.saturating_sub(1));
        let scan = Scan::new(bytes, number, false, HEADER_LEN, below_first);
        Ok(Self {
            path,
            file,
            header,
            scan,
            durable: HEADER_LEN,
        })
    }

    /// Takes the records of the next commit; `None` at the end of the last one that is intact as a
    /// whole: what an event did to others must not be lost while the event itself stays. An error if
    /// more than that is known to have been durable.
    fn next_commit(&mut self, checkpoint: &Checkpoint) -> Result<Option<Records>, LogError> {
        let before = self.scan.clone();
        let mut records = Vec::new();
        let damage = loop {
            match self.scan.next_frame() {
                Ok(frame) => {
                    self.durable = self.durable.max(frame.durable as usize);
                    records.push(self.scan.decode(&frame, &self.path)?);
                    if !frame.continues {
                        return Ok(Some(records));
                    }
                }
                Err(damage) => break damage,
            }
        };
        let at = self.scan.at();
        let checkpoint = checkpoint
            .durable
            .filter(|end| end.file == self.header.file);
        let known = checkpoint.map_or(0, |end| end.offset as usize);
        let stated = self.scan.following().map(|frame| frame.durable as usize);
        if stated.chain([known]).any(|durable| durable > at) {
            return Err(self.corrupt(&damage));
        }
        self.scan = before;
        Ok(None)
    }

    fn corrupt(&self, damage: &FrameDamage) -> LogError {
        LogError::corrupt(&self.path, self.scan.at(), damage.expected(), damage)
    }

    /// Writes what stands after the end, if anything, to a file of its own.
    fn keep_torn_tail(&self, disk: &Disk, dir: &Path) -> Result<Option<TornTail>, LogError> {
        let offset = self.scan.at();
        let tail = self.scan.tail();
        if tail.is_empty() {
            return Ok(None);
        }
        let kept = keep_aside(disk, dir, self.header.file, offset, &tail)?;
        Ok(Some(TornTail {
            path: self.path.clone(),
            offset: offset as u64,
            len: tail.len() as u64,
            kept,
        }))
    }

    /// Cuts the file at its end, and makes what is left durable.
    fn finish(mut self) -> Result<ActiveFile, LogError> {
        let end = self.scan.at();
        let mut finish = || {
            // Cutting also takes the zeros that were allocated: what was written behind the end
            // must never be seen again, and the blocks may not have survived as zeros.
            self.file.set_len(end as u64)?;
            // A sync that failed before may have left pages that can be read but will never be
            // written. So what nobody has stated to be durable is written again.
            let unsure = self.scan.bytes().get(self.durable..end).unwrap_or_default();
            self.file.write_all_at(unsure, self.durable as u64)?;
            self.file.sync_data()
        };
        finish().map_err(LogError::io("cut and sync", &self.path))?;
        Ok(ActiveFile {
            file: self.file,
            number: self.header.file,
            end: end as u32,
            durable: end as u32,
            allocated: end as u32,
        })
    }
}

/// Reads a file that may still change; it must not be mapped.
pub(super) fn read_whole(disk: &Disk, path: &Path) -> Result<(Box<dyn File>, Bytes), LogError> {
    let read = || {
        let file = disk.open(path)?;
        let mut bytes = vec![0; file.len()? as usize];
        file.read_exact_at(&mut bytes, 0)?;
        Ok((file, Bytes::from(bytes)))
    };
    read().map_err(LogError::io("read", path))
}

/// Keeps cut bytes in `00000007.torn-OFFSET`, or with a number after it where that is taken by
/// other bytes.
fn keep_aside(
    disk: &Disk,
    dir: &Path,
    file: u32,
    offset: usize,
    bytes: &[u8],
) -> Result<PathBuf, LogError> {
    let mut kept = dir.join(format!("{file:08}.torn-{offset}"));
    let mut taken = 1;
    while disk.exists(&kept).map_err(LogError::io("find", &kept))? {
        // A start that got no further than this has kept the same bytes.
        let (_, there) = read_whole(disk, &kept)?;
        if there == bytes {
            return Ok(kept);
        }
        taken += 1;
        kept = dir.join(format!("{file:08}.torn-{offset}.{taken}"));
    }
    let write = || {
        let path = unfinished(&kept);
        if disk.exists(&path)? {
            disk.remove(&path)?;
        }
        let mut file = disk.create_new(&path)?;
        file.write_all_at(bytes, 0)?;
        file.sync_data()?;
        disk.rename(&path, &kept)?;
        disk.sync_dir(dir)
    };
    write().map_err(LogError::io("keep cut bytes in", &kept))?;
    Ok(kept)
}
