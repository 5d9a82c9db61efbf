//! A query under way: its filters merged into one newest-first answer, each with its own limit.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use hikyaku_store::{
    Allowance, Budget, Completeness, Query, QueryCursor, QueryStep, Sequence, StoreError,
};

use super::{
    plan::Plan,
    stream::{self, FilterStream, Match, StreamStep},
};
use crate::{error::EngineError, segment::TermHasher, snapshot::Snapshot};

/// How much a filter may look beyond its limit, to tell whether there is more (NIP-67): the hint
/// must not cost more than an answer does.
const LOOK_BEYOND_UNITS: u32 = 4096;

/// A query on one snapshot.
#[derive(Debug)]
pub(crate) struct Cursor {
    snapshot: Arc<Snapshot>,
    filters: Vec<Limited>,
    more: bool,
}

/// One filter with its limit.
#[derive(Debug)]
struct Limited {
    stream: FilterStream,
    /// The next match, if it has been looked for.
    head: Option<Match>,
    state: State,
    taken: u64,
    allowance: Allowance,
    last_created_at: u64,
    beyond_units_left: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Returns its matches.
    Answering,
    /// Returned all it may, and looks whether there is a match that nobody returned.
    LookingBeyond,
    Done(Completeness),
}

impl Cursor {
    pub(crate) fn new(snapshot: Arc<Snapshot>, query: &Query, hasher: &TermHasher) -> Self {
        let filters = query
            .filters
            .iter()
            .map(|filter| {
                let allowance = query.limits.allowance(filter.limit);
                let plan = Plan::new(filter, &query.reader, query.now, allowance.enough, hasher);
                Limited {
                    stream: FilterStream::new(snapshot.clone(), plan, None),
                    head: None,
                    state: if allowance.enough == 0 {
                        State::Done(Completeness::Unknown)
                    } else {
                        State::Answering
                    },
                    taken: 0,
                    allowance,
                    last_created_at: 0,
                    beyond_units_left: LOOK_BEYOND_UNITS,
                }
            })
            .collect();
        Self {
            snapshot,
            filters,
            more: false,
        }
    }

    fn step(&mut self, budget: &mut Budget) -> Result<QueryStep, EngineError> {
        loop {
            for filter in &mut self.filters {
                if !filter.find_head(budget)? {
                    return Ok(QueryStep::Yield);
                }
            }
            let Some(next) = self
                .filters
                .iter()
                .filter_map(|filter| filter.head)
                .min_by_key(|head| head.key)
            else {
                return Ok(QueryStep::End(self.completeness()));
            };
            let mut wanted = false;
            for filter in &mut self.filters {
                wanted |= filter.take(&next);
            }
            if wanted {
                let part = stream::part(&self.snapshot, next.part)?;
                return Ok(QueryStep::Event(
                    self.snapshot.stored_event(part, next.doc)?,
                ));
            }
            // A match that no filter may return any more: that is all there was to find out.
            self.more = true;
            for filter in &mut self.filters {
                filter.stop_looking();
            }
        }
    }

    fn completeness(&self) -> Completeness {
        let all = |wanted| {
            self.filters
                .iter()
                .all(|filter| filter.state == State::Done(wanted))
        };
        match (self.more, all(Completeness::Finish)) {
            (true, _) => Completeness::More,
            (false, true) => Completeness::Finish,
            (false, false) => Completeness::Unknown,
        }
    }
}

impl QueryCursor for Cursor {
    fn snapshot(&self) -> Sequence {
        self.snapshot.sequence
    }

    fn poll_next(
        &mut self,
        _: &mut Context<'_>,
        budget: &mut Budget,
    ) -> Poll<Result<QueryStep, StoreError>> {
        Poll::Ready(self.step(budget).map_err(StoreError::from))
    }
}

impl Limited {
    /// Looks for the next match; false if the budget ran out before.
    fn find_head(&mut self, budget: &mut Budget) -> Result<bool, EngineError> {
        if self.head.is_some() || matches!(self.state, State::Done(_)) {
            return Ok(true);
        }
        if self.state == State::Answering && self.taken >= self.allowance.most {
            self.state = State::LookingBeyond;
        }
        let before = budget.left();
        let step = self.stream.next(budget)?;
        if self.state == State::LookingBeyond {
            let spent = before - budget.left();
            self.beyond_units_left = self.beyond_units_left.saturating_sub(spent);
            if self.beyond_units_left == 0 && step == StreamStep::Yield {
                self.state = State::Done(Completeness::Unknown);
                return Ok(true);
            }
        }
        match step {
            StreamStep::Yield => return Ok(false),
            StreamStep::End => self.state = State::Done(Completeness::Finish),
            StreamStep::Match(found) => {
                let same_time = found.key.created_at == self.last_created_at;
                if !self.allowance.admits(self.taken, same_time) {
                    self.state = State::LookingBeyond;
                }
                self.head = Some(found);
            }
        }
        Ok(true)
    }

    /// Steps past `next` if it is this filter's next match; tells whether the filter returns it.
    fn take(&mut self, next: &Match) -> bool {
        if self.head.is_none_or(|head| head.key != next.key) {
            return false;
        }
        self.head = None;
        let answers = self.state == State::Answering;
        if answers {
            self.taken += 1;
            self.last_created_at = next.key.created_at;
        }
        answers
    }

    fn stop_looking(&mut self) {
        if self.state == State::LookingBeyond {
            self.head = None;
            self.state = State::Done(Completeness::More);
        }
    }
}
