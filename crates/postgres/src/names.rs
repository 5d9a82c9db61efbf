//! Which names of tags are indexed, and the rows that an event has under them.

use std::{collections::BTreeMap, error::Error};

use bytes::{BufMut, BytesMut};
use hikyaku_event::{Event, Tag, TagName};
use tokio_postgres::{
    Row,
    types::{IsNull, ToSql, Type, accepts, to_sql_checked},
};

use crate::columns;

/// Names of tags. Letters cost no allocation, and longer ones nothing where there are none.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    letters: [bool; 128],
    words: BTreeMap<Box<str>, TagName>,
}

/// The names that the index of tags knows.
#[derive(Debug, Clone)]
pub(crate) struct KnownNames {
    /// Those that events are indexed by.
    pub(crate) indexed: Names,
    /// All that there may be rows of: beside those the ones that are being taken away.
    pub(crate) all: Names,
}

impl KnownNames {
    /// A name, and whether it is being taken away. Read in each transaction, under the lock: from the one
    /// in which a name is switched on, every node indexes it.
    pub(crate) const SQL: &str = "SELECT name, dropping FROM {schema}.tag_names";

    /// Reads the rows of [`Self::SQL`].
    pub(crate) fn of(rows: &[Row]) -> Self {
        let indexed = rows.iter().filter(|row| !row.get::<_, bool>(1));
        Self {
            indexed: indexed.map(|row| row.get(0)).collect(),
            all: rows.iter().map(|row| row.get(0)).collect(),
        }
    }
}

impl<'a> FromIterator<&'a str> for Names {
    fn from_iter<Names: IntoIterator<Item = &'a str>>(names: Names) -> Self {
        let (mut letters, mut words) = ([false; 128], BTreeMap::new());
        for name in names.into_iter().filter_map(TagName::new) {
            match name.letter() {
                Some(letter) => {
                    if let Some(place) = letters.get_mut(usize::from(letter)) {
                        *place = true;
                    }
                }
                None => {
                    words.insert(name.as_str().into(), name);
                }
            }
        }
        Self { letters, words }
    }
}

impl Names {
    /// Returns a tag's name, if it is one of these.
    fn of(&self, tag: Tag<'_>) -> Option<TagName> {
        if let Some(letter) = tag.letter() {
            let has = self.letters.get(usize::from(letter)) == Some(&true);
            return has.then(|| TagName::of_letter(letter));
        }
        if self.words.is_empty() {
            return None;
        }
        self.words.get(&*tag.name()).cloned()
    }

    /// Returns the rows that an event has in `event_tags` under these names: name and value, in order,
    /// without doubles.
    pub(crate) fn rows_of(&self, event: &Event) -> Vec<(Name, Vec<u8>)> {
        let mut rows: Vec<_> = event
            .tags()
            .filter_map(|tag| {
                let name = self.of(tag)?;
                Some((Name(name), columns::value(&tag.value()?)))
            })
            .collect();
        rows.sort_unstable();
        rows.dedup();
        rows
    }
}

/// A name as `text`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name(pub(crate) TagName);

impl ToSql for Name {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_slice(self.0.as_str().as_bytes());
        Ok(IsNull::No)
    }
    accepts!(TEXT);
    to_sql_checked!();
}
