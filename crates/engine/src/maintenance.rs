//! Background work: flushing memory to segments, merging segments, reclaiming log files.
//!
//! A [`Job`] is planned by the writer from what it has published, run anywhere on immutable inputs,
//! and its result applied by the writer. Only jobs write the manifest, one job at a time.
//!
//! INVARIANT: the manifest's `replay_from` is raised only together with segments that cover the log
//! files before it and tombstones at least as new as the end of those files. Facts of later files
//! that the tombstones hold already are found again by the replay and change nothing.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use hikyaku_event::Timestamp;
use hikyaku_store::{Hider, Sequence};
use hikyaku_vfs::Disk;

use crate::{
    commit::{Core, Hiders, LogFileUse},
    error::EngineError,
    log::{self, LogFiles, SealedLog},
    manifest::{Layout, LogEntry, Manifest, SegmentEntry, failed},
    memory, merging,
    segment::{self, DocId, FileSink, MergeInput, MergeMap, Segment, TermHasher},
    snapshot::{Part, PartId, Payload},
    tombstones::Tombstones,
};

/// A segment is merged with the smaller ones when they come to this share of it: sizes then grow
/// geometrically, and there are few of them.
const MERGE_SHARE: u64 = 2;

/// Background work on immutable inputs.
#[derive(Debug)]
pub(crate) struct Job {
    task: Task,
    /// The store at the time of planning.
    parts: Vec<Arc<Part>>,
    hiders: Hiders,
    files: LogFiles,
    log_use: BTreeMap<u32, LogFileUse>,
    replay_from: u32,
    next_sequence: Sequence,
    log_durable: u64,
    part_id: PartId,
}

#[derive(Debug, Clone)]
enum Task {
    /// Turn these parts into one segment file. A flush also moves `replay_from`.
    Merge(Vec<PartId>),
    /// Rewrite a log file without its dead events.
    Rewrite(u32),
    /// Only write what the manifest says of the store.
    Note,
}

/// What a job came to, for the writer to apply.
#[derive(Debug)]
pub(crate) struct Finished {
    result: Product,
    replay_from: u32,
}

#[derive(Debug)]
enum Product {
    Merged {
        inputs: Vec<Arc<Part>>,
        output: Option<(Part, MergeMap)>,
    },
    Rewritten {
        sealed: SealedLog,
        file: u32,
        events: u64,
        purged: Option<Timestamp>,
    },
    Noted,
}

/// What is written on the disk, and what is no longer needed there.
#[derive(Debug)]
pub(crate) struct Maintenance {
    disk: Disk,
    layout: Layout,
    hasher: TermHasher,
    manifest: Manifest,
    /// By segment file: the version of its tombstones that the manifest names.
    written: BTreeMap<u64, u64>,
    /// Whether the last attempt to replace the manifest failed: then the disk may have either.
    manifest_uncertain: bool,
    /// Generations of log files that are not named any more and are still to be removed.
    outdated_logs: Vec<SealedLog>,
}

impl Core {
    /// Plans the most urgent background work, if there is any. `now` decides about purges.
    pub(crate) fn plan(&mut self, now: Option<Timestamp>) -> Option<Job> {
        let (task, replay_from) = self.flush().or_else(|| {
            let task = self.merge().or_else(|| self.rewrite(now))?;
            Some((task, self.replay_from))
        })?;
        Some(self.job(task, replay_from))
    }

    /// Plans a merge of all segments into one, if there are several or one has removed documents.
    pub(crate) fn plan_compaction(&mut self) -> Option<Job> {
        if let Some((task, replay_from)) = self.flush() {
            return Some(self.job(task, replay_from));
        }
        let on_disk: Vec<_> = self.parts.iter().filter(|part| on_disk(part)).collect();
        let settled = match on_disk.as_slice() {
            [] => true,
            [one] => one.removed.is_empty(),
            _ => false,
        };
        let task = if settled {
            Task::Rewrite(self.emptiest_file(|usage| usage.live < usage.events)?)
        } else {
            Task::Merge(on_disk.iter().map(|part| part.id).collect())
        };
        Some(self.job(task, self.replay_from))
    }

