//! Opening a set of tables after whatever happened.

use std::{
    collections::BTreeSet,
    io,
    path::Path,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool},
    thread,
};

use hikyaku_vfs::{Disk, Lock};

use super::{
    Checkpoint, Logging, NamedTable, Replayed, Tables, TablesOptions,
    tables::{Inner, Open},
};
use crate::{
    Kind, Table, TableError, TableSpec, UpdateLog, UpdateSink,
    log::{Recoverable, has_files, written_by},
    open_spec,
};

/// The log's folder in the tables' folder.
const LOG_FOLDER: &str = "updates";

/// How a table is opened.
type Opener<'a> = &'a dyn Fn(
    &Disk,
    &Path,
    &TableSpec,
    Option<Arc<dyn UpdateSink>>,
) -> Result<Arc<dyn Table>, TableError>;

impl Tables {
    /// Opens tables in a folder (made if missing); the first is the default. After an unclean end the
    /// log brings back what was durable in it. A table in memory is empty, and its updates are not
    /// logged: it is this process's own.
    ///
    /// With a log, its thread and one for checkpoints are started.
    pub fn open(
        disk: &Disk,
        folder: &Path,
        tables: &[NamedTable],
        options: &TablesOptions,
    ) -> Result<Self, TableError> {
        let tables = Self::open_with(disk, folder, tables, options, &open_spec)?;
        tables.start()?;
        Ok(tables)
    }

    /// Returns the number of the server that wrote the update log in a folder of tables; none if there
    /// is no log.
    pub fn logged_by(disk: &Disk, folder: &Path) -> Result<Option<u32>, TableError> {
        written_by(disk, &folder.join(LOG_FOLDER))
    }

    /// Opens tables as [`Tables::open`] does, but takes nothing down and has no threads yet.
    pub(super) fn open_with(
        disk: &Disk,
        folder: &Path,
        named: &[NamedTable],
        options: &TablesOptions,
        opener: Opener<'_>,
    ) -> Result<Self, TableError> {
        check_names(named)?;
        disk.create_dir_all(folder)
            .map_err(TableError::io("create", folder))?;
        let lock = lock(disk, folder)?;
        let Checkpoint { known, mut applied } = Checkpoint::read(disk, folder)?.unwrap_or_default();
        let log_folder = folder.join(LOG_FOLDER);
        let log = if options.logging != Logging::None || has_files(disk, &log_folder)? {
            let names: Vec<_> = named.iter().map(|it| it.name.clone()).collect();
            let mut log = options.log.clone();
            log.waited_for &= options.logging == Logging::Sync;
            Some(UpdateLog::open(disk, &log_folder, log, &names, known)?)
        } else {
            None
        };
        let mut tables = Vec::new();
        for (number, named) in (0..).zip(named) {
            let is_logged = options.logging != Logging::None && named.spec.kind != Kind::Memory;
            let sink = log.as_ref().filter(|_| is_logged);
            let sink = sink.map(|log| log.sink(number));
            tables.push(Open {
                named: named.clone(),
                table: opener(disk, folder, &named.spec, sink)?,
            });
        }
        let mut inner = Inner {
            disk: disk.clone(),
            folder: folder.to_path_buf(),
            tables,
            log: None,
            logging: options.logging,
            checkpoint_bytes: options.checkpoint_bytes,
            server: options.log.server,
            known,
            applied: Mutex::default(),
            checkpointing: Mutex::default(),
            _lock: lock,
        };
        let replayed = match &log {
            None => Replayed::default(),
            Some(log) => {
                // What was not logged is in the tables only, and nothing was logged since.
                let from = if known.unlogged {
                    log.durable()
                } else {
                    known.position
                };
                let mut entries = log.recover_from(from)?;
                let mut replayed = Replayed::default();
                while let Some(entry) = entries.next_to_recover()? {
                    match entry {
                        Recoverable::Update(logged) => {
                            if options.needs_all && inner.get(logged.table).is_none() {
                                return Err(TableError::NotOpened(logged.table.to_owned()));
                            }
                            if inner.is_logged(logged.table) {
                                replayed.carry_out(&inner, &logged)?;
                            }
                        }
                        Recoverable::Applied(one) => {
                            applied.insert(one.source, one);
                        }
                    }
                }
                replayed
            }
        };
        inner.applied = Mutex::new(applied);
        if options.logging == Logging::None {
            inner.known.unlogged = true;
            if let Some(log) = &log {
                inner.known.position = log.durable();
                inner.known.file = log.file();
            }
        } else {
            inner.log = log;
        }
        inner.checkpoint()?;
        Ok(Self {
            inner: Arc::new(inner),
            checkpointer: Mutex::default(),
            replayed,
            ended: AtomicBool::new(false),
        })
    }

    /// Starts to take updates down, and the threads.
    fn start(&self) -> Result<(), TableError> {
        let Some(log) = self.log() else {
            return Ok(());
        };
        log.start()?;
        let inner = Arc::clone(&self.inner);
        let thread = thread::Builder::new().name("table-checkpoints".to_owned());
        let thread = thread.spawn(move || inner.make_checkpoints())?;
        *self
            .checkpointer
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(())
    }
}

fn lock(disk: &Disk, folder: &Path) -> Result<Box<dyn Lock>, TableError> {
    let path = folder.join("lock");
    disk.lock(&path).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => TableError::InUse(folder.to_path_buf()),
        _ => TableError::io("lock", &path)(error),
    })
}

/// Checks that there is a table, and that no two have a name or a file in common.
fn check_names(tables: &[NamedTable]) -> Result<(), TableError> {
    let wrong = |message: String| Err(TableError::Syntax(message));
    if tables.is_empty() {
        return wrong("there is no table to open".to_owned());
    }
    let (mut names, mut files) = (BTreeSet::new(), BTreeSet::new());
    for NamedTable { name, spec } in tables {
        if !names.insert(name) {
            return wrong(format!("two tables have the name {name}"));
        }
        if spec.kind != Kind::Memory && !files.insert(&spec.file) {
            return wrong(format!("two tables have the file {}", spec.file));
        }
    }
    Ok(())
}
