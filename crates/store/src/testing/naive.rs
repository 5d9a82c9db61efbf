//! A store that answers everything by looking at every event: slow, short, and the measure for the
//! others.

use std::{
    collections::{BTreeSet, HashSet},
    future::{Future, ready},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    vec,
};

use futures_channel::mpsc::{UnboundedSender, unbounded};
use hikyaku_event::{Address, Event, EventId, Filter, Kind, Timestamp};

use crate::{
    Budget, Committed, CommittedEvent, CommittedFeed, Completeness, CountCursor, CountStep,
    EventStore, Hider, Key, KeyRange, LocalFuture, Outcome, Query, QueryCursor, QueryStep, Reader,
    Sequence, StoreError, StoreReader, StoredEvent, Write, WriteFuture,
    rules::{self, Decision, Effect, Facts, Version},
};

/// An [`EventStore`] in memory that keeps its events in a list and searches all of it for every
/// answer. A cursor is a copy of the answer, made when it starts.
#[derive(Default)]
pub struct NaiveStore {
    state: Arc<Mutex<State>>,
}

impl NaiveStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Drop for NaiveStore {
    fn drop(&mut self) {
        lock(&self.state).feeds.clear();
    }
}

/// One stored event.
struct Row {
    sequence: Sequence,
    event: Arc<Event>,
    /// A kind 62 that was carried out.
    vanish: bool,
    hiders: BTreeSet<Hider>,
}

impl Row {
    fn key(&self) -> Key {
        Key {
            created_at: self.event.created_at(),
            id: self.event.id(),
        }
    }

    fn is_visible(&self, reader: &Reader, now: Timestamp) -> bool {
        self.hiders.is_empty()
            && !rules::is_expired(&self.event, now)
            && reader.may_read(&self.event)
    }

    fn answer(&self) -> StoredEvent {
        StoredEvent {
            sequence: self.sequence,
            id: self.event.id(),
            created_at: self.event.created_at(),
            kind: self.event.kind(),
            json: self.event.json().clone(),
        }
    }
}

#[derive(Default)]
struct State {
    rows: Vec<Row>,
    last: Sequence,
    feeds: Vec<UnboundedSender<Arc<Committed>>>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn apply(
        &mut self,
        write: &Write,
        now: Timestamp,
        stored: &mut Vec<CommittedEvent>,
    ) -> Outcome {
        match write {
            Write::Event { event, vanish } => {
                let outcome = self.store(event, *vanish, now);
                if let Outcome::Stored(sequence) = outcome {
                    let event = event.clone();
                    stored.push(CommittedEvent { sequence, event });
                }
                outcome
            }
            Write::Remove { id, .. } => {
                let before = self.rows.len();
                self.rows.retain(|row| row.event.id() != *id);
                done_if(self.rows.len() < before)
            }
            Write::Hide { id, by } => done_if(self.row(*id).is_some_and(|r| r.hiders.insert(*by))),
            Write::Unhide { id, by } => done_if(self.row(*id).is_some_and(|r| r.hiders.remove(by))),
        }
    }

    fn row(&mut self, id: EventId) -> Option<&mut Row> {
        self.rows.iter_mut().find(|row| row.event.id() == id)
    }

    fn store(&mut self, event: &Arc<Event>, vanish: bool, now: Timestamp) -> Outcome {
        match rules::decide(event, &self.facts(event), now) {
            Decision::Duplicate => Outcome::Duplicate,
            Decision::Superseded => Outcome::Superseded,
            Decision::Refuse(refusal) => Outcome::Refused(refusal),
            Decision::Store => {
                if let Some(address) = event.address() {
                    self.rows
                        .retain(|row| row.event.address().as_ref() != Some(&address));
                }
                let effect = rules::effect(event, vanish);
                self.rows.retain(|row| !reaches(&effect, event, &row.event));
                self.last.0 += 1;
                self.rows.push(Row {
                    sequence: self.last,
                    event: event.clone(),
                    vanish: matches!(effect, Effect::Vanish { .. }),
                    hiders: BTreeSet::new(),
                });
                Outcome::Stored(self.last)
            }
        }
    }

