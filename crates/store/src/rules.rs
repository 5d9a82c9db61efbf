//! What may be stored, and what replaces, deletes and vanishes what: pure functions over facts.
//!
//! A store fetches [`Facts`] about an event (from its index, or under an advisory lock), asks
//! [`decide`], and carries out the [`Decision`]. Sources: NIP-01 (replaceable and addressable
//! events), NIP-09, NIP-40, NIP-59, NIP-62.

use hikyaku_event::{Address, Event, EventId, Kind, PublicKey, Timestamp};

use crate::Refusal;

/// What a store knows that bears on one event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// The id is stored (hidden or not), not removed.
    pub stored: bool,
    /// For an event with an address: the newest stored version (hidden or not).
    pub newest_version: Option<Version>,
    /// Some stored kind 5 by one of [`deleters`] has an `e` tag with this id.
    pub deleted_by_id: bool,
    /// The latest `created_at` of the author's stored kind 5 events with an `a` tag of this
    /// event's address.
    pub address_deleted_until: Option<Timestamp>,
    /// The latest `created_at` of the carried-out kind 62 events by any of [`deleters`].
    pub vanished_until: Option<Timestamp>,
}

/// What orders two versions of one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// The later one is newer.
    pub created_at: Timestamp,
    /// At the same time the lower one is newer.
    pub id: EventId,
}

impl Version {
    /// Tells whether this version takes the place of `other` (NIP-01).
    pub fn supersedes(&self, other: &Self) -> bool {
        (self.created_at, std::cmp::Reverse(self.id))
            > (other.created_at, std::cmp::Reverse(other.id))
    }
}

/// What is to be done with an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Store it; remove the older version of its address if there is one; then carry out
    /// [`effect`].
    Store,
    /// It is there already.
    Duplicate,
    /// A newer version is there.
    Superseded,
    /// It may not be stored.
    Refuse(Refusal),
}

/// What storing an event does to others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    None,
    /// A deletion (NIP-09): remove each of these that [`may_delete`] allows.
    Delete(DeletionTargets),
    /// Vanish (NIP-62): remove every event by the key up to its `created_at` (deletions included,
    /// kind 62 excepted), and the gift wraps p-tagged to it up to then.
    Vanish {
        /// Whose.
        key: PublicKey,
        /// Up to and including.
        until: Timestamp,
    },
}

/// What a deletion names, sorted and without doubles.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeletionTargets {
    /// By `e` tag: these events.
    pub ids: Vec<EventId>,
    /// By `a` tag, the author's own only: every version up to the deletion's `created_at`.
    pub addresses: Vec<Address>,
}

/// Decides what to do with an event.
pub fn decide(event: &Event, facts: &Facts, now: Timestamp) -> Decision {
    let _ = (event, facts, now);
    unimplemented!()
}

/// Returns the keys whose deletion or vanishing reaches this event: its author, and for a gift wrap
/// its p-tagged recipients (NIP-59).
pub fn deleters(event: &Event) -> Vec<PublicKey> {
    let _ = event;
    unimplemented!()
}

/// Tells whether the deletion may remove the target it names: by its author or, a gift wrap, its
/// recipient; never a deletion or a request to vanish.
pub fn may_delete(deletion: &Event, target: &Event) -> bool {
    let _ = (deletion, target, Kind::DELETION);
    unimplemented!()
}

/// Returns what storing the event does to others. `vanish` as in [`crate::Write::Event`].
pub fn effect(event: &Event, vanish: bool) -> Effect {
    let _ = (event, vanish);
    unimplemented!()
}
