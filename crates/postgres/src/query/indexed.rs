//! Whether all events are indexed by the tag names that are asked for.

use futures_util::future::try_join_all;
use hikyaku_event::{Filter, TagName};

use crate::{
    PostgresError,
    connection::{Session, Sessions},
};

const INDEXED: &str = "SELECT name, filled FROM {schema}.tag_names \
    WHERE name = ANY($1) AND NOT dropping";

/// The tag names that some filters ask for, each once.
pub(super) struct AskedNames(Vec<TagName>);

impl AskedNames {
    pub(super) fn of<'a>(filters: impl IntoIterator<Item = &'a Filter>) -> Self {
        let conditions = filters.into_iter().flat_map(|filter| &filter.tags);
        let mut names: Vec<_> = conditions.map(|tag| tag.name.clone()).collect();
        names.sort_unstable();
        names.dedup();
        Self(names)
    }

    /// Tells whether all events are indexed by all of these names. A letter that was switched off is
    /// answered from what is there, which is nothing; that a longer name is not indexed is an error.
    ///
    /// To be asked before the first look into the index, or sent before it over each connection that
    /// looks: a name that is indexed wholly stays so.
    pub(super) async fn are_indexed(&self, sessions: Sessions<'_>) -> Result<bool, PostgresError> {
        if self.0.is_empty() {
            return Ok(true);
        }
        let each = sessions.each().map(|session| self.are_indexed_now(session));
        let whole = try_join_all(each).await?;
        Ok(whole.into_iter().all(|whole| whole))
    }

    async fn are_indexed_now(&self, session: &Session) -> Result<bool, PostgresError> {
        let names: Vec<&str> = self.0.iter().map(TagName::as_str).collect();
        let rows = session.rows(INDEXED, &[&names]).await?;
        let is_there = |name: &TagName| {
            rows.iter()
                .any(|row| row.get::<_, &str>(0) == name.as_str())
        };
        let absent = |name: &&TagName| name.letter().is_none() && !is_there(name);
        match self.0.iter().find(absent) {
            Some(name) => Err(PostgresError::NotIndexed(name.clone())),
            None => Ok(rows.len() == names.len() && rows.iter().all(|row| row.get(1))),
        }
    }

    /// Tells whether there are names that need not be indexed.
    pub(super) fn may_be_refused(&self) -> bool {
        self.0.iter().any(|name| name.letter().is_none())
    }

    /// Makes the statement known to the connections, so that asking it and what follows stay in order.
    pub(super) async fn prepare(sessions: Sessions<'_>) -> Result<(), PostgresError> {
        for session in sessions.each() {
            session.prepared(INDEXED).await?;
        }
        Ok(())
    }
}
