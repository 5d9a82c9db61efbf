//! Filters: parsing, and matching against an event (NIP-01).

use crate::{Event, EventId, Kind, PublicKey, Timestamp};

/// Why JSON is not an acceptable filter. The text is fit for a client, after `invalid: `.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FilterError(pub String);

/// The values one tag name may have: an event matches if one of its tags of that name has one of
/// them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagCondition {
    /// The name: one ASCII letter; upper and lower case are different names.
    pub letter: u8,
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
    /// Tag conditions, sorted by letter, one per letter.
    pub tags: Vec<TagCondition>,
    /// The earliest `created_at`, inclusive.
    pub since: Option<Timestamp>,
    /// The latest `created_at`, inclusive.
    pub until: Option<Timestamp>,
    /// How many stored events at most; plays no part in matching.
    pub limit: Option<u64>,
}

impl Filter {
    /// Parses a filter object. Unknown keys are ignored; malformed values of known keys are errors.
    pub fn parse(json: &[u8]) -> Result<Self, FilterError> {
        let _ = json;
        unimplemented!()
    }
    /// Writes the filter as JSON.
    pub fn to_json(&self) -> String {
        unimplemented!()
    }
    /// Tells whether the event matches; `limit` is ignored. Reading rights and expiry are not this
    /// function's concern.
    pub fn matches(&self, event: &Event) -> bool {
        let _ = event;
        unimplemented!()
    }
    /// Tells whether no event can match: an empty list, or `since` after `until`.
    pub fn matches_nothing(&self) -> bool {
        unimplemented!()
    }
}
