//! How far a replica is behind: asked only while somebody needs to know.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, timeout},
};

use crate::{
    PostgresError,
    connection::{Connector, IdleSessions, Session},
};

/// How long a read waits for a replica, about: then this read and those behind it go to the server that
/// is written to, until the replica has caught up.
const PATIENCE: Duration = Duration::from_millis(25);
/// Pauses between two looks at a replica: while a read waits for it, and while none does.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSE_BEHIND: Duration = Duration::from_millis(50);
/// Pause before a replica that is away is looked for again.
const PAUSE_AWAY: Duration = Duration::from_millis(500);

/// A replica that was made the server to write to has everything.
const REPLAYED: &str = "SELECT ((CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() \
    ELSE pg_current_wal_insert_lsn() END) - '0/0')::bigint";

/// A replica, and how far it is.
#[derive(Clone)]
pub(crate) struct Replica {
    pub(crate) connector: Connector,
    pub(crate) idle: IdleSessions,
    progress: watch::Receiver<Progress>,
    wanted: Arc<Wanted>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    /// The place in the write-ahead log up to which it has everything.
    replayed: u64,
    /// It is there, and not far behind.
    is_near: bool,
}

/// How far somebody needs it to be.
#[derive(Default)]
struct Wanted {
    place: AtomicU64,
    raised: Notify,
}

impl Replica {
    /// Begins to watch a replica. It need not be there yet.
    pub(crate) fn watch(connector: Connector) -> Self {
        let (told, progress) = watch::channel(Progress::default());
        let wanted = Arc::<Wanted>::default();
        let watcher = Watcher {
            connector: connector.clone(),
            wanted: Arc::clone(&wanted),
            told,
        };
        connector.spawn(watcher.run());
        Self {
            connector,
            idle: IdleSessions::default(),
            progress,
            wanted,
        }
    }

    /// Tells whether the replica has everything up to a place in the log. Waits a moment for it, if it
    /// is not far behind.
    pub(crate) async fn has(&self, place: u64) -> bool {
        let mut progress = self.progress.clone();
        let now = *progress.borrow();
        if now.replayed >= place || !now.is_near {
            return now.is_near && now.replayed >= place;
        }
        self.wanted.place.fetch_max(place, Ordering::AcqRel);
        self.wanted.raised.notify_one();
        let decided = |progress: &Progress| !progress.is_near || progress.replayed >= place;
        let end = progress.wait_for(decided).await;
        end.is_ok_and(|end| end.is_near && end.replayed >= place)
    }
}

struct Watcher {
    connector: Connector,
    wanted: Arc<Wanted>,
    told: watch::Sender<Progress>,
}

impl Watcher {
    /// Watches until nobody wants to know any more.
    async fn run(self) {
        let mut said = false;
        while !self.told.is_closed() {
            match self.watch().await {
                Ok(()) => return,
                Err(error) if said => tracing::debug!(%error, "the replica is still away"),
                Err(error) => tracing::warn!(%error, "not reading from the replica"),
            }
            said = !self.told.borrow().is_near;
            self.told.send_modify(|progress| progress.is_near = false);
            sleep(PAUSE_AWAY).await;
        }
    }

    async fn watch(&self) -> Result<(), PostgresError> {
        let session = self.connector.connect().await?;
        // The first answer waits for the statement to be prepared, and nobody for it.
        replayed(&session).await?;
        let (mut goal, mut since) = (0, Instant::now());
        while !self.told.is_closed() {
            let answer = timeout(PATIENCE, replayed(&session)).await;
            let replayed = answer.unwrap_or_else(|_| {
                Err(PostgresError::Unavailable(
                    "the replica does not answer".to_owned(),
                ))
            })?;
            let wanted = self.wanted.place.load(Ordering::Acquire);
            if replayed >= goal {
                (goal, since) = (wanted, Instant::now());
            }
            let is_near = since.elapsed() < PATIENCE;
            let was_near = self.told.borrow().is_near;
            self.told.send_replace(Progress { replayed, is_near });
            if is_near != was_near {
                tracing::info!(is_near, "reading from the replica");
            }
            if !is_near {
                sleep(PAUSE_BEHIND).await;
            } else if replayed < wanted {
                sleep(PAUSE).await;
            } else {
                // Being gone is noticed, whether or not somebody asks.
                let _ = timeout(PAUSE_AWAY, self.wanted.raised.notified()).await;
            }
        }
        Ok(())
    }
}

async fn replayed(session: &Session) -> Result<u64, PostgresError> {
    let rows = session.rows(REPLAYED, &[]).await?;
    let place: Option<i64> = rows.first().and_then(|row| row.get(0));
    Ok(place.unwrap_or(0).unsigned_abs())
}
