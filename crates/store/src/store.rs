//! The traits that a store implements, and the outcomes and errors of its operations.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_core::Stream;
use hikyaku_event::{Event, EventId, Filter, Timestamp};

use crate::{Budget, CountStep, Neighbours, Query, QueryStep, Reader};

/// A permanent number in the order of writing, from 1. Snapshots, feeds and cursors use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sequence(pub u64);

/// Who has hidden an event: a number that the caller chooses per purpose (a trash, a moderator).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hider(pub u32);

/// Why an event is removed for good, and whether its id may come back.
///
/// The reason is for the record. What keeps an id away is not the removal but what stands behind
/// it (the newer version, the deletion, the request to vanish, the expiry), as [`crate::rules`]
/// decides it afresh when the event is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RemovalReason {
    /// A newer version took its place. The id can't return while that version stands.
    Replaced,
    /// Its author (or a gift wrap's recipient) deleted it (NIP-09). The id can't return while the
    /// deletion stands.
    Deleted,
    /// Its author (or a gift wrap's recipient) vanished (NIP-62). The id can't return.
    Vanished,
    /// It expired (NIP-40). The id can't return, being expired.
    Expired,
    /// The operator removed it. The id may return.
    Operator,
}

/// One change to the store.
#[derive(Debug, Clone)]
pub enum Write {
    /// Store an event whose id and signature are already checked.
    Event {
        /// The event; never of an ephemeral kind (those are refused as [`Refusal::Ephemeral`]).
        event: Arc<Event>,
        /// For kind 62: whether its `relay` tags mean this relay, so that it is carried out.
        vanish: bool,
    },
    /// Remove an event for good, hidden or not, of any kind. Its hidings go with it: should it
    /// return, it is visible. A kind 5 or 62 so removed has lost its force.
    Remove {
        /// Which.
        id: EventId,
        /// Why.
        reason: RemovalReason,
    },
    /// Hide an event: absent for every reader, the operator included, until each hider has taken it
    /// back. It stays stored: it is a duplicate, a newest version, a deletion in force as before.
    Hide {
        /// Which.
        id: EventId,
        /// Who.
        by: Hider,
    },
    /// Take a [`Write::Hide`] back.
    Unhide {
        /// Which.
        id: EventId,
        /// Who had hidden it.
        by: Hider,
    },
}

/// Why an event was not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// It was deleted by its author or, a gift wrap, by its recipient (NIP-09).
    Deleted,
    /// Its author or recipient has vanished (NIP-62).
    Vanished,
    /// It has expired (NIP-40).
    Expired,
    /// Its kind is ephemeral: such events touch no store.
    Ephemeral,
}

/// What became of one [`Write`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Stored, durable, visible, under this number: greater than every one given before. (A later
    /// element of the same batch may already have removed it again.)
    Stored(Sequence),
    /// Already there (a hidden one too).
    Duplicate,
    /// A newer version of the same address is stored; this one was not.
    Superseded,
    /// Not stored.
    Refused(Refusal),
    /// A removal, hiding or unhiding was carried out.
    Done,
    /// A removal, hiding or unhiding found no such event, or nothing to change (hidden by this hider
    /// already, or not hidden by it).
    Absent,
}

/// Why a store could not do what it was asked. What an operator reads; a client hears less.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// It may work later (no room, a lost connection): nothing was changed.
    #[error("{0}")]
    Unavailable(String),
    /// The store has stopped and must be reopened; reads may still work.
    #[error("{0}")]
    Stopped(String),
    /// Stored bytes are damaged; names file, offset, expected and found.
    #[error("{0}")]
    Corrupt(String),
    /// The store can't answer such a question, today or later; fit for a client.
    #[error("{0}")]
    Unsupported(String),
}

/// A future that stays on its thread.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;
/// The answer to a write: one outcome per element, in order, all of them durable.
pub type WriteFuture = Pin<Box<dyn Future<Output = Result<Vec<Outcome>, StoreError>> + Send>>;
/// The stream of commits, in order, from the moment it was made. Ends when the store closes.
pub type CommittedFeed = Pin<Box<dyn Stream<Item = Arc<Committed>> + Send>>;

/// One stored event of a commit.
#[derive(Debug, Clone)]
pub struct CommittedEvent {
    /// Its number.
    pub sequence: Sequence,
    /// The event.
    pub event: Arc<Event>,
}

/// One commit, as live subscriptions see it. Only stored events: removals and hidings are not told.
#[derive(Debug, Clone, Default)]
pub struct Committed {
    /// The events it stored, in order. One that the same commit replaced or deleted is still here.
    pub events: Vec<CommittedEvent>,
}

