//! New events: this node's own as it commits them, other nodes' as the database tells of them, each once
//! and in the order of their numbers.
//!
//! Numbers commit in their order, because they are given under the writer's lock; so a place in that
//! order says exactly what has been told. Where this node's own commit follows what was told last, it
//! goes straight to the subscribers; where another node's lies between, both come from the database.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicI32, AtomicI64, AtomicU64, Ordering},
};

use bytes::Bytes;
use futures_channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use hikyaku_event::Event;
use hikyaku_store::{Committed, CommittedEvent, CommittedFeed, Sequence};
use tokio::{
    sync::{Notify, OwnedMutexGuard},
    time::{Duration, Instant, sleep, timeout},
    try_join,
};
use tokio_postgres::AsyncMessage;

use crate::{
    BackfillStatus, PostgresError,
    backfill::WAKE,
    bans,
    connection::{Connector, Session, lock_key},
    neighbours::{self, Heard},
    schema::{OPEN, SchemaName, make_deferred_indexes},
    sessions::{self, REVOKED, RevocationNews},
};

/// Events read from the database at once.
const PAGE: i64 = 500;
/// How often the listener looks without having been told: a lost notification costs this much.
const LOOK: Duration = Duration::from_secs(5);
/// Pauses between tries to listen again: from, up to.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

const SHARE: &str = "SELECT pg_advisory_lock_shared($1)";
const NEWS: &str = "SELECT seq, json FROM {schema}.events WHERE seq > $1 ORDER BY seq LIMIT $2";

/// The place in the write-ahead log behind everything that can be seen now.
pub(crate) const PLACE: &str = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint";

/// Returns the channel on which a schema's nodes tell each other of commits.
pub(crate) fn channel(schema: &SchemaName) -> String {
    format!("hikyaku_{}", schema.as_str())
}

/// Returns the last number that is committed.
pub(crate) async fn position(session: &Session, schema: &SchemaName) -> Result<i64, PostgresError> {
    // A writer at work has set the number before it commits: this waits until it has.
    session.client.batch_execute("BEGIN").await?;
    let lock = lock_key(schema, "writer");
    let shared = "SELECT pg_advisory_xact_lock_shared($1)";
    session.rows(shared, &[&lock]).await?;
    let rows = session
        .rows("SELECT last_value FROM {schema}.position", &[])
        .await?;
    session.client.batch_execute("COMMIT").await?;
    Ok(rows.first().map_or(0, |row| row.get(0)))
}

/// What this node has told, and to whom.
pub(crate) struct Feed {
    /// Every commit up to this number can be read. Never less than what was told.
    visible: AtomicI64,
    /// Every commit up to this number has happened, here or elsewhere.
    heard: AtomicI64,
    state: Mutex<State>,
    /// There may be something to read from the database.
    news: Notify,
    /// Held by the writer from its commit until it has told of it, and by who reads the news: what a
    /// commit stored and removed again is in no table, and only the writer can tell of it.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Everything up to `visible` is before this place in the write-ahead log. Kept only where there is
    /// a replica, which may not have that much yet.
    place: AtomicU64,
    pub(crate) has_replica: bool,
    /// What other nodes tell beside the events.
    pub(crate) neighbours: Heard,
    /// This node's name among them.
    pub(crate) node: Arc<str>,
    /// There may be something to backfill.
    pub(crate) backfill: Arc<Notify>,
    /// The process of the server that the writer talks to: what that one tells is known.
    own_process: AtomicI32,
}

/// The right to tell what comes next.
pub(crate) type Turn = OwnedMutexGuard<()>;

struct State {
    told: i64,
    senders: Vec<UnboundedSender<Arc<Committed>>>,
    ban_senders: Vec<UnboundedSender<()>>,
    session_senders: Vec<UnboundedSender<RevocationNews>>,
    closed: bool,
    /// How far the backfill was at the last look.
    backfill: Option<BackfillStatus>,
}

impl Feed {
    pub(crate) fn new(position: i64, node: Arc<str>, has_replica: bool) -> Self {
        Self {
            visible: AtomicI64::new(position),
            heard: AtomicI64::new(position),
            state: Mutex::new(State {
                told: position,
                senders: Vec::new(),
                ban_senders: Vec::new(),
                session_senders: Vec::new(),
                closed: false,
                backfill: None,
            }),
            news: Notify::new(),
            turn: Arc::default(),
            // Nothing was seen yet: no place is too far.
            place: AtomicU64::new(0),
            has_replica,
            neighbours: Heard::default(),
            node,
            backfill: Arc::default(),
            own_process: AtomicI32::new(0),
        }
    }

