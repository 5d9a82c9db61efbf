//! A worker: one thread, one loop, and what its connections use in turn.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    io,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Waker},
    time::{Duration, Instant},
};

use hikyaku_observe::Ledger;
use hikyaku_tables::Stamp;
use tokio::{
    runtime::{Builder, LocalOptions},
    sync::{Notify, mpsc, watch},
    task::spawn_local,
};

use crate::{
    arrival::{self, Arrival, Listeners},
    catalogue::Catalogue,
    clock,
    config::TableServerConfig,
    exchange::Desk,
    metrics::{Count, Metrics, WorkerMetrics},
    replication::Replication,
    tally::Tally,
    timing::Timing,
};

/// Bytes read from a socket at once, into one buffer that all connections of a worker use in turn.
/// It stays in the processor's cache.
pub(crate) const INPUT_BYTES: usize = 64 * 1024;

/// What all workers share; nothing in it needs a lock.
pub(crate) struct Shared {
    pub(crate) config: TableServerConfig,
    pub(crate) catalogue: Catalogue,
    pub(crate) metrics: Metrics,
    pub(crate) replication: Option<Arc<Replication>>,
    pub(crate) started_us: u64,
    /// Where each worker takes connections that another has accepted.
    pub(crate) entrances: Vec<mpsc::UnboundedSender<Arrival>>,
    connections: AtomicUsize,
    /// The same, by worker.
    loads: Vec<AtomicUsize>,
}

impl Shared {
    pub(crate) fn new(
        config: TableServerConfig,
        catalogue: Catalogue,
        metrics: Metrics,
        replication: Option<Arc<Replication>>,
        entrances: Vec<mpsc::UnboundedSender<Arrival>>,
    ) -> Self {
        Self {
            config,
            catalogue,
            metrics,
            replication,
            started_us: clock::now_us(),
            connections: AtomicUsize::new(0),
            loads: entrances.iter().map(|_| AtomicUsize::new(0)).collect(),
            entrances,
        }
    }

    /// Counts one more connection, unless there are as many as there may be, and gives it to the
    /// worker that has the fewest: `own` if it is one of those. The system spreads connections over
    /// listeners by chance, which is even for many and may be very uneven for few.
    pub(crate) fn admit(self: &Arc<Self>, own: usize) -> Option<ConnectionPermit> {
        if self.connections.fetch_add(1, Relaxed) >= self.config.connections_max {
            self.connections.fetch_sub(1, Relaxed);
            return None;
        }
        let load = |worker: &usize| self.loads.get(*worker).map(|load| load.load(Relaxed));
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
}

/// One counted connection; counted until it is dropped.
pub(crate) struct ConnectionPermit {
    shared: Arc<Shared>,
    /// The worker that has it.
    pub(crate) worker: usize,
}

impl std::fmt::Debug for ConnectionPermit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ConnectionPermit")
            .field(&self.worker)
            .finish()
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.shared.connections.fetch_sub(1, Relaxed);
        if let Some(load) = self.shared.loads.get(self.worker) {
            load.fetch_sub(1, Relaxed);
        }
    }
}

/// What a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// Nothing, or a table's writer.
    No,
    /// A request.
    Idle,
    /// The rest of a request.
    Half,
    /// That its answers are read.
    Unread,
}