/// A place that keeps events. Shared by all workers.
pub trait EventStore: Send + Sync {
    /// Opens a reader for one worker. Readers share nothing that needs a lock.
    fn reader(&self) -> Box<dyn StoreReader>;
    /// Hands changes to the writer. They are decided in order as of `now` (an event that has expired
    /// by then is refused), made durable together with whatever else waits, and visible to new
    /// queries before the future resolves. A later element sees what an earlier one did. They are
    /// handed over by the call itself: dropping the future does not take them back.
    fn write(&self, batch: Vec<Write>, now: Timestamp) -> WriteFuture;
    /// Subscribes to what is committed from now on. A commit is sent after it is visible: with a
    /// feed taken before a query, what is after the query's snapshot comes on the feed.
    fn committed(&self) -> CommittedFeed;
    /// Removes what has expired by `now`, hidden or not, as [`crate::rules::may_sweep`] has it;
    /// resolves to how many. Readers never see expired events, swept or not: this only frees the
    /// space.
    fn sweep(
        &self,
        now: Timestamp,
    ) -> Pin<Box<dyn Future<Output = Result<u64, StoreError>> + Send>>;
    /// Returns the other nodes on this store, if it can have any.
    fn neighbours(&self) -> Option<Arc<dyn Neighbours>> {
        None
    }
}

/// One worker's way to read. Each operation sees one consistent snapshot.
pub trait StoreReader {
    /// Tells for each id whether the event is stored (a hidden one counts, and an expired one until
    /// it is swept; a removed one does not): what a worker asks before it pays for a signature
    /// check.
    fn contains<'a>(&'a self, ids: &'a [EventId])
    -> LocalFuture<'a, Result<Vec<bool>, StoreError>>;
    /// Starts a query on a snapshot taken now. Nothing stored later is in it; what is removed or
    /// hidden while it runs may still be answered or not.
    fn query(&self, query: Query) -> Box<dyn QueryCursor>;
    /// Starts a count on a snapshot taken now: of every event a query without any limit would
    /// answer. Each filter's `limit` is ignored, 0 too.
    fn count(&self, query: Query) -> Box<dyn CountCursor>;
    /// Lists keys of one filter's matches in a range, in either direction, of what the reader may
    /// see at `now`. The filter's `limit` is ignored: take as many as needed.
    fn keys(
        &self,
        filter: &Filter,
        reader: &Reader,
        now: Timestamp,
        range: KeyRange,
    ) -> Box<dyn Iterator<Item = Result<Key, StoreError>> + '_>;
}

/// The storage order: newest first, ties to the lowest id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// The time the author gave.
    pub created_at: Timestamp,
    /// The id.
    pub id: EventId,
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other
            .created_at
            .cmp(&self.created_at)
            .then(self.id.cmp(&other.id))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// A part of the storage order: from `from` (inclusive) to `to` (exclusive), where either may be
/// open, read forward (newest first) or backward.
#[derive(Debug, Clone, Copy, Default)]
pub struct KeyRange {
    /// First key, inclusive; `None` is the newest.
    pub from: Option<Key>,
    /// End, exclusive; `None` is after the oldest.
    pub to: Option<Key>,
    /// The same keys, oldest first.
    pub backward: bool,
}

/// A query under way.
pub trait QueryCursor {
    /// The snapshot: every commit up to and including this number is in it, and nothing after.
    fn snapshot(&self) -> Sequence;
    /// Takes the next step. `Pending` means waiting for I/O with the waker registered; a spent
    /// budget is [`QueryStep::Yield`], and with one unit or more there is progress. After `End` or an error it must not be polled again.
    fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        budget: &mut Budget,
    ) -> Poll<Result<QueryStep, StoreError>>;
    /// Goes on with what a step has begun, and hands nothing out: for when the client has enough to
    /// read. What waits for I/O may hold what others wait for, a connection to a database say.
    fn go_on(&mut self, _: &mut Context<'_>) {}
}

/// A count under way.
pub trait CountCursor {
    /// Takes the next step, as [`QueryCursor::poll_next`].
    fn poll_count(
        &mut self,
        cx: &mut Context<'_>,
        budget: &mut Budget,
    ) -> Poll<Result<CountStep, StoreError>>;
    /// Goes on with what a step has begun, as [`QueryCursor::go_on`].
    fn go_on(&mut self, _: &mut Context<'_>) {}
}
