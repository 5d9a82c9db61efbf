//! Deciding one commit: what each write does, given the store and the writes before it.
//!
//! A batch works on copies of the parts' tombstones, which cost a pointer each until touched, so
//! that a commit that the log refuses is forgotten by dropping the batch.

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use hikyaku_event::{Address, Event, EventId, Kind, PublicKey, Timestamp};
use hikyaku_store::{
    Hider, Key, Outcome, RemovalReason, Sequence, Write,
    rules::{self, Decision, Effect, Facts, Version},
};

use crate::{
    error::EngineError,
    log::{LogPosition, Record},
    segment::{DocId, Document, Term, TermHasher},
    snapshot::{Part, Snapshot},
};

/// An event that this commit stores.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) event: Arc<Event>,
    pub(crate) vanish: bool,
    pub(crate) sequence: Sequence,
    /// Where its record will be, once the log has taken it.
    pub(crate) position: LogPosition,
    pub(crate) removed: bool,
}

/// A removal in some log file, for the file's statistics.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Loss {
    /// The file; `None` is the one that this commit goes to.
    pub(crate) log_file: Option<u32>,
    pub(crate) reason: RemovalReason,
}

/// What has been decided so far.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    hasher: &'a TermHasher,
    /// The store's parts, with this batch's tombstones in them.
    pub(crate) view: Snapshot,
    /// Who hides what, before this batch.
    hiders_before: &'a HashMap<Sequence, Vec<Hider>, FixedState>,
    /// The same for what this batch touched.
    pub(crate) hiders: HashMap<Sequence, Vec<Hider>, FixedState>,
    pub(crate) pending: Vec<Pending>,
    pub(crate) records: Vec<(Record, Sequence)>,
    pub(crate) losses: Vec<Loss>,
    by_id: HashMap<EventId, usize, FixedState>,
    /// Addresses, deletions and requests to vanish among `pending`.
    by_term: HashMap<Term, Vec<usize>, FixedState>,
    next_sequence: Sequence,
}

/// Where a stored document is.
#[derive(Debug, Clone, Copy)]
enum Place {
    Part(usize, DocId),
    Pending(usize),
}

impl<'a> Batch<'a> {
    pub(crate) fn new(
        view: Snapshot,
        hasher: &'a TermHasher,
        hiders: &'a HashMap<Sequence, Vec<Hider>, FixedState>,
        next_sequence: Sequence,
    ) -> Self {
        Self {
            hasher,
            view,
            hiders_before: hiders,
            hiders: HashMap::default(),
            pending: Vec::new(),
            records: Vec::new(),
            losses: Vec::new(),
            by_id: HashMap::default(),
            by_term: HashMap::default(),
            next_sequence,
        }
    }

    /// Decides one write.
    pub(crate) fn write(&mut self, write: &Write, now: Timestamp) -> Result<Outcome, EngineError> {
        match write {
            Write::Event { event, vanish } => self.event(event, *vanish, now),
            Write::Remove { id, reason } => match self.find(id)? {
                Some(place) => {
                    self.remove(&[place], *reason)?;
                    Ok(Outcome::Done)
                }
                None => Ok(Outcome::Absent),
            },
            Write::Hide { id, by } => self.hide(id, *by),
            Write::Unhide { id, by } => self.unhide(id, *by),
        }
    }

    /// Removes what a sweep takes at `now`; returns how many.
    pub(crate) fn sweep(&mut self, now: Timestamp) -> Result<u64, EngineError> {
        let mut expired = Vec::new();
        for (number, part) in self.view.parts.iter().enumerate() {
            let Some(list) = part.segment.term(self.hasher.expiring())? else {
                continue;
            };
            for index in 0..list.len {
                let doc = part.segment.posting(list, index)?;
                let kind = part.segment.kind(doc)?;
                let request = matches!(kind, Kind::DELETION | Kind::VANISH);
                if !request && part.is_stored(doc) && part.is_expired(doc, now)? {
                    expired.push(Place::Part(number, doc));
                }
            }
        }
        self.remove(&expired, RemovalReason::Expired)?;
        Ok(expired.len() as u64)
    }

