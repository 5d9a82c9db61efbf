//! What may be stored, and what replaces, deletes and vanishes what: pure functions over facts.
//!
//! A store fetches [`Facts`] about an event (from its index, or under an advisory lock), asks
//! [`decide`], and carries out the [`Decision`]. Sources: NIP-01 (replaceable and addressable
//! events), NIP-09, NIP-40, NIP-59, NIP-62.
//!
//! Facts are about what is *stored*: hidden events count, and expired ones until a sweep takes them.
//! A deletion or a request to vanish is in force as long as it is stored, and a sweep never takes
//! one ([`may_sweep`]), so what is gone stays gone; only the operator, by removing the request
//! itself, can lift it.

use hikyaku_event::{Address, Event, EventId, Kind, KindClass, PublicKey, Timestamp};

use crate::Refusal;

/// What a store knows that bears on one event. The default is a store that knows nothing of it.
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
    /// Returns what orders this event among the versions of its address.
    pub fn of(event: &Event) -> Self {
        Self {
            created_at: event.created_at(),
            id: event.id(),
        }
    }
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
    /// Vanish (NIP-62): remove every event that [`deleters`] names the key for (its own, and the gift
    /// wraps p-tagged to it) with a `created_at` up to then; deletions included, kind 62 excepted.
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
    /// By `e` tag: these events, whatever their `created_at`.
    pub ids: Vec<EventId>,
    /// By `a` tag, the author's own only: every version with a `created_at` up to the deletion's.
    pub addresses: Vec<Address>,
}

impl DeletionTargets {
    /// Reads the `e` and `a` tags. Those that name nothing (not an id, not an address, somebody
    /// else's address) are skipped.
    fn of(deletion: &Event) -> Self {
        let mut ids: Vec<_> = deletion
            .tag_values(b'e')
            .filter_map(|value| EventId::from_hex(value.as_bytes()).ok())
            .collect();
        ids.sort_unstable();
        ids.dedup();
        let mut addresses: Vec<_> = deletion
            .tag_values(b'a')
            .filter_map(|value| Address::parse(&value))
            .filter(|address| address.pubkey == deletion.pubkey())
            .collect();
        addresses.sort_unstable_by(|a, b| (a.kind, &a.d).cmp(&(b.kind, &b.d)));
        addresses.dedup();
        Self { ids, addresses }
    }
}

/// Decides what to do with an event.
///
/// The order of the answers is part of the interface. What is stored is a duplicate whatever else
/// holds, so that sending an event again is always answered alike. Expiry comes next because it
/// says nothing about what else the store knows, then vanishing, the wider of the two wishes of an
/// author, then deletion. That a newer version is stored comes last: it is answered as a success,
/// which an event that would be refused anyway must not get.
pub fn decide(event: &Event, facts: &Facts, now: Timestamp) -> Decision {
    let until_covers = |until: Option<Timestamp>| until.is_some_and(|u| event.created_at() <= u);
    let deleted = facts.deleted_by_id || until_covers(facts.address_deleted_until);
    let newer_is_stored = facts
        .newest_version
        .is_some_and(|newest| !Version::of(event).supersedes(&newest));
    if facts.stored {
        Decision::Duplicate
    } else if event.kind().class() == KindClass::Ephemeral {
        Decision::Refuse(Refusal::Ephemeral)
    } else if is_expired(event, now) {
        Decision::Refuse(Refusal::Expired)
    } else if event.kind() != Kind::VANISH && until_covers(facts.vanished_until) {
        Decision::Refuse(Refusal::Vanished)
    } else if !is_request(event.kind()) && deleted {
        Decision::Refuse(Refusal::Deleted)
    } else if newer_is_stored {
        Decision::Superseded
    } else {
        Decision::Store
    }
}

/// Returns the keys whose deletion or vanishing reaches this event: its author, and for a gift wrap
/// its p-tagged recipients (NIP-59). Without doubles, the author first.
pub fn deleters(event: &Event) -> Vec<PublicKey> {
    let mut keys = vec![event.pubkey()];
    if event.kind() == Kind::GIFT_WRAP {
        for value in event.tag_values(b'p') {
            if let Ok(key) = PublicKey::from_hex(value.as_bytes())
                && !keys.contains(&key)
            {
                keys.push(key);
            }
        }
    }
    keys
}

/// Tells whether the deletion may remove the target it names: by its author or, a gift wrap, its
/// recipient; never a deletion or a request to vanish. That it names the target (and, by address,
/// that the target is not newer) is for the caller to know.
pub fn may_delete(deletion: &Event, target: &Event) -> bool {
    deletion.kind() == Kind::DELETION
        && !is_request(target.kind())
        && deleters(target).contains(&deletion.pubkey())
}

/// Returns what storing the event does to others. `vanish` as in [`crate::Write::Event`].
pub fn effect(event: &Event, vanish: bool) -> Effect {
    match event.kind() {
        Kind::DELETION => Effect::Delete(DeletionTargets::of(event)),
        Kind::VANISH if vanish => Effect::Vanish {
            key: event.pubkey(),
            until: event.created_at(),
        },
        _ => Effect::None,
    }
}

/// Tells whether the event is absent at that time (NIP-40): from the second of its expiration on.
pub fn is_expired(event: &Event, now: Timestamp) -> bool {
    event.expires_at().is_some_and(|expiry| expiry <= now)
}

/// Tells whether a sweep takes the event: what has expired by then, except deletions and requests
/// to vanish. Those are no longer served, but what they removed must not come back.
pub fn may_sweep(event: &Event, now: Timestamp) -> bool {
    is_expired(event, now) && !is_request(event.kind())
}

/// Tells whether events of this kind ask for the removal of others, and so can't be deleted.
const fn is_request(kind: Kind) -> bool {
    matches!(kind, Kind::DELETION | Kind::VANISH)
}
