//! Counting (NIP-45): arithmetic on a list's length where one term decides, a walk elsewhere.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use hikyaku_store::{Budget, CountCursor, CountStep, Query, StoreError};

use super::{
    part_cursor::{PartCursor, Step},
    plan::{Plan, Rights},
    stream,
};
use crate::{
    error::EngineError,
    segment::{DocId, PostingList, Segment, Term, TermHasher},
    snapshot::{Part, Snapshot},
};

/// A count on one snapshot. An id is stored once at most, so parts are counted one by one.
#[derive(Debug)]
pub(crate) struct Count {
    snapshot: Arc<Snapshot>,
    plans: Vec<Plan>,
    part: usize,
    /// The walk over the current part, one cursor per filter that may match there.
    walk: Option<Vec<Walker>>,
    total: u64,
}

#[derive(Debug)]
struct Walker {
    plan: usize,
    cursor: PartCursor,
    head: Option<DocId>,
    done: bool,
}

impl Count {
    pub(crate) fn new(snapshot: Arc<Snapshot>, query: &Query, hasher: &TermHasher) -> Self {
        let plans = query
            .filters
            .iter()
            .map(|filter| Plan::new(filter, &query.reader, query.now, u64::MAX, hasher))
            .collect();
        Self {
            snapshot,
            plans,
            part: 0,
            walk: None,
            total: 0,
        }
    }

    fn step(&mut self, budget: &mut Budget) -> Result<CountStep, EngineError> {
        while self.part < self.snapshot.parts.len() {
            if budget.is_spent() {
                return Ok(CountStep::Yield);
            }
            let part = stream::part(&self.snapshot, self.part)?.clone();
            if self.walk.is_none() {
                if let [plan] = self.plans.as_slice()
                    && let Some(count) = by_arithmetic(plan, &part, budget)?
                {
                    self.total += count;
                    self.part += 1;
                    continue;
                }
                self.walk = Some(self.open(&part)?);
                let lookups: usize = self.plans.iter().map(Plan::lookups).sum();
                budget.spend(u32::try_from(lookups).unwrap_or(u32::MAX));
            }
            if !self.walk_on(&part, budget)? {
                return Ok(CountStep::Yield);
            }
            self.walk = None;
            self.part += 1;
        }
        Ok(CountStep::Done(self.total))
    }

    fn open(&self, part: &Part) -> Result<Vec<Walker>, EngineError> {
        let mut walk = Vec::with_capacity(self.plans.len());
        for (number, plan) in self.plans.iter().enumerate() {
            if let Some(cursor) = PartCursor::open(plan, part)? {
                walk.push(Walker {
                    plan: number,
                    cursor,
                    head: None,
                    done: false,
                });
            }
        }
        Ok(walk)
    }

    /// Counts the documents that any cursor finds, each once. False if the budget ran out.
    fn walk_on(&mut self, part: &Part, budget: &mut Budget) -> Result<bool, EngineError> {
        let Some(walk) = &mut self.walk else {
            return Ok(true);
        };
        loop {
            for walker in walk
                .iter_mut()
                .filter(|walker| walker.head.is_none() && !walker.done)
            {
                let Some(plan) = self.plans.get(walker.plan) else {
                    continue;
                };
                match walker.cursor.advance(plan, part, budget)? {
                    Step::Yield => return Ok(false),
                    Step::End => walker.done = true,
                    Step::Found(doc) => walker.head = Some(doc),
                }
            }
            let Some(next) = walk.iter().filter_map(|walker| walker.head).min() else {
                return Ok(true);
            };
            self.total += 1;
            for walker in walk.iter_mut().filter(|walker| walker.head == Some(next)) {
                walker.head = None;
            }
        }
    }
}

impl CountCursor for Count {
    fn poll_count(
        &mut self,
        _: &mut Context<'_>,
        budget: &mut Budget,
    ) -> Poll<Result<CountStep, StoreError>> {
        Poll::Ready(self.step(budget).map_err(StoreError::from))
    }
}

