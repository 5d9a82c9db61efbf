//! A worker: one thread, one loop, and everything its connections need, shared with nobody.

use std::{
    cell::{Cell, RefCell},
    io,
    rc::{Rc, Weak},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use hashbrown::HashMap;
use hikyaku_event::Verifier;
use hikyaku_members::RateLimits;
use hikyaku_observe::{Ledger, Observations};
use hikyaku_relay::{Action, LiveIndex, RelayConfig};
use hikyaku_store::{EventStore, Neighbours, StoreReader};
use tokio::{
    runtime::{Builder, LocalOptions, LocalRuntime},
    sync::{Notify, mpsc},
    task::spawn_local,
};

use crate::{
    ServerConfig,
    address::AddressCounts,
    bans::{self, BanList, Bans},
    clock::{unix_now, unix_now_us},
    connection::{Connection, Gathered},
    entrance::{self, Arrival},
    feed::{self, Delivery},
    http::{BorneConnections, RequestIds, RouteTable, SignedOnce, Site},
    metrics::{Count, Counters, Level, WorkerMetrics},
    phase::PhaseWatch,
    plugin::{self, Caller, HandlerBook, PluginError, Plugins},
    rates::RateGate,
    recorder::{Observation, Recorder},
    requests::Requests,
};

/// Bytes read from a socket at once. All connections of a worker read into one buffer in turn, so
/// it may be large: what one read brings is one batch.
const INPUT_BYTES: usize = 256 * 1024;

/// Bytes for the state of clients' rates.
const RATES_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// What all workers share; nothing in it needs a lock once they have started.
pub(crate) struct Shared {
    pub(crate) config: ServerConfig,
    pub(crate) relay: Arc<RelayConfig>,
    pub(crate) site: Site,
    pub(crate) addresses: Arc<AddressCounts>,
    pub(crate) rates: RateGate,
    pub(crate) recorder: Option<Recorder>,
    pub(crate) bans: Bans,
    /// The other nodes, where the store can have any.
    pub(crate) neighbours: Option<Arc<dyn Neighbours>>,
    pub(crate) routes: RouteTable,
    pub(crate) handlers: Arc<HandlerBook>,
    pub(crate) counters: Arc<Counters>,
    /// The signatures of requests (NIP-98) that have been used.
    pub(crate) signed_once: SignedOnce,
    /// What requests cost, if that is measured.
    pub(crate) observations: Option<Observations>,
    /// Each worker's part of that, until it takes it.
    ledgers: Mutex<Vec<Option<Ledger>>>,
    connections: AtomicUsize,
    /// The same, by worker.
    loads: Vec<AtomicUsize>,
    /// Where each worker takes what all workers must see.
    pub(crate) inboxes: Vec<mpsc::UnboundedSender<Delivery>>,
    /// Where each worker takes connections that another has accepted.
    pub(crate) entrances: Vec<mpsc::UnboundedSender<Arrival>>,
    /// Keys the live indexes; unknown to clients.
    pub(crate) seed: u64,
}

/// What [`Shared`] is made of.
pub(crate) struct Given {
    pub(crate) config: ServerConfig,
    pub(crate) relay: Arc<RelayConfig>,
    pub(crate) site: Site,
    pub(crate) recorder: Option<Recorder>,
    pub(crate) routes: RouteTable,
    pub(crate) handlers: Arc<HandlerBook>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) inboxes: Vec<mpsc::UnboundedSender<Delivery>>,
    pub(crate) entrances: Vec<mpsc::UnboundedSender<Arrival>>,
    pub(crate) seed: u64,
}

