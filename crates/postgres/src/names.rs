//! Which names of tags are indexed, and the rows that an event has under them.

use std::{collections::BTreeMap, error::Error};

use bytes::{BufMut, BytesMut};
use hikyaku_event::{Event, Tag, TagName};
use tokio_postgres::types::{IsNull, ToSql, Type, accepts, to_sql_checked};

use crate::columns;

/// Names of tags. Letters cost no allocation, and longer ones nothing where there are none.
#[derive(Debug, Clone)]
pub(crate) enum Names {
    /// All that can be indexed: what a row may stand under that is to be taken away.
    Every,
    These {
        letters: [bool; 128],
        words: BTreeMap<Box<str>, TagName>,
    },
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
        Self::These { letters, words }
    }
}

impl Names {
    /// Returns a tag's name, if it is one of these.
    fn of(&self, tag: Tag<'_>) -> Option<TagName> {
        if let Some(letter) = tag.letter() {
            let has = |letters: &[bool; 128]| letters.get(usize::from(letter)) == Some(&true);
            return match self {
                Self::These { letters, .. } if !has(letters) => None,
                _ => Some(TagName::of_letter(letter)),
            };
        }
        match self {
            Self::Every => TagName::new(&tag.name()),
            Self::These { words, .. } if words.is_empty() => None,
            Self::These { words, .. } => words.get(&*tag.name()).cloned(),
        }
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
