//! The writer: takes everything that waits, writes it as one transaction, tries again while the
//! database is away.

use std::{sync::Arc, time::Duration};

use hikyaku_event::Timestamp;
use hikyaku_store::{Outcome, StoreError, Write};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep},
};

use super::transaction::{Done, Transactions};
use crate::{Options, PostgresError, connection::Connector, feed::Feed, meters::count};

/// Writes of one transaction: what waits longer than one takes is the next one's, and one answer must
/// not wait for an import.
const WRITES_MAX: usize = 2_048;
/// The same while an import has put indexes off: nobody else writes, and facts and the disk are waited for
/// less often.
const WRITES_DEFERRED_MAX: usize = 8_192;
/// Pauses between tries while the database can't be reached: from, up to.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// What is asked of the writer.
pub(crate) enum Request {
    Write(Vec<Write>, Timestamp, Reply<Vec<Outcome>>),
    Sweep(Timestamp, Reply<u64>),
    /// Make the indexes that were put off.
    MakeIndexes(Reply<()>),
    /// The store is closing: nothing comes behind this.
    Close,
}

struct Waiting {
    writes: Vec<Write>,
    now: Timestamp,
    reply: Reply<Vec<Outcome>>,
}

/// The writer of one node.
pub(crate) struct Writer {
    connector: Connector,
    retry_time: Duration,
    may_defer: bool,
    /// Indexes were put off when it last wrote.
    indexes_deferred: bool,
    feed: Arc<Feed>,
    queue: mpsc::UnboundedReceiver<Request>,
    held_back: Option<Request>,
    transactions: Option<Transactions>,
}

impl Writer {
    pub(crate) fn new(
        connector: Connector,
        options: &Options,
        feed: Arc<Feed>,
        queue: mpsc::UnboundedReceiver<Request>,
    ) -> Self {
        Self {
            connector,
            retry_time: options.retry_time,
            may_defer: options.defer_indexes,
            indexes_deferred: false,
            feed,
            queue,
            held_back: None,
            transactions: None,
        }
    }

    /// Writes until the store closes.
    pub(crate) async fn run(mut self) {
        loop {
            let request = match self.held_back.take() {
                Some(request) => Some(request),
                None => self.queue.recv().await,
            };
            match request {
                Some(Request::Write(writes, now, reply)) => {
                    let waiting = self.gather(Waiting { writes, now, reply });
                    self.write(waiting).await;
                }
                Some(Request::Sweep(now, reply)) => {
                    let swept = self.sweep(now).await;
                    // Who no longer waits for the answer has gone: that changes nothing.
                    let _ = reply.send(swept.map_err(StoreError::from));
                }
                Some(Request::MakeIndexes(reply)) => {
                    let made = match self.transactions().await {
                        Ok(transactions) => transactions.make_indexes().await,
                        Err(error) => Err(error),
                    };
                    if made.is_err() {
                        self.transactions = None;
                    }
                    let _ = reply.send(made.map_err(StoreError::from));
                }
                Some(Request::Close) | None => return,
            }
        }
    }

    /// Takes what waits behind a write.
    fn gather(&mut self, first: Waiting) -> Vec<Waiting> {
        let mut count = first.writes.len();
        let mut waiting = vec![first];
        let most = if self.indexes_deferred {
            WRITES_DEFERRED_MAX
        } else {
            WRITES_MAX
        };
        while count < most {
            match self.queue.try_recv() {
                Ok(Request::Write(writes, now, reply)) => {
                    count += writes.len();
                    waiting.push(Waiting { writes, now, reply });
                }
                Ok(other) => {
                    self.held_back = Some(other);
                    break;
                }
                Err(_) => break,
            }
        }
        waiting
    }

    async fn write(&mut self, waiting: Vec<Waiting>) {
        let result = self.persist(&waiting).await;
        match result {
            // One that the server will not take must not take others with it.
            Err(PostgresError::Rejected(_)) if waiting.len() > 1 => {
                for one in waiting {
                    let one = vec![one];
                    let result = self.persist(&one).await;
                    self.answer(one, result);
                }
            }
            result => self.answer(waiting, result),
        }
    }

    fn answer(&self, waiting: Vec<Waiting>, result: Result<Done, PostgresError>) {
        match result {
            Ok(done) => {
                let meters = &self.connector.meters;
                count(&meters.batches, 1);
                count(&meters.events_written, done.events.len() as u64);
                self.feed.committed(done.before, done.last, done.events);
                drop(done.turn);
                for (one, outcomes) in waiting.into_iter().zip(done.outcomes) {
                    let _ = one.reply.send(Ok(outcomes));
                }
            }
            Err(error) => {
                tracing::error!(%error, "writing failed");
                for one in waiting {
                    let _ = one.reply.send(Err(error.clone().into()));
                }
            }
        }
    }

    /// Writes, and tries again for a while. A try whose end is not known is safe to repeat: what it
    /// stored is a duplicate then, and the feed finds it by its number.
    async fn persist(&mut self, waiting: &[Waiting]) -> Result<Done, PostgresError> {
        let requests: Vec<_> = waiting
            .iter()
            .map(|one| (one.writes.as_slice(), one.now))
            .collect();
        let give_up = Instant::now() + self.retry_time;
        let mut pause = PAUSE_MIN;
        loop {
            let result = match self.transactions().await {
                Ok(transactions) => Box::pin(transactions.write(&requests)).await,
                Err(error) => Err(error),
            };
            self.indexes_deferred = result.as_ref().is_ok_and(|done| done.indexes_deferred);
            if let Some(end) = self.after(result, give_up, &mut pause).await {
                return end;
            }
        }
    }

    async fn sweep(&mut self, now: Timestamp) -> Result<u64, PostgresError> {
        let give_up = Instant::now() + self.retry_time;
        let (mut swept, mut pause) = (0, PAUSE_MIN);
        loop {
            let result = match self.transactions().await {
                Ok(transactions) => transactions.sweep(now).await,
                Err(error) => Err(error),
            };
            match self.after(result, give_up, &mut pause).await {
                Some(Ok(0)) => return Ok(swept),
                Some(Ok(more)) => swept += more,
                Some(Err(error)) => return Err(error),
                None => {}
            }
        }
    }

    /// Looks at how a try ended: `None` after a pause if there shall be another one.
    async fn after<T>(
        &mut self,
        result: Result<T, PostgresError>,
        give_up: Instant,
        pause: &mut Duration,
    ) -> Option<Result<T, PostgresError>> {
        let Err(error) = &result else {
            return Some(result);
        };
        count(&self.connector.meters.failures, 1);
        // Whatever went wrong, the server rolls back what it had begun when the connection ends.
        self.transactions = None;
        self.feed.look();
        let again = matches!(error, PostgresError::Unavailable(_));
        if !again || Instant::now() + *pause > give_up {
            return Some(result);
        }
        tracing::warn!(%error, "writing failed; trying again");
        sleep(*pause).await;
        *pause = (*pause * 2).min(PAUSE_MAX);
        None
    }

    async fn transactions(&mut self) -> Result<&mut Transactions, PostgresError> {
        let usable = |transactions: &Transactions| !transactions.session.client.is_closed();
        let transactions = if let Some(open) = self.transactions.take().filter(usable) {
            open
        } else {
            let session = self.connector.connect().await?;
            let feed = Arc::clone(&self.feed);
            Transactions::new(session, &self.connector, self.may_defer, feed).await?
        };
        Ok(self.transactions.insert(transactions))
    }
}
