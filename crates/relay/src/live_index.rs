//! The live-subscription index: from a new event to the subscriptions it belongs to.
//!
//! Each filter is registered under the values of its most selective field, as a posting in an
//! inverted index of filters. An event looks up its own values there and asks only the filters it
//! finds: what a subscription costs an event that it does not want is nothing. The idea is strfry's;
//! two things are added. Filters of few kinds are registered by value and kind together, because one
//! author's reactions are of no interest to the thousands who follow the notes. And a posting that
//! says all there is in its filter is not asked again: looking for the author in each of a thousand
//! follow lists would cost more than all the rest.

use std::{cmp::Reverse, hash::BuildHasher, sync::Arc};

use foldhash::quality::FixedState;
use hashbrown::{HashMap, HashTable, hash_table::Entry};
use hikyaku_event::{
    Event, EventId, Filter, Kind, PublicKey, Tag, TagCondition, TagName, Timestamp,
};

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
    /// Another function of the same values, for the second half of a [`TermHash`].
    second_hasher: FixedState,
    listeners: HashMap<ListenerKey, Slot, FixedState>,
    slots: Vec<Option<Listener>>,
    free: Vec<Slot>,
    postings: HashTable<(TermHash, Postings)>,
    /// How many filters are registered under tags of each letter: an event's tags of other letters
    /// need not be looked up.
    tag_filters: [u32; 128],
    /// The same of longer names.
    word_filters: HashMap<String, u32, FixedState>,
    /// The number of the event being matched: a listener that has it was found already.
    round: u64,
    /// The terms of the event being matched.
    terms: Vec<TermHash>,
}

/// The place of a listener in `slots`.
type Slot = u32;

/// What stands for a term: 128 bits, of which no two terms share all.
type TermHash = (u64, u64);

#[derive(Debug)]
struct Listener {
    key: ListenerKey,
    filters: Arc<[Filter]>,
    /// The earliest and the latest `created_at` of all its filters, if they agree.
    times: Option<(Timestamp, Timestamp)>,
    round: u64,
}

/// A listener under a term, and whether an event with the term needs nothing more than the right
/// time to match it: the slot, and that as the lowest bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Posting(u32);

/// The postings of one term, ascending, one per listener; most terms have one.
#[derive(Debug)]
enum Postings {
    One(Posting),
    Many(Vec<Posting>),
}

