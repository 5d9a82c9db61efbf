//! Repairing a store that is not open: the log keeps what is intact, the indexes are made anew.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use hikyaku_event::Event;
use hikyaku_vfs::Disk;

use crate::{
    commit::{Hiders, must_leave_the_log},
    error::EngineError,
    log::{self, Checkpoint, LogOptions, Record, Walked},
    maintenance::tombstones_of,
    manifest::{self, Layout, LogEntry, Manifest, SegmentEntry, failed},
    memory,
    open::{self, apply_facts},
    options::Options,
    segment::{self, Document, Segment, TermHasher},
    snapshot::{Part, PartId, Payload},
    verify::describe,
};

/// What a repair found and did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// Events in the log that are intact, removed ones included.
    pub events: u64,
    /// What was damaged in the log: each names file, offset and length.
    pub damage: Vec<String>,
    /// Where the damaged log's files are kept, if there was damage.
    pub kept_in: Option<PathBuf>,
    /// Segments written.
    pub segments: u64,
}

/// A file of the log, as it lies in its folder.
#[derive(Debug, Clone, Copy)]
struct Found {
    file: u32,
    generation: u32,
}

/// Rebuilds a store's indexes from its log. Where the log itself is damaged, its intact records are
/// copied into a new log, and the old files are kept aside in `log.damaged`.
///
/// Must run to its end: if it is interrupted, the store does not open until it has been repaired.
pub fn repair(
    disk: &Disk,
    folder: PathBuf,
    options: &Options,
) -> Result<RepairReport, EngineError> {
    let layout = Layout { root: folder };
    let _lock = open::lock(disk, &layout)?;
    let mut report = RepairReport::default();
    let known = match Manifest::read(&**disk, &layout.root) {
        Ok(manifest) => manifest,
        Err(EngineError::Corrupt(what)) => {
            report.damage.push(what);
            None
        }
        Err(error) => return Err(error),
    };
    let mut log_damage = Vec::new();
    let mut files = find_files(disk, &layout.log_dir(), known.as_ref(), &mut log_damage)?;
    for (index, found) in files.iter().enumerate() {
        let is_last = index + 1 == files.len();
        let Found { file, generation } = *found;
        log::salvage(
            disk,
            &layout.log_dir(),
            file,
            generation,
            is_last,
            |walked| match walked {
                Walked::Damage(damage) => log_damage.push(describe(&damage)),
                Walked::Record(_, _, Record::Event { .. }) => report.events += 1,
                Walked::Record(..) => {}
            },
        )?;
    }
    manifest::remove(&**disk, &layout.root)?;
    if !log_damage.is_empty() {
        report.damage.append(&mut log_damage);
        report.kept_in = Some(copy_intact(disk, &layout, &files, options)?);
        files = find_files(disk, &layout.log_dir(), None, &mut Vec::new())?;
    }
    rebuild(disk, &layout, &files, known.as_ref(), options, &mut report)?;
    Ok(report)
}

/// Lists the log's files, each in its current generation: the manifest's, or the latest.
fn find_files(
    disk: &Disk,
    dir: &Path,
    known: Option<&Manifest>,
    damage: &mut Vec<String>,
) -> Result<Vec<Found>, EngineError> {
    let mut generations: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    disk.create_dir_all(dir)
        .map_err(|error| failed("create", dir, &error))?;
    for name in disk
        .list(dir)
        .map_err(|error| failed("list", dir, &error))?
    {
        if let Some((file, generation)) = log::parse_name(&name) {
            generations.entry(file).or_default().push(generation);
        }
    }
    let mut files = Vec::new();
    for (file, present) in generations {
        let named = known
            .and_then(|manifest| manifest.logs.iter().find(|log| log.file == file))
            .map(|log| log.generation)
            .filter(|generation| present.contains(generation));
        if let Some(generation) = named.or(present.iter().max().copied()) {
            files.push(Found { file, generation });
        }
    }
    for (expected, found) in (1..).zip(&files) {
        if found.file != expected {
            damage.push(format!("{}: log file {expected} is missing", dir.display()));
            break;
        }
    }
    Ok(files)
}

/// Copies the intact records into a new log and puts it in the old one's place.
fn copy_intact(
    disk: &Disk,
    layout: &Layout,
    files: &[Found],
    options: &Options,
) -> Result<PathBuf, EngineError> {
    let old = layout.log_dir();
    let new = layout.root.join("log.repaired");
    let kept = layout.root.join("log.damaged");
    for dir in [&new, &kept] {
        disk.create_dir_all(dir)
            .map_err(|error| failed("create", dir, &error))?;
    }
    for name in disk
        .list(&new)
        .map_err(|error| failed("list", &new, &error))?
    {
        let path = in_dir(&new, &name);
        disk.remove(&path)
            .map_err(|error| failed("remove", &path, &error))?;
    }
    let log_options = LogOptions {
        chunk_bytes: options.log_allocation_bytes,
        file_bytes_max: options.log_file_bytes_max,
    };
    let nothing = |_, _, _| Ok::<(), EngineError>(());
    let mut writer = log::recover(disk, &new, log_options, &Checkpoint::default(), nothing)?.writer;
    for (index, found) in files.iter().enumerate() {
        let is_last = index + 1 == files.len();
        let mut failure = None;
        log::salvage(
            disk,
            &old,
            found.file,
            found.generation,
            is_last,
            |walked| {
                let Walked::Record(_, sequence, record) = walked else {
                    return;
                };
                if failure.is_none() && sequence > writer.last_sequence() {
                    let copied = writer
                        .append(&record, sequence)
                        .and_then(|_| writer.commit(false));
                    let copied = match copied {
                        Ok(()) if writer.is_full() => writer.seal().map(drop),
                        other => other,
                    };
                    failure = copied.err();
                }
            },
        )?;
        if let Some(error) = failure {
            return Err(error.into());
        }
    }
    writer.sync()?;
    drop(writer);
    move_files(disk, &old, &kept)?;
    move_files(disk, &new, &old)?;
    Ok(kept)
}