    fn event(
        &mut self,
        event: &Arc<Event>,
        vanish: bool,
        now: Timestamp,
    ) -> Result<Outcome, EngineError> {
        let address = event.address();
        let facts = self.facts(event, address.as_ref())?;
        match rules::decide(event, &facts, now) {
            Decision::Duplicate => return Ok(Outcome::Duplicate),
            Decision::Superseded => return Ok(Outcome::Superseded),
            Decision::Refuse(refusal) => return Ok(Outcome::Refused(refusal)),
            Decision::Store => {}
        }
        let older = match &address {
            Some(address) => self.stored_with(self.hasher.address(address))?,
            None => Vec::new(),
        };
        let sequence = self.add(event, vanish, address.as_ref());
        self.remove(&older, RemovalReason::Replaced)?;
        match rules::effect(event, vanish) {
            Effect::None => {}
            Effect::Delete(targets) => {
                let mut places = Vec::new();
                for id in &targets.ids {
                    if let Some(place) = self.find(id)?
                        && rules::may_delete(event, &*self.event_at(place)?)
                    {
                        places.push(place);
                    }
                }
                for address in &targets.addresses {
                    for place in self.stored_with(self.hasher.address(address))? {
                        if self.created_at(place)? <= event.created_at() {
                            places.push(place);
                        }
                    }
                }
                self.remove(&places, RemovalReason::Deleted)?;
            }
            Effect::Vanish { key, until } => {
                let places = self.reach_of_vanish(&key, until)?;
                self.remove(&places, RemovalReason::Vanished)?;
            }
        }
        Ok(Outcome::Stored(sequence))
    }

    fn facts(&self, event: &Event, address: Option<&Address>) -> Result<Facts, EngineError> {
        let mut facts = Facts {
            stored: self.find(&event.id())?.is_some(),
            ..Facts::default()
        };
        if facts.stored {
            return Ok(facts);
        }
        if let Some(address) = address {
            facts.newest_version = self.newest(self.hasher.address(address), |_| true)?;
            let deletes = self.hasher.deletes_address(&event.pubkey(), address);
            facts.address_deleted_until = self
                .newest(deletes, |part| part.has_deletions)?
                .map(|version| version.created_at);
        }
        for key in rules::deleters(event) {
            let deletes = self.hasher.deletes_id(&key, &event.id());
            facts.deleted_by_id |= self.newest(deletes, |part| part.has_deletions)?.is_some();
            let vanished = self
                .newest(self.hasher.vanish(&key), |part| part.has_vanishes)?
                .map(|version| version.created_at);
            facts.vanished_until = facts.vanished_until.max(vanished);
        }
        Ok(facts)
    }

    /// Adds an event to the commit.
    fn add(&mut self, event: &Arc<Event>, vanish: bool, address: Option<&Address>) -> Sequence {
        let sequence = self.take_sequence();
        let number = self.pending.len();
        self.by_id.insert(event.id(), number);
        let mut terms: Vec<Term> = Vec::new();
        terms.extend(address.map(|address| self.hasher.address(address)));
        match rules::effect(event, vanish) {
            Effect::None => {}
            Effect::Delete(targets) => {
                let key = event.pubkey();
                terms.extend(
                    targets
                        .ids
                        .iter()
                        .map(|id| self.hasher.deletes_id(&key, id)),
                );
                let addresses = targets.addresses.iter();
                terms.extend(addresses.map(|address| self.hasher.deletes_address(&key, address)));
            }
            Effect::Vanish { key, .. } => terms.push(self.hasher.vanish(&key)),
        }
        for term in terms {
            self.by_term.entry(term).or_default().push(number);
        }
        self.records.push((
            Record::Event {
                vanish,
                json: event.json().clone(),
            },
            sequence,
        ));
        self.pending.push(Pending {
            event: event.clone(),
            vanish,
            sequence,
            position: LogPosition::default(),
            removed: false,
        });
        sequence
    }

    fn take_sequence(&mut self) -> Sequence {
        let sequence = self.next_sequence;
        self.next_sequence.0 += 1;
        sequence
    }

    /// Returns the first sequence that this batch has not used.
    pub(crate) fn next_sequence(&self) -> Sequence {
        self.next_sequence
    }