    /// Plans a job that only brings the manifest up to date.
    pub(crate) fn plan_note(&mut self) -> Job {
        self.job(Task::Note, self.replay_from)
    }

    fn job(&mut self, task: Task, replay_from: u32) -> Job {
        Job {
            task,
            parts: self.parts.clone(),
            hiders: self.hiders.clone(),
            files: self.files.clone(),
            log_use: self.log_use.clone(),
            replay_from,
            next_sequence: self.next_sequence,
            log_durable: self.log.durable().to_u64(),
            part_id: self.take_part_id(),
        }
    }

    /// The oldest closed log file that no segment covers.
    fn flush(&self) -> Option<(Task, u32)> {
        let closed = self.replay_from;
        (closed < self.log.end().file).then(|| {
            let inputs = self.parts.iter().filter(|part| {
                matches!(part.payload, Payload::Memory { log_file, .. } if log_file == closed)
            });
            (
                Task::Merge(inputs.map(|part| part.id).collect()),
                closed + 1,
            )
        })
    }

    fn merge(&self) -> Option<Task> {
        let mut by_size: Vec<_> = self
            .parts
            .iter()
            .filter(|part| on_disk(part))
            .map(|part| (u64::from(part.segment.len()), part.id))
            .collect();
        by_size.sort_unstable();
        let mut smaller = 0;
        let mut take = 0;
        for (index, (documents, _)) in by_size.iter().enumerate() {
            if smaller * MERGE_SHARE >= *documents {
                take = index + 1;
            }
            smaller += documents;
        }
        if take < 2 || smaller > u64::from(u32::MAX) {
            return None;
        }
        Some(Task::Merge(
            by_size.iter().take(take).map(|(_, id)| *id).collect(),
        ))
    }

    fn rewrite(&self, now: Option<Timestamp>) -> Option<Task> {
        let overdue = |usage: &LogFileUse| {
            let (Some(since), Some(now)) = (usage.purge_since, now) else {
                return false;
            };
            now >= since.saturating_add(self.options.purge_seconds_max)
        };
        let sparse = |usage: &LogFileUse| {
            usage.live * 100 < usage.events * u64::from(self.options.live_percent_min)
        };
        self.emptiest_file(|usage| overdue(usage) || sparse(usage))
            .map(Task::Rewrite)
    }

    /// The log file that segments cover with the fewest living events among those that qualify.
    fn emptiest_file(&self, qualifies: impl Fn(&LogFileUse) -> bool) -> Option<u32> {
        self.log_use
            .range(..self.replay_from)
            .filter(|(_, usage)| usage.live < usage.events && qualifies(usage))
            .min_by_key(|(_, usage)| usage.live * 100 / usage.events.max(1))
            .map(|(file, _)| *file)
    }

    /// Tells whether the log file being written holds events that are due to leave it: then it has
    /// to be closed before they can.
    pub(crate) fn must_turn_over(&self, now: Timestamp) -> bool {
        self.log_use.range(self.log.end().file..).any(|(_, usage)| {
            usage
                .purge_since
                .is_some_and(|since| now >= since.saturating_add(self.options.purge_seconds_max))
        })
    }

    /// Puts a job's result in place of its inputs and shows it to readers.
    pub(crate) fn apply(&mut self, finished: Finished) {
        self.replay_from = self.replay_from.max(finished.replay_from);
        match finished.result {
            Product::Noted => return,
            Product::Merged { inputs, output } => {
                self.statistics.merges += 1;
                self.replace(&inputs, output);
            }
            Product::Rewritten {
                sealed,
                file,
                events,
                purged,
            } => {
                self.files = self.files.with(sealed);
                if let Some(usage) = self.log_use.get_mut(&file) {
                    usage.events = events;
                    // A purge that came while the job ran is still to be carried out.
                    if usage.purge_since == purged && usage.live == events {
                        usage.purge_since = None;
                    }
                }
            }
        }
        self.publish();
    }

