//! The store as its users see it.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError, mpsc as blocking},
    thread,
    time::Duration,
};

use hikyaku_event::Timestamp;
use hikyaku_store::{CommittedFeed, EventStore, StoreError, StoreReader, Write, WriteFuture};
use tokio::{
    runtime::{Builder, Runtime},
    sync::{mpsc, oneshot},
};

use crate::{
    Options, PostgresError, PostgresMeters, backfill,
    connection::{Connector, IdleSessions, Lanes, Session},
    feed::{Feed, position},
    reader::PostgresReader,
    schema::{defer, make_deferred_indexes, migrate},
    statistics::{PostgresStatistics, statistics},
    waiting::wait,
    write::{Request, Writer},
};

/// How long closing waits for what was handed over: longer than a write is tried again for.
const CLOSE_MAX: Duration = Duration::from_secs(20);

/// The writer's connection and the listener's.
const CONNECTIONS_BESIDE: usize = 2;

type Answer<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;

/// The event store on PostgreSQL. Dropping it closes it in order: what was handed over is written.
pub struct PostgresStore {
    connector: Connector,
    connections_per_worker: usize,
    idle: IdleSessions,
    feed: Arc<Feed>,
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
        let threads = thread::available_parallelism().map_or(1, |cores| (cores.get() / 4).max(1));
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("postgres")
            .enable_all()
            .build()
            .map_err(|error| {
                PostgresError::Unavailable(format!("can't start the threads for it: {error}"))
            })?;
        let prepared = Connector::new(options, runtime.handle().clone())
            .and_then(|connector| Ok((wait(prepare(&connector, options))?, connector)));
        match prepared {
            Ok((position, connector)) => Ok(Self::start(options, runtime, connector, position)),
            Err(error) => {
                runtime.shutdown_background();
                Err(error)
            }
        }
    }

    fn start(options: &Options, runtime: Runtime, connector: Connector, position: i64) -> Self {
        let feed = Arc::new(Feed::new(position));
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
            ));
        }
        Self {
            connector,
            connections_per_worker: options.connections_per_worker,
            idle: IdleSessions::default(),
            feed,
            writer,
            ended: Mutex::new(ended),
            runtime: Some(runtime),
        }
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

/// Migrates, and returns the last number that is committed.
async fn prepare(connector: &Connector, options: &Options) -> Result<i64, PostgresError> {
    let session = connector.connect().await?;
    check_connections(&session, options).await?;
    migrate(&session.client, &connector.schema).await?;
    if options.defer_indexes {
        defer(&session, &connector.schema).await?;
    } else {
        make_deferred_indexes(&session, &connector.schema).await?;
    }
    position(&session, &connector.schema).await
}

/// Refuses more connections than the server can ever have, and warns where others leave too few.
async fn check_connections(session: &Session, options: &Options) -> Result<(), PostgresError> {
    if options.workers == 0 {
        return Ok(());
    }
    let needed = options.workers * options.connections_per_worker + CONNECTIONS_BESIDE;
    let sql = "SELECT current_setting('max_connections')::bigint \
        - current_setting('superuser_reserved_connections')::bigint, \
        (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')";
    let rows = session.rows(sql, &[]).await?;
    let (allowed, open) = rows.first().map_or((0, 0), |row| (row.get(0), row.get(1)));
    let needed = i64::try_from(needed).unwrap_or(i64::MAX);
    if needed > allowed {
        return Err(PostgresError::Refused(format!(
            "this node may need {needed} connections (workers x connections per worker + \
             {CONNECTIONS_BESIDE}), and the server allows {allowed}: raise its max_connections, or \
             lower store.connections_per_worker or workers"
        )));
    }
    // This one is among those that are open.
    if needed + open - 1 > allowed {
        tracing::warn!(
            needed,
            open,
            allowed,
            "with what is open already, the server may run out of connections"
        );
    }
    Ok(())
}

impl EventStore for PostgresStore {
    fn reader(&self) -> Box<dyn StoreReader> {
        let lanes = Lanes::new(
            self.connector.clone(),
            Arc::clone(&self.idle),
            self.connections_per_worker,
        );
        Box::new(PostgresReader::new(lanes, Arc::clone(&self.feed)))
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
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        if self.writer.send(Request::Close).is_ok() {
            // A writer that does not end has told nobody that what it holds is written.
            let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
            let _ = ended.recv_timeout(CLOSE_MAX);
        }
        self.feed.close();
        self.idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
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
