//! Random histories: events of few authors, kinds, times and tags, so that they replace, delete,
//! vanish and double each other all the time, and random questions about them.

use std::sync::Arc;

use hikyaku_event::{
    Address, Event, EventId, Filter, Kind, TagCondition, TagName, Timestamp,
    testing::{Author, EventBuilder},
};

use super::Dice;
use crate::{Hider, Key, KeyRange, LimitPolicy, Query, Reader, RemovalReason, Write, rules};

const EVENTS: usize = 150;
const AUTHORS: usize = 4;
/// Events are from seconds 0 to this; what happens to them is later.
const TIMES: usize = 30;
const START: Timestamp = 1_000;
/// Expirations fall into so many seconds from the start, over which the history plays.
const EXPIRES_WITHIN: usize = 60;
/// As often as they shall come.
const KINDS: [u16; 24] = [
    0, 0, 1, 1, 1, 1, 3, 4, 4, 5, 5, 5, 5, 7, 62, 1059, 1059, 1059, 10_002, 20_001, 30_023, 30_023,
    30_023, 30_024,
];
const WORDS: [&str; 6] = ["", "x", "y", "X", "a\"\\\n", "\u{1f600}"];

/// A tag's name that is no letter: a store may have it indexed.
pub const LONG_NAME: &str = "title";

/// A history: what may be written, and what the time is.
#[derive(Debug, Clone)]
pub struct History {
    /// The chance that all of it follows from; a test may take from it too.
    pub dice: Dice,
    /// The current time.
    pub now: Timestamp,
    authors: Vec<Author>,
    /// Written in any order and again and again, so that deletions come before and after what they
    /// name.
    events: Vec<Arc<Event>>,
    written: Vec<EventId>,
    /// Whether there are tags of longer names too, and questions about them: not every store has them
    /// indexed.
    long_names: bool,
}

impl History {
    /// Makes the events of this seed.
    pub fn new(seed: u64) -> Self {
        Self::of(seed, EVENTS)
    }

    /// Makes the events of this seed, for a store that has [`LONG_NAME`] indexed.
    pub fn with_long_names(seed: u64) -> Self {
        Self::make(seed, EVENTS, true)
    }

    /// Makes so many events of this seed; fewer are sooner signed.
    pub fn of(seed: u64, events: usize) -> Self {
        Self::make(seed, events, false)
    }

    fn make(seed: u64, events: usize, long_names: bool) -> Self {
        let mut history = Self {
            dice: Dice::new(seed),
            now: START,
            authors: (0..AUTHORS as u64).map(Author::new).collect(),
            events: Vec::with_capacity(events),
            written: Vec::new(),
            long_names,
        };
        for _ in 0..events {
            let event = history.event();
            history.events.push(event);
        }
        history
    }

    /// Returns the ids of all events, written or not.
    pub fn ids(&self) -> Vec<EventId> {
        self.events.iter().map(|event| event.id()).collect()
    }

    fn event(&mut self) -> Arc<Event> {
        let kind = *self.dice.pick(&KINDS);
        let author = self.author();
        // Requests to vanish are old, or hardly anything would stay.
        let times = if kind == 62 { TIMES / 3 } else { TIMES };
        let mut event = EventBuilder::new(kind).created_at(self.dice.below(times) as u64);
        if self.dice.chance(60) {
            event = event.tag(["d", self.word()]);
        }
        for name in ["t", "T", "e", "p", "p", LONG_NAME] {
            if self.has(name) && self.dice.chance(if name == "p" { 40 } else { 25 }) {
                event = event.tag([name.to_owned(), self.value(name)]);
            }
        }
        if self.dice.chance(10) {
            let at = START + self.dice.below(EXPIRES_WITHIN) as u64;
            event = event.tag(["expiration", &at.to_string()]);
        }
        event = event.content(&self.dice.below(50).to_string());
        if kind == 5 {
            return self.deletion(event, author);
        }
        Arc::new(event.sign(&author))
    }

    /// Makes a deletion of earlier events: mostly of its author's own, by id or by address.
    fn deletion(&mut self, mut event: EventBuilder, author: Author) -> Arc<Event> {
        for _ in 0..=self.dice.below(3) {
            let (own, by_address) = (self.dice.chance(70), self.dice.chance(40));
            let targets: Vec<_> = self
                .events
                .iter()
                .filter(|target| !own || rules::deleters(target).contains(&author.pubkey()))
                .filter(|target| !by_address || target.address().is_some())
                .cloned()
                .collect();
            if targets.is_empty() {
                continue;
            }
            let target = self.dice.pick(&targets);
            event = match target.address() {
                Some(Address { kind, pubkey, d }) if by_address => {
                    event.tag(["a", &format!("{}:{pubkey}:{d}", kind.0)])
                }
                _ => event.tag(["e", &target.id().to_hex()]),
            };
        }
        Arc::new(event.sign(&author))
    }

    fn author(&mut self) -> Author {
        self.dice.pick(&self.authors).clone()
    }

