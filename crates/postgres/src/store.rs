//! The store as its users see it.

use std::{
    pin::Pin,
    rc::Rc,
    sync::{Arc, Mutex, PoisonError, mpsc as blocking},
    thread,
    time::Duration,
};

use hikyaku_event::Timestamp;
use hikyaku_store::{
    CommittedFeed, EventStore, LeaseFuture, Neighbours, StoreError, StoreReader, Tidings, Write,
    WriteFuture,
};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    sync::{mpsc, oneshot},
};

use crate::{
    Options, PostgresError, PostgresMeters, backfill,
    connection::{Connector, IdleSessions, Lanes},
    connections::{Connections, to_primary, to_replica},
    feed::{Feed, PLACE, position},
    neighbours::{self, Speaker},
    reader::PostgresReader,
    replica::{Replica, Servers},
    schema::{defer, make_deferred_indexes, migrate},
    statistics::{PostgresStatistics, statistics},
    waiting::wait,
    write::{Request, Writer},
};

/// How long closing waits for what was handed over: longer than a write is tried again for.
const CLOSE_MAX: Duration = Duration::from_secs(20);

type Answer<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;

/// The event store on PostgreSQL. Dropping it closes it in order: what was handed over is written.
pub struct PostgresStore {
    pub(crate) connector: Connector,
    connections_per_worker: usize,
    idle: IdleSessions,
    replica: Option<Replica>,
    pub(crate) feed: Arc<Feed>,
    neighbours: Arc<Nodes>,
    writer: mpsc::UnboundedSender<Request>,
    /// Hears when the writer has ended.
    ended: Mutex<blocking::Receiver<()>>,
    /// Drives the connections; taken when the store closes.
    runtime: Option<Runtime>,
}

impl PostgresStore {
    /// Connects, brings the schema to the newest version, and starts to write and listen. Blocks until
    /// that is done.
    pub fn open(options: &Options) -> Result<Self, PostgresError> {
        // The connections' sockets and wire format are little work beside what the server does.
        // One for what is sent and one for what makes it, where much is.
        let least = if options.defer_indexes { 2 } else { 1 };
        let threads = thread::available_parallelism().map_or(1, |cores| cores.get() / 4);
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads.max(least))
            .thread_name("postgres")
            .enable_all()
            .build()
            .map_err(|error| {
                PostgresError::Unavailable(format!("can't start the threads for it: {error}"))
            })?;
        match Self::start(options, runtime.handle()) {
            Ok(mut store) => {
                store.runtime = Some(runtime);
                Ok(store)
            }
            Err(error) => {
                runtime.shutdown_background();
                Err(error)
            }
        }
    }

    fn start(options: &Options, runtime: &Handle) -> Result<Self, PostgresError> {
        let mut connector = Connector::new(options, runtime.clone())?;
        let read_url = options.read_url.as_ref();
        let mut replica = read_url
            .map(|url| Connector::to(url, options, runtime.clone()))
            .transpose()?;
        if let Some(replica) = &mut replica {
            replica.meters = Arc::clone(&connector.meters);
        }
        let Prepared {
            position,
            place,
            node,
        } = wait(prepare(&connector, options))?;
        // What one node at a time does takes a connection each, which nobody knows before.
        let mut leases = connector.clone();
        if options.workers > 0 {
            // By this the nodes that start later know how many connections this one may need.
            connector.call(&format!("node {node} up to {}", to_primary(options)));
            leases.call(&format!("lease of node {node}"));
            if let Some(replica) = &mut replica {
                let most = to_replica(options);
                runtime.spawn(check_replica(replica.clone(), most));
                replica.call(&format!("node {node} up to {most}"));
            }
        }
        let replica = replica.map(Replica::watch);
        let feed = Arc::new(Feed::new(position, node.clone(), replica.is_some()));
        feed.place_is(place);
        let speaker = Speaker::start(
            connector.clone(),
            neighbours::channel(&connector.schema),
            node,
            options.retry_time,
        );
        let neighbours = Arc::new(Nodes {
            leases,
            speaker,
            feed: Arc::clone(&feed),
        });
        let (writer, queue) = mpsc::unbounded_channel();
        let (end, ended) = blocking::channel();
        let task = Writer::new(connector.clone(), options, Arc::clone(&feed), queue);
        runtime.spawn(async move {
            Box::pin(task.run()).await;
            // A store that no longer waits is gone.
            let _ = end.send(());
        });
        let listening = Arc::clone(&feed).listen(connector.clone(), options.defer_indexes);
        runtime.spawn(listening);
        if options.backfill {
            runtime.spawn(backfill::work(
                connector.clone(),
                Arc::clone(&feed.backfill),
                options.tag_names.clone(),
            ));
        }
        Ok(Self {
            connector,
            connections_per_worker: options.connections_per_worker,
            idle: IdleSessions::default(),
            replica,
            feed,
            neighbours,
            writer,
            ended: Mutex::new(ended),
            runtime: None,
        })
    }

    /// Returns the store's figures.
    pub async fn statistics(&self) -> Result<PostgresStatistics, PostgresError> {
        let session = self.connector.connect().await?;
        statistics(&session).await
    }

    /// Returns what the store has at hand about itself, without asking the database.
    pub fn meters(&self) -> PostgresMeters {
        let (lag, backfill) = (self.feed.lag(), self.feed.backfill_status());
        self.connector.meters.read(lag, backfill)
    }

    /// Makes the indexes that were put off ([`Options::defer_indexes`]). Without it, who next opens the
    /// store does.
    pub async fn make_indexes(&self) -> Result<(), StoreError> {
        self.ask(Request::MakeIndexes).await
    }

    fn ask<T: Send + 'static>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> Request,
    ) -> Answer<T> {
        let (reply, answer) = oneshot::channel();
        let sent = self.writer.send(request(reply)).is_ok();
        Box::pin(async move {
            let closed = || StoreError::Stopped("the store is closed".to_owned());
            if !sent {
                return Err(closed());
            }
            answer.await.map_err(|_| closed())?
        })
    }
}