impl Shared {
    pub(crate) fn new(given: Given) -> Self {
        let Given {
            config,
            relay,
            site,
            recorder,
            routes,
            handlers,
            counters,
            inboxes,
            entrances,
            seed,
        } = given;
        let addresses = AddressCounts::new(
            config.connections_per_address_max,
            config.unlimited_addresses.clone(),
            seed,
        );
        let rates = RateGate::new(
            RateLimits::new(RATES_BYTES_MAX),
            config.rates,
            config.unlimited_addresses.clone(),
        );
        let (observations, ledgers) = config
            .measure_requests
            .then(|| Observations::new(inboxes.len(), unix_now_us(), seed))
            .unzip();
        let ledgers = ledgers.into_iter().flatten().map(Some).collect();
        Self {
            observations,
            ledgers: Mutex::new(ledgers),
            addresses: Arc::new(addresses),
            rates,
            recorder,
            bans: Bans::default(),
            neighbours: None,
            routes,
            handlers,
            counters,
            signed_once: SignedOnce::new(unix_now()),
            config,
            relay,
            site,
            connections: AtomicUsize::new(0),
            loads: inboxes.iter().map(|_| AtomicUsize::new(0)).collect(),
            inboxes,
            entrances,
            seed,
        }
    }

    /// Has clients held to their rates together with other nodes, and ephemeral events told to them.
    pub(crate) fn beside(mut self, neighbours: Option<Arc<dyn Neighbours>>) -> Self {
        self.rates.share(neighbours.is_some());
        self.neighbours = neighbours;
        self
    }

    fn requests(&self, worker: usize) -> Requests {
        let mut ledgers = self.ledgers.lock().unwrap_or_else(PoisonError::into_inner);
        Requests::new(ledgers.get_mut(worker).and_then(Option::take))
    }

    /// Counts one more connection, unless there are as many as there may be, and gives it to the
    /// worker that has the fewest: `own` if it is one of those. The system spreads connections over
    /// listeners by chance, which is even for many and may be very uneven for few. A worker that a
    /// handler holds gets none while others are free.
    pub(crate) fn admit(self: &Arc<Self>, own: usize) -> Option<ConnectionPermit> {
        if self.connections.fetch_add(1, Relaxed) >= self.config.connections_max {
            self.connections.fetch_sub(1, Relaxed);
            return None;
        }
        let load = |worker: &usize| {
            let connections = self.loads.get(*worker).map(|load| load.load(Relaxed));
            (self.handlers.is_held(*worker), connections)
        };
        let worker = std::iter::once(own)
            .chain(0..self.loads.len())
            .min_by_key(load)
            .unwrap_or(own);
        if let Some(load) = self.loads.get(worker) {
            load.fetch_add(1, Relaxed);
        }
        Some(ConnectionPermit {
            shared: Arc::clone(self),
            worker,
        })
    }

    /// Returns a number that no other connection of this server has.
    pub(crate) fn number_of(&self, worker: usize, connection: u64) -> u64 {
        connection * self.loads.len() as u64 + worker as u64
    }
}

/// One counted connection; counted until it is dropped.
pub(crate) struct ConnectionPermit {
    shared: Arc<Shared>,
    /// The worker that has it.
    pub(crate) worker: usize,
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.shared.connections.fetch_sub(1, Relaxed);
        if let Some(load) = self.shared.loads.get(self.worker) {
            load.fetch_sub(1, Relaxed);
        }
    }
}

/// A point in a worker's coarse time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tick(pub(crate) u32);

impl Tick {
    /// Returns how many ticks have passed since then.
    pub(crate) fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }
}

/// How long silence is borne, in ticks.
#[derive(Debug)]
pub(crate) struct Patience {
    tick: Duration,
    pub(crate) ping: u32,
    pub(crate) close: u32,
    /// Of an HTTP connection.
    pub(crate) silence: u32,
    /// Until a request's head has come.
    pub(crate) head: u32,
}

impl Patience {
    pub(crate) fn new(config: &ServerConfig) -> Self {
        let shortest = config.ping_interval.min(config.close_timeout);
        let shortest = shortest.min(config.header_timeout);
        let tick = (shortest / 8).clamp(Duration::from_millis(10), Duration::from_secs(1));
        // The tick in which something moved last has begun before that.
        let wholly = |time| in_ticks(time, tick) + 1;
        Self {
            tick,
            ping: in_ticks(config.ping_interval, tick),
            close: in_ticks(config.close_timeout, tick),
            silence: wholly(config.http_timeout),
            head: wholly(config.header_timeout),
        }
    }
}

