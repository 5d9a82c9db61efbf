//! The server: binds, starts the workers and the tables' writers, and stands beside them until it is
//! told to stop.

use std::{
    io,
    net::SocketAddr,
    num::NonZeroUsize,
    path::PathBuf,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use hikyaku_observe::Observations;
use hikyaku_tables::{Table, TableError, Tables};
use hikyaku_vfs::{RealDisk, Vfs};
use tokio::{
    sync::{mpsc, watch},
    time::MissedTickBehavior,
};

use crate::{
    catalogue::Catalogue,
    clock,
    config::TableServerConfig,
    metrics::Metrics,
    replication::Replication,
    socket,
    worker::{Shared, WorkerSeat},
    writer::WriterThread,
};

/// Why a table server can't start, or has stopped by itself.
#[derive(Debug, thiserror::Error)]
pub enum TableServerError {
    /// The address can't be listened on: in use, not ours, or not allowed.
    #[error("can't listen on {address}")]
    Listen {
        /// The address or the path.
        address: String,
        /// Why not.
        source: io::Error,
    },
    /// The address can be reached from elsewhere, and there is no token.
    #[error("tables on {0}, which is not a loopback address, need a token")]
    TokenMissing(SocketAddr),
    /// Neither an address nor a Unix socket is configured.
    #[error("there is nothing to listen on")]
    NowhereToListen,
    /// There is no table to serve.
    #[error("there is no table to serve")]
    NoTables,
    /// What the tables' folder says of whom to follow can't be read, or not be changed.
    #[error("whom to follow is not known")]
    Followed(#[source] TableError),
    /// The system refuses a thread or a timer.
    #[error("the system refuses what the table server needs")]
    System(#[source] io::Error),
    /// A thread has stopped by itself: a defect. The others have been shut down.
    #[error("{0} has stopped unexpectedly")]
    Thread(String),
}

/// A table server that listens already, and serves once it is [run](TableServer::run).
pub struct TableServer {
    address: Option<SocketAddr>,
    unix: Option<PathBuf>,
    metrics: Metrics,
    observations: Option<Observations>,
    shared: Arc<Shared>,
    seats: Vec<WorkerSeat>,
    writers: Vec<WriterThread>,
    replication: Option<Arc<Replication>>,
    draining: watch::Sender<bool>,
}

impl std::fmt::Debug for TableServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableServer")
            .field("address", &self.address)
            .field("unix", &self.unix)
            .finish_non_exhaustive()
    }
}

impl TableServer {
    /// Binds the addresses. From here on clients can connect; they are served when
    /// [`TableServer::run`] begins. The first table is the default.
    pub fn bind(
        config: TableServerConfig,
        tables: Vec<(String, Arc<dyn Table>)>,
    ) -> Result<Self, TableServerError> {
        Self::bind_all(config, tables, None)
    }

    /// Binds the addresses as [`TableServer::bind`] does, for tables that were opened together. If
    /// their log is synchronous, answers are sent when what they tell of is durable in it. Other
    /// servers can follow the log, and this one follows [`TableServerConfig::follow`]. The server's
    /// number is the tables'.
    pub fn bind_set(
        mut config: TableServerConfig,
        set: Arc<Tables>,
    ) -> Result<Self, TableServerError> {
        config.server_id = set.server();
        let tables = set
            .iter()
            .map(|(named, table)| (named.name.clone(), Arc::clone(table)))
            .collect();
        Self::bind_all(config, tables, Some(set))
    }

    fn bind_all(
        config: TableServerConfig,
        tables: Vec<(String, Arc<dyn Table>)>,
        set: Option<Arc<Tables>>,
    ) -> Result<Self, TableServerError> {
        if config.listen.is_none() && config.unix.is_none() {
            return Err(TableServerError::NowhereToListen);
        }
        let workers = config
            .workers
            .or_else(|| thread::available_parallelism().ok())
            .map_or(1, NonZeroUsize::get);
        let (address, mut listeners) = match config.listen {
            None => (None, Vec::new()),
            Some(address) if !address.ip().is_loopback() && config.token.is_none() => {
                return Err(TableServerError::TokenMissing(address));
            }
            Some(address) => {
                let (address, listeners) = socket::listen(address, workers)
                    .map_err(|source| listen_error(address.to_string(), source))?;
                (Some(address), listeners)
            }
        };
        let (catalogue, writers) = Catalogue::start(tables, config.server_id)
            .map_err(TableServerError::System)?
            .ok_or(TableServerError::NoTables)?;
        let catalogue = catalogue.of_set(set.clone());
        let unix = config.unix.clone();
        let mut unix_listener = unix
            .as_deref()
            .map(|path| {
                socket::listen_unix(path)
                    .map_err(|source| listen_error(path.display().to_string(), source))
            })
            .transpose()?;
        let metrics = Metrics::new(workers);
        let (entrances, arrivals): (Vec<_>, Vec<_>) =
            (0..workers).map(|_| mpsc::unbounded_channel()).unzip();
        // What is measured is named by the operator alone: the seed need not be secret.
        let (observations, ledgers) = config
            .measure_requests
            .then(|| Observations::new(workers, clock::now_us(), 0))
            .unzip();
        let mut ledgers = ledgers.unwrap_or_default().into_iter();
        let replication = set
            .map(|set| Replication::new(set, config.clone()))
            .transpose()?;
        let shared = Arc::new(Shared::new(
            config,
            catalogue,
            metrics.clone(),
            replication.clone(),
            entrances,
        ));
        let (draining, draining_seen) = watch::channel(false);
        let seats = arrivals
            .into_iter()
            .enumerate()
            .map(|(index, arrivals)| WorkerSeat {
                index,
                shared: Arc::clone(&shared),
                ledger: ledgers.next(),
                tcp: listeners.pop(),
                // The first worker accepts for all.
                unix: unix_listener.take(),
                arrivals,
                draining: draining_seen.clone(),
            })
            .collect();
        Ok(Self {
            address,
            unix,
            metrics,
            observations,
            shared,
            seats,
            writers,
            replication,
            draining,
        })
    }

    /// Returns the address clients can connect to over TCP, if they can.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Returns the figures.
    pub fn metrics(&self) -> Metrics {
        self.metrics.clone()
    }

    /// Returns what requests cost by table and command, if that is measured.
    pub fn observations(&self) -> Option<Observations> {
        self.observations.clone()
    }

    /// Serves until `shutdown` resolves; then stops accepting, carries out what was read, sends the
    /// answers, and returns when the tables' writers have done all they were given. `shutdown` is
    /// polled inside a tokio runtime, on the calling thread, which is none of the workers'.
    pub fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), TableServerError> {
        let (stopped, mut any_stopped) = mpsc::unbounded_channel::<()>();
        let mut threads = Vec::new();
        for seat in self.seats {
            let farewell = Farewell(stopped.clone());
            let thread = thread::Builder::new()
                .name(format!("tables-{}", seat.index))
                .spawn(move || {
                    let _farewell = farewell;
                    seat.run()
                })
                .map_err(TableServerError::System)?;
            threads.push(thread);
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(TableServerError::System)?;
        runtime.block_on(async {
            tokio::select! {
                () = shutdown => tracing::info!("shutting down the tables"),
                _ = any_stopped.recv() => tracing::error!("a worker has stopped"),
                () = look_after(&self.shared) => {}
            }
        });
        // It holds the ways to the writers, as the workers do.
        drop(self.shared);
        // Fails only if all workers are gone.
        let _ = self.draining.send(true);
        let mut result = Ok(());
        for thread in threads {
            result = result.and(join(thread));
        }
        if let Some(replication) = self.replication {
            replication.stop();
        }
        for writer in self.writers {
            result = result.and(writer.join().map_err(TableServerError::Thread));
        }
        if let Some(path) = self.unix
            && let Err(error) = RealDisk.remove(&path)
        {
            tracing::warn!(%error, "the Unix socket is not removed");
        }
        result
    }
}

/// Empties tables when it is time, and removes what has expired; never returns.
async fn look_after(shared: &Shared) {
    let mut timer = tokio::time::interval(Duration::from_secs(1));
    timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        timer.tick().await;
        shared.catalogue.flush_due(clock::now_us());
        for (_, served) in shared.catalogue.tables() {
            served.writer.sweep().await;
        }
    }
}

fn join(thread: JoinHandle<io::Result<()>>) -> Result<(), TableServerError> {
    let name = thread.thread().name().unwrap_or_default().to_owned();
    match thread.join() {
        Ok(ended) => ended.map_err(TableServerError::System),
        Err(_) => Err(TableServerError::Thread(name)),
    }
}

fn listen_error(address: String, source: io::Error) -> TableServerError {
    TableServerError::Listen { address, source }
}

/// Tells that a thread has ended, however it ended.
struct Farewell(mpsc::UnboundedSender<()>);

impl Drop for Farewell {
    fn drop(&mut self) {
        // Nobody listens any more when the server shuts down.
        let _ = self.0.send(());
    }
}
