//! What is asked of a store, and how answers come: in steps, under a budget.

use bytes::Bytes;
use hikyaku_event::{EventId, Filter, Kind, Timestamp};

use crate::{Reader, Sequence};

/// How many stored events a filter may return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitPolicy {
    /// For a filter without `limit`; at most `max` counts.
    pub default: u32,
    /// Our own cap. Where one of ours, and not the client's `limit`, ends an answer, the answer goes
    /// on to the end of the run of events with the same `created_at`, up to twice our number and
    /// never beyond the client's (NIP-67).
    pub max: u32,
}

impl LimitPolicy {
    /// No limit but the client's: for exports and the operator's own queries.
    pub const UNLIMITED: Self = Self {
        default: u32::MAX,
        max: u32::MAX,
    };

    /// Returns what a filter with this `limit` (or none) may have.
    pub fn allowance(&self, limit: Option<u64>) -> Allowance {
        let (default, max) = (u64::from(self.default), u64::from(self.max));
        match limit {
            Some(limit) if limit <= max => Allowance {
                enough: limit,
                most: limit,
            },
            Some(limit) => Allowance {
                enough: max,
                most: limit.min(2 * max),
            },
            None => Allowance {
                enough: default.min(max),
                most: 2 * default.min(max),
            },
        }
    }
}

/// How many answers one filter may have (NIP-67): `enough` and then what is left of the run of equal
/// `created_at`, but never more than `most`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// From this many on, only the run of the last answer goes on. 0 asks for nothing.
    pub enough: u64,
    /// Never more than this; not less than `enough`.
    pub most: u64,
}

impl Allowance {
    /// Tells whether one more answer is allowed after `taken`. `same_time`: it has the `created_at`
    /// of the last one taken.
    pub const fn admits(&self, taken: u64, same_time: bool) -> bool {
        taken < self.enough || (taken > 0 && taken < self.most && same_time)
    }
}

/// A stored query: the filters of one REQ or COUNT.
#[derive(Debug, Clone)]
pub struct Query {
    /// An event is an answer if it is among the first of any of these, as many as that filter's own
    /// [`Allowance`] admits of what the reader may see; one that several filters match uses up each
    /// one's allowance. The answer is one newest-first sequence (ties to the lowest id) without
    /// doubles. No filters: nothing matches.
    pub filters: Vec<Filter>,
    /// Who is asking.
    pub reader: Reader,
    /// The limits; ignored by a count.
    pub limits: LimitPolicy,
    /// The current time: what has expired by then is absent (NIP-40).
    pub now: Timestamp,
}

/// One answer of a query.
#[derive(Debug, Clone)]
pub struct StoredEvent {
    /// Where it stands in the order of writing.
    pub sequence: Sequence,
    /// Its id.
    pub id: EventId,
    /// The time its author gave it.
    pub created_at: Timestamp,
    /// Its kind.
    pub kind: Kind,
    /// Its JSON, ready to send.
    pub json: Bytes,
}

/// How much work one poll may do before it gives the thread back.
///
/// The unit is one event examined (a posting or a column row looked at). A store takes from it as
/// it works; what is examined in total is also the measure of a query's cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    left: u32,
}

impl Budget {
    /// Allows this many units.
    pub const fn new(units: u32) -> Self {
        Self { left: units }
    }
    /// Takes units; saturates at none left.
    pub fn spend(&mut self, units: u32) {
        self.left = self.left.saturating_sub(units);
    }
    /// Tells whether nothing is left.
    pub const fn is_spent(&self) -> bool {
        self.left == 0
    }
    /// Returns the units left.
    pub const fn left(&self) -> u32 {
        self.left
    }
}

/// Whether an answer was all there is (NIP-67). Speaks only of what the reader may see: what is
/// hidden, expired or private to others plays no part.
///
/// It is exact. Filters that ask for something decide between `More` and `Finish`; a filter with
/// a `limit` of 0 says nothing about what it left out, so with one `Finish` becomes `Unknown`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completeness {
    /// Every stored event that matches any filter was returned.
    Finish,
    /// There is an event that matches a filter which asked for something, and it was not returned
    /// (for another filter neither).
    More,
    /// Not known: a filter asked for nothing (a `limit` of 0), and the others for no more than was
    /// returned.
    Unknown,
}

/// One step of a query.
#[derive(Debug)]
pub enum QueryStep {
    /// The next answer.
    Event(StoredEvent),
    /// The budget is spent: poll again when it is this query's turn.
    Yield,
    /// The answer is complete.
    End(Completeness),
}

/// One step of a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountStep {
    /// The budget is spent: poll again.
    Yield,
    /// The number of events that match any filter, each once.
    Done(u64),
    /// So many of what the store can find now: it does not have all there is in its index yet.
    AtLeast(u64),
}
