//! A store against the naive one: the same random history played on both, and every answer alike.

use std::{collections::HashMap, env, hash::BuildHasher, ops::Range, thread};

use hikyaku_event::{EventId, Filter};

use super::{
    Answer, Blocking, Dice, LONG_NAME, NaiveStore, feed_until, history::History, read_to_end,
};
use crate::{CommittedFeed, EventStore, LimitPolicy, Outcome, Query, Sequence, StoredEvent, Write};

/// Batches of a history.
const ROUNDS: usize = 30;
/// Questions of each sort after each batch.
const QUESTIONS: usize = 4;

/// Plays seeds of random histories on stores and compares each answer with the naive store's:
/// outcomes, answers with their order and completeness, counts, keys, ids, the feed, sweeps.
///
/// `open` makes an empty store for a seed. `between` is called after every batch, with chance for
/// it to use, so that the store can be flushed, merged or opened again; what is stored must stay.
/// Plays `seeds` seeds, or as many as the environment variable `HIKYAKU_SEEDS` says; only one if
/// `HIKYAKU_SEED` names it. A failure prints its seed.
pub fn compare<S: AsRef<dyn EventStore>>(
    seeds: u64,
    mut open: impl FnMut(u64) -> S,
    mut between: impl FnMut(&mut S, &mut Dice),
) {
    for_each_seed(seeds, |seed| {
        compare_one(seed, open(seed), &mut between);
    });
}

/// Plays the seeds that [`chosen_seeds`] returns. A failure prints its seed.
pub fn for_each_seed(default: u64, mut play: impl FnMut(u64)) {
    for seed in chosen_seeds(default) {
        let _named = NamedSeed(seed);
        play(seed);
    }
}

/// Returns the seeds a test shall play: 0 up to `default`, more or fewer by the environment variable
/// `HIKYAKU_SEEDS`, or just the one that `HIKYAKU_SEED` names.
pub fn chosen_seeds(default: u64) -> Range<u64> {
    let number = |name| {
        let text = env::var(name).ok()?;
        Some(
            text.parse()
                .unwrap_or_else(|_| panic!("{name} is not a number: {text}")),
        )
    };
    match number("HIKYAKU_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("HIKYAKU_SEEDS").unwrap_or(default),
    }
}

/// Says the seed when a test fails.
struct NamedSeed(u64);

impl Drop for NamedSeed {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("failed with HIKYAKU_SEED={}", self.0);
        }
    }
}

fn compare_one<S: AsRef<dyn EventStore>>(
    seed: u64,
    mut subject: S,
    between: &mut impl FnMut(&mut S, &mut Dice),
) {
    let mut history = if Blocking(subject.as_ref()).indexes(LONG_NAME) {
        History::with_long_names(seed)
    } else {
        History::new(seed)
    };
    let mut pair = Pair::default();
    for _ in 0..ROUNDS {
        pair.write(subject.as_ref(), &mut history);
        pair.ask(subject.as_ref(), &mut history);
        if history.dice.chance(20) {
            let swept = Blocking(subject.as_ref()).sweep(history.now);
            assert_eq!(swept, Blocking(&pair.naive).sweep(history.now), "swept");
        }
        between(&mut subject, &mut history.dice);
        pair.ask(subject.as_ref(), &mut history);
        history.pass_time();
    }
}

/// The naive store and what it does not know of the other one.
#[derive(Default)]
struct Pair {
    naive: NaiveStore,
    /// The number under which the other store stored an event last.
    sequences: HashMap<EventId, Sequence>,
    last: Sequence,
}

impl Pair {
    /// Writes a batch to both, with a query running and a feed open.
    fn write(&mut self, subject: &dyn EventStore, history: &mut History) {
        let filter = Filter {
            limit: None,
            ..history.filter()
        };
        let query = Query {
            filters: vec![filter],
            limits: LimitPolicy::UNLIMITED,
            ..history.query()
        };
        let cursor = Blocking(subject).start(query.clone());
        let before = Blocking(&self.naive).query(query.clone());
        let numbers: Vec<_> = before.ids().iter().map(|id| self.sequences[id]).collect();
        let mut feed = subject.committed();

        let batch = history.batch();
        let outcomes = Blocking(subject).write(batch.clone(), history.now);
        let expected = Blocking(&self.naive).write(batch.clone(), history.now);
        self.compare_outcomes(&batch, &outcomes, &expected);
        compare_feed(&mut feed, &batch, &outcomes);

        let after = Blocking(&self.naive).query(query.clone());
        self.check_running(&read_to_end(cursor, 2), &before, &numbers, &after);
    }

