//! One answer out of several filters: newest first, each event once, each filter with its own limit.

use std::collections::VecDeque;

use futures_util::future::try_join_all;
use hikyaku_store::{Allowance, Completeness};

use super::{
    place::{Direction, Hit, Place},
    search::Search,
};
use crate::{PostgresError, connection::Sessions};

/// Matches that are asked for at once, at most.
const PAGE_MAX: usize = 4_096;
/// Matches that are asked for at once at first, where no limit says how many are needed.
const PAGE_FIRST: usize = 500;
/// And where one more is needed to know whether there is more.
const PAGE_LOOK: usize = 4;

/// One filter's part.
struct Part {
    search: Search,
    allowance: Allowance,
    taken: u64,
    last_age: Option<i64>,
    state: State,
    /// Matches in order, the next one first.
    waiting: VecDeque<Hit>,
    exhausted: bool,
    page: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// It may have more.
    Open,
    /// It may have no more: what else matches it is only looked at, for whether others bring it.
    Full,
    /// It plays no part any more.
    Ended,
}

/// The answer of several filters.
pub(crate) struct Merge {
    parts: Vec<Part>,
    direction: Direction,
    /// An event that matches was left out.
    left_out: bool,
    /// Some filter asked for nothing.
    not_asked: bool,
}

impl Merge {
    pub(crate) fn new(
        searches: impl IntoIterator<Item = (Search, Allowance)>,
        direction: Direction,
    ) -> Self {
        let mut not_asked = false;
        let mut parts = Vec::new();
        for (search, allowance) in searches {
            if allowance.enough == 0 {
                not_asked = true;
                continue;
            }
            let enough = usize::try_from(allowance.enough).unwrap_or(usize::MAX);
            parts.push(Part {
                search,
                allowance,
                taken: 0,
                last_age: None,
                state: State::Open,
                waiting: VecDeque::new(),
                exhausted: false,
                page: enough.saturating_add(1).min(PAGE_FIRST + 1),
            });
        }
        Self {
            parts,
            direction,
            left_out: false,
            not_asked,
        }
    }

    /// Returns the next event of the answer.
    pub(crate) async fn next(
        &mut self,
        sessions: Sessions<'_>,
    ) -> Result<Option<Hit>, PostgresError> {
        loop {
            self.fill(sessions).await?;
            let first = self
                .parts
                .iter()
                .filter_map(|part| part.waiting.front().copied())
                .reduce(|a, b| {
                    if self.direction.is_before(b.place, a.place) {
                        b
                    } else {
                        a
                    }
                });
            let Some(first) = first else {
                return Ok(None);
            };
            let mut admitted = false;
            for part in &mut self.parts {
                admitted |= part.admits(first.place);
            }
            if admitted {
                return Ok(Some(first));
            }
            // Whatever else is looked at can say no more.
            self.left_out = true;
            for part in &mut self.parts {
                if part.state == State::Full {
                    part.end();
                }
            }
        }
    }

    /// Tells whether the answer was all, once it has ended.
    pub(crate) fn completeness(&self) -> Completeness {
        match (self.left_out, self.not_asked) {
            (true, _) => Completeness::More,
            (false, false) => Completeness::Finish,
            (false, true) => Completeness::Unknown,
        }
    }

    /// Has every part know its next match; their statements go together, and over as many connections as
    /// there are.
    async fn fill(&mut self, sessions: Sessions<'_>) -> Result<(), PostgresError> {
        let left_out = self.left_out;
        for part in &mut self.parts {
            if left_out && part.state == State::Full {
                part.end();
            }
        }
        let empty = self
            .parts
            .iter_mut()
            .filter(|part| part.state != State::Ended && part.waiting.is_empty());
        let mut empty: Vec<_> = empty.collect();
        if let [only] = &mut empty[..] {
            return only.fill(sessions).await;
        }
        let each = empty.into_iter().enumerate();
        try_join_all(each.map(|(nth, part)| part.fill(sessions.only(nth)))).await?;
        Ok(())
    }
}

impl Part {
    async fn fill(&mut self, sessions: Sessions<'_>) -> Result<(), PostgresError> {
        if !self.exhausted {
            let page = match self.state {
                State::Full => PAGE_LOOK.min(self.page),
                _ => self.page,
            };
            let hits = self.search.take(sessions, page).await?;
            self.exhausted = hits.len() < page;
            self.waiting.extend(hits);
            self.page = (self.page * 4).min(PAGE_MAX);
        }
        if self.waiting.is_empty() {
            self.end();
        }
        Ok(())
    }

    /// Takes the event if it is this part's next one; tells whether the part lets it into the answer.
    fn admits(&mut self, place: Place) -> bool {
        if self.waiting.front().map(|hit| hit.place) != Some(place) {
            return false;
        }
        let same_time = self.last_age == Some(place.age);
        if self.state == State::Open && !self.allowance.admits(self.taken, same_time) {
            self.state = State::Full;
        }
        self.waiting.pop_front();
        if self.state == State::Full {
            return false;
        }
        self.taken += 1;
        self.last_age = Some(place.age);
        true
    }

    fn end(&mut self) {
        self.state = State::Ended;
        self.waiting.clear();
    }
}