    fn replace(&mut self, inputs: &[Arc<Part>], output: Option<(Part, MergeMap)>) {
        let mut first = None;
        let mut current = Vec::with_capacity(inputs.len());
        self.parts.retain(|part| {
            let replaced = inputs.iter().position(|input| input.id == part.id);
            if let Some(number) = replaced {
                current.push((number, part.clone()));
            }
            replaced.is_none()
        });
        if let Some((mut part, map)) = output {
            // What happened to the inputs since the job was planned happened to the output.
            for (number, now) in &current {
                let Some(planned) = inputs.get(*number) else {
                    continue;
                };
                // A second hider changes no bit, but has to be written down too.
                part.tombstone_version += now.tombstone_version - planned.tombstone_version;
                for doc in now
                    .removed
                    .iter()
                    .filter(|doc| !planned.removed.contains(*doc))
                {
                    if let Some(moved) = map.get(*number, doc) {
                        part.remove(moved);
                    }
                }
                for doc in now
                    .hidden
                    .iter()
                    .filter(|doc| !planned.hidden.contains(*doc))
                {
                    if let Some(moved) = map.get(*number, doc) {
                        part.set_hidden(moved, true);
                    }
                }
                for doc in planned
                    .hidden
                    .iter()
                    .filter(|doc| !now.hidden.contains(*doc))
                {
                    if let Some(moved) = map.get(*number, doc) {
                        part.set_hidden(moved, false);
                    }
                }
            }
            first = Some(Arc::new(part));
        }
        // Segment files stand before the parts in memory.
        let place = self
            .parts
            .iter()
            .position(|part| !on_disk(part))
            .unwrap_or(self.parts.len());
        if let Some(part) = first {
            self.parts.insert(place, part);
        }
    }
}

pub(crate) fn on_disk(part: &Part) -> bool {
    matches!(part.payload, Payload::Log { .. })
}

impl Maintenance {
    pub(crate) fn new(
        disk: Disk,
        layout: Layout,
        hasher: TermHasher,
        manifest: Manifest,
        written: BTreeMap<u64, u64>,
    ) -> Self {
        Self {
            disk,
            layout,
            hasher,
            manifest,
            written,
            manifest_uncertain: false,
            outdated_logs: Vec::new(),
        }
    }

    /// Carries out a job; durable when it returns. After an error nothing is lost: the disk has the
    /// store as it was or as the job wanted it, and the next job goes on from what it was.
    pub(crate) fn run(&mut self, job: Job) -> Result<Finished, EngineError> {
        let mut manifest = self.manifest.clone();
        let finished = self.carry_out(job, &mut manifest);
        // The manifest on the disk may name what a failed attempt wrote: its numbers are used up.
        self.manifest.next_file = manifest.next_file;
        finished
    }