    /// Returns the newest snapshot that can be read.
    pub(crate) fn snapshot(&self) -> Sequence {
        Sequence(self.visible.load(Ordering::Acquire).unsigned_abs())
    }

    pub(crate) fn subscribe(&self) -> CommittedFeed {
        let (sender, receiver) = unbounded();
        let mut state = self.state();
        if !state.closed {
            state.senders.push(sender);
        }
        Box::pin(receiver)
    }

    /// Says when the list of bans may have changed.
    pub(crate) fn bans_changed(&self) -> UnboundedReceiver<()> {
        let (sender, receiver) = unbounded();
        let mut state = self.state();
        if !state.closed {
            state.ban_senders.push(sender);
        }
        receiver
    }

    fn tell_of_bans(&self) {
        let mut state = self.state();
        state
            .ban_senders
            .retain(|sender| sender.unbounded_send(()).is_ok());
    }

    /// Says what is revoked of browsers' sessions.
    pub(crate) fn sessions_revoked(&self) -> UnboundedReceiver<RevocationNews> {
        let (sender, receiver) = unbounded();
        let mut state = self.state();
        if !state.closed {
            state.session_senders.push(sender);
        }
        receiver
    }

    fn tell_of_sessions(&self, news: RevocationNews) {
        let mut state = self.state();
        state
            .session_senders
            .retain(|sender| sender.unbounded_send(news).is_ok());
    }

    /// Returns the place in the log that a replica must have reached for the newest snapshot.
    pub(crate) fn place(&self) -> u64 {
        self.place.load(Ordering::Acquire)
    }

    /// Learns a place, before what is before it can be seen.
    pub(crate) fn place_is(&self, place: i64) {
        self.place.fetch_max(place.unsigned_abs(), Ordering::AcqRel);
    }

