//! The one writer of a table: batches of updates, each one frame of the journal and one commit of
//! the B-tree.

use std::{io, sync::Arc};

use redb::{Durability as Commit, ReadableTable};

use super::{
    backend::Backend,
    damage::sheltered,
    entry::Entry,
    journal::Journal,
    open::{Opened, Place, RECORDS, Records, State},
    record::Record,
    snapshot::{Snapshot, wrong_record},
    table::KeyedOptions,
};
use crate::{
    Attributes, Change, Condition, Durability, Effect, Outcome, Stamp, TableError, Update,
    UpdateSink,
    rules::{self, Answer, Bounds, Decision},
};

/// Bytes of one frame, about: what many updates at once have in memory.
const FRAME_BYTES: usize = 4 << 20;

/// How long a table that failed is left alone before it is opened again, in microseconds: its disk
/// may be full, and opening is much more work than an update.
const RETRY_US: u64 = 1_000_000;

/// What one update asks for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Request<'a> {
    /// A change to decide on.
    Update(&'a Update<'a>),
    /// What has been decided elsewhere.
    Effect(Effect<'a>),
}

impl Request<'_> {
    /// Tells whether it is to be durable when it is answered. What has been decided elsewhere can be
    /// asked for again: it is durable after the next sync, with many others.
    const fn is_durable(&self) -> bool {
        matches!(self, Self::Update(_) | Self::Effect(Effect::Vanish))
    }
}

/// The writing side of a table, used under a lock.
pub(super) struct Writer {
    place: Place,
    options: KeyedOptions,
    sink: Option<Arc<dyn UpdateSink>>,
    /// `None`: it has failed and is not yet open again.
    files: Option<Files>,
    /// The B-tree that failed, if one has.
    failed: Option<Backend>,
    failed_at_us: u64,
    synced_at_us: u64,
    new: Vec<u8>,
}

/// The open files.
struct Files {
    opened: Arc<Opened>,
    journal: Journal,
    state: State,
}

/// A batch that is being made.
struct Batch<'a> {
    stamp: Stamp,
    options: &'a KeyedOptions,
    sink: Option<&'a dyn UpdateSink>,
    journal: &'a mut Journal,
    state: State,
    frame: Vec<u8>,
    /// What to tell the sink if the batch fails: each record as it was, oldest first.
    undo: Vec<Before>,
    new: &'a mut Vec<u8>,
}

/// A record's key, and what it was.
type Before = (Vec<u8>, Option<(Vec<u8>, Attributes)>);

/// What an update came to, or why it alone was refused.
type Answered = Result<Outcome, TableError>;

impl Writer {
    pub(super) fn open(
        place: Place,
        options: KeyedOptions,
        sink: Option<Arc<dyn UpdateSink>>,
    ) -> Result<(Self, Snapshot), TableError> {
        let mut writer = Self {
            place,
            options,
            sink,
            files: None,
            failed: None,
            failed_at_us: 0,
            synced_at_us: 0,
            new: Vec::new(),
        };
        let snapshot = writer.reopen()?;
        Ok((writer, snapshot))
    }

    pub(super) const fn options(&self) -> &KeyedOptions {
        &self.options
    }

    fn reopen(&mut self) -> Result<Snapshot, TableError> {
        if let Some(failed) = self.failed.take() {
            failed.stop();
        }
        let (opened, journal, state) = self.place.recover()?;
        let snapshot = sheltered(&self.place.path, || Snapshot::of(&opened, state))?;
        self.files = Some(Files {
            opened,
            journal,
            state,
        });
        Ok(snapshot)
    }

    /// Gives up the files: what they hold is known again once they have been read again.
    fn fail(&mut self, at_us: u64) {
        if let Some(files) = self.files.take() {
            files.opened.backend().stop_writing();
            self.failed = Some(files.opened.backend().clone());
        }
        self.failed_at_us = at_us;
    }