fn in_ticks(time: Duration, tick: Duration) -> u32 {
    u32::try_from(time.as_millis().div_ceil(tick.as_millis())).unwrap_or(u32::MAX / 4)
}

/// One worker.
pub(crate) struct Worker {
    /// Its place among the workers, from 0.
    pub(crate) index: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) store: Arc<dyn EventStore>,
    pub(crate) reader: Box<dyn StoreReader>,
    pub(crate) verifier: RefCell<Verifier>,
    pub(crate) live: RefCell<LiveIndex>,
    pub(crate) bans: RefCell<Arc<BanList>>,
    pub(crate) metrics: Arc<WorkerMetrics>,
    pub(crate) plugins: Rc<Plugins>,
    pub(crate) requests: Requests,
    pub(crate) request_ids: RequestIds,
    pub(crate) patience: Patience,
    /// What every connection reads into, in turn.
    pub(crate) input: RefCell<Box<[u8]>>,
    /// What every connection gathers its writes in, in turn.
    pub(crate) output: RefCell<Gathered>,
    actions: Cell<Vec<Action>>,
    connections: RefCell<HashMap<u64, Rc<Connection>, foldhash::fast::FixedState>>,
    next_connection: Cell<u64>,
    /// Connections that speak HTTP.
    http_connections: Cell<usize>,
    /// Those of HTTP/1.1.
    pub(crate) borne: BorneConnections,
    now: Cell<Tick>,
    phase: PhaseWatch,
    /// The last connection has ended.
    empty: Notify,
}

/// What a worker's thread is given.
pub(crate) struct WorkerSeat {
    pub(crate) index: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) store: Arc<dyn EventStore>,
    pub(crate) metrics: Arc<WorkerMetrics>,
    pub(crate) listener: std::net::TcpListener,
    pub(crate) inbox: mpsc::UnboundedReceiver<Delivery>,
    pub(crate) arrivals: mpsc::UnboundedReceiver<Arrival>,
    pub(crate) phase: PhaseWatch,
    /// What makes this worker's plugins.
    pub(crate) setup: plugin::Setup,
    /// Where it says that they are made.
    pub(crate) ready: mpsc::UnboundedSender<()>,
}

/// Threads of one worker for what plugins do off it.
const BLOCKING_THREADS: usize = 4;

/// Why a worker has stopped by itself.
#[derive(Debug)]
pub(crate) enum WorkerFailure {
    System(io::Error),
    Plugin(&'static str, PluginError),
}

impl From<io::Error> for WorkerFailure {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

fn runtime() -> io::Result<LocalRuntime> {
    Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build_local(LocalOptions::default())
}

impl WorkerSeat {
    /// Works on the current thread until the server shuts down.
    pub(crate) fn run(self) -> Result<(), WorkerFailure> {
        runtime()?.block_on(self.work())
    }

    /// Makes the plugins on the current thread, and carries out the command at this place.
    pub(crate) fn run_command(
        self,
        place: usize,
        arguments: Vec<String>,
    ) -> Result<Result<(), PluginError>, WorkerFailure> {
        let handle = plugin::Worker::new(self.index, Arc::clone(&self.shared), self.store);
        runtime()?.block_on(async {
            let made = self.setup.carry_out(handle).await;
            let hooks = made.map_err(|(plugin, error)| WorkerFailure::Plugin(plugin, error))?;
            match hooks.commands.get(place) {
                Some((_, command)) => Ok(plugin::unpanicked(command(arguments)).await),
                None => Ok(Ok(())),
            }
        })
    }

