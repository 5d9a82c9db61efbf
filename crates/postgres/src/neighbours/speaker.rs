//! Telling the other nodes: a task with a connection of its own.
//!
//! What waits while one transaction runs is told by the next. Its commit waits for no disk: there is
//! nothing to lose that anybody keeps.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::mpsc,
    time::{Instant, sleep},
};

use super::piece::cut;
use crate::{
    PostgresError,
    connection::{Connector, Session},
};

/// Bytes that may wait to be told. What comes beyond them is dropped.
const WAITING_BYTES_MAX: usize = 16 << 20;
/// Bytes told in one transaction, about.
const BATCH_BYTES: usize = 256 << 10;
/// Pauses between tries: from, up to.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

const TELL: &str = "SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload";

/// This node's voice.
pub(crate) struct Speaker {
    queue: mpsc::UnboundedSender<String>,
    waiting: Arc<AtomicUsize>,
}

impl Speaker {
    /// Starts to tell on a channel, in this node's name.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "the task keeps a connector of its own"
    )]
    pub(crate) fn start(
        connector: Connector,
        channel: String,
        node: Arc<str>,
        retry_time: Duration,
    ) -> Self {
        let (queue, texts) = mpsc::unbounded_channel();
        let waiting = Arc::default();
        let task = Task {
            waiting: Arc::clone(&waiting),
            connector: connector.clone(),
            channel,
            node,
            retry_time,
            texts,
            number: 0,
            session: None,
        };
        connector.spawn(task.run());
        Self { queue, waiting }
    }

    /// Tells, some time soon.
    pub(crate) fn tell(&self, text: String) {
        let bytes = text.len();
        if bytes > WAITING_BYTES_MAX || text.contains('\0') {
            tracing::warn!(bytes, "not told to the other nodes: it can't be");
            return;
        }
        if self.waiting.fetch_add(bytes, Ordering::Relaxed) + bytes > WAITING_BYTES_MAX {
            self.waiting.fetch_sub(bytes, Ordering::Relaxed);
            tracing::warn!(bytes, "not told to the other nodes: too much waits already");
            return;
        }
        // A store that closes tells no more.
        let _ = self.queue.send(text);
    }
}

struct Task {
    connector: Connector,
    channel: String,
    node: Arc<str>,
    retry_time: Duration,
    texts: mpsc::UnboundedReceiver<String>,
    waiting: Arc<AtomicUsize>,
    /// Of the last text that was taken.
    number: u64,
    session: Option<Arc<Session>>,
}

impl Task {
    async fn run(mut self) {
        while let Some(first) = self.texts.recv().await {
            let mut bytes = first.len();
            let mut payloads = self.cut(&first);
            while bytes < BATCH_BYTES
                && let Ok(next) = self.texts.try_recv()
            {
                bytes += next.len();
                payloads.extend(self.cut(&next));
            }
            self.tell(&payloads).await;
            self.waiting.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    fn cut(&mut self, text: &str) -> Vec<String> {
        self.number += 1;
        cut(&self.node, self.number, text)
    }

    /// Tells, and tries again for a while: what was told already is known by its number.
    async fn tell(&mut self, payloads: &[String]) {
        let give_up = Instant::now() + self.retry_time;
        let mut pause = PAUSE_MIN;
        while let Err(error) = self.tell_once(payloads).await {
            self.session = None;
            if Instant::now() + pause > give_up {
                tracing::warn!(%error, "not told to the other nodes");
                return;
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn tell_once(&mut self, payloads: &[String]) -> Result<(), PostgresError> {
        let usable = |session: &Arc<Session>| !session.client.is_closed();
        let session = if let Some(session) = self.session.take().filter(usable) {
            session
        } else {
            let session = self.connector.connect().await?;
            let no_wait = "SET synchronous_commit = off";
            session.client.batch_execute(no_wait).await?;
            session
        };
        session.rows(TELL, &[&self.channel, &payloads]).await?;
        self.session = Some(session);
        Ok(())
    }
}