    /// Finds a stored event by its id.
    fn find(&self, id: &EventId) -> Result<Option<Place>, EngineError> {
        if let Some(&number) = self.by_id.get(id)
            && self
                .pending
                .get(number)
                .is_some_and(|pending| !pending.removed)
        {
            return Ok(Some(Place::Pending(number)));
        }
        for (number, part) in self.view.parts.iter().enumerate() {
            if let Some(doc) = part.find_stored(id)? {
                return Ok(Some(Place::Part(number, doc)));
            }
        }
        Ok(None)
    }

    /// Returns the newest stored event with a term, in the order of versions.
    fn newest(
        &self,
        term: Term,
        may_have: impl Fn(&Part) -> bool,
    ) -> Result<Option<Version>, EngineError> {
        let mut newest: Option<Version> = None;
        let mut consider = |version: Version| {
            if newest.is_none_or(|newest| version.supersedes(&newest)) {
                newest = Some(version);
            }
        };
        for part in self.view.parts.iter().filter(|part| may_have(part)) {
            let Some(list) = part.segment.term(term)? else {
                continue;
            };
            for index in 0..list.len {
                let doc = part.segment.posting(list, index)?;
                if part.is_stored(doc) {
                    let key = part.segment.key(doc)?;
                    consider(Version {
                        created_at: key.created_at,
                        id: key.id,
                    });
                    break;
                }
            }
        }
        for &number in self.by_term.get(&term).into_iter().flatten() {
            if let Some(pending) = self.pending.get(number).filter(|pending| !pending.removed) {
                consider(Version::of(&pending.event));
            }
        }
        Ok(newest)
    }

    /// Returns all stored events with a term.
    fn stored_with(&self, term: Term) -> Result<Vec<Place>, EngineError> {
        let mut places = Vec::new();
        for (number, part) in self.view.parts.iter().enumerate() {
            let Some(list) = part.segment.term(term)? else {
                continue;
            };
            for index in 0..list.len {
                let doc = part.segment.posting(list, index)?;
                if part.is_stored(doc) {
                    places.push(Place::Part(number, doc));
                }
            }
        }
        for &number in self.by_term.get(&term).into_iter().flatten() {
            if self
                .pending
                .get(number)
                .is_some_and(|pending| !pending.removed)
            {
                places.push(Place::Pending(number));
            }
        }
        Ok(places)
    }

    /// Returns what a request to vanish removes (NIP-62).
    fn reach_of_vanish(
        &self,
        key: &PublicKey,
        until: Timestamp,
    ) -> Result<Vec<Place>, EngineError> {
        let mut places = Vec::new();
        let wrapped = self.hasher.tag(b'p', key.to_hex().as_bytes());
        for (number, part) in self.view.parts.iter().enumerate() {
            let segment = &*part.segment;
            let start = segment.first_not_newer_than(until)?;
            for (term, wraps) in [(self.hasher.author(key), false), (wrapped, true)] {
                let Some(list) = segment.term(term)? else {
                    continue;
                };
                for index in segment.seek(list, 0, start)?..list.len {
                    let doc = segment.posting(list, index)?;
                    let kind = segment.kind(doc)?;
                    let reached = if wraps {
                        kind == Kind::GIFT_WRAP
                    } else {
                        kind != Kind::VANISH
                    };
                    if reached && part.is_stored(doc) {
                        places.push(Place::Part(number, doc));
                    }
                }
            }
        }
        for (number, pending) in self.pending.iter().enumerate() {
            let event = &pending.event;
            if !pending.removed
                && event.created_at() <= until
                && event.kind() != Kind::VANISH
                && rules::deleters(event).contains(key)
            {
                places.push(Place::Pending(number));
            }
        }
        Ok(places)
    }

    fn created_at(&self, place: Place) -> Result<Timestamp, EngineError> {
        Ok(match place {
            Place::Part(number, doc) => match self.view.parts.get(number) {
                Some(part) => part.segment.created_at(doc)?,
                None => 0,
            },
            Place::Pending(number) => self
                .pending
                .get(number)
                .map_or(0, |pending| pending.event.created_at()),
        })
    }

    fn event_at(&self, place: Place) -> Result<Arc<Event>, EngineError> {
        let found = match place {
            Place::Part(number, doc) => match self.view.parts.get(number) {
                Some(part) => Some(Arc::new(self.view.event(part, doc)?)),
                None => None,
            },
            Place::Pending(number) => self
                .pending
                .get(number)
                .map(|pending| pending.event.clone()),
        };
        found.ok_or_else(|| EngineError::Corrupt("a document's place is not in the store".into()))
    }