    fn facts(&self, event: &Event) -> Facts {
        let address = event.address();
        let deleters = rules::deleters(event);
        let by_deleters = |kind| {
            self.rows
                .iter()
                .filter(move |row| row.event.kind() == kind)
                .filter(|row| deleters.contains(&row.event.pubkey()))
        };
        let names_address = |deletion: &Event| {
            deletion.pubkey() == event.pubkey()
                && address.is_some()
                && deletion
                    .tag_values(b'a')
                    .any(|a| Address::parse(&a) == address)
        };
        let names_id =
            |deletion: &Event| deletion.tag_values(b'e').any(|e| e == event.id().to_hex());
        Facts {
            stored: self.rows.iter().any(|row| row.event.id() == event.id()),
            newest_version: self
                .rows
                .iter()
                .find(|row| address.is_some() && row.event.address() == address)
                .map(|row| Version::of(&row.event)),
            deleted_by_id: by_deleters(Kind::DELETION).any(|row| names_id(&row.event)),
            address_deleted_until: by_deleters(Kind::DELETION)
                .filter(|row| names_address(&row.event))
                .map(|row| row.event.created_at())
                .max(),
            vanished_until: by_deleters(Kind::VANISH)
                .filter(|row| row.vanish)
                .map(|row| row.event.created_at())
                .max(),
        }
    }

    /// Returns what the reader may see, in the storage order.
    fn visible(&self, reader: &Reader, now: Timestamp) -> Vec<&Row> {
        let mut rows: Vec<_> = self
            .rows
            .iter()
            .filter(|row| row.is_visible(reader, now))
            .collect();
        rows.sort_by_key(|row| row.key());
        rows
    }

    fn answer(&self, query: &Query) -> (Vec<StoredEvent>, Completeness) {
        let visible = self.visible(&query.reader, query.now);
        let mut chosen = HashSet::new();
        for filter in &query.filters {
            let allowance = query.limits.allowance(filter.limit);
            let matching = visible.iter().filter(|row| filter.matches(&row.event));
            let mut last = None;
            for (taken, row) in matching.enumerate() {
                let created_at = row.event.created_at();
                if !allowance.admits(taken as u64, last == Some(created_at)) {
                    break;
                }
                chosen.insert(row.event.id());
                last = Some(created_at);
            }
        }
        let (asking, not_asking): (Vec<_>, Vec<_>) = query
            .filters
            .iter()
            .partition(|filter| query.limits.allowance(filter.limit).enough > 0);
        let left_out = visible.iter().any(|row| {
            !chosen.contains(&row.event.id()) && asking.iter().any(|f| f.matches(&row.event))
        });
        let completeness = match (left_out, not_asking.is_empty()) {
            (true, _) => Completeness::More,
            (false, true) => Completeness::Finish,
            (false, false) => Completeness::Unknown,
        };
        let answers = visible
            .iter()
            .filter(|row| chosen.contains(&row.event.id()));
        (answers.map(|row| row.answer()).collect(), completeness)
    }
}

fn done_if(changed: bool) -> Outcome {
    if changed {
        Outcome::Done
    } else {
        Outcome::Absent
    }
}

/// Tells whether an effect removes this event.
fn reaches(effect: &Effect, cause: &Event, target: &Event) -> bool {
    match effect {
        Effect::None => false,
        Effect::Delete(targets) => {
            let by_id = targets.ids.contains(&target.id());
            let by_address = target.created_at() <= cause.created_at()
                && target
                    .address()
                    .is_some_and(|address| targets.addresses.contains(&address));
            (by_id || by_address) && rules::may_delete(cause, target)
        }
        Effect::Vanish { key, until } => {
            target.kind() != Kind::VANISH
                && target.created_at() <= *until
                && rules::deleters(target).contains(key)
        }
    }
}

impl EventStore for NaiveStore {
    fn reader(&self) -> Box<dyn StoreReader> {
        Box::new(NaiveReader(self.state.clone()))
    }

