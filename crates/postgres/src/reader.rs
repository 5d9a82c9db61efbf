//! One worker's way to read.

use std::{rc::Rc, sync::Arc};

use hikyaku_event::{EventId, Filter, Timestamp};
use hikyaku_store::{
    CountCursor, Key, KeyRange, LocalFuture, Query, QueryCursor, Reader, StoreError, StoreReader,
};

use crate::{
    columns::Word,
    connection::Lanes,
    feed::Feed,
    query::{PostgresCount, PostgresCursor, PostgresKeys},
};

const STORED: &str = "SELECT id FROM {schema}.events WHERE id = ANY($1)";

/// A reader with connections of its own.
pub(crate) struct PostgresReader {
    lanes: Rc<Lanes>,
    feed: Arc<Feed>,
}

impl PostgresReader {
    pub(crate) fn new(lanes: Lanes, feed: Arc<Feed>) -> Self {
        Self {
            lanes: Rc::new(lanes),
            feed,
        }
    }
}

impl StoreReader for PostgresReader {
    fn contains<'a>(
        &'a self,
        ids: &'a [EventId],
    ) -> LocalFuture<'a, Result<Vec<bool>, StoreError>> {
        Box::pin(async move {
            if ids.is_empty() {
                return Ok(Vec::new());
            }
            let session = self.lanes.session().await?;
            let words: Vec<Word> = ids.iter().map(|id| (*id).into()).collect();
            let rows = session.rows(STORED, &[&words]).await?;
            let mut stored: Vec<Word> = rows.iter().map(|row| row.get(0)).collect();
            stored.sort_unstable();
            Ok(words
                .iter()
                .map(|id| stored.binary_search(id).is_ok())
                .collect())
        })
    }

    fn query(&self, query: Query) -> Box<dyn QueryCursor> {
        let snapshot = self.feed.snapshot();
        Box::new(PostgresCursor::new(Rc::clone(&self.lanes), query, snapshot))
    }

    fn count(&self, query: Query) -> Box<dyn CountCursor> {
        let snapshot = self.feed.snapshot();
        Box::new(PostgresCount::new(Rc::clone(&self.lanes), query, snapshot))
    }

    fn keys(
        &self,
        filter: &Filter,
        reader: &Reader,
        now: Timestamp,
        range: KeyRange,
    ) -> Box<dyn Iterator<Item = Result<Key, StoreError>> + '_> {
        let (lanes, snapshot) = (Rc::clone(&self.lanes), self.feed.snapshot());
        Box::new(PostgresKeys::new(
            lanes, filter, reader, now, range, snapshot,
        ))
    }
}
