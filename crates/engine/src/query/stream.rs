//! One filter over a whole snapshot: its parts merged newest first, each opened only when needed.

use std::{cmp::Reverse, collections::BinaryHeap, sync::Arc};

use hikyaku_store::{Budget, Key};

use super::{
    part_cursor::{PartCursor, Step},
    plan::Plan,
};
use crate::{
    error::EngineError,
    segment::DocId,
    snapshot::{Part, Snapshot},
};

/// Terms looked up before others have their turn: some hundred microseconds. No event is examined by
/// it, so it is beside the budget.
const LOOKUPS_MAX: usize = 1024;

/// A match: where it stands in the order, and where to read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Match {
    pub(super) key: Key,
    /// Index in [`Snapshot::parts`].
    pub(super) part: usize,
    pub(super) doc: DocId,
}

/// What a step of a stream came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamStep {
    Match(Match),
    Yield,
    End,
}

/// The matches of one filter in a snapshot, newest first.
#[derive(Debug)]
pub(super) struct FilterStream {
    snapshot: Arc<Snapshot>,
    plan: Plan,
    /// Parts not opened yet, the one with the newest event last.
    unopened: Vec<usize>,
    opened: Vec<(usize, PartCursor)>,
    /// The next match of each opened part: (key, index in `opened`, document).
    heads: BinaryHeap<Reverse<(Key, usize, DocId)>>,
    /// The opened part whose next match is not in `heads` yet.
    behind: Option<usize>,
    /// Where to begin, if not at the newest.
    from: Option<Key>,
    /// Terms looked up since the last rest.
    looked_up: usize,
}

impl FilterStream {
    pub(super) fn new(snapshot: Arc<Snapshot>, plan: Plan, from: Option<Key>) -> Self {
        let mut unopened: Vec<usize> = (0..snapshot.parts.len()).collect();
        unopened.sort_by_key(|&index| newest(&snapshot, index));
        Self {
            snapshot,
            plan,
            unopened,
            opened: Vec::new(),
            heads: BinaryHeap::new(),
            behind: None,
            from,
            looked_up: 0,
        }
    }

    /// Takes the next step. The walk to a match is made when it is asked for, not before.
    pub(super) fn next(&mut self, budget: &mut Budget) -> Result<StreamStep, EngineError> {
        loop {
            if let Some(index) = self.behind {
                let Some((number, cursor)) = self.opened.get_mut(index) else {
                    self.behind = None;
                    continue;
                };
                let part = part(&self.snapshot, *number)?;
                match cursor.advance(&self.plan, part, budget)? {
                    Step::Yield => return Ok(StreamStep::Yield),
                    Step::End => {}
                    Step::Found(doc) => {
                        let key = part.segment.key(doc)?;
                        self.heads.push(Reverse((key, index, doc)));
                    }
                }
                self.behind = None;
            }
            if let Some(&number) = self.unopened.last()
                && self.could_be_next(number)
            {
                self.unopened.pop();
                self.open(number)?;
                budget.spend(1);
                self.looked_up += self.plan.lookups();
                if self.looked_up >= LOOKUPS_MAX {
                    self.looked_up = 0;
                    return Ok(StreamStep::Yield);
                }
                continue;
            }
            let Some(Reverse((key, index, doc))) = self.heads.pop() else {
                return Ok(StreamStep::End);
            };
            self.behind = Some(index);
            let number = self.opened.get(index).map_or(0, |(number, _)| *number);
            return Ok(StreamStep::Match(Match {
                key,
                part: number,
                doc,
            }));
        }
    }

    /// Tells whether a part may hold something at least as new as the best match so far.
    fn could_be_next(&self, number: usize) -> bool {
        self.heads.peek().is_none_or(|Reverse((key, _, _))| {
            newest(&self.snapshot, number).min(self.plan.until) >= key.created_at
        })
    }

    fn open(&mut self, number: usize) -> Result<(), EngineError> {
        let part = part(&self.snapshot, number)?;
        let mut start = part.segment.first_not_newer_than(self.plan.until)?;
        if let Some(from) = &self.from {
            start = start.max(part.segment.first_at_or_after_key(from)?);
        }
        let end = part.segment.first_older_than(self.plan.since)?;
        if let Some(cursor) = PartCursor::open_between(&self.plan, part, start, end)? {
            self.behind = Some(self.opened.len());
            self.opened.push((number, cursor));
        }
        Ok(())
    }
}

fn newest(snapshot: &Snapshot, number: usize) -> u64 {
    snapshot
        .parts
        .get(number)
        .map_or(0, |part| part.segment.newest())
}

/// Returns a part of the snapshot by its index there.
pub(super) fn part(snapshot: &Snapshot, number: usize) -> Result<&Arc<Part>, EngineError> {
    snapshot
        .parts
        .get(number)
        .ok_or_else(|| EngineError::Corrupt(format!("the snapshot has no part {number}")))
}