/// Counts without a walk: the length of the one list that decides, minus what in it is absent or
/// not for this reader, found from the lists of those. `None` where more than one term decides or
/// the exceptions are more than the list.
fn by_arithmetic(
    plan: &Plan,
    part: &Part,
    budget: &mut Budget,
) -> Result<Option<u64>, EngineError> {
    if plan.matches_nothing {
        return Ok(Some(0));
    }
    let segment = &*part.segment;
    let start = segment.first_not_newer_than(plan.until)?;
    let end = segment.first_older_than(plan.since)?;
    if start >= end {
        return Ok(Some(0));
    }
    let inside = match deciding_term(plan) {
        Deciding::Everything => Inside::Documents,
        Deciding::Term(term) => match segment.term(term)? {
            Some(list) => Inside::List(list),
            None => return Ok(Some(0)),
        },
        Deciding::Several => return Ok(None),
    };
    let candidates = match inside {
        Inside::Documents => end.0 - start.0,
        Inside::List(list) => segment.seek(list, 0, end)? - segment.seek(list, 0, start)?,
    };
    let expiring = segment.term(plan.hasher.expiring())?;
    let private = match plan.rights {
        Rights::All => None,
        // Who is a party of what takes a walk; somebody without keys reads none of them.
        Rights::PartyTo(ref keys) if keys.is_empty() => segment.term(plan.hasher.private())?,
        Rights::PartyTo(_) => match segment.term(plan.hasher.private())? {
            None => None,
            Some(_) => return Ok(None),
        },
    };
    let length = |list: &Option<PostingList>| list.map_or(0, |list| list.len);
    let exceptions =
        part.removed.count() + part.hidden.count() + length(&expiring) + length(&private);
    if exceptions > candidates.saturating_mul(2) {
        return Ok(None);
    }
    budget.spend(exceptions + 1);
    let counted = |doc: DocId| -> Result<bool, EngineError> {
        Ok((start..end).contains(&doc) && inside.holds(segment, doc)?)
    };
    let mut absent = 0u64;
    for doc in part.removed.iter() {
        absent += u64::from(counted(doc)?);
    }
    for doc in part.hidden.iter() {
        absent += u64::from(part.is_stored(doc) && counted(doc)?);
    }
    let expired = |doc| part.is_expired(doc, plan.now);
    if let Some(list) = expiring {
        for index in 0..list.len {
            let doc = segment.posting(list, index)?;
            absent += u64::from(part.is_visible(doc) && counted(doc)? && expired(doc)?);
        }
    }
    if let Some(list) = private {
        for index in 0..list.len {
            let doc = segment.posting(list, index)?;
            absent += u64::from(part.is_visible(doc) && counted(doc)? && !expired(doc)?);
        }
    }
    Ok(Some(u64::from(candidates).saturating_sub(absent)))
}

#[derive(Clone, Copy)]
enum Inside {
    Documents,
    List(PostingList),
}

impl Inside {
    fn holds(self, segment: &Segment, doc: DocId) -> Result<bool, EngineError> {
        match self {
            Self::Documents => Ok(true),
            Self::List(list) => Ok(segment.holds(list, doc)?),
        }
    }
}

enum Deciding {
    Everything,
    Term(Term),
    Several,
}

fn deciding_term(plan: &Plan) -> Deciding {
    if plan.ids.is_some() {
        return Deciding::Several;
    }
    let authors = plan.authors.as_ref().map(|authors| authors.keys.as_slice());
    match (authors, plan.kinds.as_deref(), plan.tags.as_slice()) {
        (None, None, []) => Deciding::Everything,
        (Some([key]), None, []) => Deciding::Term(plan.hasher.author(key)),
        (None, Some([kind]), []) => Deciding::Term(plan.hasher.kind(*kind)),
        (Some([key]), Some([kind]), []) => Deciding::Term(plan.hasher.author_kind(key, *kind)),
        (None, None, [terms]) => match terms.as_slice() {
            [term] => Deciding::Term(*term),
            _ => Deciding::Several,
        },
        _ => Deciding::Several,
    }
}