/// How a connection stands, for the worker's one timer to look at.
#[derive(Debug)]
pub(crate) struct Watch {
    waiting: Cell<Waiting>,
    /// In ticks.
    since: Cell<u32>,
    overdue: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Watch {
    /// Notes what the connection waits for; the wait goes on if it is the same and `afresh` is not
    /// set.
    pub(crate) fn wait(&self, waiting: Waiting, afresh: bool, worker: &Worker) {
        if afresh || self.waiting.get() != waiting {
            self.waiting.set(waiting);
            self.since.set(worker.now.get());
        }
    }

    /// Returns what the connection has waited for too long.
    pub(crate) fn overdue(&self) -> Option<Waiting> {
        self.overdue.get().then(|| self.waiting.get())
    }

    /// Makes sure that the timer can wake the connection's task.
    pub(crate) fn attach(&self, cx: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        if !waker
            .as_ref()
            .is_some_and(|waker| waker.will_wake(cx.waker()))
        {
            *waker = Some(cx.waker().clone());
        }
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }
}

/// One worker.
pub(crate) struct Worker {
    /// Its place among the workers, from 0.
    pub(crate) index: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) counts: Arc<WorkerMetrics>,
    /// What every connection reads into, in turn.
    pub(crate) input: RefCell<Box<[u8]>>,
    /// What every connection writes its answers to, in turn.
    pub(crate) output: RefCell<Vec<u8>>,
    /// Room for one value.
    pub(crate) value: RefCell<Vec<u8>>,
    /// What requests cost, if that is measured.
    pub(crate) timing: Option<Timing>,
    /// The requests of the batch that is carried out.
    pub(crate) tally: RefCell<Tally>,
    /// No request is begun any more.
    pub(crate) draining: Cell<bool>,
    watches: RefCell<HashMap<u64, Rc<Watch>>>,
    next_connection: Cell<u64>,
    /// The coarse time.
    now: Cell<u32>,
    tick: Duration,
    /// One moment by both clocks, not long ago: a batch reads one of them.
    anchor: Cell<(Instant, u64)>,
    /// The last connection has ended.
    empty: Notify,
}

/// What a worker's thread is given.
pub(crate) struct WorkerSeat {
    pub(crate) index: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) ledger: Option<Ledger>,
    pub(crate) tcp: Option<std::net::TcpListener>,
    pub(crate) unix: Option<std::os::unix::net::UnixListener>,
    pub(crate) arrivals: mpsc::UnboundedReceiver<Arrival>,
    /// Turns true when the server shuts down.
    pub(crate) draining: watch::Receiver<bool>,
}

impl WorkerSeat {
    /// Works on the current thread until the server shuts down.
    pub(crate) fn run(self) -> io::Result<()> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build_local(LocalOptions::default())?;
        runtime.block_on(self.work())
    }

    async fn work(mut self) -> io::Result<()> {
        let listeners = Listeners {
            tcp: self
                .tcp
                .map(tokio::net::TcpListener::from_std)
                .transpose()?,
            unix: self
                .unix
                .map(tokio::net::UnixListener::from_std)
                .transpose()?,
        };
        let worker = Rc::new(Worker::new(self.index, self.shared, self.ledger));
        let care = spawn_local(Rc::clone(&worker).look_after_connections());
        let mut entrance = spawn_local(arrival::receive(
            Rc::clone(&worker),
            listeners,
            self.arrivals,
        ));
        let stopped = |what| Err(io::Error::other(what));
        let result = tokio::select! {
            // An error means that the server itself is gone.
            _ = self.draining.wait_for(|draining| *draining) => Ok(()),
            _ = care => stopped("the worker's care for its connections has failed"),
            _ = &mut entrance => stopped("accepting connections has failed"),
        };
        if !entrance.is_finished() {
            entrance.abort();
            // The listeners close when the task is gone.
            let _ = entrance.await;
        }
        worker.drain().await;
        result
    }
}

impl Worker {
    fn new(index: usize, shared: Arc<Shared>, ledger: Option<Ledger>) -> Self {
        let config = &shared.config;
        let shortest = config.request_timeout.min(config.unread_timeout);
        let shortest = config
            .idle_timeout
            .map_or(shortest, |idle| idle.min(shortest));
        Self {
            index,
            counts: shared.metrics.worker(index),
            input: RefCell::new(vec![0; INPUT_BYTES].into()),
            output: RefCell::default(),
            value: RefCell::default(),
            timing: ledger.map(Timing::new),
            tally: RefCell::default(),
            draining: Cell::new(false),
            watches: RefCell::default(),
            next_connection: Cell::new(0),
            now: Cell::new(0),
            tick: (shortest / 8).clamp(Duration::from_millis(10), Duration::from_secs(1)),
            anchor: Cell::new((Instant::now(), clock::now_us())),
            empty: Notify::new(),
            shared,
        }
    }

