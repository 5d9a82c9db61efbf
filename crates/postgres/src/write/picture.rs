//! All that bears on a batch, in memory: what the database has of it, and what the batch has done so
//! far. The rules ask it, so a later element sees what an earlier one did.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use hikyaku_event::{Event, EventId, Kind, PublicKey, Timestamp};
use hikyaku_store::{
    CommittedEvent, Outcome, Sequence, Write,
    rules::{self, Decision, DeletionTargets, Effect, Facts, Version},
};

use crate::columns::{self, Word};

/// A stored event.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) seq: i64,
    pub(super) event: Arc<Event>,
    /// A kind 62 that was carried out.
    pub(super) vanish: bool,
    /// Who hides it. Of one in the database only known if the batch hides or unhides it.
    pub(super) hiders: BTreeSet<u32>,
    /// It is hidden in the database.
    pub(super) was_hidden: bool,
    /// More than its number decides whether it is seen.
    pub(super) conditional: bool,
    /// Since which number it can be seen again, if the batch takes its last hiding back.
    pub(super) shown_from: Option<i64>,
    /// It is not in the database yet.
    pub(super) is_new: bool,
}

/// A stored deletion of some target.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deletion {
    pub(super) pubkey: PublicKey,
    pub(super) created_at: Timestamp,
    pub(super) seq: i64,
}

/// A carried-out request to vanish.
#[derive(Debug, Clone, Copy)]
pub(super) struct Vanishing {
    pub(super) until: Timestamp,
    pub(super) seq: i64,
}

/// What is stored that bears on a batch, and what changes.
#[derive(Debug, Default)]
pub(super) struct Picture {
    rows: HashMap<EventId, Stored>,
    addresses: HashMap<Word, EventId>,
    deletions: HashMap<Word, Vec<Deletion>>,
    vanishings: HashMap<PublicKey, Vec<Vanishing>>,
    /// The last number given.
    pub(super) last: i64,
    /// The tags' index is made later: rows are not taken out of it until then.
    pub(super) indexes_deferred: bool,
    pub(super) changes: Changes,
}

/// What is to be changed in the database beside new events.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) removed: Vec<Stored>,
    /// Events of the database that somebody hides or unhides.
    pub(super) hidden_changed: BTreeSet<EventId>,
}

/// What one write came to.
pub(super) struct Step {
    pub(super) outcome: Outcome,
    pub(super) stored: Option<CommittedEvent>,
    /// The request to vanish to carry out before anything else.
    pub(super) vanish: Option<(PublicKey, Timestamp)>,
}

impl Picture {
    /// Adds what the database has.
    pub(super) fn add(&mut self, stored: Stored) {
        let id = stored.event.id();
        if let Some(address) = stored.event.address() {
            self.addresses.insert(Word(columns::address(&address)), id);
        }
        self.rows.insert(id, stored);
    }

    pub(super) fn add_deletion(&mut self, target: Word, deletion: Deletion) {
        self.deletions.entry(target).or_default().push(deletion);
    }

    pub(super) fn add_vanishing(&mut self, key: PublicKey, vanishing: Vanishing) {
        self.vanishings.entry(key).or_default().push(vanishing);
    }

    pub(super) fn add_hider(&mut self, id: EventId, hider: u32) {
        if let Some(row) = self.rows.get_mut(&id) {
            row.hiders.insert(hider);
        }
    }

    /// Returns the events that are to be added, in the order of their numbers.
    pub(super) fn new_events(&self) -> Vec<&Stored> {
        let mut new: Vec<_> = self.rows.values().filter(|row| row.is_new).collect();
        new.sort_unstable_by_key(|row| row.seq);
        new
    }

    /// Returns the events of the database whose hiders change.
    pub(super) fn hidden_changed(&self) -> impl Iterator<Item = &Stored> {
        let changed = self.changes.hidden_changed.iter();
        changed
            .filter_map(|id| self.rows.get(id))
            .filter(|row| !row.is_new)
    }

    /// Decides one write, and does it.
    pub(super) fn apply(&mut self, write: &Write, now: Timestamp) -> Step {
        let plain = |outcome| Step {
            outcome,
            stored: None,
            vanish: None,
        };
        match write {
            Write::Event { event, vanish } => self.store(event, *vanish, now),
            Write::Remove { id, .. } => plain(done_if(self.remove(*id))),
            Write::Hide { id, by } => plain(done_if(self.hide(*id, |hiders| hiders.insert(by.0)))),
            Write::Unhide { id, by } => {
                plain(done_if(self.hide(*id, |hiders| hiders.remove(&by.0))))
            }
        }
    }

    fn hide(&mut self, id: EventId, change: impl FnOnce(&mut BTreeSet<u32>) -> bool) -> bool {
        let Some(row) = self.rows.get_mut(&id) else {
            return false;
        };
        if !change(&mut row.hiders) {
            return false;
        }
        if row.was_hidden && row.hiders.is_empty() {
            // Queries that run do not see it: it comes back under a number of its own.
            self.last += 1;
            row.shown_from = Some(self.last);
            row.conditional = true;
        }
        self.changes.hidden_changed.insert(id);
        true
    }