    async fn work(mut self) -> Result<(), WorkerFailure> {
        let listener = tokio::net::TcpListener::from_std(self.listener)?;
        // The feed comes before the first query, so that nothing falls between them.
        let committed = self.store.committed();
        let handle = plugin::Worker::new(
            self.index,
            Arc::clone(&self.shared),
            Arc::clone(&self.store),
        );
        let hooks = tokio::select! {
            hooks = self.setup.carry_out(handle) => hooks,
            () = self.phase.begin_to_drain() => return Ok(()),
        };
        let hooks = hooks.map_err(|(plugin, error)| WorkerFailure::Plugin(plugin, error))?;
        // Nobody listens any more if the server shuts down already.
        let _ = self.ready.send(());
        self.phase.begin_to_serve().await;
        let caller = Caller::new(
            Arc::clone(&self.shared.handlers),
            self.index,
            self.shared.config.handler_timeout,
        );
        let (plugins, notices) = Plugins::new(hooks, caller);
        let worker = Rc::new(Worker::new(
            self.index,
            self.shared,
            self.store,
            self.metrics,
            Rc::clone(&plugins),
            self.phase.clone(),
        ));
        CURRENT.set(Rc::downgrade(&worker));
        let feed = spawn_local(feed::committed(Rc::clone(&worker), committed));
        let deliveries = spawn_local(feed::deliveries(Rc::clone(&worker), self.inbox));
        let bans = spawn_local(bans::enforce(Rc::clone(&worker)));
        let care = spawn_local(Rc::clone(&worker).look_after_connections());
        let following = spawn_local(Rc::clone(&plugins).follow(notices));
        plugins.start_tasks(worker.shared.neighbours.as_ref());
        let mut entrance = spawn_local(entrance::receive(
            Rc::clone(&worker),
            listener,
            self.arrivals,
        ));
        let stopped = |what| Err(io::Error::other(what).into());
        let result = tokio::select! {
            () = self.phase.begin_to_drain() => Ok(()),
            _ = feed => stopped("the store has closed its feed"),
            _ = deliveries => stopped("the worker's inbox has failed"),
            _ = bans => stopped("the worker hears of no bans any more"),
            _ = care => stopped("the worker's care for its connections has failed"),
            _ = following => stopped("the worker's care for its plugins has failed"),
            _ = &mut entrance => stopped("accepting connections has failed"),
        };
        if !entrance.is_finished() {
            entrance.abort();
            // The listener closes when the task is gone.
            let _ = entrance.await;
        }
        worker.drain().await;
        result
    }
}

thread_local! {
    /// The worker of this thread.
    static CURRENT: RefCell<Weak<Worker>> = const { RefCell::new(Weak::new()) };
}

/// One connection that speaks HTTP; counted until this is dropped.
pub(crate) struct HttpConnection<'a>(&'a Worker);

impl Drop for HttpConnection<'_> {
    fn drop(&mut self) {
        self.0.http_connections.update(|count| count - 1);
        self.0.note_end();
    }
}

impl Worker {
    fn new(
        index: usize,
        shared: Arc<Shared>,
        store: Arc<dyn EventStore>,
        metrics: Arc<WorkerMetrics>,
        plugins: Rc<Plugins>,
        phase: PhaseWatch,
    ) -> Self {
        let bans = Arc::clone(&shared.bans.0.borrow());
        Self {
            index,
            plugins,
            phase,
            http_connections: Cell::new(0),
            borne: BorneConnections::default(),
            reader: store.reader(),
            store,
            verifier: RefCell::new(Verifier::new()),
            live: RefCell::new(LiveIndex::new(shared.seed)),
            bans: RefCell::new(bans),
            metrics,
            requests: shared.requests(index),
            request_ids: RequestIds::new(getrandom::u64().unwrap_or_default()),
            patience: Patience::new(&shared.config),
            input: RefCell::new(vec![0; INPUT_BYTES].into()),
            output: RefCell::default(),
            actions: Cell::default(),
            connections: RefCell::default(),
            next_connection: Cell::new(0),
            now: Cell::new(Tick(0)),
            empty: Notify::new(),
            shared,
        }
    }

    /// Lends the worker whose thread this is, if it is one's.
    pub(crate) fn with_current<T>(work: impl FnOnce(&Self) -> T) -> Option<T> {
        let worker = CURRENT.with_borrow(Weak::upgrade)?;
        Some(work(&worker))
    }

    /// Returns the worker's coarse time.
    pub(crate) fn now(&self) -> Tick {
        self.now.get()
    }

    /// Lends the list for a session's actions, empty; to be given back.
    pub(crate) fn take_actions(&self) -> Vec<Action> {
        self.actions.take()
    }

