//! Opening a store: the manifest's segments and tombstones, then the log from where they end.

use std::{
    collections::{BTreeMap, HashMap as StdHashMap},
    path::PathBuf,
    sync::Arc,
};

use arc_swap::ArcSwap;
use hikyaku_event::{Event, Kind};
use hikyaku_store::{RemovalReason, Sequence};
use hikyaku_vfs::{Disk, Lock};

use crate::{
    commit::{Core, Hiders, LogFileUse, Statistics, must_leave_the_log, purge_dead},
    error::EngineError,
    log::{self, Checkpoint, LogOptions, LogPosition, Record, TornTail},
    maintenance::Maintenance,
    manifest::{Layout, Manifest, failed},
    memory,
    options::Options,
    segment::{DocId, Document, Segment, TermHasher},
    snapshot::{Part, PartId, Payload, Snapshot},
    tombstones::Tombstones,
};

/// What opening found and did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpeningReport {
    /// Whether the store is new.
    pub created: bool,
    /// Events read back from the log, because no segment had them yet.
    pub replayed: u64,
    /// The rest of a commit that nobody was told about, cut from the log's end: a sentence that
    /// names the log file, the offset, and the file that keeps the bytes.
    pub torn_tail: Option<String>,
}

/// An open store, before it has threads.
pub(crate) struct Opened {
    pub(crate) core: Core,
    pub(crate) maintenance: Maintenance,
    pub(crate) report: OpeningReport,
    pub(crate) lock: Box<dyn Lock>,
}

/// What the log holds that no segment does.
#[derive(Default)]
struct Replay {
    events: BTreeMap<u32, Vec<Replayed>>,
    facts: Vec<Record>,
    last_sequence: Sequence,
    count: u64,
    /// A request to vanish is among them.
    vanished: bool,
}

struct Replayed {
    document: Document,
    json: bytes::Bytes,
}

/// Takes the lock of a store folder, which is made if missing.
pub(crate) fn lock(disk: &Disk, layout: &Layout) -> Result<Box<dyn Lock>, EngineError> {
    let root = &layout.root;
    disk.create_dir_all(root)
        .map_err(|error| failed("create", root, &error))?;
    let path = layout.lock();
    disk.lock(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock => EngineError::Refused(format!(
            "{}: another process has this store open; stop it, or choose another data folder",
            root.display()
        )),
        _ => failed("lock", &path, &error),
    })
}

