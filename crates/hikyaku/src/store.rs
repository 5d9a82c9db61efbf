//! Reaching a store: through the server that has it open, or by opening it.

use std::{
    io,
    num::NonZeroUsize,
    os::unix::net::UnixStream,
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
    thread,
};

use hikyaku_engine::{Engine, EngineError};
use hikyaku_postgres::PostgresStore;
use hikyaku_server::Bans;
use hikyaku_vfs::{Disk, RealDisk, Vfs};

use crate::{
    bans::KeptBans,
    configuration::Settings,
    control,
    failure::Failure,
    members,
    opened::{Opened, only_for_the_engine},
    operations::{
        Audience, Host, Input, Operation, Report, ask_about, ask_about_bans, ask_about_sessions,
        carry_out, no_sessions, nothing_kept,
    },
    sessions::KeptSessions,
};

/// A store that operations can be carried out on.
#[derive(Debug)]
pub(crate) enum Store {
    /// A server has it open, and listens here.
    Served(PathBuf),
    /// This process has.
    Opened(Host),
}

/// Returns the folder of the events within the data folder.
pub(crate) fn folder(settings: &Settings) -> PathBuf {
    settings.data.join("events")
}

/// Opens the store, or makes one. One process at a time.
pub(crate) fn open(settings: &Settings) -> Result<Engine, EngineError> {
    let disk: Disk = Arc::new(RealDisk);
    let options = settings.engine_options(random_key()?);
    Engine::open(disk, folder(settings), options)
}

/// Opens the store to serve it.
pub(crate) fn open_to_serve(settings: &Settings) -> Result<Opened, Failure> {
    if let Some(mut options) = settings.postgres_options() {
        let cores = || thread::available_parallelism().map_or(1, NonZeroUsize::get);
        options.workers = settings
            .server
            .workers
            .map_or_else(cores, NonZeroUsize::get);
        // The database would not mind a second server; their socket and key are one server's.
        if UnixStream::connect(control::socket(&settings.data)).is_ok() {
            return Err(Failure::InUse(format!(
                "another server uses {}; give each node a data folder of its own",
                settings.data.display()
            )));
        }
        return Ok(Opened::Postgres(Arc::new(PostgresStore::open(&options)?)));
    }
    if let Some(name) = settings.store_tag_names.first() {
        return Err(Failure::Usage(format!(
            "store.tag_names has {name:?}, and the store in the data folder indexes tags named by a \
             single letter alone: leave it out, or keep the store in PostgreSQL (store.url)"
        )));
    }
    let engine = open(settings)?;
    report_opening(&engine);
    Ok(Opened::Engine(Arc::new(engine)))
}

/// Whether a command may begin with a store that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Absent {
    /// It is made.
    Make,
    /// That is an error.
    Refuse,
}

impl Store {
    /// Reaches the store of the data folder.
    pub(crate) fn reach(settings: &Settings, absent: Absent) -> Result<Self, Failure> {
        let socket = control::socket(&settings.data);
        if UnixStream::connect(&socket).is_ok() {
            return Ok(Self::Served(socket));
        }
        if let Some(mut options) = settings.postgres_options() {
            // A command ends soon: that is the servers' work.
            options.backfill = false;
            // Only an import comes to a store that need not be there.
            options.defer_indexes = absent == Absent::Make;
            if absent == Absent::Refuse {
                // Nor is it for somebody who reads to begin a backfill.
                options.tag_names.clear();
            }
            let store = Opened::Postgres(Arc::new(PostgresStore::open(&options)?));
            return Self::opened(store, settings);
        }
        let data = settings.data.display();
        // A log alone is a store that has lost its manifest: opening it says what to do.
        let has_log = RealDisk
            .list(&folder(settings).join("log"))
            .is_ok_and(|files| !files.is_empty());
        let exists = has_log
            || RealDisk
                .exists(&folder(settings).join("MANIFEST"))
                .map_err(|error| Failure::io(&format!("can't look into {data}"), &error))?;
        if absent == Absent::Refuse && !exists {
            return Err(nothing_there(settings));
        }
        let engine = open(settings).map_err(|error| match error {
            EngineError::Refused(text) => Failure::InUse(format!(
                "{text}\n(a server that is just starting or stopping can't be reached yet or any \
                 more: try again in a moment)"
            )),
            other => other.into(),
        })?;
        report_opening(&engine);
        Self::opened(Opened::Engine(Arc::new(engine)), settings)
    }

    fn opened(store: Opened, settings: &Settings) -> Result<Self, Failure> {
        let urls = settings
            .urls()
            .map_err(|error| Failure::Usage(error.to_string()))?;
        Ok(Self::Opened(Host {
            store,
            urls,
            members: None,
            bans: None,
            sessions: None,
            watch: None,
            tables: None,
        }))
    }