    fn compare_outcomes(&mut self, batch: &[Write], outcomes: &[Outcome], expected: &[Outcome]) {
        for ((write, outcome), expected) in batch.iter().zip(outcomes).zip(expected) {
            match (write, outcome, expected) {
                (Write::Event { event, .. }, Outcome::Stored(sequence), Outcome::Stored(_)) => {
                    assert!(*sequence > self.last, "{sequence:?} after {:?}", self.last);
                    self.last = *sequence;
                    self.sequences.insert(event.id(), *sequence);
                }
                _ => assert_eq!(outcome, expected, "{write:?} in {batch:#?}"),
            }
        }
    }

    /// Checks a query that ran while a batch was written: all that was there before and after, under
    /// the same number, nothing that was not there before.
    fn check_running(
        &self,
        running: &Answer,
        before: &Answer,
        numbers: &[Sequence],
        after: &Answer,
    ) {
        let (ids, old, new) = (running.ids(), before.ids(), after.ids());
        let mut possible = old.clone();
        possible.retain(|id| ids.contains(id));
        assert_eq!(
            ids, possible,
            "a running query shows what was not there, or out of order"
        );
        for (id, number) in old.iter().zip(numbers) {
            let stayed = new.contains(id) && self.sequences[id] == *number;
            assert!(!stayed || ids.contains(id), "a running query lost {id}");
        }
    }

    /// Asks both the same random questions.
    fn ask(&self, subject: &dyn EventStore, history: &mut History) {
        compare_answers(subject, &self.naive, &self.sequences, history, QUESTIONS);
    }
}

/// Asks a store and the naive one the same random questions, so many of each sort. `sequences` has
/// the number under which the store stored an event last.
pub fn compare_answers(
    subject: &dyn EventStore,
    naive: &NaiveStore,
    sequences: &HashMap<EventId, Sequence, impl BuildHasher>,
    history: &mut History,
    questions: usize,
) {
    let (subject, naive) = (Blocking(subject), Blocking(naive));
    let ids = history.ids();
    assert_eq!(subject.contains(&ids), naive.contains(&ids), "contains");
    for _ in 0..questions {
        let query = history.query();
        let step = *history.dice.pick(&[1, 3, 50, 1_000_000]);
        let answer = read_to_end(subject.start(query.clone()), step);
        let expected = naive.query(query.clone());
        assert_eq!(answer.ids(), expected.ids(), "{query:#?}");
        assert_eq!(answer.completeness, expected.completeness, "{query:#?}");
        compare_events(&answer.events, &expected.events, sequences);

        let query = history.query();
        let counted = subject.count_in_steps(query.clone(), step);
        assert_eq!(counted, naive.count(query.clone()), "{query:#?}");

        let (filter, range) = (history.filter(), history.range());
        let (reader, now) = (history.reader(), history.time());
        let keys = subject.keys(&filter, &reader, now, range);
        let expected = naive.keys(&filter, &reader, now, range);
        assert_eq!(keys, expected, "{filter:#?} {reader:?} {now} {range:?}");
    }
}

fn compare_events(
    events: &[StoredEvent],
    expected: &[StoredEvent],
    sequences: &HashMap<EventId, Sequence, impl BuildHasher>,
) {
    for (event, expected) in events.iter().zip(expected) {
        assert_eq!(event.sequence, sequences[&event.id], "{}", event.id);
        assert_eq!(event.created_at, expected.created_at, "{}", event.id);
        assert_eq!(event.kind, expected.kind, "{}", event.id);
        assert_eq!(event.json, expected.json, "{}", event.id);
    }
}

/// Compares what a feed tells of a batch with what the batch was answered.
fn compare_feed(feed: &mut CommittedFeed, batch: &[Write], outcomes: &[Outcome]) {
    let stored = batch.iter().zip(outcomes).filter_map(|pair| match pair {
        (Write::Event { event, .. }, Outcome::Stored(sequence)) => Some((event.id(), *sequence)),
        _ => None,
    });
    let stored: Vec<_> = stored.collect();
    let Some((_, last)) = stored.last() else {
        return;
    };
    let told = feed_until(feed, |event| event.sequence >= *last);
    let told: Vec<_> = told
        .iter()
        .map(|event| (event.event.id(), event.sequence))
        .collect();
    assert_eq!(told, stored, "the feed of {batch:#?}");
}
