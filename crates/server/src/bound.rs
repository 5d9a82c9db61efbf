//! A server that listens: starts the workers, and stands beside them until it is told to stop.

use std::{io, net::SocketAddr, num::NonZeroUsize, sync::Arc, thread, time::Duration};

use hikyaku_relay::{Limits, RelayConfig, RelayInformation, RelayUrls};
use hikyaku_store::EventStore;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::sync::mpsc;

use crate::{
    Bans, Server, ServerError, Sessions,
    clock::unix_now,
    condition::Watch,
    http::Site,
    metrics::{self, Counters, Metrics},
    neighbours,
    phase::{PhaseSetter, phases},
    plugin::{HandlerBook, PluginError, Watchdog, caught},
    rates,
    recorder::Recorder,
    server::Addition,
    worker::{Given, Shared, WorkerFailure, WorkerSeat},
};

/// Connections that wait to be accepted, for each worker.
const BACKLOG: i32 = 1024;

/// How often it is looked for revocations that nothing is left of: they last for days.
const SESSIONS_SWEEP_INTERVAL: Duration = Duration::from_mins(1);

/// A relay that listens already, and serves once it is [run](BoundServer::run).
pub struct BoundServer {
    address: SocketAddr,
    metrics_listener: Option<std::net::TcpListener>,
    metrics: Metrics,
    store: Arc<dyn EventStore>,
    shared: Arc<Shared>,
    seats: Vec<WorkerSeat>,
    ready: mpsc::UnboundedReceiver<()>,
    phase: PhaseSetter,
}

impl std::fmt::Debug for BoundServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BoundServer")
            .field("address", &self.address)
            .field("workers", &self.seats.len())
            .finish_non_exhaustive()
    }
}

impl BoundServer {
    /// Binds the addresses of a server.
    pub(crate) fn bind(server: Server) -> Result<Self, ServerError> {
        let Server {
            config,
            store,
            setup,
            handlers,
            routes,
            refused,
            additions,
            ..
        } = server;
        if let Some(refused) = refused {
            return Err(refused);
        }
        let workers = config
            .workers
            .or_else(|| thread::available_parallelism().ok())
            .map_or(1, NonZeroUsize::get);
        let (address, listeners) = listen(config.listen, workers)?;
        let metrics_listener = config
            .metrics_listen
            .map(|address| listen(address, 1))
            .transpose()?
            .and_then(|(_, listeners)| listeners.into_iter().next());
        let relay = Arc::new(RelayConfig {
            limits: Limits {
                pending_live_bytes_max: config.queued_bytes_max,
                ..config.limits.clone()
            },
            urls: match &config.public_url {
                Some(url) => RelayUrls::public(url)?,
                None if config.tls.is_some() => RelayUrls::listening_with_tls(address),
                None => RelayUrls::listening(address),
            },
        });
        let mut information = config.information.clone();
        information.limits = config.limits.clone();
        let site = Site::new(
            &information,
            document(&information, additions)?,
            config.public_url.clone(),
            config.members.clone(),
        );
        let recorder = config
            .members
            .clone()
            .map(Recorder::start)
            .transpose()
            .map_err(ServerError::System)?;
        let handlers = HandlerBook::new(handlers, workers);
        let counters = Arc::<Counters>::default();
        if let Some(log) = &config.access_log {
            counters.show(
                "access_log_dropped_total",
                "Lines of the access log not written because the disk was behind or failed",
                log.dropped(),
            );
        }
        let metrics = Metrics::new(workers, config.gauges.clone())
            .of_plugins(Arc::clone(&handlers), Arc::clone(&counters));
        let seed =
            getrandom::u64().map_err(|error| ServerError::System(io::Error::other(error)))?;
        let (inbox_senders, inboxes): (Vec<_>, Vec<_>) =
            (0..workers).map(|_| mpsc::unbounded_channel()).unzip();
        let (entrances, arrivals): (Vec<_>, Vec<_>) =
            (0..workers).map(|_| mpsc::unbounded_channel()).unzip();
        let shared = Shared::new(Given {
            config,
            relay,
            site,
            recorder,
            routes,
            handlers,
            counters,
            inboxes: inbox_senders,
            entrances,
            seed,
        });
        let shared = Arc::new(shared.beside(store.neighbours()));
        let (phase, watch) = phases();
        let (ready_sender, ready) = mpsc::unbounded_channel();
        let seats = listeners
            .into_iter()
            .zip(inboxes.into_iter().zip(arrivals))
            .zip(metrics.workers())
            .enumerate()
            .map(
                |(index, ((listener, (inbox, arrivals)), metrics))| WorkerSeat {
                    index,
                    shared: Arc::clone(&shared),
                    store: Arc::clone(&store),
                    metrics: Arc::clone(metrics),
                    listener,
                    inbox,
                    arrivals,
                    phase: watch.clone(),
                    setup: setup.clone(),
                    ready: ready_sender.clone(),
                },
            )
            .collect();
        Ok(Self {
            address,
            metrics_listener,
            metrics,
            store,
            shared,
            seats,
            ready,
            phase,
        })
    }