    /// Returns what protocols use at this time, which is now.
    pub(crate) fn desk(&self, now: Instant) -> Desk<'_> {
        let (then, then_us) = self.anchor.get();
        let since = now.saturating_duration_since(then).as_micros();
        Desk {
            catalogue: &self.shared.catalogue,
            config: &self.shared.config,
            counts: &self.counts,
            metrics: &self.shared.metrics,
            replication: self.shared.replication.as_ref(),
            started_us: self.shared.started_us,
            stamp: Stamp {
                at_us: then_us.saturating_add(u64::try_from(since).unwrap_or(u64::MAX)),
                origin: self.shared.config.server_id,
            },
        }
    }

    /// Registers a connection.
    pub(crate) fn enter(self: &Rc<Self>, permit: ConnectionPermit) -> Presence {
        let id = self.next_connection.get();
        self.next_connection.set(id + 1);
        let watch = Rc::new(Watch {
            waiting: Cell::new(Waiting::Idle),
            since: Cell::new(self.now.get()),
            overdue: Cell::new(false),
            waker: RefCell::default(),
        });
        self.watches.borrow_mut().insert(id, Rc::clone(&watch));
        self.counts.add(Count::ConnectionsOpened, 1);
        Presence {
            worker: Rc::clone(self),
            id,
            watch,
            _permit: permit,
        }
    }

    /// Keeps the coarse time, and looks after clients that are late: one timer for all of them.
    async fn look_after_connections(self: Rc<Self>) {
        let config = &self.shared.config;
        let ticks = |time: Duration| {
            u32::try_from(time.as_millis().div_ceil(self.tick.as_millis())).unwrap_or(u32::MAX / 2)
        };
        let request = ticks(config.request_timeout);
        let unread = ticks(config.unread_timeout);
        let idle = config.idle_timeout.map_or(u32::MAX / 2, ticks);
        let mut timer = tokio::time::interval(self.tick);
        // A worker that was held up must not take its clients for late.
        timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            timer.tick().await;
            let now = self.now.get().wrapping_add(1);
            self.now.set(now);
            self.anchor.set((Instant::now(), clock::now_us()));
            for watch in self.watches.borrow().values() {
                let patience = match watch.waiting.get() {
                    Waiting::No => continue,
                    Waiting::Idle => idle,
                    Waiting::Half => request,
                    Waiting::Unread => unread,
                };
                if now.wrapping_sub(watch.since.get()) > patience && !watch.overdue.replace(true) {
                    self.counts.add(Count::ConnectionsOverdue, 1);
                    watch.wake();
                }
            }
        }
    }

    /// Ends all connections: what is under way is answered, and nothing is begun.
    async fn drain(&self) {
        self.draining.set(true);
        for watch in self.watches.borrow().values() {
            watch.wake();
        }
        let emptied = async {
            loop {
                let emptied = self.empty.notified();
                if self.watches.borrow().is_empty() {
                    return;
                }
                emptied.await;
            }
        };
        let _ = tokio::time::timeout(self.shared.config.drain_timeout, emptied).await;
        let left = self.watches.borrow().len();
        if left > 0 {
            tracing::warn!(connections = left, "connections cut off by the shutdown");
        }
    }
}

/// A connection that the worker knows, until this is dropped: at its end, or by a panic in it.
pub(crate) struct Presence {
    worker: Rc<Worker>,
    id: u64,
    pub(crate) watch: Rc<Watch>,
    _permit: ConnectionPermit,
}

impl Drop for Presence {
    fn drop(&mut self) {
        let mut watches = self.worker.watches.borrow_mut();
        watches.remove(&self.id);
        self.worker.counts.add(Count::ConnectionsClosed, 1);
        if watches.is_empty() {
            self.worker.empty.notify_waiters();
        }
    }
}