    /// Carries out requests in order, and appends one answer for each. Calls `publish` with each new
    /// view.
    pub(super) fn carry_out(
        &mut self,
        mut requests: &[Request<'_>],
        stamp: Stamp,
        outcomes: &mut Vec<Answered>,
        mut publish: impl FnMut(Snapshot),
    ) {
        if self.files.is_none() {
            let may_retry = stamp.at_us.abs_diff(self.failed_at_us) >= RETRY_US;
            let reopened = if may_retry {
                self.reopen()
            } else {
                Err(io::Error::other("it failed a moment ago").into())
            };
            match reopened {
                Ok(snapshot) => publish(snapshot),
                Err(error) => {
                    self.failed_at_us = stamp.at_us;
                    return refuse_all(&error, requests.len(), outcomes);
                }
            }
        }
        while !requests.is_empty() {
            let done_before = outcomes.len();
            match self.batch(requests, stamp, outcomes) {
                Ok(snapshot) => snapshot.into_iter().for_each(&mut publish),
                Err(error) => {
                    self.fail(stamp.at_us);
                    outcomes.truncate(done_before);
                    return refuse_all(&error, requests.len(), outcomes);
                }
            }
            let done = outcomes.len() - done_before;
            requests = requests.get(done..).unwrap_or_default();
        }
    }

    /// Carries out as many requests as one frame takes. An error is one of the files: none of them
    /// is carried out.
    fn batch(
        &mut self,
        requests: &[Request<'_>],
        stamp: Stamp,
        outcomes: &mut Vec<Answered>,
    ) -> Result<Option<Snapshot>, TableError> {
        let Some(files) = &mut self.files else {
            return Err(io::Error::other("it is closed").into());
        };
        let mut batch = Batch {
            stamp,
            options: &self.options,
            sink: self.sink.as_deref(),
            journal: &mut files.journal,
            state: files.state,
            frame: Vec::new(),
            undo: Vec::new(),
            new: &mut self.new,
        };
        let path = &self.place.path;
        let result = sheltered(path, || {
            let mut transaction = files.opened.database().begin_write()?;
            transaction.set_durability(Commit::None)?;
            let mut records = transaction.open_table(RECORDS)?;
            for request in requests {
                outcomes.push(batch.carry_out(&mut records, path, *request)?);
                if batch.frame.len() >= FRAME_BYTES {
                    break;
                }
            }
            drop(records);
            if batch.frame.is_empty() {
                transaction.abort()?;
                return Ok(None);
            }
            batch.state.sequence += 1;
            batch.state.write(&transaction)?;
            Ok(Some(transaction))
        });
        let mut is_written = false;
        let committed = result.and_then(|transaction| {
            let Some(transaction) = transaction else {
                return Ok(false);
            };
            is_written = true;
            batch.journal.append(&batch.frame)?;
            let interval_us = self.options.interval_s.saturating_mul(1_000_000);
            let is_due = match self.options.durability {
                Durability::Sync => requests.iter().any(Request::is_durable),
                Durability::Interval => stamp.at_us.abs_diff(self.synced_at_us) >= interval_us,
                Durability::None => false,
            };
            if is_due {
                batch.journal.sync()?;
                self.synced_at_us = stamp.at_us;
            }
            sheltered(path, || Ok(transaction.commit()?)).map(|()| true)
        });
        match committed {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(error) => {
                if is_written {
                    // If this fails too, the next start may carry out what is refused here.
                    let _ = batch.journal.take_back();
                }
                batch.take_back();
                return Err(error);
            }
        }
        files.state = batch.state;
        let snapshot = files.after_commit(&self.place, self.options.journal_bytes_max);
        if snapshot.is_err() {
            // The updates are in the journal: the table has failed, but they have not.
            self.fail(stamp.at_us);
            return Ok(self.reopen().ok());
        }
        snapshot.map(Some)
    }

    /// Makes everything so far durable.
    pub(super) fn sync(&mut self) -> Result<(), TableError> {
        let Some(files) = &mut self.files else {
            return Err(io::Error::other("it has failed").into());
        };
        let result = files.journal.sync();
        if result.is_err() {
            self.fail(0);
        }
        Ok(result?)
    }

    /// Removes those of `keys` that have expired by `now`.
    pub(super) fn remove_expired(
        &mut self,
        keys: &[Vec<u8>],
        now: u64,
    ) -> Result<(u64, Option<Snapshot>), TableError> {
        let (Some(files), false) = (&mut self.files, keys.is_empty()) else {
            return Ok((0, None));
        };
        let mut gone = 0;
        let mut state = files.state;
        let snapshot = sheltered(&self.place.path, || {
            let mut transaction = files.opened.database().begin_write()?;
            transaction.set_durability(Commit::None)?;
            let mut records = transaction.open_table(RECORDS)?;
            for key in keys {
                let has_expired = records.get(&**key)?.is_some_and(|stored| {
                    let record = Record::read(key, stored.value());
                    record.is_some_and(|record| record.has_expired(now))
                });
                if has_expired {
                    state.carry_out(&mut records, Entry::Remove { key })?;
                    gone += 1;
                }
            }
            drop(records);
            // No frame: carried out again, the journal brings back what is absent all the same.
            state.write(&transaction)?;
            transaction.commit()?;
            Snapshot::of(&files.opened, state)
        });
        match snapshot {
            Ok(snapshot) => {
                files.state = state;
                Ok((gone, Some(snapshot)))
            }
            Err(error) => {
                self.fail(0);
                Err(error)
            }
        }
    }

    /// Writes the table anew, without the holes that changes have left, in place of the old file.
    pub(super) fn rewrite(&mut self, snapshot: &Snapshot) -> Result<Snapshot, TableError> {
        if self.files.is_none() {
            return Err(io::Error::other("it has failed").into());
        }
        let place = &self.place;
        let new = place.new_file();
        place.write_copy(&new, snapshot)?;
        if let Err(error) = place.disk.rename(&new, &place.path) {
            let _ = place.disk.remove(&new);
            return Err(error.into());
        }
        // From here on the name may be of either file, and both are complete with the journal. The
        // old one is read until the new one is open.
        self.fail(0);
        self.failed = None;
        self.place.disk.sync_dir(self.place.folder())?;
        self.reopen()
    }

    /// Returns the bytes of the journal.
    pub(super) fn journal_bytes(&self) -> u64 {
        self.files.as_ref().map_or(0, |files| files.journal.bytes())
    }

    /// Makes the B-tree durable and the journal short, so that the next start has nothing to do.
    pub(super) fn close(&mut self) {
        if let Some(mut files) = self.files.take() {
            // What fails here is done by the next start.
            let durable = self.place.make_durable(&files.opened, files.state);
            let _ = durable.and_then(|()| Ok(files.journal.clear()?));
        }
    }
}

impl Files {
    /// Looks after the files, and returns what readers see from now on.
    fn after_commit(
        &mut self,
        place: &Place,
        journal_bytes_max: u64,
    ) -> Result<Snapshot, TableError> {
        if self.journal.used() >= journal_bytes_max {
            place.make_durable(&self.opened, self.state)?;
            self.journal.restart();
        }
        sheltered(&place.path, || Snapshot::of(&self.opened, self.state))
    }
}

impl Batch<'_> {
    /// Carries out one request. The outer error is one of the files.
    fn carry_out(
        &mut self,
        records: &mut Records<'_>,
        path: &std::path::Path,
        request: Request<'_>,
    ) -> Result<Answered, redb::Error> {
        let key = match request {
            Request::Update(update) => update.key,
            Request::Effect(Effect::Put { key, .. } | Effect::Remove { key }) => key,
            Request::Effect(Effect::Vanish) => return self.vanish(records),
        };
        if key.len() > self.options.key_bytes_max {
            return Ok(Err(TableError::KeyTooLong {
                limit: self.options.key_bytes_max,
            }));
        }
        match request {
            Request::Update(update) => self.update(records, path, update),
            Request::Effect(Effect::Put {
                value, attributes, ..
            }) => {
                let limit = self.options.value_bytes_max;
                if value.len() > limit {
                    return Ok(Err(TableError::ValueTooLong { limit }));
                }
                let put = self.put(records, key, value, attributes, None)?;
                Ok(put.map(|unique| Outcome::Stored { unique }))
            }
            Request::Effect(_) => self.remove(records, key),
        }
    }

    fn update(
        &mut self,
        records: &mut Records<'_>,
        path: &std::path::Path,
        update: &Update<'_>,
    ) -> Result<Answered, redb::Error> {
        let key = update.key;
        let bounds = Bounds {
            width: None,
            value_bytes_max: self.options.value_bytes_max,
        };
        let mut new = std::mem::take(self.new);
        let is_blind =
            update.condition == Condition::Any && matches!(update.change, Change::Put(_));
        let stored = if is_blind { None } else { records.get(key)? };
        let record = match &stored {
            None => None,
            Some(stored) => match Record::read(key, stored.value()) {
                None => return Ok(Err(wrong_record(path, key))),
                record => record,
            },
        };
        let current = record.filter(|record| !record.has_expired(self.stamp.seconds()));
        let decided = rules::decide(
            current.map(|record| record.current()),
            update,
            bounds,
            &mut new,
        );
        let unique = current.map_or(0, |record| record.unique);
        if let (Ok(Decision::Touch(_)), Some(current)) = (&decided, current) {
            new.clear();
            new.extend_from_slice(current.value);
        }
        drop(stored);
        let answered = match decided {
            Err(error) => Err(error),
            Ok(Decision::Put(attributes, answer)) => self
                .put(records, key, &new, attributes, None)?
                .map(|unique| match answer {
                    Answer::Stored => Outcome::Stored { unique },
                    Answer::Integer(sum) => Outcome::Integer(sum),
                    Answer::Double(sum) => Outcome::Double(sum),
                    Answer::Number { value, is_new } => Outcome::Number {
                        value,
                        unique,
                        is_new,
                    },
                }),
            Ok(Decision::Touch(attributes)) => self
                .put(records, key, &new, attributes, Some(unique))?
                .map(|unique| Outcome::Stored { unique }),
            Ok(Decision::Remove) => self.remove(records, key)?,
            Ok(Decision::NotStored) => Ok(Outcome::NotStored),
            Ok(Decision::Differs) => Ok(Outcome::Differs),
            Ok(Decision::NotFound) => Ok(Outcome::NotFound),
        };
        *self.new = new;
        Ok(answered)
    }

    /// Puts a record, with a unique number of its own unless it keeps the one it has.
    fn put(
        &mut self,
        records: &mut Records<'_>,
        key: &[u8],
        value: &[u8],
        attributes: Attributes,
        kept: Option<u64>,
    ) -> Result<Result<u64, TableError>, redb::Error> {
        let bytes = Entry::put_bytes(key, value);
        if self.state.bytes + bytes as u64 > self.options.limit_bytes {
            let before = records.get(key)?.map_or(0, |stored| stored.value().len());
            let after = self.state.bytes + bytes as u64 - 9;
            if after.saturating_sub((key.len() + before) as u64) > self.options.limit_bytes {
                return Ok(Err(TableError::Full));
            }
        }
        let effect = Effect::Put {
            key,
            value,
            attributes,
        };
        if let Err(error) = self.tell(records, effect, key, bytes)? {
            return Ok(Err(error));
        }
        let unique = kept.unwrap_or(self.state.unique + 1);
        let mut stored = Vec::with_capacity(bytes);
        let record = Record {
            value,
            attributes,
            unique,
        };
        record.write(key, &mut stored);
        self.enter(
            records,
            Entry::Put {
                key,
                record: &stored,
            },
        )?;
        Ok(Ok(unique))
    }

    fn remove(&mut self, records: &mut Records<'_>, key: &[u8]) -> Result<Answered, redb::Error> {
        if let Err(error) = self.tell(records, Effect::Remove { key }, key, 5 + key.len())? {
            return Ok(Err(error));
        }
        self.enter(records, Entry::Remove { key })?;
        Ok(Ok(Outcome::Removed))
    }

    fn vanish(&mut self, records: &mut Records<'_>) -> Result<Answered, redb::Error> {
        let ready = self.journal.reserve(self.frame.len() + 1);
        let told = ready
            .map_err(TableError::from)
            .and_then(|()| match self.sink {
                None => Ok(()),
                Some(sink) => sink.updated(Effect::Vanish, self.stamp),
            });
        if let Err(error) = told {
            return Ok(Err(error));
        }
        self.enter(records, Entry::Vanish)?;
        Ok(Ok(Outcome::Removed))
    }

    fn enter(&mut self, records: &mut Records<'_>, entry: Entry<'_>) -> Result<(), redb::Error> {
        entry.write(&mut self.frame);
        self.state.carry_out(records, entry)
    }

    /// Makes sure that the journal has room, then tells the sink: what follows is refused only by a
    /// failing disk.
    fn tell(
        &mut self,
        records: &mut Records<'_>,
        effect: Effect<'_>,
        key: &[u8],
        bytes: usize,
    ) -> Result<Result<(), TableError>, redb::Error> {
        if let Err(error) = self.journal.reserve(self.frame.len() + bytes) {
            return Ok(Err(match error.kind() {
                io::ErrorKind::StorageFull => TableError::Full,
                _ => TableError::Io(error),
            }));
        }
        if let Some(sink) = self.sink {
            let stored = records.get(key)?;
            let before = stored.and_then(|stored| {
                let record = Record::read(key, stored.value())?;
                Some((record.value.to_vec(), record.attributes))
            });
            if let Err(error) = sink.updated(effect, self.stamp) {
                return Ok(Err(error));
            }
            self.undo.push((key.to_vec(), before));
        }
        Ok(Ok(()))
    }

    /// Tells the sink that nothing of this has come to pass.
    fn take_back(&mut self) {
        let Some(sink) = self.sink else {
            return;
        };
        for (key, before) in self.undo.drain(..).rev() {
            let effect = match &before {
                Some((value, attributes)) => Effect::Put {
                    key: &key,
                    value,
                    attributes: *attributes,
                },
                None => Effect::Remove { key: &key },
            };
            // The disk fails: the log may as well.
            let _ = sink.updated(effect, self.stamp);
        }
    }
}

/// Answers all requests with an error of the files.
fn refuse_all(error: &TableError, count: usize, outcomes: &mut Vec<Answered>) {
    for _ in 0..count {
        outcomes.push(Err(match error {
            TableError::Full => TableError::Full,
            TableError::Corrupt(what) => TableError::Corrupt(what.clone()),
            TableError::Io(error) => {
                TableError::Io(io::Error::new(error.kind(), error.to_string()))
            }
            other => TableError::Io(io::Error::other(other.to_string())),
        }));
    }
}