    fn carry_out(&mut self, job: Job, manifest: &mut Manifest) -> Result<Finished, EngineError> {
        let mut written = self.written.clone();
        let mut disk_parts: Vec<&Part> = job
            .parts
            .iter()
            .map(|part| &**part)
            .filter(|part| on_disk(part))
            .collect();
        let mut output = None;
        let mut inputs = Vec::new();
        let mut rewritten = None;
        match &job.task {
            Task::Note => {}
            Task::Merge(ids) => {
                inputs = job
                    .parts
                    .iter()
                    .filter(|part| ids.contains(&part.id))
                    .cloned()
                    .collect();
                output = self.merge(&job, &inputs, manifest)?;
                disk_parts.retain(|part| !ids.contains(&part.id));
            }
            Task::Rewrite(file) => rewritten = Some(self.rewrite(&job, *file)?),
        }
        disk_parts.extend(output.as_ref().map(|(part, _)| part));
        manifest.segments =
            self.write_tombstones(&disk_parts, &job.hiders, manifest, &mut written)?;
        manifest.replay_from = job.replay_from;
        manifest.next_sequence = job.next_sequence.0;
        manifest.log_durable = manifest.log_durable.max(job.log_durable);
        manifest.logs = job
            .files
            .iter()
            .filter(|sealed| sealed.file() < job.replay_from)
            .map(|sealed| {
                let usage = job.log_use.get(&sealed.file()).copied().unwrap_or_default();
                LogEntry {
                    file: sealed.file(),
                    generation: sealed.generation(),
                    events: usage.events,
                    purge_since: usage.purge_since,
                }
            })
            .collect();
        if let Some((sealed, events)) = &rewritten {
            for entry in manifest
                .logs
                .iter_mut()
                .filter(|entry| entry.file == sealed.file())
            {
                entry.generation = sealed.generation();
                entry.events = *events;
                entry.purge_since = None;
            }
        }
        self.replace_manifest(manifest)?;
        self.written = written;
        let result = match (job.task, rewritten) {
            (Task::Note, _) | (Task::Rewrite(_), None) => Product::Noted,
            (Task::Merge(_), _) => Product::Merged { inputs, output },
            (Task::Rewrite(file), Some((sealed, events))) => {
                let outdated = job.files.iter().filter(|before| before.file() == file);
                self.outdated_logs.extend(outdated.cloned());
                let purged = job.log_use.get(&file).and_then(|usage| usage.purge_since);
                Product::Rewritten {
                    sealed,
                    file,
                    events,
                    purged,
                }
            }
        };
        self.clean_up();
        Ok(Finished {
            result,
            replay_from: job.replay_from,
        })
    }

    fn replace_manifest(&mut self, manifest: &Manifest) -> Result<(), EngineError> {
        if *manifest != self.manifest || self.manifest_uncertain {
            self.manifest_uncertain = true;
            manifest.write(&*self.disk, &self.layout.root)?;
            self.manifest_uncertain = false;
            self.manifest = manifest.clone();
        }
        Ok(())
    }

    /// Removes what the manifest, being durable, no longer names. The job is done whatever becomes of
    /// this: what can't be removed now is tried again after the next job, and when the store is opened.
    fn clean_up(&mut self) {
        let _ = self.remove_unnamed();
        let disk = &self.disk;
        self.outdated_logs
            .retain(|outdated| log::remove(disk, outdated).is_err());
    }

    /// Merges parts into a segment file. `None` if nothing in them is left.
    fn merge(
        &self,
        job: &Job,
        inputs: &[Arc<Part>],
        manifest: &mut Manifest,
    ) -> Result<Option<(Part, MergeMap)>, EngineError> {
        if merging::stored(inputs) == 0 {
            return Ok(None);
        }
        let file_number = manifest.next_file;
        manifest.next_file += 1;
        let dir = self.layout.segment_dir();
        let path = dir.join(Layout::segment_name(file_number));
        let map = merging::with_sources(inputs, |sources| self.write_segment(&path, sources))?;
        self.disk
            .sync_dir(&dir)
            .map_err(|error| failed("sync", &dir, &error))?;
        let bytes = self
            .disk
            .map(&path)
            .map_err(|error| failed("map", &path, &error))?;
        let segment = Segment::open(bytes, &path.display().to_string())?;
        let payload = Payload::Log {
            segment_file: file_number,
        };
        let mut part = memory::part(job.part_id, segment, payload, &self.hasher)?;
        merging::carry_hidden(inputs, &map, &mut part);
        Ok(Some((part, map)))
    }