    /// Returns the address clients can connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address the metrics are read at, if they are.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics_listener.as_ref()?.local_addr().ok()
    }

    /// Returns where to say who is kept out.
    pub fn bans(&self) -> Bans {
        self.shared.bans.clone()
    }

    /// Returns what an operator can ask the server while it runs.
    pub fn watch(&self) -> Watch {
        Watch {
            shared: Arc::clone(&self.shared),
            metrics: self.metrics.clone(),
        }
    }

    /// Returns the figures.
    pub fn metrics(&self) -> Metrics {
        self.metrics.clone()
    }

    /// Serves until the program is told to end (SIGINT, SIGTERM).
    pub(crate) fn run_until_told_to_end(self) -> Result<(), ServerError> {
        // Registered inside the runtime that `run` makes, at its first poll.
        self.run(async {
            use tokio::signal::unix::{SignalKind, signal};
            match (
                signal(SignalKind::interrupt()),
                signal(SignalKind::terminate()),
            ) {
                (Ok(mut interrupt), Ok(mut terminate)) => tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                },
                (Err(error), _) | (_, Err(error)) => {
                    tracing::warn!(%error, "can't listen to signals");
                    std::future::pending::<()>().await;
                }
            }
        })
    }

    /// Makes one worker's plugins, and carries out the command at this place of their list.
    pub(crate) fn run_command(
        mut self,
        place: usize,
        arguments: Vec<String>,
    ) -> Result<Result<(), PluginError>, ServerError> {
        let Some(seat) = self.seats.pop() else {
            return Ok(Ok(()));
        };
        let said = seat.run_command(place, arguments);
        let said = said.map_err(|failure| failure.of(0));
        if let Some(recorder) = &self.shared.recorder {
            recorder.stop();
        }
        said
    }

    /// Makes the plugins of all workers, and serves until `shutdown` resolves; then stops accepting,
    /// finishes the requests and writes in flight, sends their answers, says goodbye (1001) to every
    /// client, and returns. `shutdown` is polled inside a tokio runtime with all drivers, on the
    /// calling thread, which is none of the workers'.
    pub fn run(mut self, shutdown: impl Future<Output = ()>) -> Result<(), ServerError> {
        let (stopped, mut any_stopped) = mpsc::unbounded_channel::<()>();
        let watchdog = self.watchdog()?;
        let workers = self.seats.len();
        let mut threads = Vec::new();
        for (index, seat) in self.seats.into_iter().enumerate() {
            let farewell = Farewell(stopped.clone());
            let thread = thread::Builder::new()
                .name(format!("worker-{index}"))
                .spawn(move || {
                    let _farewell = farewell;
                    seat.run()
                })
                .map_err(ServerError::System)?;
            threads.push(thread);
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(ServerError::System)?;
        let all_ready = async {
            for _ in 0..workers {
                self.ready.recv().await;
            }
            self.phase.serve();
            std::future::pending::<()>().await;
        };
        runtime.block_on(async {
            tokio::select! {
                () = shutdown => tracing::info!("shutting down"),
                _ = any_stopped.recv() => tracing::error!("a worker has stopped"),
                () = all_ready => {}
                () = serve_metrics(self.metrics_listener, self.metrics) => {}
                () = sweep(&self.store, self.shared.config.sweep_interval) => {}
                () = sweep_rates(&self.shared) => {}
                () = sweep_sessions(self.shared.config.sessions.as_ref()) => {}
                () = neighbours::hear(&self.shared) => {}
                () = neighbours::tell_spent(&self.shared) => {}
            }
        });
        self.phase.drain();
        let mut result = Ok(());
        for (index, thread) in threads.into_iter().enumerate() {
            let name = thread.thread().name().unwrap_or_default().to_owned();
            match thread.join() {
                Ok(Ok(())) => {}
                Ok(Err(failure)) => result = Err(failure.of(index)),
                Err(_) => result = Err(ServerError::Worker(name)),
            }
        }
        if let Some(watchdog) = watchdog {
            watchdog.stop();
        }
        if let Some(recorder) = &self.shared.recorder {
            recorder.stop();
        }
        result
    }

    /// Starts watching over the handlers, if there are any.
    fn watchdog(&self) -> Result<Option<Watchdog>, ServerError> {
        if self.shared.handlers.names.is_empty() {
            return Ok(None);
        }
        let listeners: io::Result<Vec<_>> = self
            .seats
            .iter()
            .map(|seat| seat.listener.try_clone())
            .collect();
        listeners
            .and_then(|listeners| Watchdog::start(Arc::clone(&self.shared), listeners))
            .map(Some)
            .map_err(ServerError::System)
    }
}

