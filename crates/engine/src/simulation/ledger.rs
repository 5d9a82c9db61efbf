//! What a store's clients were told, and which states a crash may leave it in.

use std::collections::HashMap;

use hikyaku_event::{EventId, Timestamp};
use hikyaku_store::{
    Outcome, Sequence, Write,
    testing::{Blocking, NaiveStore},
};

use crate::commit::Core;

/// Something that changes a store.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Write(Vec<Write>, Timestamp),
    Sweep(Timestamp),
}

/// A step that was answered.
struct Entry {
    step: Step,
    /// The store's next sequence after it: how far a log reaches tells which steps are in it.
    end: Sequence,
    outcomes: Vec<Outcome>,
}

/// The steps of a store's life, and the naive store that they lead to.
#[derive(Default)]
pub(super) struct Ledger {
    entries: Vec<Entry>,
    /// The one that was answered with an error that leaves it open whether it was carried out.
    in_flight: Option<Step>,
    /// How many entries survive a power cut.
    durable: usize,
    pub(super) naive: NaiveStore,
    pub(super) sequences: HashMap<EventId, Sequence>,
}

impl Ledger {
    /// Notes an answered step; its outcomes must be the naive store's.
    pub(super) fn answer(&mut self, step: Step, outcomes: Vec<Outcome>, end: Sequence) {
        let expected = carry_out(&self.naive, &step);
        assert_eq!(
            outcomes.iter().map(plain).collect::<Vec<_>>(),
            expected.iter().map(plain).collect::<Vec<_>>(),
            "{step:#?}"
        );
        note(&mut self.sequences, &step, &outcomes);
        self.entries.push(Entry {
            step,
            end,
            outcomes,
        });
    }

    /// Notes that a step failed in a way that leaves open whether it will be there.
    pub(super) fn leave_open(&mut self, step: Step) {
        assert!(self.in_flight.is_none(), "a stopped store took a step");
        self.in_flight = Some(step);
    }

    /// Notes that all answered steps are durable.
    pub(super) fn sync(&mut self) {
        self.durable = self.entries.len();
    }

    /// Finds out which steps a reopened store holds, by its next sequence: all of them that had to
    /// survive, and each as a whole. From now on these are the steps.
    pub(super) fn reopen(&mut self, core: &Core, all_survive: bool) {
        let next = core.next_sequence;
        let durable = if all_survive {
            self.entries.len()
        } else {
            self.durable
        };
        let end = |count: usize| {
            let last = count.checked_sub(1).and_then(|last| self.entries.get(last));
            last.map_or(Sequence(1), |entry| entry.end)
        };
        let all = self.entries.len();
        let in_flight = self.in_flight.take();
        if let Some(step) = in_flight
            && next > end(all)
        {
            let mut outcomes = carry_out(&self.naive, &step);
            learn(&step, &mut outcomes, core);
            note(&mut self.sequences, &step, &outcomes);
            self.entries.push(Entry {
                step,
                end: next,
                outcomes,
            });
        } else {
            let survivors = (durable..=all).rev().find(|count| end(*count) == next);
            let Some(survivors) = survivors else {
                panic!(
                    "the log ends before sequence {}, but steps end before {:?}, and {durable} of \
                     {all} had to survive",
                    next.0,
                    (0..=all).map(|count| end(count).0).collect::<Vec<_>>()
                );
            };
            if survivors < all {
                self.entries.truncate(survivors);
                self.rebuild();
            }
        }
        self.sync();
    }

    fn rebuild(&mut self) {
        self.naive = NaiveStore::new();
        self.sequences.clear();
        for entry in &self.entries {
            carry_out(&self.naive, &entry.step);
            note(&mut self.sequences, &entry.step, &entry.outcomes);
        }
    }
}

fn carry_out(naive: &NaiveStore, step: &Step) -> Vec<Outcome> {
    match step {
        Step::Write(batch, now) => Blocking(naive).write(batch.clone(), *now),
        Step::Sweep(now) => {
            Blocking(naive).sweep(*now);
            Vec::new()
        }
    }
}

/// The naive store gives out other sequences.
fn plain(outcome: &Outcome) -> Outcome {
    match outcome {
        Outcome::Stored(_) => Outcome::Stored(Sequence(0)),
        other => *other,
    }
}

/// Takes the sequences that nobody was told from the store; what the step itself removed has none.
fn learn(step: &Step, outcomes: &mut [Outcome], core: &Core) {
    let Step::Write(batch, _) = step else { return };
    let snapshot = core.published.load();
    for (write, outcome) in batch.iter().zip(outcomes) {
        if let (Write::Event { event, .. }, Outcome::Stored(sequence)) = (write, outcome)
            && let Some((part, doc)) = snapshot.find(&event.id()).unwrap()
        {
            *sequence = part.segment.sequence(doc).unwrap();
        }
    }
}

fn note(sequences: &mut HashMap<EventId, Sequence>, step: &Step, outcomes: &[Outcome]) {
    let Step::Write(batch, _) = step else { return };
    for (write, outcome) in batch.iter().zip(outcomes) {
        if let (Write::Event { event, .. }, Outcome::Stored(sequence)) = (write, outcome) {
            sequences.insert(event.id(), *sequence);
        }
    }
}
