//! A question: one filter of a REQ (NIP-01), and whether an event is an answer to it.

use std::collections::HashSet;

use crate::corpus::event::{Bytes32, bytes32, hash};

/// One filter of a REQ. An empty list is no condition.
#[derive(Debug, Default, Clone)]
pub(crate) struct Question {
    pub(crate) ids: Vec<String>,
    pub(crate) authors: Vec<String>,
    pub(crate) kinds: Vec<u16>,
    /// Each must be there with one of its values.
    pub(crate) tags: Vec<(char, Vec<String>)>,
    pub(crate) since: Option<u64>,
    pub(crate) until: Option<u64>,
    pub(crate) limit: usize,
}

impl Question {
    /// Writes the filter as a client would.
    pub(crate) fn to_json(&self) -> String {
        let mut filter = serde_json::Map::new();
        if !self.ids.is_empty() {
            filter.insert("ids".to_owned(), self.ids.clone().into());
        }
        if !self.authors.is_empty() {
            filter.insert("authors".to_owned(), self.authors.clone().into());
        }
        if !self.kinds.is_empty() {
            filter.insert("kinds".to_owned(), self.kinds.clone().into());
        }
        for (name, values) in &self.tags {
            filter.insert(format!("#{name}"), values.clone().into());
        }
        if let Some(since) = self.since {
            filter.insert("since".to_owned(), since.into());
        }
        if let Some(until) = self.until {
            filter.insert("until".to_owned(), until.into());
        }
        filter.insert("limit".to_owned(), self.limit.into());
        serde_json::Value::Object(filter).to_string()
    }
}

/// A question made ready to be asked of many events.
#[derive(Debug)]
pub(crate) struct Matcher {
    pub(super) ids: HashSet<Bytes32>,
    pub(super) authors: HashSet<Bytes32>,
    kinds: Vec<u16>,
    pub(super) tags: Vec<(u8, Vec<u64>)>,
    since: u64,
    until: u64,
}

impl Matcher {
    pub(crate) fn new(question: &Question) -> Self {
        let keys = |keys: &[String]| keys.iter().filter_map(|key| bytes32(key)).collect();
        let tag = |(name, values): &(char, Vec<String>)| {
            let values = values.iter().map(|value| hash(value)).collect();
            (*name as u8, values)
        };
        Self {
            ids: keys(&question.ids),
            authors: keys(&question.authors),
            kinds: question.kinds.clone(),
            tags: question.tags.iter().map(tag).collect(),
            since: question.since.unwrap_or(0),
            until: question.until.unwrap_or(u64::MAX),
        }
    }

    pub(super) fn matches(
        &self,
        id: &Bytes32,
        author: &Bytes32,
        created_at: u64,
        kind: u16,
        tags: &[(u8, u64)],
    ) -> bool {
        let has = |(name, values): &(u8, Vec<u64>)| {
            let mut named = tags.iter().filter(|(letter, _)| letter == name);
            named.any(|(_, value)| values.contains(value))
        };
        (self.kinds.is_empty() || self.kinds.contains(&kind))
            && (self.since..=self.until).contains(&created_at)
            && self.tags.iter().all(has)
            && (self.ids.is_empty() || self.ids.contains(id))
            && (self.authors.is_empty() || self.authors.contains(author))
    }
}