    /// Sets tombstones, and notes them for the log.
    fn remove(&mut self, places: &[Place], reason: RemovalReason) -> Result<(), EngineError> {
        let mut targets = Vec::with_capacity(places.len());
        for &place in places {
            let (sequence, log_file, fresh) = match place {
                Place::Part(number, doc) => {
                    let Some(part) = self.view.parts.get_mut(number) else {
                        continue;
                    };
                    let sequence = part.segment.sequence(doc)?;
                    let position = LogPosition::from_u64(part.segment.position(doc)?);
                    (
                        sequence,
                        Some(position.file),
                        Arc::make_mut(part).remove(doc),
                    )
                }
                Place::Pending(number) => {
                    let Some(pending) = self.pending.get_mut(number) else {
                        continue;
                    };
                    let fresh = !std::mem::replace(&mut pending.removed, true);
                    (pending.sequence, None, fresh)
                }
            };
            if fresh {
                targets.push(sequence);
                self.losses.push(Loss { log_file, reason });
            }
        }
        if !targets.is_empty() {
            targets.sort_unstable();
            let sequence = self.take_sequence();
            self.records
                .push((Record::Removed { reason, targets }, sequence));
        }
        Ok(())
    }

    fn hide(&mut self, id: &EventId, by: Hider) -> Result<Outcome, EngineError> {
        let Some(place) = self.find(id)? else {
            return Ok(Outcome::Absent);
        };
        let target = self.sequence_at(place)?;
        let mut hiders = self.hiders_of(target);
        if hiders.contains(&by) {
            return Ok(Outcome::Absent);
        }
        hiders.push(by);
        self.hiders.insert(target, hiders);
        self.set_hidden(place, true);
        let sequence = self.take_sequence();
        self.records.push((
            Record::Hidden {
                by,
                targets: vec![target],
            },
            sequence,
        ));
        Ok(Outcome::Done)
    }

    fn unhide(&mut self, id: &EventId, by: Hider) -> Result<Outcome, EngineError> {
        let Some(place) = self.find(id)? else {
            return Ok(Outcome::Absent);
        };
        let target = self.sequence_at(place)?;
        let mut hiders = self.hiders_of(target);
        if !hiders.contains(&by) {
            return Ok(Outcome::Absent);
        }
        hiders.retain(|hider| *hider != by);
        self.set_hidden(place, !hiders.is_empty());
        self.hiders.insert(target, hiders);
        let sequence = self.take_sequence();
        self.records.push((
            Record::Unhidden {
                by,
                targets: vec![target],
            },
            sequence,
        ));
        Ok(Outcome::Done)
    }

    fn hiders_of(&self, sequence: Sequence) -> Vec<Hider> {
        let known = self
            .hiders
            .get(&sequence)
            .or_else(|| self.hiders_before.get(&sequence));
        known.cloned().unwrap_or_default()
    }

    fn sequence_at(&self, place: Place) -> Result<Sequence, EngineError> {
        Ok(match place {
            Place::Part(number, doc) => match self.view.parts.get(number) {
                Some(part) => part.segment.sequence(doc)?,
                None => Sequence(0),
            },
            Place::Pending(number) => self
                .pending
                .get(number)
                .map_or(Sequence(0), |pending| pending.sequence),
        })
    }

    /// What is pending has no part yet: its hiding shows when its part is built.
    fn set_hidden(&mut self, place: Place, hidden: bool) {
        if let Place::Part(number, doc) = place
            && let Some(part) = self.view.parts.get_mut(number)
        {
            Arc::make_mut(part).set_hidden(doc, hidden);
        }
    }
}

impl Pending {
    /// Tells whether it is a request to vanish that is carried out here (NIP-62).
    pub(crate) fn is_carried_out_vanish(&self) -> bool {
        self.vanish && self.event.kind() == Kind::VANISH
    }

    /// Returns where the event stands in the order.
    pub(crate) fn key(&self) -> Key {
        Key {
            created_at: self.event.created_at(),
            id: self.event.id(),
        }
    }

    /// Makes the document for its segment.
    pub(crate) fn document(&self, hasher: &TermHasher) -> Document {
        let position = self.position.to_u64();
        Document::from_event(&self.event, self.vanish, self.sequence, position, hasher)
    }
}
