//! What a worker's requests cost, by table and verb.
//!
//! A set without an answer takes some 100 ns, of which two readings of a clock would be half: so what
//! came together is timed together. Each run of a batch gets its part of the batch's time by its number
//! of requests. What waits, for a table's writer or for the log, is timed with its wait: each
//! request of such a batch takes as long as the batch.

use std::{cell::RefCell, time::Duration};

use hikyaku_observe::{Cost, Ending, Ledger, Phase, Shape, ShapeId};

use crate::{
    catalogue::Catalogue,
    tally::{Run, Tally},
    verb::Verb,
};

/// One worker's ledger.
pub(crate) struct Timing {
    ledger: Ledger,
    /// Names in the ledger that are known, by table and verb.
    names: RefCell<Vec<Option<ShapeId>>>,
}

/// How long something took that had to wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wait {
    pub(crate) total: Duration,
    /// What of it was work.
    pub(crate) worked: Duration,
    pub(crate) work: Phase,
    pub(crate) has_failed: bool,
}

impl Timing {
    pub(crate) fn new(ledger: Ledger) -> Self {
        Self {
            ledger,
            names: RefCell::default(),
        }
    }

    /// Takes down what was carried out at once, in this time together.
    pub(crate) fn carried_out(
        &self,
        tally: &Tally,
        took: Duration,
        catalogue: &Catalogue,
        example: impl Fn(&Run) -> Option<String>,
    ) {
        let all: u64 = tally.runs().iter().map(|run| run.calls).sum();
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        for run in tally.runs() {
            let part = u128::from(took_ns) * u128::from(run.calls) / u128::from(all.max(1));
            let part = Duration::from_nanos(u64::try_from(part).unwrap_or(u64::MAX));
            let mut cost = Cost::new(part);
            cost.spend(Phase::Handler, part);
            self.record(run, cost, catalogue, || {
                example(run).map(|first| match run.calls {
                    1 => first,
                    calls => format!("{first} (and {} more at once)", calls - 1),
                })
            });
        }
    }

    /// Takes down what had to wait; each took that long.
    pub(crate) fn waited(&self, tally: &Tally, wait: &Wait, catalogue: &Catalogue) {
        for run in tally.runs() {
            let times = u32::try_from(run.calls).unwrap_or(u32::MAX);
            let mut cost = Cost::new(wait.total.saturating_mul(times));
            let waited = wait.total.saturating_sub(wait.worked);
            cost.spend(Phase::Wait, waited.saturating_mul(times));
            cost.spend(wait.work, wait.worked.saturating_mul(times));
            if wait.has_failed {
                cost.ending = Ending::Failed;
            }
            self.record(run, cost, catalogue, || run.example.clone());
        }
    }

    fn record(
        &self,
        run: &Run,
        mut cost: Cost,
        catalogue: &Catalogue,
        example: impl FnOnce() -> Option<String>,
    ) {
        cost.bytes = run.bytes;
        let (table, Some(verb)) = run.asked.parts() else {
            return;
        };
        let place = table * Verb::ALL.len() + verb as usize;
        let mut names = self.names.borrow_mut();
        if names.len() <= place {
            names.resize(place + 1, None);
        }
        let Some(name) = names.get_mut(place) else {
            return;
        };
        if name.is_none() {
            *name = self.ledger.id(&shape(table, verb, catalogue));
        }
        if !self.ledger.record_many(*name, &cost, run.calls, example) {
            // It has given way to others, and is asked for again.
            *name = None;
        }
    }
}

/// `table`: its place from 1; 0: none.
fn shape(table: usize, verb: Verb, catalogue: &Catalogue) -> Shape {
    let served = table
        .checked_sub(1)
        .and_then(|it| catalogue.tables().nth(it));
    Shape::Table {
        table: served.map_or("", |(_, served)| &served.name).into(),
        command: verb.word(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hikyaku_observe::{Observations, Snapshot};
    use hikyaku_tables::{MemoryOptions, MemoryTable, Table};

    use super::*;
    use crate::tally::Asked;

    fn told(tallied: impl FnOnce(&Timing, &Catalogue)) -> Snapshot {
        let table: Arc<dyn Table> = Arc::new(MemoryTable::new(MemoryOptions::default(), None));
        let (catalogue, _) = Catalogue::start(vec![("seen".into(), table)], 0)
            .unwrap()
            .unwrap();
        let (observations, mut ledgers) = Observations::new(1, 0, 7);
        tallied(&Timing::new(ledgers.pop().unwrap()), &catalogue);
        observations.snapshot(1)
    }

    fn tally() -> Tally {
        let mut tally = Tally::default();
        for verb in [Verb::Set, Verb::Set, Verb::Set, Verb::Get] {
            tally.add(Asked::new(Some(Catalogue::DEFAULT), verb), 10, 0);
        }
        tally
    }

    #[test]
    fn a_batch_shares_its_time_among_its_requests() {
        let snapshot = told(|timing, catalogue| {
            let took = Duration::from_nanos(400);
            timing.carried_out(&tally(), took, catalogue, |_| Some("set 1".into()));
        });
        let [set, get] = &snapshot.shapes[..] else {
            panic!("{snapshot:?}");
        };
        assert_eq!(
            (&*set.shape, set.calls, set.total_ns),
            ("TABLE seen set", 3, 300)
        );
        assert_eq!(
            (&*get.shape, get.calls, get.total_ns),
            ("TABLE seen get", 1, 100)
        );
        assert_eq!(
            (set.bytes, set.max_ns, set.phases_ns.handler),
            (30, 100, 300)
        );
        assert_eq!(set.example.as_deref(), Some("set 1 (and 2 more at once)"));
    }

    #[test]
    fn what_waits_takes_all_of_the_wait_each() {
        let snapshot = told(|timing, catalogue| {
            let wait = Wait {
                total: Duration::from_micros(1),
                worked: Duration::from_nanos(200),
                work: Phase::Write,
                has_failed: true,
            };
            timing.waited(&tally(), &wait, catalogue);
        });
        let set = &snapshot.shapes[0];
        assert_eq!(
            (set.calls, set.total_ns, set.max_ns, set.failed),
            (3, 3000, 1000, 3)
        );
        assert_eq!((set.phases_ns.wait, set.phases_ns.write), (2400, 600));
    }
}
