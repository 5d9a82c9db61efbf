//! Filters in the words of the claims.

use std::{borrow::Borrow, sync::Arc};

use hikyaku_event::{Event, Filter, Kind, TagCondition, TagName};

use crate::testing::key;

/// A filter without conditions.
pub(super) fn any() -> Filter {
    Filter::default()
}

/// Adds conditions to a filter, in the form a parsed filter has: lists sorted and without doubles.
pub(super) trait Narrow {
    fn ids<E: Borrow<Arc<Event>>>(self, events: impl IntoIterator<Item = E>) -> Self;
    fn authors(self, authors: impl IntoIterator<Item = u32>) -> Self;
    fn kinds(self, kinds: impl IntoIterator<Item = u16>) -> Self;
    fn tag<'a>(self, letter: char, values: impl IntoIterator<Item = &'a str>) -> Self;
    /// Tags of a name of any length.
    fn named<'a>(self, name: &str, values: impl IntoIterator<Item = &'a str>) -> Self;
    fn since(self, time: u64) -> Self;
    fn until(self, time: u64) -> Self;
    fn limit(self, limit: u64) -> Self;
}

fn sorted<T: Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut values: Vec<_> = values.collect();
    values.sort_unstable();
    values.dedup();
    values
}

impl Narrow for Filter {
    fn ids<E: Borrow<Arc<Event>>>(mut self, events: impl IntoIterator<Item = E>) -> Self {
        self.ids = Some(sorted(events.into_iter().map(|event| event.borrow().id())));
        self
    }

    fn authors(mut self, authors: impl IntoIterator<Item = u32>) -> Self {
        self.authors = Some(sorted(authors.into_iter().map(key)));
        self
    }

    fn kinds(mut self, kinds: impl IntoIterator<Item = u16>) -> Self {
        self.kinds = Some(sorted(kinds.into_iter().map(Kind)));
        self
    }

    fn tag<'a>(mut self, letter: char, values: impl IntoIterator<Item = &'a str>) -> Self {
        let values = sorted(values.into_iter().map(str::to_owned));
        let name = TagName::of_letter(u8::try_from(letter).expect("an ASCII letter"));
        self.tags.push(TagCondition { name, values });
        self.sorted()
    }

    fn named<'a>(mut self, name: &str, values: impl IntoIterator<Item = &'a str>) -> Self {
        let values = sorted(values.into_iter().map(str::to_owned));
        let name = TagName::new(name).expect("a tag's name");
        self.tags.push(TagCondition { name, values });
        self.sorted()
    }

    fn since(mut self, time: u64) -> Self {
        self.since = Some(time);
        self
    }

    fn until(mut self, time: u64) -> Self {
        self.until = Some(time);
        self
    }

    fn limit(mut self, limit: u64) -> Self {
        self.limit = Some(limit);
        self
    }
}
