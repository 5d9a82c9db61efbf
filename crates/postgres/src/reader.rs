//! One worker's way to read.

use std::{rc::Rc, sync::Arc};

use hikyaku_event::{EventId, Filter, Timestamp};
use hikyaku_store::{
    CountCursor, Key, KeyRange, LocalFuture, Query, QueryCursor, Reader, StoreError, StoreReader,
};

use crate::{
    columns::Word,
    feed::Feed,
    query::{PostgresCount, PostgresCursor, PostgresKeys},
    replica::{Count, Cursor, Servers},
};

const STORED: &str = "SELECT id FROM {schema}.events WHERE id = ANY($1)";

/// A reader with connections of its own.
pub(crate) struct PostgresReader {
    servers: Servers,
    feed: Arc<Feed>,
}

impl PostgresReader {
    pub(crate) fn new(servers: Servers, feed: Arc<Feed>) -> Self {
        Self { servers, feed }
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
            // A replica may still have what was removed, and that may come again.
            let session = self.servers.primary.session().await?;
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
        if self.servers.replica.is_some() {
            let place = self.feed.place();
            return Box::new(Cursor::new(self.servers.clone(), query, snapshot, place));
        }
        let lanes = Rc::clone(&self.servers.primary);
        Box::new(PostgresCursor::new(lanes, query, snapshot))
    }

    fn count(&self, query: Query) -> Box<dyn CountCursor> {
        let snapshot = self.feed.snapshot();
        if self.servers.replica.is_some() {
            let place = self.feed.place();
            return Box::new(Count::new(self.servers.clone(), query, snapshot, place));
        }
        let lanes = Rc::clone(&self.servers.primary);
        Box::new(PostgresCount::new(lanes, query, snapshot))
    }

    fn keys(
        &self,
        filter: &Filter,
        reader: &Reader,
        now: Timestamp,
        range: KeyRange,
    ) -> Box<dyn Iterator<Item = Result<Key, StoreError>> + '_> {
        let (lanes, snapshot) = (Rc::clone(&self.servers.primary), self.feed.snapshot());
        Box::new(PostgresKeys::new(
            lanes, filter, reader, now, range, snapshot,
        ))
    }
}
