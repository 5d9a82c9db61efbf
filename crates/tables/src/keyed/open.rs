//! Opening and making the files of a table.

use std::{
    io,
    ops::Bound,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::Arc,
};

use hikyaku_vfs::{Disk, Lock};
use redb::{Builder, Database, Durability, ReadableDatabase, TableDefinition};

use super::{
    backend::Backend,
    damage::{damaged, sheltered},
    entry::Entry,
    journal::Journal,
    record::Record,
    snapshot::Snapshot,
};
use crate::TableError;

/// The records, as [`super::record::Record`] writes them.
pub(super) const RECORDS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("records");
/// One row: [`State`].
const STATE: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("state");
const STATE_KEY: &str = "state";

const VERSION: u32 = 1;

/// Bytes of memory for the pages of a file that is written from beginning to end.
const COPY_CACHE_BYTES: usize = 16 << 20;

/// What a new start adds to the unique numbers, more than can have been given and lost in a power
/// cut, so that none is given twice.
const UNIQUE_STEP: u64 = 1 << 32;

/// What the B-tree's every commit says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct State {
    /// The last frame of the journal that is in it.
    pub(super) sequence: u64,
    /// The last unique number given.
    pub(super) unique: u64,
    /// Bytes of all keys and records.
    pub(super) bytes: u64,
}

impl State {
    pub(super) fn write(self, transaction: &redb::WriteTransaction) -> Result<(), redb::Error> {
        let mut row = VERSION.to_le_bytes().to_vec();
        for number in [self.sequence, self.unique, self.bytes] {
            row.extend_from_slice(&number.to_le_bytes());
        }
        transaction.open_table(STATE)?.insert(STATE_KEY, &*row)?;
        Ok(())
    }

    /// Puts or removes a record, and counts it.
    pub(super) fn carry_out(
        &mut self,
        records: &mut Records<'_>,
        entry: Entry<'_>,
    ) -> Result<(), redb::Error> {
        let counted = |key: &[u8], len: usize| (key.len() + len) as u64;
        match entry {
            Entry::Put { key, record } => {
                let before = records.insert(key, record)?;
                let freed = before.map_or(0, |before| counted(key, before.value().len()));
                self.bytes = (self.bytes + counted(key, record.len())).saturating_sub(freed);
                let unique = Record::read(key, record).map_or(0, |record| record.unique);
                self.unique = self.unique.max(unique);
            }
            Entry::Remove { key } => {
                let before = records.remove(key)?;
                let freed = before.map_or(0, |before| counted(key, before.value().len()));
                self.bytes = self.bytes.saturating_sub(freed);
            }
            Entry::Vanish => {
                records.retain(|_, _| false)?;
                self.bytes = 0;
            }
        }
        Ok(())
    }

    fn read(row: &[u8]) -> Option<Self> {
        let (version, rest) = row.split_first_chunk()?;
        let (sequence, rest) = rest.split_first_chunk()?;
        let (unique, rest) = rest.split_first_chunk()?;
        let (bytes, _) = rest.split_first_chunk()?;
        (u32::from_le_bytes(*version) == VERSION).then_some(Self {
            sequence: u64::from_le_bytes(*sequence),
            unique: u64::from_le_bytes(*unique),
            bytes: u64::from_le_bytes(*bytes),
        })
    }
}

/// Where a table lies.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) disk: Disk,
    pub(super) path: PathBuf,
    /// Bytes of memory for the B-tree's pages.
    pub(super) cache_bytes: usize,
}

/// An open B-tree.
pub(super) struct Opened {
    database: Option<Database>,
    backend: Backend,
}

impl Opened {
    fn new(backend: Backend, cache_bytes: usize) -> Result<Self, redb::Error> {
        let mut builder = Builder::new();
        builder.set_cache_size(cache_bytes);
        Ok(Self {
            database: Some(builder.create_with_backend(backend.clone())?),
            backend,
        })
    }

    #[expect(clippy::expect_used, reason = "only dropping takes it out")]
    pub(super) fn database(&self) -> &Database {
        let database = self.database.as_ref();
        database.expect("it is there until it is dropped")
    }

    pub(super) const fn backend(&self) -> &Backend {
        &self.backend
    }

    fn close(mut self) -> Result<(), redb::Error> {
        if let Some(database) = self.database.take() {
            database.close()?;
        }
        Ok(())
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // As `sheltered`: closing reads the file too.
        let database = self.database.take();
        let _ = catch_unwind(AssertUnwindSafe(|| drop(database)));
    }
}

