//! A count under way.

use std::{
    rc::Rc,
    task::{Context, Poll},
};

use hikyaku_store::{
    Allowance, Budget, CountCursor, CountStep, LocalFuture, Query, Sequence, StoreError,
};

use super::{cursor::searches, indexed::AskedNames, merge::Merge, place::Direction};
use crate::{
    PostgresError,
    connection::{Lanes, Sessions},
};

/// Matches counted between two looks at whose turn it is on the connection.
const TURN: u64 = 16_384;
const NO_LIMIT: Allowance = Allowance {
    enough: u64::MAX,
    most: u64::MAX,
};

/// A count under way.
pub(crate) struct PostgresCount {
    begun: bool,
    work: LocalFuture<'static, Result<CountStep, PostgresError>>,
    /// What the work has come to, if nobody has been told.
    end: Option<Result<CountStep, PostgresError>>,
}

impl PostgresCount {
    pub(crate) fn new(lanes: Rc<Lanes>, query: Query, snapshot: Sequence) -> Self {
        Self {
            begun: false,
            work: Box::pin(count(lanes, query, snapshot)),
            end: None,
        }
    }
}

impl CountCursor for PostgresCount {
    fn poll_count(
        &mut self,
        cx: &mut Context<'_>,
        budget: &mut Budget,
    ) -> Poll<Result<CountStep, StoreError>> {
        if budget.is_spent() {
            return Poll::Ready(Ok(CountStep::Yield));
        }
        budget.spend(1);
        self.begun = true;
        self.go_on(cx);
        match self.end.take() {
            Some(end) => Poll::Ready(Ok(end?)),
            None => Poll::Pending,
        }
    }

    fn go_on(&mut self, cx: &mut Context<'_>) {
        if self.begun
            && self.end.is_none()
            && let Poll::Ready(end) = self.work.as_mut().poll(cx)
        {
            self.end = Some(end);
        }
    }
}

async fn count(
    lanes: Rc<Lanes>,
    query: Query,
    snapshot: Sequence,
) -> Result<CountStep, PostgresError> {
    let names = AskedNames::of(&query.filters);
    let session = lanes.session().await?;
    let all = names.are_indexed(Sessions::new(&session, None)).await?;
    drop(session);
    let found = matches(&lanes, &query, snapshot).await?;
    Ok(if all {
        CountStep::Done(found)
    } else {
        CountStep::AtLeast(found)
    })
}

async fn matches(lanes: &Lanes, query: &Query, snapshot: Sequence) -> Result<u64, PostgresError> {
    let mut searches = searches(query, snapshot, |_| NO_LIMIT);
    if let [(search, _)] = &mut searches[..] {
        let session = lanes.session().await?;
        if let Some(count) = search.count(&session).await? {
            return Ok(count);
        }
    }
    let mut merge = Merge::new(searches, Direction::Forward);
    let mut count = 0;
    loop {
        let session = lanes.session().await?;
        for _ in 0..TURN {
            if merge.next(Sessions::new(&session, None)).await?.is_none() {
                return Ok(count);
            }
            count += 1;
        }
    }
}