    /// Carries an operation out.
    pub(crate) fn carry_out(
        &self,
        operation: &Operation,
        input: Input,
        stop: &Arc<AtomicBool>,
        audience: &mut dyn Audience,
    ) -> Result<Report, Failure> {
        match self {
            Self::Served(socket) => {
                let stream = UnixStream::connect(socket).map_err(|error| {
                    Failure::io("the running server can't be reached any more", &error)
                })?;
                control::call(stream, operation, input, stop, audience)
            }
            Self::Opened(host) => carry_out(host, operation, input, stop, audience),
        }
    }

    /// Carries an operation out that reads nothing, tells nothing on its way, and ends soon.
    pub(crate) fn ask(&self, operation: &Operation) -> Result<Report, Failure> {
        self.carry_out(
            operation,
            Box::new(io::empty()),
            &Arc::default(),
            &mut Nobody,
        )
    }
}

/// Asks what is known about members: the running server, or the tables in the data folder.
pub(crate) fn ask_members(settings: &Settings, operation: &Operation) -> Result<Report, Failure> {
    let socket = control::socket(&settings.data);
    if UnixStream::connect(&socket).is_ok() {
        return Store::Served(socket).ask(operation);
    }
    if !members::exist(settings) {
        return Err(Failure::Failed(format!(
            "nothing is known about members in {}; name the right folder with --data, or serve first",
            settings.data.display()
        )));
    }
    let Some(kept) = members::open(settings)? else {
        return Err(nothing_kept());
    };
    let report = ask_about(&kept.members, operation);
    kept.close();
    report
}

/// Asks about bans: the running server, or where they are kept.
pub(crate) fn ask_bans(settings: &Settings, operation: &Operation) -> Result<Report, Failure> {
    let socket = control::socket(&settings.data);
    if UnixStream::connect(&socket).is_ok() {
        return Store::Served(socket).ask(operation);
    }
    // Nobody is served by this process.
    let server = Bans::default();
    let kept = match settings.postgres_options() {
        Some(mut options) => {
            options.backfill = false;
            options.tag_names.clear();
            let opened = Opened::Postgres(Arc::new(PostgresStore::open(&options)?));
            KeptBans::open(&settings.data, &opened, server)?
        }
        None => KeptBans::open_table(&settings.data, server)?,
    };
    let report = ask_about_bans(&kept, operation);
    kept.close();
    report
}

/// Asks about sessions of browsers: the running server, or where they are kept.
pub(crate) fn ask_sessions(settings: &Settings, operation: &Operation) -> Result<Report, Failure> {
    let socket = control::socket(&settings.data);
    if UnixStream::connect(&socket).is_ok() {
        return Store::Served(socket).ask(operation);
    }
    if !settings.sessions.enabled {
        return Err(no_sessions());
    }
    let options = settings.sessions.options.clone();
    let (kept, _opened) = match settings.postgres_options() {
        Some(mut postgres) => {
            postgres.backfill = false;
            let opened = Opened::Postgres(Arc::new(PostgresStore::open(&postgres)?));
            let kept = KeptSessions::open(&settings.data, &opened, options)?;
            (kept, Some(opened))
        }
        None => (KeptSessions::open_table(&settings.data, options)?, None),
    };
    let report = ask_about_sessions(&kept.sessions, operation);
    kept.close();
    report
}

/// Rebuilds the indexes from the log; of a store that nobody has open.
pub(crate) fn repair(settings: &Settings) -> Result<Report, Failure> {
    if settings.postgres_options().is_some() {
        return Err(only_for_the_engine("repair"));
    }
    if UnixStream::connect(control::socket(&settings.data)).is_ok() {
        return Err(Failure::InUse(format!(
            "a server has {} open; stop it first",
            settings.data.display()
        )));
    }
    let folder = folder(settings);
    let exists = RealDisk.list(&folder).is_ok_and(|files| !files.is_empty());
    if !exists {
        return Err(nothing_there(settings));
    }
    let disk: Disk = Arc::new(RealDisk);
    let options = settings.engine_options(random_key()?);
    let report = hikyaku_engine::repair(&disk, folder, &options)?;
    Ok(Report::Repaired(report.into()))
}

fn nothing_there(settings: &Settings) -> Failure {
    Failure::Failed(format!(
        "there is no store in {}; name the right folder with --data, or make one with `hikyaku \
         import` or `hikyaku serve`",
        settings.data.display()
    ))
}

fn random_key() -> Result<[u8; 16], EngineError> {
    let mut key = [0; 16];
    getrandom::fill(&mut key).map_err(|error| {
        EngineError::Unavailable(format!("the system has no randomness: {error}"))
    })?;
    Ok(key)
}

/// Says in the log what opening a store found.
pub(crate) fn report_opening(engine: &Engine) {
    let report = engine.opening_report();
    if let Some(torn) = &report.torn_tail {
        tracing::warn!("{torn}");
    }
    tracing::debug!(
        created = report.created,
        replayed = report.replayed,
        "store opened"
    );
}

struct Nobody;

impl Audience for Nobody {
    fn event(&mut self, _json: &[u8]) -> io::Result<()> {
        Ok(())
    }
    fn progress(&mut self, _progress: crate::operations::Progress) -> io::Result<()> {
        Ok(())
    }
}