impl WorkerFailure {
    fn of(self, worker: usize) -> ServerError {
        match self {
            Self::System(error) => ServerError::System(error),
            Self::Plugin(plugin, source) => ServerError::Plugin {
                plugin,
                worker,
                source,
            },
        }
    }
}

/// Writes the information document, as the plugins want it.
fn document(
    information: &RelayInformation,
    additions: Vec<Addition>,
) -> Result<String, ServerError> {
    let document = information.to_json();
    if additions.is_empty() {
        return Ok(document);
    }
    let Ok(serde_json::Value::Object(mut fields)) = serde_json::from_str(&document) else {
        return Ok(document);
    };
    for Addition { site, change } in additions {
        caught(|| change(&mut fields))
            .map_err(|source| ServerError::Information { site, source })?;
    }
    Ok(serde_json::Value::Object(fields).to_string())
}

/// Tells that a thread has ended, however it ended.
struct Farewell(mpsc::UnboundedSender<()>);

impl Drop for Farewell {
    fn drop(&mut self) {
        // Nobody listens any more when the server shuts down.
        let _ = self.0.send(());
    }
}

/// Binds `count` listeners to one address, among which the system spreads the connections. Where it
/// is to choose the port, the first listener's is everybody's.
fn listen(
    address: SocketAddr,
    count: usize,
) -> Result<(SocketAddr, Vec<std::net::TcpListener>), ServerError> {
    let failed = |source| ServerError::Listen { address, source };
    if address.port() != 0 {
        // Listeners that share a port would share it with another server of the same user too. One
        // that does not share finds out whether there is any.
        socket(address, false).map_err(failed)?;
    }
    let mut bound = address;
    let mut listeners = Vec::with_capacity(count);
    for _ in 0..count {
        let listener = socket(bound, true)
            .and_then(|socket| {
                socket.listen(BACKLOG)?;
                socket.set_nonblocking(true)?;
                Ok(std::net::TcpListener::from(socket))
            })
            .map_err(failed)?;
        bound = listener.local_addr().map_err(failed)?;
        listeners.push(listener);
    }
    Ok((bound, listeners))
}

fn socket(address: SocketAddr, shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    // Answers are gathered before they are written: there is nothing for the system to wait for. Accepted
    // connections have it from here, so that none needs a call of its own.
    socket.set_tcp_nodelay(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Answers the operator, if an address is set; never returns.
async fn serve_metrics(listener: Option<std::net::TcpListener>, metrics: Metrics) {
    match listener.map(tokio::net::TcpListener::from_std) {
        Some(Ok(listener)) => metrics::serve(listener, metrics).await,
        Some(Err(error)) => tracing::error!(%error, "no metrics"),
        None => {}
    }
    std::future::pending::<()>().await;
}

/// Forgets the rates of clients that have gone, again and again; never returns.
async fn sweep_rates(shared: &Shared) {
    let mut timer = tokio::time::interval(rates::SWEEP_INTERVAL);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        timer.tick().await;
        shared.rates.sweep();
    }
}

/// Forgets revocations of sessions that have ended by themselves, again and again; never returns.
async fn sweep_sessions(sessions: Option<&Sessions>) {
    let mut timer = tokio::time::interval(SESSIONS_SWEEP_INTERVAL);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while let Some(sessions) = sessions.cloned() {
        timer.tick().await;
        // Where they are kept may have one wait.
        let _ = tokio::task::spawn_blocking(move || sessions.sweep()).await;
    }
    std::future::pending::<()>().await;
}

/// Removes what has expired, again and again; never returns.
async fn sweep(store: &Arc<dyn EventStore>, interval: Duration) {
    let mut timer = tokio::time::interval(interval);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        timer.tick().await;
        match store.sweep(unix_now()).await {
            Ok(0) => {}
            Ok(events) => tracing::info!(events, "removed what has expired"),
            Err(error) => tracing::warn!(%error, "expired events not removed"),
        }
    }
}