impl Place {
    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(ending);
        name.into()
    }

    /// The journal's path; the lock is on it too.
    pub(super) fn journal(&self) -> PathBuf {
        self.beside(".journal")
    }

    /// Where a file is made that then takes the table's name.
    pub(super) fn new_file(&self) -> PathBuf {
        self.beside(".new")
    }

    pub(super) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    /// Locks the table against other processes.
    pub(super) fn lock(&self) -> Result<Box<dyn Lock>, TableError> {
        let lock = self.disk.lock(&self.journal());
        lock.map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => TableError::Io(io::Error::new(
                io::ErrorKind::WouldBlock,
                format!("{} is open already", self.path.display()),
            )),
            _ => TableError::Io(error),
        })
    }

    /// Makes an empty table if there is none.
    pub(super) fn make(&self) -> Result<(), TableError> {
        let new = self.new_file();
        if self.disk.exists(&new)? {
            // A crash while it was made.
            self.disk.remove(&new)?;
        }
        if self.disk.exists(&self.path)? {
            // The journal may have been made just now.
            return Ok(self.disk.sync_dir(self.folder())?);
        }
        // What is left of a table that was removed is not part of this one.
        let mut journal = self.disk.open(&self.journal())?;
        journal.set_len(0)?;
        journal.sync_data()?;
        drop(self.disk.create_new(&new)?);
        fill_file(&self.disk, &new, State::default(), |_| Ok(()))?;
        self.disk.rename(&new, &self.path)?;
        self.disk.sync_dir(self.folder())?;
        Ok(())
    }

    /// Opens the B-tree.
    pub(super) fn open(&self) -> Result<(Arc<Opened>, State), TableError> {
        let backend = Backend::open(&self.disk, &self.path)?;
        sheltered(&self.path, || {
            let opened = Opened::new(backend, self.cache_bytes)?;
            let row = opened.database().begin_read()?.open_table(STATE)?;
            let state = row.get(STATE_KEY)?.and_then(|row| State::read(row.value()));
            Ok((Arc::new(opened), state))
        })
        .and_then(|(opened, state)| {
            let state = state.ok_or_else(|| damaged(&self.path, "it is not of this version"))?;
            Ok((opened, state))
        })
    }

    /// Opens the B-tree and the journal, and carries out what only the journal has. Afterwards all is
    /// durable in the B-tree, and the journal is empty.
    pub(super) fn recover(&self) -> Result<(Arc<Opened>, Journal, State), TableError> {
        let (opened, mut state) = self.open()?;
        let journal = self.journal();
        let mut journal = Journal::open(&self.disk, &journal, state.sequence, |sequence, body| {
            replay(&self.path, &opened, &mut state, sequence, body)
        })?;
        state.unique = (state.unique / UNIQUE_STEP + 1) * UNIQUE_STEP;
        self.make_durable(&opened, state)?;
        journal.clear()?;
        Ok((opened, journal, state))
    }

    /// Makes all that was committed durable.
    pub(super) fn make_durable(&self, opened: &Opened, state: State) -> Result<(), TableError> {
        sheltered(&self.path, || {
            let mut transaction = opened.database().begin_write()?;
            // With the map of free pages, so that a start after a crash need not walk the tree.
            transaction.set_quick_repair(true);
            state.write(&transaction)?;
            Ok(transaction.commit()?)
        })
    }

    /// Writes the table as a snapshot has it to a new file, complete and durable.
    pub(super) fn write_copy(&self, to: &Path, snapshot: &Snapshot) -> Result<(), TableError> {
        drop(self.disk.create_new(to)?);
        let result = fill_file(&self.disk, to, snapshot.state(), |records| {
            snapshot.walk(&self.path, Bound::Unbounded, |key, record| {
                records.insert(key, record)?;
                Ok(true)
            })
        });
        if result.is_err() {
            // The first error is the one to report.
            let _ = self.disk.remove(to);
        }
        result
    }
}

/// The records while they are changed.
pub(super) type Records<'t> = redb::Table<'t, &'static [u8], &'static [u8]>;

/// Makes an empty file a table of what `fill` puts into it.
fn fill_file(
    disk: &Disk,
    path: &Path,
    state: State,
    fill: impl FnOnce(&mut Records<'_>) -> Result<(), TableError>,
) -> Result<(), TableError> {
    let backend = Backend::open(disk, path)?;
    let mut filled = Ok(());
    sheltered(path, || {
        let opened = Opened::new(backend, COPY_CACHE_BYTES)?;
        let transaction = opened.database().begin_write()?;
        filled = fill(&mut transaction.open_table(RECORDS)?);
        if filled.is_ok() {
            state.write(&transaction)?;
            transaction.commit()?;
        }
        opened.close()
    })?;
    filled?;
    disk.sync_dir(path.parent().unwrap_or(Path::new("")))?;
    Ok(())
}

/// Carries out a frame of the journal.
fn replay(
    path: &Path,
    opened: &Opened,
    state: &mut State,
    sequence: u64,
    body: &[u8],
) -> Result<(), TableError> {
    let mut rest = body;
    let mut entries = Vec::new();
    while !rest.is_empty() {
        let (entry, behind) = Entry::read(rest)
            .ok_or_else(|| damaged(path, &format!("frame {sequence} of its journal is wrong")))?;
        entries.push(entry);
        rest = behind;
    }
    sheltered(path, || {
        let mut transaction = opened.database().begin_write()?;
        transaction.set_durability(Durability::None)?;
        let mut records = transaction.open_table(RECORDS)?;
        for entry in entries {
            state.carry_out(&mut records, entry)?;
        }
        drop(records);
        state.sequence = sequence;
        state.write(&transaction)?;
        transaction.commit()?;
        Ok(())
    })
}
