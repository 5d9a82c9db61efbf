//! The live-subscription index: from a new event to the subscriptions it belongs to.
//!
//! Each filter is registered under the values of its most selective field, as a posting in an
//! inverted index of filters. An event looks up its own values there and asks only the filters it
//! finds: what a subscription costs an event that it does not want is nothing. The idea is strfry's;
//! the pairing with kinds is added because one author's reactions are of no interest to the
//! thousands who follow the notes.

use std::{cmp::Reverse, hash::BuildHasher, sync::Arc};

use foldhash::quality::FixedState;
use hashbrown::{HashMap, HashTable, hash_table::Entry};
use hikyaku_event::{Event, EventId, Filter, Kind, PublicKey, TagCondition};

use crate::SubscriptionKey;

/// Filters of at most this many kinds are registered by value and kind together: more postings,
/// at most this many times, but no look at events of other kinds.
const PAIRED_KINDS_MAX: usize = 4;

/// Names one subscription of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerKey {
    /// The connection, by the worker's own numbering.
    pub connection: u64,
    /// The subscription in it.
    pub subscription: SubscriptionKey,
}

/// All live subscriptions of one worker.
#[derive(Debug)]
pub struct LiveIndex {
    hasher: FixedState,
    listeners: HashMap<ListenerKey, Slot, FixedState>,
    slots: Vec<Option<Listener>>,
    free: Vec<Slot>,
    /// Terms by their hash. Two terms of one hash share a list: every find is verified.
    postings: HashTable<(u64, Postings)>,
    /// How many filters are registered under tags of each letter: an event's tags of other letters
    /// need not be looked up.
    tag_filters: [u32; 128],
    /// The number of the event being matched: a listener that has it was found already.
    round: u64,
    /// The terms of the event being matched.
    terms: Vec<u64>,
}

/// The place of a listener in `slots`.
type Slot = u32;

#[derive(Debug)]
struct Listener {
    key: ListenerKey,
    filters: Arc<[Filter]>,
    round: u64,
}

/// The listeners under one term, ascending; most terms have one.
#[derive(Debug)]
enum Postings {
    One(Slot),
    Many(Vec<Slot>),
}