    fn write_segment(
        &self,
        path: &Path,
        sources: &[MergeInput<'_>],
    ) -> Result<MergeMap, EngineError> {
        let fail = |error| failed("write", path, &error);
        if self.disk.exists(path).map_err(fail)? {
            self.disk.remove(path).map_err(fail)?;
        }
        let mut file = self.disk.create_new(path).map_err(fail)?;
        let mut sink = FileSink::new(&mut *file);
        let map = segment::merge(sources, &mut sink)?;
        file.sync_data().map_err(fail)?;
        Ok(map)
    }

    /// Writes the tombstones that changed; returns what the manifest says of the segments.
    fn write_tombstones(
        &self,
        parts: &[&Part],
        hiders: &Hiders,
        manifest: &mut Manifest,
        written: &mut BTreeMap<u64, u64>,
    ) -> Result<Vec<SegmentEntry>, EngineError> {
        let mut entries = Vec::with_capacity(parts.len());
        for part in parts {
            let Payload::Log { segment_file } = part.payload else {
                continue;
            };
            let before = self
                .manifest
                .segments
                .iter()
                .find(|entry| entry.file == segment_file);
            let unchanged = written.get(&segment_file) == Some(&part.tombstone_version);
            let tombstones = match before {
                Some(entry) if unchanged => entry.tombstones,
                _ => {
                    let tombstones = tombstones_of(part, hiders)?;
                    if tombstones.is_empty() {
                        None
                    } else {
                        let number = manifest.next_file;
                        manifest.next_file += 1;
                        tombstones.write(&*self.disk, &self.layout.segment_dir(), number)?;
                        Some(number)
                    }
                }
            };
            written.insert(segment_file, part.tombstone_version);
            entries.push(SegmentEntry {
                file: segment_file,
                tombstones,
            });
        }
        written.retain(|file, _| entries.iter().any(|entry| entry.file == *file));
        Ok(entries)
    }

    /// Rewrites a log file without the events that no part has as stored.
    fn rewrite(&self, job: &Job, file: u32) -> Result<(SealedLog, u64), EngineError> {
        let mut living: Vec<Sequence> = Vec::new();
        for part in &job.parts {
            for doc in (0..part.segment.len()).map(DocId) {
                let position = log::LogPosition::from_u64(part.segment.position(doc)?);
                if position.file == file && part.is_stored(doc) {
                    living.push(part.segment.sequence(doc)?);
                }
            }
        }
        living.sort_unstable();
        let source = job
            .files
            .iter()
            .find(|sealed| sealed.file() == file)
            .ok_or_else(|| {
                EngineError::Corrupt(format!("log file {file} is not among the closed ones"))
            })?;
        let generation = source.generation() + 1;
        let sealed = log::rewrite(
            &self.disk,
            source,
            generation,
            |sequence, record| match record {
                log::Record::Event { .. } => living.binary_search(&sequence).is_ok(),
                // Facts stay: what they say may be about events of other files.
                _ => true,
            },
        )?;
        Ok((sealed, living.len() as u64))
    }

    /// Removes segment and tombstone files that the manifest does not name. Readers of older
    /// snapshots keep their mappings.
    pub(crate) fn remove_unnamed(&self) -> Result<(), EngineError> {
        let dir = self.layout.segment_dir();
        let mut named = Vec::new();
        for entry in &self.manifest.segments {
            named.push(Layout::segment_name(entry.file));
            named.extend(entry.tombstones.map(Layout::tombstones_name));
        }
        for path in self
            .disk
            .list(&dir)
            .map_err(|error| failed("list", &dir, &error))?
        {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if !named.iter().any(|known| *known == name) {
                let path = dir.join(&*name);
                self.disk
                    .remove(&path)
                    .map_err(|error| failed("remove", &path, &error))?;
            }
        }
        Ok(())
    }
}

/// Returns a part's tombstones as they are written.
pub(crate) fn tombstones_of(part: &Part, hiders: &Hiders) -> Result<Tombstones, EngineError> {
    let mut hidings: Vec<(DocId, Hider)> = Vec::new();
    for doc in part.hidden.iter() {
        let sequence = part.segment.sequence(doc)?;
        hidings.extend(
            hiders
                .get(&sequence)
                .into_iter()
                .flatten()
                .map(|by| (doc, *by)),
        );
    }
    Ok(Tombstones {
        removed: part.removed.clone(),
        hidings,
    })
}
