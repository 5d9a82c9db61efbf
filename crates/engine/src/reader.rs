//! One worker's way to read: a query takes the snapshot that is published, and asks nobody.

use std::sync::Arc;

use arc_swap::{ArcSwap, Cache};
use hikyaku_event::{EventId, Filter, Timestamp};
use hikyaku_store::{
    CountCursor, Key, KeyRange, LocalFuture, Query, QueryCursor, Reader, RefusedRead, StoreError,
    StoreReader, first_long_name,
};

use crate::{
    query::{self, Count, Cursor, Plan},
    segment::TermHasher,
    snapshot::Snapshot,
};

/// A reader of the engine.
pub(crate) struct EngineReader {
    /// Remembers the last snapshot, so that taking one touches no shared counter while it stands.
    published: std::cell::RefCell<Cache<Arc<ArcSwap<Snapshot>>, Arc<Snapshot>>>,
    hasher: TermHasher,
}

impl EngineReader {
    pub(crate) fn new(published: Arc<ArcSwap<Snapshot>>, hasher: TermHasher) -> Self {
        Self {
            published: std::cell::RefCell::new(Cache::new(published)),
            hasher,
        }
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        self.published.borrow_mut().load().clone()
    }

    /// Refuses filters that ask for tags of longer names: segments have terms for single letters.
    fn refusal(&self, filters: &[Filter]) -> Option<RefusedRead> {
        let error = StoreError::not_indexed(first_long_name(filters)?.as_str());
        Some(RefusedRead::new(self.snapshot().sequence, error))
    }
}

impl StoreReader for EngineReader {
    fn contains<'a>(
        &'a self,
        ids: &'a [EventId],
    ) -> LocalFuture<'a, Result<Vec<bool>, StoreError>> {
        let snapshot = self.snapshot();
        let contains = ids
            .iter()
            .map(|id| Ok(snapshot.find(id)?.is_some()))
            .collect::<Result<Vec<_>, crate::EngineError>>()
            .map_err(StoreError::from);
        Box::pin(std::future::ready(contains))
    }

    fn query(&self, query: Query) -> Box<dyn QueryCursor> {
        match self.refusal(&query.filters) {
            Some(refused) => Box::new(refused),
            None => Box::new(Cursor::new(self.snapshot(), &query, &self.hasher)),
        }
    }

    fn count(&self, query: Query) -> Box<dyn CountCursor> {
        match self.refusal(&query.filters) {
            Some(refused) => Box::new(refused),
            None => Box::new(Count::new(self.snapshot(), &query, &self.hasher)),
        }
    }

    fn keys(
        &self,
        filter: &Filter,
        reader: &Reader,
        now: Timestamp,
        range: KeyRange,
    ) -> Box<dyn Iterator<Item = Result<Key, StoreError>> + '_> {
        if let Some(name) = first_long_name([filter]) {
            return Box::new(std::iter::once(Err(StoreError::not_indexed(name.as_str()))));
        }
        let plan = Plan::new(filter, reader, now, u64::MAX, &self.hasher);
        let keys = query::keys::keys(self.snapshot(), plan, range);
        Box::new(keys.map(|key| key.map_err(StoreError::from)))
    }
}