/// What is known before a node starts.
struct Prepared {
    /// The last number that is committed.
    position: i64,
    /// A place in the write-ahead log that it is before.
    place: i64,
    /// The node's name: one that no other has.
    node: Arc<str>,
}

async fn prepare(connector: &Connector, options: &Options) -> Result<Prepared, PostgresError> {
    let session = connector.connect().await?;
    if options.workers > 0 {
        let connections = Connections::of(&session).await?;
        connections.check(to_primary(options))?;
    }
    migrate(&session.client, &connector.schema).await?;
    if options.defer_indexes {
        defer(&session, &connector.schema).await?;
    } else {
        make_deferred_indexes(&session, connector).await?;
    }
    backfill::index_configured(&session, &connector.schema, &options.tag_names).await?;
    let position = position(&session, &connector.schema).await?;
    let place = session.rows(PLACE, &[]).await?;
    let name = "SELECT left(gen_random_uuid()::text, 8)";
    let name = session.rows(name, &[]).await?;
    Ok(Prepared {
        position,
        place: place.first().map_or(0, |row| row.get(0)),
        node: name.first().map_or("", |row| row.get(0)).into(),
    })
}

/// Says if the replica allows too few connections. One that is not there is looked at when it is used.
async fn check_replica(connector: Connector, needed: usize) {
    let Ok(session) = connector.connect().await else {
        return;
    };
    if let Ok(connections) = Connections::of(&session).await
        && let Err(error) = connections.check(needed)
    {
        tracing::warn!(%error, "the replica may run out of connections");
    }
}

/// The other nodes.
struct Nodes {
    /// Makes connections for what one node at a time does.
    leases: Connector,
    speaker: Speaker,
    feed: Arc<Feed>,
}

impl Neighbours for Nodes {
    fn tell(&self, text: String) {
        self.speaker.tell(text);
    }

    fn hear(&self) -> Tidings {
        self.feed.neighbours.subscribe()
    }

    fn lease(&self, name: &str) -> LeaseFuture {
        let schema = self.leases.schema.clone();
        Box::pin(neighbours::lease(
            self.leases.clone(),
            schema,
            name.to_owned(),
        ))
    }
}

impl EventStore for PostgresStore {
    fn reader(&self) -> Box<dyn StoreReader> {
        let lanes = |connector: &Connector, idle: &IdleSessions| {
            let idle = Arc::clone(idle);
            Rc::new(Lanes::new(
                connector.clone(),
                idle,
                self.connections_per_worker,
            ))
        };
        let servers = Servers {
            primary: lanes(&self.connector, &self.idle),
            replica: self
                .replica
                .as_ref()
                .map(|replica| (replica.clone(), lanes(&replica.connector, &replica.idle))),
        };
        Box::new(PostgresReader::new(servers, Arc::clone(&self.feed)))
    }

    fn write(&self, batch: Vec<Write>, now: Timestamp) -> WriteFuture {
        self.ask(|reply| Request::Write(batch, now, reply))
    }

    fn committed(&self) -> CommittedFeed {
        self.feed.subscribe()
    }

    fn sweep(&self, now: Timestamp) -> Answer<u64> {
        self.ask(|reply| Request::Sweep(now, reply))
    }

    fn neighbours(&self) -> Option<Arc<dyn Neighbours>> {
        Some(Arc::clone(&self.neighbours) as _)
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        if self.writer.send(Request::Close).is_ok() {
            // A writer that does not end has told nobody that what it holds is written.
            let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
            let _ = ended.recv_timeout(CLOSE_MAX);
        }
        self.feed.close();
        let replicas = self.replica.iter().map(|replica| &replica.idle);
        for idle in replicas.chain([&self.idle]) {
            idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
        if let Some(runtime) = self.runtime.take() {
            // Not waited for: the thread that closes may drive a loop of its own.
            runtime.shutdown_background();
        }
    }
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore").finish_non_exhaustive()
    }
}