    /// Ends every subscription.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.senders.clear();
        state.ban_senders.clear();
        state.session_senders.clear();
        self.neighbours.close();
    }

    /// Returns the last number that was told. Under the writer's lock the database's is no less, unless
    /// it is no longer the database it was.
    pub(crate) fn told(&self) -> i64 {
        self.state().told
    }

    /// Returns how many numbers are committed and not told.
    pub(crate) fn lag(&self) -> u64 {
        let told = self.state().told;
        let lag = self.heard.load(Ordering::Acquire).saturating_sub(told);
        u64::try_from(lag).unwrap_or(0)
    }

    /// Returns how far the backfill was at the last look.
    pub(crate) fn backfill_status(&self) -> Option<BackfillStatus> {
        self.state().backfill.clone()
    }

    /// Waits for the right to tell what comes next.
    pub(crate) async fn turn(&self) -> Turn {
        Arc::clone(&self.turn).lock_owned().await
    }

    /// Learns which process of the server the writer talks to.
    pub(crate) fn writer_is(&self, process: i32) {
        self.own_process.store(process, Ordering::Relaxed);
    }

    /// Has the listener look into the database: a commit's end is not known.
    pub(crate) fn look(&self) {
        self.news.notify_one();
    }

    /// Takes a commit of this node's: the numbers behind `before` up to `last`.
    pub(crate) fn committed(&self, before: i64, last: i64, events: Vec<CommittedEvent>) {
        self.visible.fetch_max(last, Ordering::AcqRel);
        if last == before {
            return;
        }
        let mut state = self.state();
        if state.told == before {
            state.tell(last, events);
        } else {
            self.news.notify_one();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Listens to other nodes until the store closes. A connection that is lost is made again, and what
    /// was missed meanwhile is found by its number.
    pub(crate) async fn listen(self: Arc<Self>, connector: Connector, imports: bool) {
        let mut pause = PAUSE_MIN;
        loop {
            match self.listen_once(&connector, imports, &mut pause).await {
                Ok(()) => return,
                Err(error) => tracing::warn!(%error, "not listening to other nodes; trying again"),
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn listen_once(
        self: &Arc<Self>,
        connector: &Connector,
        imports: bool,
        pause: &mut Duration,
    ) -> Result<(), PostgresError> {
        let feed = Arc::downgrade(self);
        let nodes = neighbours::channel(&connector.schema);
        let listen = format!(
            "LISTEN \"{}\"; LISTEN \"{nodes}\"",
            channel(&connector.schema)
        );
        let hear = move |message| {
            let AsyncMessage::Notification(notification) = message else {
                return;
            };
            let Some(feed) = feed.upgrade() else {
                return;
            };
            if notification.channel() == nodes {
                feed.neighbours.take(&feed.node, notification.payload());
            } else {
                feed.heard(notification.process_id(), notification.payload());
            }
        };
        let session = connector.connect_and_hear(hear).await?;
        session.client.batch_execute(&listen).await?;
        if !imports {
            // No import puts indexes off from now on; those of one that was quicker are made.
            session
                .rows(SHARE, &[&lock_key(&connector.schema, OPEN)])
                .await?;
            make_deferred_indexes(&session, connector).await?;
        }
        // What was told while nobody listened.
        let position = position(&session, &connector.schema).await?;
        self.heard.fetch_max(position, Ordering::AcqRel);
        self.tell_of_bans();
        self.tell_of_sessions(RevocationNews::Unknown);
        *pause = PAUSE_MIN;
        let mut looked: Option<Instant> = None;
        loop {
            self.catch_up(&session).await?;
            if looked.is_none_or(|at| at.elapsed() >= LOOK) {
                let status = BackfillStatus::read(&session).await?;
                self.state().backfill = Some(status);
                looked = Some(Instant::now());
            }
            // Nothing told in this time is no error: it looks anyway.
            let _ = timeout(LOOK, self.news.notified()).await;
            if self.state().closed {
                return Ok(());
            }
        }
    }

    fn heard(&self, process: i32, position: &str) {
        if position == WAKE {
            self.backfill.notify_one();
            return;
        }
        if position == bans::CHANGED {
            self.tell_of_bans();
            return;
        }
        if let Some(revoked) = position.strip_prefix(REVOKED) {
            let news = sessions::parse(revoked).map(RevocationNews::Revoked);
            self.tell_of_sessions(news.unwrap_or(RevocationNews::Unknown));
            return;
        }
        if process == self.own_process.load(Ordering::Relaxed) {
            return;
        }
        let Ok(position) = position.parse() else {
            return;
        };
        self.heard.fetch_max(position, Ordering::AcqRel);
        if position > self.state().told {
            self.news.notify_one();
        }
    }

    /// Asks for the place of what can be seen now, if anybody needs it.
    pub(crate) async fn learn_place(&self, session: &Session) -> Result<(), PostgresError> {
        if self.has_replica {
            let rows = session.rows(PLACE, &[]).await?;
            self.place_is(rows.first().map_or(0, |row| row.get(0)));
        }
        Ok(())
    }

    /// Tells what the database has behind what was told.
    async fn catch_up(&self, session: &Session) -> Result<(), PostgresError> {
        loop {
            let _turn = self.turn().await;
            let (told, heard) = (self.state().told, self.heard.load(Ordering::Acquire));
            let (rows, ()) = try_join!(
                biased;

                async { session.rows(NEWS, &[&told, &PAGE]).await },
                self.learn_place(session)
            )?;
            let mut events = Vec::with_capacity(rows.len());
            let mut last = told;
            for row in &rows {
                last = row.get(0);
                let json = Bytes::copy_from_slice(row.get(1));
                match Event::from_stored(json) {
                    Ok(event) => events.push(CommittedEvent {
                        sequence: Sequence(last.unsigned_abs()),
                        event: Arc::new(event),
                    }),
                    // One damaged row must not keep the others from being told.
                    Err(error) => tracing::error!(seq = last, %error, "a stored event is not one"),
                }
            }
            let is_all = rows.len() < PAGE as usize;
            if is_all {
                // What else was committed until then stored nothing that is still there.
                last = last.max(heard);
            }
            self.visible.fetch_max(last, Ordering::AcqRel);
            let mut state = self.state();
            let told = state.told;
            events.retain(|event| i64::try_from(event.sequence.0).is_ok_and(|seq| seq > told));
            if last > told {
                state.tell(last, events);
            }
            if is_all {
                return Ok(());
            }
        }
    }
}

impl State {
    fn tell(&mut self, last: i64, events: Vec<CommittedEvent>) {
        self.told = last;
        if events.is_empty() {
            return;
        }
        let committed = Arc::new(Committed { events });
        self.senders
            .retain(|sender| sender.unbounded_send(Arc::clone(&committed)).is_ok());
    }
}