    fn write(&self, batch: Vec<Write>, now: Timestamp) -> WriteFuture {
        let mut state = lock(&self.state);
        let mut events = Vec::new();
        let outcomes: Vec<_> = batch
            .iter()
            .map(|write| state.apply(write, now, &mut events))
            .collect();
        if !events.is_empty() {
            let committed = Arc::new(Committed { events });
            state
                .feeds
                .retain(|feed| feed.unbounded_send(committed.clone()).is_ok());
        }
        Box::pin(ready(Ok(outcomes)))
    }

    fn committed(&self) -> CommittedFeed {
        let (sender, receiver) = unbounded();
        lock(&self.state).feeds.push(sender);
        Box::pin(receiver)
    }

    fn sweep(
        &self,
        now: Timestamp,
    ) -> Pin<Box<dyn Future<Output = Result<u64, StoreError>> + Send>> {
        let mut state = lock(&self.state);
        let before = state.rows.len();
        state.rows.retain(|row| !rules::may_sweep(&row.event, now));
        let swept = before - state.rows.len();
        Box::pin(ready(Ok(swept as u64)))
    }
}

struct NaiveReader(Arc<Mutex<State>>);

impl StoreReader for NaiveReader {
    fn contains<'a>(
        &'a self,
        ids: &'a [EventId],
    ) -> LocalFuture<'a, Result<Vec<bool>, StoreError>> {
        let mut state = lock(&self.0);
        let stored = ids.iter().map(|id| state.row(*id).is_some()).collect();
        Box::pin(ready(Ok(stored)))
    }

    fn query(&self, query: Query) -> Box<dyn QueryCursor> {
        let state = lock(&self.0);
        let (answers, completeness) = state.answer(&query);
        Box::new(NaiveCursor {
            snapshot: state.last,
            answers: answers.into_iter(),
            completeness,
        })
    }

    fn count(&self, query: Query) -> Box<dyn CountCursor> {
        let state = lock(&self.0);
        let visible = state.visible(&query.reader, query.now);
        let matching = visible.iter().filter(|row| {
            query
                .filters
                .iter()
                .any(|filter| filter.matches(&row.event))
        });
        Box::new(NaiveCount(matching.count() as u64))
    }

    fn keys(
        &self,
        filter: &Filter,
        reader: &Reader,
        now: Timestamp,
        range: KeyRange,
    ) -> Box<dyn Iterator<Item = Result<Key, StoreError>> + '_> {
        let state = lock(&self.0);
        let mut keys: Vec<_> = state
            .visible(reader, now)
            .into_iter()
            .filter(|row| filter.matches(&row.event))
            .map(Row::key)
            .filter(|key| range.from.is_none_or(|from| *key >= from))
            .filter(|key| range.to.is_none_or(|to| *key < to))
            .collect();
        if range.backward {
            keys.reverse();
        }
        Box::new(keys.into_iter().map(Ok))
    }
}

struct NaiveCursor {
    snapshot: Sequence,
    answers: vec::IntoIter<StoredEvent>,
    completeness: Completeness,
}

impl QueryCursor for NaiveCursor {
    fn snapshot(&self) -> Sequence {
        self.snapshot
    }

    fn poll_next(
        &mut self,
        _: &mut Context<'_>,
        budget: &mut Budget,
    ) -> Poll<Result<QueryStep, StoreError>> {
        if budget.is_spent() {
            return Poll::Ready(Ok(QueryStep::Yield));
        }
        budget.spend(1);
        Poll::Ready(Ok(match self.answers.next() {
            Some(event) => QueryStep::Event(event),
            None => QueryStep::End(self.completeness),
        }))
    }
}

struct NaiveCount(u64);

impl CountCursor for NaiveCount {
    fn poll_count(
        &mut self,
        _: &mut Context<'_>,
        budget: &mut Budget,
    ) -> Poll<Result<CountStep, StoreError>> {
        Poll::Ready(Ok(if budget.is_spent() {
            CountStep::Yield
        } else {
            CountStep::Done(self.0)
        }))
    }
}
