//! An answer that a plugin has made, in the place of the store's.

use std::task::{Context, Poll};

use hikyaku_event::Event;
use hikyaku_store::{
    Budget, Completeness, QueryCursor, QueryStep, Sequence, StoreError, StoredEvent,
};

/// Events that are the whole answer. Nothing comes live behind them.
pub(super) struct Made(std::vec::IntoIter<Event>);

impl Made {
    pub(super) fn new(events: Vec<Event>) -> Self {
        Self(events.into_iter())
    }
}

impl QueryCursor for Made {
    fn snapshot(&self) -> Sequence {
        Sequence::default()
    }

    fn poll_next(
        &mut self,
        _: &mut Context<'_>,
        budget: &mut Budget,
    ) -> Poll<Result<QueryStep, StoreError>> {
        budget.spend(1);
        Poll::Ready(Ok(match self.0.next() {
            Some(event) => QueryStep::Event(StoredEvent {
                sequence: Sequence::default(),
                id: event.id(),
                created_at: event.created_at(),
                kind: event.kind(),
                json: event.json().clone(),
            }),
            None => QueryStep::End(Completeness::Finish),
        }))
    }
}