/// What filters are registered under.
#[derive(Hash)]
enum Term<'a> {
    Id(&'a EventId),
    Author(&'a PublicKey, Option<Kind>),
    Tag(u8, &'a str, Option<Kind>),
    /// A tag of a longer name.
    Word(&'a str, &'a str, Option<Kind>),
    Kind(Kind),
    /// Filters without any condition but time.
    Any,
}

impl<'a> Term<'a> {
    fn tag(name: &'a TagName, value: &'a str, kind: Option<Kind>) -> Self {
        match name.letter() {
            Some(letter) => Self::Tag(letter, value, kind),
            None => Self::Word(name.as_str(), value, kind),
        }
    }
}

impl LiveIndex {
    /// Creates an empty index. `seed` must not be known to clients: it keeps them from choosing
    /// values that collide.
    pub fn new(seed: u64) -> Self {
        let hasher = FixedState::with_seed(seed);
        Self {
            listeners: HashMap::with_hasher(hasher.clone()),
            second_hasher: FixedState::with_seed(hasher.hash_one(seed)),
            word_filters: HashMap::with_hasher(hasher.clone()),
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
        for (term, decides) in self.filter_terms(&filters) {
            let posting = Posting::new(slot, decides);
            let found = |(known, _): &(TermHash, Postings)| *known == term;
            match self.postings.entry(term.0, found, |(term, _)| term.0) {
                Entry::Occupied(mut entry) => entry.get_mut().1.insert(posting),
                Entry::Vacant(entry) => {
                    entry.insert((term, Postings::One(posting)));
                }
            }
        }
        self.count_tag_filters(&filters, |count| *count += 1);
        self.listeners.insert(key, slot);
        if let Some(place) = self.slots.get_mut(slot as usize) {
            *place = Some(Listener {
                key,
                times: common_times(&filters),
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
        for (term, _) in self.filter_terms(&listener.filters) {
            if let Ok(mut entry) = self
                .postings
                .find_entry(term.0, |(known, _)| *known == term)
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
        for term in terms.drain(..) {
            let Some((_, postings)) = self.postings.find(term.0, |(known, _)| *known == term)
            else {
                continue;
            };
            for posting in postings.as_slice() {
                let Some(Some(listener)) = self.slots.get_mut(posting.slot() as usize) else {
                    continue;
                };
                if listener.round != self.round {
                    listener.round = self.round;
                    if listener.wants(event, posting.decides()) {
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

    fn hash(&self, term: &Term<'_>) -> TermHash {
        (
            self.hasher.hash_one(term),
            self.second_hasher.hash_one(term),
        )
    }

    /// Returns the terms that these filters are registered under, ascending, each once, and whether
    /// having it decides that an event is wanted, time aside.
    fn filter_terms(&self, filters: &[Filter]) -> Vec<(TermHash, bool)> {
        let mut terms = Vec::new();
        for filter in filters.iter().filter(|filter| !filter.matches_nothing()) {
            self.push_filter_terms(filter, &mut terms);
        }
        // Of two filters under one term it is enough if one is decided by it.
        terms.sort_unstable_by_key(|(term, decides)| (*term, Reverse(*decides)));
        terms.dedup_by_key(|(term, _)| *term);
        terms
    }

    fn push_filter_terms(&self, filter: &Filter, terms: &mut Vec<(TermHash, bool)>) {
        let paired = filter
            .kinds
            .as_deref()
            .filter(|kinds| kinds.len() <= PAIRED_KINDS_MAX);
        let by_kind_too = filter.kinds.is_none() || paired.is_some();
        let mut push = |term: Term<'_>, decides| terms.push((self.hash(&term), decides));
        if let Some(ids) = &filter.ids {
            let decides =
                filter.authors.is_none() && filter.kinds.is_none() && filter.tags.is_empty();
            for id in ids {
                push(Term::Id(id), decides);
            }
        } else if let Some(authors) = &filter.authors {
            let decides = by_kind_too && filter.tags.is_empty();
            for author in authors {
                for_kinds(paired, |kind| push(Term::Author(author, kind), decides));
            }
        } else if let Some(tag) = chosen_tag(filter) {
            let decides = by_kind_too && filter.tags.len() == 1;
            for value in &tag.values {
                for_kinds(paired, |kind| {
                    push(Term::tag(&tag.name, value, kind), decides);
                });
            }
        } else if let Some(kinds) = &filter.kinds {
            for kind in kinds {
                push(Term::Kind(*kind), true);
            }
        } else {
            push(Term::Any, true);
        }
    }

    /// Collects the terms whose filters may want this event, each once: a tag that an event repeats
    /// a thousand times is looked up once.
    fn event_terms(&self, event: &Event, terms: &mut Vec<TermHash>) {
        let kind = event.kind();
        let mut push = |term: Term<'_>| terms.push(self.hash(&term));
        push(Term::Id(&event.id()));
        push(Term::Author(&event.pubkey(), None));
        push(Term::Author(&event.pubkey(), Some(kind)));
        push(Term::Kind(kind));
        push(Term::Any);
        for tag in event.tags() {
            let Some(letter) = tag.letter() else {
                if !self.word_filters.is_empty() {
                    self.word_terms(tag, kind, &mut push);
                }
                continue;
            };
            let filters = self.tag_filters.get(usize::from(letter));
            if filters.is_none_or(|count| *count == 0) {
                continue;
            }
            if let Some(value) = tag.value() {
                push(Term::Tag(letter, &value, None));
                push(Term::Tag(letter, &value, Some(kind)));
            }
        }
        terms.sort_unstable();
        terms.dedup();
    }

    /// Collects the terms of a tag with a longer name, if a filter asks for such tags.
    fn word_terms(&self, tag: Tag<'_>, kind: Kind, push: &mut impl FnMut(Term<'_>)) {
        let name = tag.name();
        if self.word_filters.contains_key(&*name)
            && let Some(value) = tag.value()
        {
            push(Term::Word(&name, &value, None));
            push(Term::Word(&name, &value, Some(kind)));
        }
    }

    fn count_tag_filters(&mut self, filters: &[Filter], change: impl Fn(&mut u32)) {
        for filter in filters.iter().filter(|filter| !filter.matches_nothing()) {
            if filter.ids.is_some() || filter.authors.is_some() {
                continue;
            }
            let Some(tag) = chosen_tag(filter) else {
                continue;
            };
            if let Some(letter) = tag.name.letter() {
                self.tag_filters
                    .get_mut(usize::from(letter))
                    .into_iter()
                    .for_each(&change);
            } else {
                let name = self.word_filters.entry_ref(tag.name.as_str());
                let mut count = name.or_default_entry();
                change(count.get_mut());
                if *count.get() == 0 {
                    count.remove();
                }
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
    let selectivity = |name: &TagName| match name.letter() {
        Some(b'e' | b'E' | b'a' | b'A' | b'q' | b'i' | b'I' | b'x') => 2,
        Some(b'p' | b'P' | b'd' | b'h' | b'r') => 1,
        _ => 0,
    };
    filter
        .tags
        .iter()
        .min_by_key(|tag| (Reverse(selectivity(&tag.name)), tag.values.len()))
}

/// Returns the time range that all filters share, if they do.
fn common_times(filters: &[Filter]) -> Option<(Timestamp, Timestamp)> {
    let mut times = filters.iter().map(|filter| {
        (
            filter.since.unwrap_or(Timestamp::MIN),
            filter.until.unwrap_or(Timestamp::MAX),
        )
    });
    let first = times.next()?;
    times.all(|other| other == first).then_some(first)
}

impl Listener {
    /// Tells whether one of the filters matches; `decided` if it is down to the time.
    fn wants(&self, event: &Event, decided: bool) -> bool {
        match self.times {
            Some((since, until)) if decided => (since..=until).contains(&event.created_at()),
            _ => self.filters.iter().any(|filter| filter.matches(event)),
        }
    }
}

impl Posting {
    const fn new(slot: Slot, decides: bool) -> Self {
        Self(slot << 1 | decides as u32)
    }

    const fn slot(self) -> Slot {
        self.0 >> 1
    }

    const fn decides(self) -> bool {
        self.0 & 1 == 1
    }
}

impl Postings {
    fn as_slice(&self) -> &[Posting] {
        match self {
            Self::One(posting) => std::slice::from_ref(posting),
            Self::Many(postings) => postings,
        }
    }

    /// Adds a listener that is not there yet.
    fn insert(&mut self, posting: Posting) {
        match self {
            Self::One(only) => *self = Self::Many(vec![posting.min(*only), posting.max(*only)]),
            Self::Many(postings) => {
                let place = postings.partition_point(|other| *other < posting);
                postings.insert(place, posting);
            }
        }
    }

    /// Removes a listener; tells whether none is left.
    fn remove(&mut self, slot: Slot) -> bool {
        match self {
            Self::One(only) => only.slot() == slot,
            Self::Many(postings) => {
                if let Ok(place) = postings.binary_search_by_key(&slot, |posting| posting.slot()) {
                    postings.remove(place);
                }
                postings.is_empty()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removing_every_subscription_leaves_nothing_behind() {
        let filters = [
            r#"{"ids":["0000000000000000000000000000000000000000000000000000000000000001"]}"#,
            r#"{"authors":["0000000000000000000000000000000000000000000000000000000000000001"]}"#,
            r##"{"#t":["a","b"],"#e":["c"],"kinds":[1,2]}"##,
            r##"{"#t":["a"]}"##,
            r##"{"#title":["a"]}"##,
            r#"{"kinds":[1,2,3,4,5]}"#,
            r#"{"kinds":[]}"#,
            r#"{"since":1}"#,
        ]
        .map(|json| Filter::parse(json.as_bytes()).unwrap());
        let key = |number| ListenerKey {
            connection: number,
            subscription: SubscriptionKey(0),
        };
        let mut index = LiveIndex::new(1);
        for number in 0..10 {
            index.insert(key(number), filters.to_vec().into());
            index.insert(key(number), filters.to_vec().into());
        }
        assert_eq!(index.len(), 10);
        for number in (0..10).rev() {
            index.remove(key(number));
            index.remove(key(number));
        }
        assert!(index.is_empty());
        assert!(index.postings.is_empty());
        assert!(index.slots.iter().all(Option::is_none));
        assert_eq!(index.free.len(), index.slots.len());
        assert_eq!(index.tag_filters, [0; 128]);
        assert!(index.word_filters.is_empty());
    }

    #[test]
    fn of_several_tags_the_most_selective_is_chosen() {
        let chosen = |json: &str| {
            let filter = Filter::parse(json.as_bytes()).unwrap();
            chosen_tag(&filter).map(|tag| tag.name.to_string())
        };
        assert_eq!(chosen("{}"), None);
        assert_eq!(
            chosen(r##"{"#t":["a"],"#p":["b","c"]}"##),
            Some("p".to_owned())
        );
        assert_eq!(
            chosen(r##"{"#p":["b"],"#e":["c","d"]}"##),
            Some("e".to_owned())
        );
        assert_eq!(
            chosen(r##"{"#t":["a","b"],"#l":["c"]}"##),
            Some("l".to_owned())
        );
    }
}