    pub(crate) fn put_actions(&self, actions: Vec<Action>) {
        debug_assert!(
            actions.is_empty(),
            "actions are carried out before the list is given back"
        );
        self.actions.set(actions);
    }

    /// Has taken down what was seen, if anybody does; it must not delay a client.
    pub(crate) fn observe(&self, batch: Vec<Observation>) {
        let observations = batch.len() as u64;
        if let Some(recorder) = &self.shared.recorder
            && !recorder.record(batch)
        {
            self.metrics.add(Count::ObservationsDropped, observations);
        }
    }

    /// Returns a number that no connection of this worker has had.
    pub(crate) fn next_connection(&self) -> u64 {
        let id = self.next_connection.get();
        self.next_connection.set(id + 1);
        id
    }

    pub(crate) fn connection(&self, id: u64) -> Option<Rc<Connection>> {
        self.connections.borrow().get(&id).cloned()
    }

    pub(crate) fn insert(&self, id: u64, connection: Rc<Connection>) {
        let mut connections = self.connections.borrow_mut();
        connections.insert(id, connection);
        self.metrics.set(Level::Connections, connections.len());
    }

    pub(crate) fn remove(&self, id: u64) {
        let mut connections = self.connections.borrow_mut();
        connections.remove(&id);
        self.metrics.set(Level::Connections, connections.len());
        drop(connections);
        self.note_end();
    }

    /// Counts one connection more that speaks HTTP.
    pub(crate) fn http_connection(&self) -> HttpConnection<'_> {
        self.http_connections.update(|count| count + 1);
        HttpConnection(self)
    }

    /// Returns how far the server is.
    pub(crate) fn phase(&self) -> PhaseWatch {
        self.phase.clone()
    }

    /// Resolves when nothing has moved for as long as that is borne.
    pub(crate) async fn silence_of(&self, progress: &Cell<Tick>) {
        let ticks = self.patience.silence;
        let mut silent = 0;
        while silent < ticks {
            tokio::time::sleep(self.patience.tick * (ticks - silent)).await;
            silent = self.now().since(progress.get());
        }
    }

    fn note_end(&self) {
        if self.is_empty() {
            self.empty.notify_waiters();
        }
    }

    fn is_empty(&self) -> bool {
        self.connections.borrow().is_empty() && self.http_connections.get() == 0
    }

    pub(crate) fn all_connections(&self) -> Vec<Rc<Connection>> {
        self.connections.borrow().values().cloned().collect()
    }

    /// Keeps the coarse time, and looks after silent clients: one timer for all of them.
    async fn look_after_connections(self: Rc<Self>) {
        let mut timer = tokio::time::interval(self.patience.tick);
        // A worker that was held up must not take its clients for silent.
        timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            timer.tick().await;
            self.now.set(Tick(self.now.get().0.wrapping_add(1)));
            self.borne.wake_overdue(self.now(), &self.patience);
            let mut waiting = (0, 0, 0);
            for connection in self.connections.borrow().values() {
                let (queries, publications, bytes) = connection.look_after(&self);
                waiting.0 += queries;
                waiting.1 += publications;
                waiting.2 += bytes;
            }
            self.metrics.set(Level::QueriesRunning, waiting.0);
            self.metrics.set(Level::PublicationsInFlight, waiting.1);
            self.metrics.set(Level::BytesQueued, waiting.2);
        }
    }

    /// Ends all connections with their due: answers to what was published, and a goodbye.
    async fn drain(&self) {
        self.borne.drain();
        for connection in self.all_connections() {
            connection.drain(self);
        }
        let emptied = async {
            loop {
                let emptied = self.empty.notified();
                if self.is_empty() {
                    break;
                }
                emptied.await;
            }
            self.plugins.silence().await;
        };
        let _ = tokio::time::timeout(self.shared.config.drain_timeout, emptied).await;
        let left = self.connections.borrow().len() + self.http_connections.get();
        if left > 0 {
            tracing::warn!(connections = left, "connections cut off by the shutdown");
        }
    }
}