/// What filters are registered under.
#[derive(Hash)]
enum Term<'a> {
    Id(&'a EventId),
    Author(&'a PublicKey, Option<Kind>),
    Tag(u8, &'a str, Option<Kind>),
    Kind(Kind),
    /// Filters without any condition but time.
    Any,
}

impl LiveIndex {
    /// Creates an empty index. `seed` must not be known to clients: it keeps them from choosing
    /// values that collide.
    pub fn new(seed: u64) -> Self {
        let hasher = FixedState::with_seed(seed);
        Self {
            listeners: HashMap::with_hasher(hasher.clone()),
            hasher,
            slots: Vec::new(),
            free: Vec::new(),
            postings: HashTable::new(),
            tag_filters: [0; 128],
            round: 0,
            terms: Vec::new(),
        }
    }

    /// Adds a subscription; one of the same key is replaced.
    pub fn insert(&mut self, key: ListenerKey, filters: Arc<[Filter]>) {
        self.remove(key);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as Slot
        });
        for hash in self.filter_terms(&filters) {
            match self
                .postings
                .entry(hash, |(term, _)| *term == hash, |(term, _)| *term)
            {
                Entry::Occupied(mut entry) => entry.get_mut().1.insert(slot),
                Entry::Vacant(entry) => drop(entry.insert((hash, Postings::One(slot)))),
            }
        }
        self.count_tag_filters(&filters, |count| *count += 1);
        self.listeners.insert(key, slot);
        if let Some(place) = self.slots.get_mut(slot as usize) {
            *place = Some(Listener {
                key,
                filters,
                round: 0,
            });
        }
    }

    /// Removes a subscription, if it is there.
    pub fn remove(&mut self, key: ListenerKey) {
        let Some(slot) = self.listeners.remove(&key) else {
            return;
        };
        let Some(listener) = self.slots.get_mut(slot as usize).and_then(Option::take) else {
            return;
        };
        self.free.push(slot);
        for hash in self.filter_terms(&listener.filters) {
            if let Ok(mut entry) = self.postings.find_entry(hash, |(term, _)| *term == hash)
                && entry.get_mut().1.remove(slot)
            {
                entry.remove();
            }
        }
        self.count_tag_filters(&listener.filters, |count| *count -= 1);
    }

    /// Calls `found` once for each subscription with a filter that matches the event. Reading
    /// rights and expiry are checked by [`crate::Session::live`].
    pub fn for_each_match(&mut self, event: &Event, mut found: impl FnMut(ListenerKey)) {
        let mut terms = std::mem::take(&mut self.terms);
        self.event_terms(event, &mut terms);
        self.round += 1;
        for hash in terms.drain(..) {
            let Some((_, postings)) = self.postings.find(hash, |(term, _)| *term == hash) else {
                continue;
            };
            for &slot in postings.slots() {
                let Some(Some(listener)) = self.slots.get_mut(slot as usize) else {
                    continue;
                };
                if listener.round != self.round {
                    listener.round = self.round;
                    if listener.filters.iter().any(|filter| filter.matches(event)) {
                        found(listener.key);
                    }
                }
            }
        }
        self.terms = terms;
    }

    /// Returns the number of subscriptions.
    pub fn len(&self) -> usize {
        self.listeners.len()
    }

    /// Tells whether there is no subscription.
    pub fn is_empty(&self) -> bool {
        self.listeners.is_empty()
    }

    /// Returns the hashes of the terms that these filters are registered under, each once.
    fn filter_terms(&self, filters: &[Filter]) -> Vec<u64> {
        let mut hashes = Vec::new();
        for filter in filters.iter().filter(|filter| !filter.matches_nothing()) {
            self.push_filter_terms(filter, &mut hashes);
        }
        hashes.sort_unstable();
        hashes.dedup();
        hashes
    }

    fn push_filter_terms(&self, filter: &Filter, hashes: &mut Vec<u64>) {
        let paired = filter
            .kinds
            .as_deref()
            .filter(|kinds| kinds.len() <= PAIRED_KINDS_MAX);
        let mut push = |term: Term<'_>| hashes.push(self.hasher.hash_one(term));
        if let Some(ids) = &filter.ids {
            for id in ids {
                push(Term::Id(id));
            }
        } else if let Some(authors) = &filter.authors {
            for author in authors {
                for_kinds(paired, |kind| push(Term::Author(author, kind)));
            }
        } else if let Some(tag) = chosen_tag(filter) {
            for value in &tag.values {
                for_kinds(paired, |kind| push(Term::Tag(tag.letter, value, kind)));
            }
        } else if let Some(kinds) = &filter.kinds {
            for kind in kinds {
                push(Term::Kind(*kind));
            }
        } else {
            push(Term::Any);
        }
    }

    /// Collects the hashes of the terms whose filters may want this event, each once: a tag that an
    /// event repeats a thousand times is looked up once.
    fn event_terms(&self, event: &Event, hashes: &mut Vec<u64>) {
        let kind = event.kind();
        let mut push = |term: Term<'_>| hashes.push(self.hasher.hash_one(term));
        push(Term::Id(&event.id()));
        push(Term::Author(&event.pubkey(), None));
        push(Term::Author(&event.pubkey(), Some(kind)));
        push(Term::Kind(kind));
        push(Term::Any);
        for tag in event.tags() {
            let Some(letter) = tag.letter() else { continue };
            if self
                .tag_filters
                .get(usize::from(letter))
                .is_none_or(|count| *count == 0)
            {
                continue;
            }
            if let Some(value) = tag.value() {
                push(Term::Tag(letter, &value, None));
                push(Term::Tag(letter, &value, Some(kind)));
            }
        }
        hashes.sort_unstable();
        hashes.dedup();
    }

    fn count_tag_filters(&mut self, filters: &[Filter], change: impl Fn(&mut u32)) {
        for filter in filters.iter().filter(|filter| !filter.matches_nothing()) {
            if filter.ids.is_none()
                && filter.authors.is_none()
                && let Some(tag) = chosen_tag(filter)
                && let Some(count) = self.tag_filters.get_mut(usize::from(tag.letter))
            {
                change(count);
            }
        }
    }
}

/// Calls `each` with each of the kinds, or once with `None` where there are none to pair with.
fn for_kinds(kinds: Option<&[Kind]>, mut each: impl FnMut(Option<Kind>)) {
    match kinds {
        Some(kinds) => kinds.iter().for_each(|kind| each(Some(*kind))),
        None => each(None),
    }
}

/// Returns the tag condition that the fewest events meet, as far as the name tells: names that
/// carry ids and addresses before those that carry keys before words; then the one with the fewest
/// values.
fn chosen_tag(filter: &Filter) -> Option<&TagCondition> {
    let selectivity = |letter| match letter {
        b'e' | b'E' | b'a' | b'A' | b'q' | b'i' | b'I' | b'x' => 2,
        b'p' | b'P' | b'd' | b'h' | b'r' => 1,
        _ => 0,
    };
    filter
        .tags
        .iter()
        .min_by_key(|tag| (Reverse(selectivity(tag.letter)), tag.values.len()))
}

impl Postings {
    fn slots(&self) -> &[Slot] {
        match self {
            Self::One(slot) => std::slice::from_ref(slot),
            Self::Many(slots) => slots,
        }
    }

    fn insert(&mut self, slot: Slot) {
        match self {
            Self::One(only) => *self = Self::Many(vec![slot.min(*only), slot.max(*only)]),
            Self::Many(slots) => {
                if let Err(place) = slots.binary_search(&slot) {
                    slots.insert(place, slot);
                }
            }
        }
    }

    /// Removes a listener; tells whether none is left.
    fn remove(&mut self, slot: Slot) -> bool {
        match self {
            Self::One(only) => *only == slot,
            Self::Many(slots) => {
                if let Ok(place) = slots.binary_search(&slot) {
                    slots.remove(place);
                }
                slots.is_empty()
            }
        }
    }
}