/// Opens the store in a folder, or makes one.
pub(crate) fn open(disk: &Disk, root: PathBuf, options: Options) -> Result<Opened, EngineError> {
    let layout = Layout { root };
    let lock = lock(disk, &layout)?;
    let segment_dir = layout.segment_dir();
    disk.create_dir_all(&segment_dir)
        .map_err(|error| failed("create", &segment_dir, &error))?;
    let mut report = OpeningReport::default();
    let mut manifest = if let Some(manifest) = Manifest::read(&**disk, &layout.root)? {
        manifest
    } else {
        report.created = true;
        create(disk, &layout, &options)?
    };
    // A process that ended in the middle of replacing it may have left a new manifest that a power
    // cut would take back. What only the old one names is removed below, so that must not happen.
    disk.sync_dir(&layout.root)
        .map_err(|error| failed("sync", &layout.root, &error))?;
    let hasher = TermHasher::new(term_key(&manifest)?);
    let mut parts = Vec::new();
    let mut hiders = Hiders::default();
    let mut written = BTreeMap::new();
    let mut next_part = 0;
    for entry in &manifest.segments {
        next_part += 1;
        let name = Layout::segment_name(entry.file);
        let path = segment_dir.join(&name);
        let bytes = disk
            .map(&path)
            .map_err(|error| failed("map", &path, &error))?;
        let segment = Segment::open(bytes, &path.display().to_string())?;
        let payload = Payload::Log {
            segment_file: entry.file,
        };
        let mut part = memory::part(PartId(next_part), segment, payload, &hasher)?;
        if let Some(file) = entry.tombstones {
            let read = Tombstones::read(&**disk, &segment_dir, file, part.segment.len())?;
            part.removed = read.removed;
            for (doc, by) in read.hidings {
                part.hidden.insert(doc);
                hiders
                    .entry(part.segment.sequence(doc)?)
                    .or_default()
                    .push(by);
            }
        }
        written.insert(entry.file, part.tombstone_version);
        parts.push(Arc::new(part));
    }
    let checkpoint = Checkpoint {
        from_file: manifest.replay_from,
        durable: Some(LogPosition::from_u64(manifest.log_durable)),
        generations: manifest
            .logs
            .iter()
            .map(|log| (log.file, log.generation))
            .collect(),
    };
    let log_options = LogOptions {
        chunk_bytes: options.log_allocation_bytes,
        file_bytes_max: options.log_file_bytes_max,
    };
    let mut replay = Replay::default();
    let recovered = log::recover(
        disk,
        &layout.log_dir(),
        log_options,
        &checkpoint,
        |at, sequence, record| replay.take(at, sequence, record, &hasher),
    )?;
    if manifest.replay_from == 0 {
        // A new store: from now on its log must be there.
        manifest.replay_from = 1;
        manifest.write(&**disk, &layout.root)?;
    }
    report.replayed = replay.count;
    report.torn_tail = recovered.torn.as_ref().map(describe);
    let mut log_use: BTreeMap<u32, LogFileUse> = manifest
        .logs
        .iter()
        .map(|log| {
            let purge_since = log.purge_since;
            (
                log.file,
                LogFileUse {
                    events: log.events,
                    live: 0,
                    purge_since,
                },
            )
        })
        .collect();
    let last = replay.last_sequence.max(recovered.writer.last_sequence());
    for (file, events) in std::mem::take(&mut replay.events) {
        log_use.entry(file).or_default().events = events.len() as u64;
        // What was replaced or deleted meanwhile is removed below, as in the parts on disk.
        let (documents, payloads): (Vec<_>, Vec<_>) = events
            .into_iter()
            .map(|event| (event.document, event.json))
            .unzip();
        next_part += 1;
        let part = memory::build(PartId(next_part), file, &documents, &payloads, &hasher)?;
        parts.push(Arc::new(part));
    }
    let lost = apply_facts(&replay.facts, &mut parts, &mut hiders)?;
    for part in &parts {
        for doc in (0..part.segment.len())
            .map(DocId)
            .filter(|doc| part.is_stored(*doc))
        {
            let position = LogPosition::from_u64(part.segment.position(doc)?);
            log_use.entry(position.file).or_default().live += 1;
        }
    }
    for (file, reason) in lost {
        if must_leave_the_log(reason) {
            // Nobody knows when it was purged: it is due at the next sweep.
            log_use
                .entry(file)
                .or_default()
                .purge_since
                .get_or_insert(0);
        }
    }
    if replay.vanished {
        purge_dead(&mut log_use, 0);
    }
    let next_sequence = Sequence((last.0 + 1).max(manifest.next_sequence));
    let snapshot = Snapshot {
        sequence: Sequence(next_sequence.0 - 1),
        parts: parts.clone(),
        files: recovered.files.clone(),
    };
    let core = Core {
        options,
        hasher,
        log: recovered.writer,
        files: recovered.files,
        parts,
        hiders,
        log_use,
        next_sequence,
        next_part,
        replay_from: manifest.replay_from,
        published: Arc::new(ArcSwap::from_pointee(snapshot)),
        stopped: None,
        unsynced: false,
        // What the last file holds is not looked up: at worst it is closed once for nothing.
        sealed_through: Sequence(0),
        statistics: Statistics::default(),
    };
    let maintenance = Maintenance::new(disk.clone(), layout, hasher, manifest, written);
    maintenance.remove_unnamed()?;
    Ok(Opened {
        core,
        maintenance,
        report,
        lock,
    })
}

/// Writes the first manifest of a store. Refused where there is a log already: its manifest is lost.
fn create(disk: &Disk, layout: &Layout, options: &Options) -> Result<Manifest, EngineError> {
    let log_dir = layout.log_dir();
    disk.create_dir_all(&log_dir)
        .map_err(|error| failed("create", &log_dir, &error))?;
    let names = disk
        .list(&log_dir)
        .map_err(|error| failed("list", &log_dir, &error))?;
    let is_log = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "log");
    if names.iter().any(is_log) {
        return Err(EngineError::Corrupt(format!(
            "{}: there is a log, but no manifest; `hikyaku repair` rebuilds it from the log",
            layout.root.display()
        )));
    }
    let manifest = first_manifest(options.term_key);
    manifest.write(&**disk, &layout.root)?;
    Ok(manifest)
}