    fn word(&mut self) -> &'static str {
        let word: &&str = self.dice.pick(&WORDS);
        word
    }

    fn has(&self, name: &str) -> bool {
        self.long_names || name != LONG_NAME
    }

    /// Returns a value that tags of this name have.
    fn value(&mut self, name: &str) -> String {
        match name {
            "p" if self.dice.chance(90) => self.author().pubkey().to_hex(),
            "e" if !self.events.is_empty() && self.dice.chance(90) => self.id().to_hex(),
            _ => self.word().to_owned(),
        }
    }

    fn id(&mut self) -> EventId {
        self.dice.pick(&self.events).id()
    }

    /// Returns the next batch of writes.
    pub fn batch(&mut self) -> Vec<Write> {
        let len = self.dice.below(12);
        (0..len).map(|_| self.write()).collect()
    }

    fn write(&mut self) -> Write {
        let by = Hider(self.dice.below(2) as u32);
        let id = if self.written.is_empty() {
            self.id()
        } else {
            *self.dice.pick(&self.written)
        };
        match self.dice.below(20) {
            0 => Write::Remove {
                id,
                reason: RemovalReason::Operator,
            },
            1 | 2 => Write::Hide { id, by },
            3 => Write::Unhide { id, by },
            _ => {
                let event = self.dice.pick(&self.events).clone();
                self.written.push(event.id());
                let vanish = self.dice.chance(75);
                Write::Event { event, vanish }
            }
        }
    }

    /// Returns a query; `now` is mostly the current time, sometimes later.
    pub(super) fn query(&mut self) -> Query {
        let limits = [
            LimitPolicy::UNLIMITED,
            LimitPolicy {
                default: 500,
                max: 500,
            },
            LimitPolicy { default: 3, max: 5 },
            LimitPolicy { default: 5, max: 3 },
            LimitPolicy { default: 1, max: 1 },
        ];
        let filters = *self.dice.pick(&[0, 1, 1, 1, 1, 2, 2, 3]);
        Query {
            filters: (0..filters).map(|_| self.filter()).collect(),
            reader: self.reader(),
            limits: *self.dice.pick(&limits),
            now: self.time(),
        }
    }

    /// Returns the current time, or now and then a later one.
    pub(super) fn time(&mut self) -> Timestamp {
        let ahead = if self.dice.chance(20) {
            self.dice.below(EXPIRES_WITHIN)
        } else {
            0
        };
        self.now + ahead as u64
    }

    pub(super) fn reader(&mut self) -> Reader {
        match self.dice.below(4) {
            0 => Reader::anonymous(),
            1 => Reader::operator(),
            _ => {
                let keys = (0..=self.dice.below(2)).map(|_| self.author().pubkey());
                Reader::authenticated(keys.collect::<Vec<_>>())
            }
        }
    }

    pub(super) fn filter(&mut self) -> Filter {
        let mut filter = Filter::default();
        if self.dice.chance(10) {
            let ids = self.dice.below(20);
            filter.ids = Some((0..ids).map(|_| self.id()).collect());
        }
        if self.dice.chance(30) {
            let authors = self.len(AUTHORS);
            filter.authors = Some((0..authors).map(|_| self.author().pubkey()).collect());
        }
        if self.dice.chance(30) {
            let kinds = self.len(8);
            filter.kinds = Some((0..kinds).map(|_| Kind(*self.dice.pick(&KINDS))).collect());
        }
        for name in ["T", "d", "e", "p", "t", LONG_NAME] {
            if self.has(name) && self.dice.chance(8) {
                let values = self.len(4);
                filter
                    .tags
                    .extend(TagName::new(name).map(|tag| TagCondition {
                        name: tag,
                        values: (0..values).map(|_| self.value(name)).collect(),
                    }));
            }
        }
        if self.dice.chance(15) {
            filter.since = Some(self.dice.below(TIMES) as u64);
        }
        if self.dice.chance(15) {
            filter.until = Some(self.dice.below(TIMES) as u64);
        }
        if self.dice.chance(50) {
            filter.limit = Some(*self.dice.pick(&[0, 1, 2, 3, 4, 6, 10, 500, u64::MAX]));
        }
        filter.sorted()
    }

    /// Returns the length of a list in a filter: now and then it is empty.
    fn len(&mut self, max: usize) -> usize {
        if self.dice.chance(4) {
            0
        } else {
            1 + self.dice.below(max)
        }
    }

    pub(super) fn range(&mut self) -> KeyRange {
        KeyRange {
            from: self.bound(),
            to: self.bound(),
            backward: self.dice.chance(50),
        }
    }

    fn bound(&mut self) -> Option<Key> {
        let event = self.dice.pick(&self.events).clone();
        let created_at = match self.dice.below(4) {
            0 => return None,
            1 => self.dice.below(TIMES) as u64,
            _ => event.created_at(),
        };
        let id = event.id();
        Some(Key { created_at, id })
    }

    /// Lets some time pass.
    pub fn pass_time(&mut self) {
        self.now += self.dice.below(4) as u64;
    }
}
