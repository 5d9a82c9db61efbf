//! The keys of a filter's matches, in either direction.

use std::{collections::HashMap, rc::Rc, vec};

use hikyaku_event::{Filter, Timestamp};
use hikyaku_store::{Key, KeyRange, Reader, Sequence, StoreError};

use super::{
    condition::Asked,
    indexed::AskedNames,
    place::{Direction, Place, Span},
    search::Search,
};
use crate::{
    PostgresError,
    columns::{self, Tie, Word},
    connection::{Lanes, Sessions},
    waiting::wait,
};

/// Keys that are fetched at once: at first, and at most.
const PAGE_FIRST: usize = 256;
const PAGE_MAX: usize = 4_096;

/// Keys in order. Each page is waited for on the thread that asks.
pub(crate) struct PostgresKeys {
    lanes: Rc<Lanes>,
    /// What is to be looked at before the first page.
    names: Option<AskedNames>,
    search: Search,
    range: KeyRange,
    page: usize,
    ready: vec::IntoIter<Key>,
    ended: bool,
}

impl PostgresKeys {
    pub(crate) fn new(
        lanes: Rc<Lanes>,
        filter: &Filter,
        reader: &Reader,
        now: Timestamp,
        range: KeyRange,
        snapshot: Sequence,
    ) -> Self {
        let direction = if range.backward {
            Direction::Backward
        } else {
            Direction::Forward
        };
        let span = Span {
            newest: range.from.map_or(Place::NEWEST, place),
            oldest: range.to.map_or(Place::OLDEST, place),
        };
        let snapshot = i64::try_from(snapshot.0).unwrap_or(i64::MAX);
        let asked = Asked::new(filter, reader, snapshot, now);
        Self {
            lanes,
            names: Some(AskedNames::of([filter])),
            search: Search::new(asked, filter, span, direction),
            range,
            page: PAGE_FIRST,
            ready: Vec::new().into_iter(),
            ended: false,
        }
    }

    async fn next_page(&mut self) -> Result<Vec<Key>, PostgresError> {
        let session = self.lanes.session().await?;
        let alone = Sessions::new(&session, None);
        if let Some(names) = self.names.take()
            && !names.are_indexed(alone).await?
        {
            return Err(PostgresError::Unavailable(
                "not all events are indexed by these tags".to_owned(),
            ));
        }
        let hits = self.search.take(alone, self.page).await?;
        self.ended = hits.len() < self.page;
        self.page = (self.page * 4).min(PAGE_MAX);
        let numbers: Vec<i64> = hits.iter().map(|hit| hit.seq).collect();
        if numbers.is_empty() {
            return Ok(Vec::new());
        }
        let sql = "SELECT seq, age, id FROM {schema}.events WHERE seq = ANY($1)";
        let mut keys = HashMap::with_capacity(hits.len());
        for row in session.rows(sql, &[&numbers]).await? {
            let key = Key {
                created_at: columns::created_at(row.get(1)),
                id: row.get::<_, Word>(2).into(),
            };
            keys.insert(row.get::<_, i64>(0), key);
        }
        let range = self.range;
        let is_in = |key: &Key| {
            range.from.is_none_or(|from| *key >= from) && range.to.is_none_or(|to| *key < to)
        };
        Ok(numbers
            .iter()
            .filter_map(|seq| keys.remove(seq))
            .filter(is_in)
            .collect())
    }
}

fn place(key: Key) -> Place {
    Place {
        age: columns::age(key.created_at),
        tie: Tie::of(&key.id),
    }
}

impl Iterator for PostgresKeys {
    type Item = Result<Key, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(key) = self.ready.next() {
                return Some(Ok(key));
            }
            if self.ended {
                return None;
            }
            match wait(self.next_page()) {
                Ok(keys) => self.ready = keys.into_iter(),
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error.into()));
                }
            }
        }
    }
}