/// The manifest of an empty store.
pub(crate) fn first_manifest(term_key: [u8; 16]) -> Manifest {
    Manifest {
        term_key: format!("{:032x}", u128::from_be_bytes(term_key)),
        next_file: 1,
        next_sequence: 1,
        ..Manifest::default()
    }
}

pub(crate) fn term_key(manifest: &Manifest) -> Result<[u8; 16], EngineError> {
    u128::from_str_radix(&manifest.term_key, 16)
        .map(u128::to_be_bytes)
        .ok()
        .filter(|_| manifest.term_key.len() == 32)
        .ok_or_else(|| EngineError::Corrupt("the manifest's term key is not 32 hex digits".into()))
}

fn describe(torn: &TornTail) -> String {
    format!(
        "{} ended in the middle of a commit that was never answered: {} bytes from offset {} are \
         cut and kept in {}",
        torn.path.display(),
        torn.len,
        torn.offset,
        torn.kept.display()
    )
}

impl Replay {
    fn take(
        &mut self,
        position: LogPosition,
        sequence: Sequence,
        record: Record,
        hasher: &TermHasher,
    ) -> Result<(), EngineError> {
        self.last_sequence = self.last_sequence.max(sequence);
        match record {
            Record::Event { vanish, json } => {
                let event = Event::from_stored(json.clone()).map_err(|error| {
                    EngineError::Corrupt(format!("log position {position}: {error}"))
                })?;
                let document =
                    Document::from_event(&event, vanish, sequence, position.to_u64(), hasher);
                self.count += 1;
                self.vanished |= vanish && event.kind() == Kind::VANISH;
                self.events
                    .entry(position.file)
                    .or_default()
                    .push(Replayed { document, json });
            }
            fact => self.facts.push(fact),
        }
        Ok(())
    }
}

/// Carries out the log's facts in order; returns the losses by log file. A target that is not found
/// was dropped by a merge.
pub(crate) fn apply_facts(
    facts: &[Record],
    parts: &mut [Arc<Part>],
    hiders: &mut Hiders,
) -> Result<Vec<(u32, RemovalReason)>, EngineError> {
    let mut places: StdHashMap<Sequence, Option<(usize, DocId)>> = StdHashMap::new();
    for fact in facts {
        places.extend(targets(fact).iter().map(|target| (*target, None)));
    }
    let (Some(first), Some(last)) = (places.keys().min().copied(), places.keys().max().copied())
    else {
        return Ok(Vec::new());
    };
    for (number, part) in parts.iter().enumerate() {
        let (lowest, highest) = part.segment.sequences();
        if highest < first || lowest > last {
            continue;
        }
        for doc in (0..part.segment.len()).map(DocId) {
            if let Some(place) = places.get_mut(&part.segment.sequence(doc)?) {
                *place = Some((number, doc));
            }
        }
    }
    let mut lost = Vec::new();
    for fact in facts {
        for target in targets(fact) {
            let Some(Some((number, doc))) = places.get(target).copied() else {
                continue;
            };
            let Some(part) = parts.get_mut(number).map(Arc::make_mut) else {
                continue;
            };
            match fact {
                Record::Removed { reason, .. } => {
                    if part.remove(doc) {
                        let position = LogPosition::from_u64(part.segment.position(doc)?);
                        lost.push((position.file, *reason));
                    }
                }
                Record::Hidden { by, .. } => {
                    let by_whom = hiders.entry(*target).or_default();
                    if !by_whom.contains(by) {
                        by_whom.push(*by);
                    }
                    part.set_hidden(doc, true);
                }
                Record::Unhidden { by, .. } => {
                    let by_whom = hiders.entry(*target).or_default();
                    by_whom.retain(|hider| hider != by);
                    part.set_hidden(doc, !by_whom.is_empty());
                    if by_whom.is_empty() {
                        hiders.remove(target);
                    }
                }
                Record::Event { .. } => {}
            }
        }
    }
    Ok(lost)
}

fn targets(fact: &Record) -> &[Sequence] {
    match fact {
        Record::Removed { targets, .. }
        | Record::Hidden { targets, .. }
        | Record::Unhidden { targets, .. } => targets,
        Record::Event { .. } => &[],
    }
}