    fn store(&mut self, event: &Arc<Event>, vanish: bool, now: Timestamp) -> Step {
        let outcome = match rules::decide(event, &self.facts(event), now) {
            Decision::Duplicate => Outcome::Duplicate,
            Decision::Superseded => Outcome::Superseded,
            Decision::Refuse(refusal) => Outcome::Refused(refusal),
            Decision::Store => return self.insert(event, vanish),
        };
        Step {
            outcome,
            stored: None,
            vanish: None,
        }
    }

    fn insert(&mut self, event: &Arc<Event>, vanish: bool) -> Step {
        let address = event
            .address()
            .map(|address| Word(columns::address(&address)));
        if let Some(older) = address.and_then(|address| self.addresses.get(&address)) {
            self.remove(*older);
        }
        let effect = rules::effect(event, vanish);
        self.last += 1;
        let seq = self.last;
        let mut request = None;
        match &effect {
            Effect::None => {}
            Effect::Delete(targets) => self.delete(event, targets),
            Effect::Vanish { key, until } => request = Some((*key, *until)),
        }
        self.remember(event, seq, &effect);
        self.add(Stored {
            seq,
            event: Arc::clone(event),
            vanish: request.is_some(),
            hiders: BTreeSet::new(),
            was_hidden: false,
            conditional: event.expires_at().is_some(),
            shown_from: None,
            is_new: true,
        });
        let sequence = Sequence(seq.unsigned_abs());
        Step {
            outcome: Outcome::Stored(sequence),
            stored: Some(CommittedEvent {
                sequence,
                event: Arc::clone(event),
            }),
            vanish: request,
        }
    }

    fn delete(&mut self, deletion: &Event, targets: &DeletionTargets) {
        let mut reached: Vec<EventId> = targets.ids.clone();
        for address in &targets.addresses {
            let version = self.addresses.get(&Word(columns::address(address)));
            let row = version.and_then(|id| self.rows.get(id));
            if let Some(row) = row
                && row.event.created_at() <= deletion.created_at()
            {
                reached.push(row.event.id());
            }
        }
        for id in reached {
            let may = |row: &Stored| rules::may_delete(deletion, &row.event);
            if self.rows.get(&id).is_some_and(may) {
                self.remove(id);
            }
        }
    }

    /// Keeps what a deletion or a request to vanish says about events to come.
    fn remember(&mut self, event: &Event, seq: i64, effect: &Effect) {
        let (pubkey, created_at) = (event.pubkey(), event.created_at());
        for target in targets(effect) {
            let deletion = Deletion {
                pubkey,
                created_at,
                seq,
            };
            self.add_deletion(target, deletion);
        }
        if let Effect::Vanish { key, until } = *effect {
            self.add_vanishing(key, Vanishing { until, seq });
        }
    }

    /// Removes an event, and with it what it says about others; tells whether it was there.
    fn remove(&mut self, id: EventId) -> bool {
        let Some(row) = self.rows.remove(&id) else {
            return false;
        };
        if let Some(address) = row.event.address() {
            let address = Word(columns::address(&address));
            if self.addresses.get(&address) == Some(&id) {
                self.addresses.remove(&address);
            }
        }
        match row.event.kind() {
            Kind::DELETION => {
                for deletions in self.deletions.values_mut() {
                    deletions.retain(|deletion| deletion.seq != row.seq);
                }
            }
            Kind::VANISH => {
                for vanishings in self.vanishings.values_mut() {
                    vanishings.retain(|vanishing| vanishing.seq != row.seq);
                }
            }
            _ => {}
        }
        if !row.is_new {
            self.changes.removed.push(row);
        }
        true
    }

    fn facts(&self, event: &Event) -> Facts {
        let deleters = rules::deleters(event);
        let address = event
            .address()
            .map(|address| Word(columns::address(&address)));
        let named = |target: Word| self.deletions.get(&target).into_iter().flatten();
        let version = address.and_then(|address| self.addresses.get(&address));
        Facts {
            stored: self.rows.contains_key(&event.id()),
            newest_version: version
                .and_then(|id| self.rows.get(id))
                .map(|row| Version::of(&row.event)),
            deleted_by_id: named(event.id().into())
                .any(|deletion| deleters.contains(&deletion.pubkey)),
            address_deleted_until: address
                .into_iter()
                .flat_map(named)
                .filter(|deletion| deletion.pubkey == event.pubkey())
                .map(|deletion| deletion.created_at)
                .max(),
            vanished_until: deleters
                .iter()
                .filter_map(|key| self.vanishings.get(key))
                .flatten()
                .map(|vanishing| vanishing.until)
                .max(),
        }
    }
}

/// Returns what a deletion names, as the table of deletions has it.
pub(super) fn targets(effect: &Effect) -> Vec<Word> {
    let Effect::Delete(DeletionTargets { ids, addresses }) = effect else {
        return Vec::new();
    };
    let ids = ids.iter().map(|id| Word::from(*id));
    let addresses = addresses
        .iter()
        .map(|address| Word(columns::address(address)));
    ids.chain(addresses).collect()
}

fn done_if(changed: bool) -> Outcome {
    if changed {
        Outcome::Done
    } else {
        Outcome::Absent
    }
}