fn move_files(disk: &Disk, from: &Path, to: &Path) -> Result<(), EngineError> {
    for name in disk
        .list(from)
        .map_err(|error| failed("list", from, &error))?
    {
        let (source, target) = (in_dir(from, &name), in_dir(to, &name));
        disk.rename(&source, &target)
            .map_err(|error| failed("move", &source, &error))?;
    }
    for dir in [to, from] {
        disk.sync_dir(dir)
            .map_err(|error| failed("sync", dir, &error))?;
    }
    Ok(())
}

fn in_dir(dir: &Path, name: &Path) -> PathBuf {
    dir.join(name.file_name().unwrap_or_default())
}

/// Makes segments of all log files but the last, which is replayed when the store is opened.
fn rebuild(
    disk: &Disk,
    layout: &Layout,
    files: &[Found],
    known: Option<&Manifest>,
    options: &Options,
    report: &mut RepairReport,
) -> Result<(), EngineError> {
    let term_key = match known {
        Some(manifest) => open::term_key(manifest)?,
        None => options.term_key,
    };
    let mut manifest = open::first_manifest(term_key);
    let hasher = TermHasher::new(term_key);
    let dir = layout.segment_dir();
    disk.create_dir_all(&dir)
        .map_err(|error| failed("create", &dir, &error))?;
    for name in disk
        .list(&dir)
        .map_err(|error| failed("list", &dir, &error))?
    {
        let path = in_dir(&dir, &name);
        disk.remove(&path)
            .map_err(|error| failed("remove", &path, &error))?;
    }
    let mut parts: Vec<Arc<Part>> = Vec::new();
    let mut facts = Vec::new();
    for found in files.iter().take(files.len().saturating_sub(1)) {
        let mut documents = Vec::new();
        let mut unreadable = None;
        let Found { file, generation } = *found;
        log::salvage(disk, &layout.log_dir(), file, generation, false, |walked| {
            let Walked::Record(position, sequence, record) = walked else {
                return;
            };
            manifest.next_sequence = manifest.next_sequence.max(sequence.0 + 1);
            match record {
                Record::Event { vanish, json } => match Event::from_stored(json) {
                    Ok(event) => {
                        let at = position.to_u64();
                        documents.push(Document::from_event(&event, vanish, sequence, at, &hasher));
                    }
                    Err(error) => unreadable = Some((position, error)),
                },
                fact => facts.push(fact),
            }
        })?;
        if let Some((position, error)) = unreadable {
            return Err(EngineError::Corrupt(format!(
                "log position {position}: {error}"
            )));
        }
        let events = documents.len() as u64;
        manifest.logs.push(LogEntry {
            file,
            generation,
            events,
            purge_since: None,
        });
        manifest.replay_from = file + 1;
        if !documents.is_empty() {
            parts.push(Arc::new(write_part(
                disk,
                &dir,
                &documents,
                &mut manifest,
                &hasher,
            )?));
        }
    }
    manifest.replay_from = manifest
        .replay_from
        .max(files.last().map_or(0, |found| found.file));
    let mut hiders = Hiders::default();
    for (file, reason) in apply_facts(&facts, &mut parts, &mut hiders)? {
        let mut logs = manifest.logs.iter_mut();
        if let Some(log) = logs.find(|log| must_leave_the_log(reason) && log.file == file) {
            // Nobody knows when it was purged: it is due at the next sweep.
            log.purge_since = Some(0);
        }
    }
    for part in &parts {
        let Payload::Log { segment_file } = part.payload else {
            continue;
        };
        let tombstones = tombstones_of(part, &hiders)?;
        let number = (!tombstones.is_empty()).then(|| {
            manifest.next_file += 1;
            manifest.next_file - 1
        });
        if let Some(number) = number {
            tombstones.write(&**disk, &dir, number)?;
        }
        manifest.segments.push(SegmentEntry {
            file: segment_file,
            tombstones: number,
        });
    }
    report.segments = parts.len() as u64;
    manifest.write(&**disk, &layout.root)
}

fn write_part(
    disk: &Disk,
    dir: &Path,
    documents: &[Document],
    manifest: &mut Manifest,
    hasher: &TermHasher,
) -> Result<Part, EngineError> {
    let segment_file = manifest.next_file;
    manifest.next_file += 1;
    let name = Layout::segment_name(segment_file);
    let built = segment::build(documents, hasher)?;
    manifest::write_whole(&**disk, dir, &format!("{name}.tmp"), &name, &built.bytes)?;
    let segment = Segment::in_memory(built.bytes)?;
    memory::part(
        PartId(segment_file),
        segment,
        Payload::Log { segment_file },
        hasher,
    )
}
