//! A read that a store can't carry out: it fails at its first step.

use std::task::{Context, Poll};

use hikyaku_event::{Filter, TagName};

use crate::{Budget, CountCursor, CountStep, QueryCursor, QueryStep, Sequence, StoreError};

/// A query or count that ends with an error and nothing else.
#[derive(Debug, Clone)]
pub struct RefusedRead {
    snapshot: Sequence,
    error: StoreError,
}

impl RefusedRead {
    /// Refuses a read of this snapshot.
    pub const fn new(snapshot: Sequence, error: StoreError) -> Self {
        Self { snapshot, error }
    }
}

impl QueryCursor for RefusedRead {
    fn snapshot(&self) -> Sequence {
        self.snapshot
    }

    fn poll_next(
        &mut self,
        _: &mut Context<'_>,
        _: &mut Budget,
    ) -> Poll<Result<QueryStep, StoreError>> {
        Poll::Ready(Err(self.error.clone()))
    }
}

impl CountCursor for RefusedRead {
    fn poll_count(
        &mut self,
        _: &mut Context<'_>,
        _: &mut Budget,
    ) -> Poll<Result<CountStep, StoreError>> {
        Poll::Ready(Err(self.error.clone()))
    }
}

impl StoreError {
    /// Says that the tags of this name are not indexed.
    pub fn not_indexed(name: &str) -> Self {
        Self::Unsupported(format!("tags named \"{name}\" are not indexed here"))
    }
}

/// Returns the first tag name of more than one letter that the filters ask for, if they do.
pub fn first_long_name<'a>(filters: impl IntoIterator<Item = &'a Filter>) -> Option<&'a TagName> {
    let mut names = (filters.into_iter().flat_map(|filter| &filter.tags)).map(|tag| &tag.name);
    names.find(|name| name.letter().is_none())
}
