//! Filters: what they are, and matching them against an event (NIP-01).

use crate::{Event, EventId, Kind, PublicKey, TagName, Timestamp, escape::RawString};

/// The values one tag name may have: an event matches if one of its tags of that name has one of
/// them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagCondition {
    /// The name; upper and lower case are different names.
    pub name: TagName,
    /// The values, sorted, without doubles.
    pub values: Vec<String>,
}

/// A filter: an AND over its fields, each an OR over its values. An absent field is no condition;
/// an empty list matches nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Event ids, sorted, without doubles.
    pub ids: Option<Vec<EventId>>,
    /// Authors, sorted, without doubles.
    pub authors: Option<Vec<PublicKey>>,
    /// Kinds, sorted, without doubles.
    pub kinds: Option<Vec<Kind>>,
    /// Tag conditions, sorted by name, one per name.
    pub tags: Vec<TagCondition>,
    /// The earliest `created_at`, inclusive.
    pub since: Option<Timestamp>,
    /// The latest `created_at`, inclusive.
    pub until: Option<Timestamp>,
    /// How many stored events at most; plays no part in matching.
    pub limit: Option<u64>,
}

impl Filter {
    /// Tells whether the event matches; `limit` is ignored. Reading rights and expiry are not this
    /// function's concern.
    pub fn matches(&self, event: &Event) -> bool {
        self.since.is_none_or(|since| since <= event.created_at())
            && self.until.is_none_or(|until| event.created_at() <= until)
            && has(self.kinds.as_deref(), &event.kind())
            && has(self.authors.as_deref(), &event.pubkey())
            && has(self.ids.as_deref(), &event.id())
            && self.tags.iter().all(|condition| condition.matches(event))
    }

    /// Tells whether no event can match: an empty list, or `since` after `until`.
    pub fn matches_nothing(&self) -> bool {
        self.ids.as_ref().is_some_and(Vec::is_empty)
            || self.authors.as_ref().is_some_and(Vec::is_empty)
            || self.kinds.as_ref().is_some_and(Vec::is_empty)
            || self
                .tags
                .iter()
                .any(|condition| condition.values.is_empty())
            || self
                .since
                .zip(self.until)
                .is_some_and(|(since, until)| since > until)
    }

    /// Brings a filter that was put together by hand into the order its fields promise: sorted, no
    /// doubles. Conditions on the same name stay an AND and are kept apart.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        self.ids.as_mut().map(sort);
        self.authors.as_mut().map(sort);
        self.kinds.as_mut().map(sort);
        self.tags.sort_by(|a, b| a.name.cmp(&b.name));
        for condition in &mut self.tags {
            sort(&mut condition.values);
        }
        self
    }
}

impl TagCondition {
    fn matches(&self, event: &Event) -> bool {
        let letter = self.name.letter();
        event.tags().any(|tag| {
            let is_named = match letter {
                Some(_) => tag.letter() == letter,
                None => tag.is_named(self.name.as_str()),
            };
            is_named && tag.raw_value().is_some_and(|value| self.has_value(value))
        })
    }

    fn has_value(&self, value: RawString<'_>) -> bool {
        let value = value.bytes();
        self.values
            .binary_search_by(|probe| probe.as_bytes().cmp(&value))
            .is_ok()
    }
}

fn has<T: Ord>(list: Option<&[T]>, value: &T) -> bool {
    list.is_none_or(|list| list.binary_search(value).is_ok())
}

pub(crate) fn sort<T: Ord>(list: &mut Vec<T>) {
    list.sort_unstable();
    list.dedup();
}
