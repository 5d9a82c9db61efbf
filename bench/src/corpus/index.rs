//! Where to look for the answer to a question: events by id, author and tag, newest first.

use std::collections::HashMap;

use crate::corpus::{
    event::Bytes32,
    question::Matcher,
    stored::{Corpus, Row},
};

/// Events are named by their rank: the newest is 0, ties go to the lowest id.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// The place in the corpus of each rank.
    places: Vec<u32>,
    ids: HashMap<Bytes32, u32>,
    authors: HashMap<Bytes32, Vec<u32>>,
    tags: HashMap<(u8, u64), Vec<u32>>,
}

impl Index {
    pub(super) fn new(corpus: &Corpus) -> Self {
        let order = |row: &Row| (std::cmp::Reverse(row.created_at), row.id);
        let mut rows: Vec<_> = corpus.stored().collect();
        rows.sort_unstable_by_key(|(_, row)| order(row));
        let mut index = Self::default();
        for (rank, (place, row)) in rows.into_iter().enumerate() {
            let rank = rank as u32;
            index.places.push(place as u32);
            index.ids.insert(row.id, rank);
            index.authors.entry(row.author).or_default().push(rank);
            for tag in corpus.tags_of(row) {
                let ranks = index.tags.entry(*tag).or_default();
                // The same tag twice in one event.
                if ranks.last() != Some(&rank) {
                    ranks.push(rank);
                }
            }
        }
        index
    }

    /// Returns the place in the corpus of an event.
    pub(super) fn find(&self, id: &Bytes32) -> Option<usize> {
        let rank = self.ids.get(id)?;
        self.place(*rank)
    }

    /// Returns the places of all events that may be answers, newest first.
    pub(super) fn candidates(&self, matcher: &Matcher) -> impl Iterator<Item = usize> {
        let union = |lists: Vec<&[u32]>| {
            let mut ranks = lists.concat();
            ranks.sort_unstable();
            ranks.dedup();
            ranks
        };
        let tags = matcher.tags.iter().map(|(name, values)| {
            let ranks = values
                .iter()
                .filter_map(|value| self.tags.get(&(*name, *value)));
            ranks.map(Vec::as_slice).collect::<Vec<_>>()
        });
        let authors = matcher
            .authors
            .iter()
            .filter_map(|key| self.authors.get(key));
        let authors = (!matcher.authors.is_empty()).then(|| authors.map(Vec::as_slice).collect());
        let shortest = tags
            .chain(authors)
            .min_by_key(|lists| lists.iter().map(|list| list.len()).sum::<usize>());
        let ranks = if matcher.ids.is_empty() {
            shortest.map(union)
        } else {
            let mut ranks: Vec<_> = matcher
                .ids
                .iter()
                .filter_map(|id| self.ids.get(id))
                .copied()
                .collect();
            ranks.sort_unstable();
            Some(ranks)
        };
        let all = if ranks.is_none() {
            self.places.len()
        } else {
            0
        };
        let chosen = ranks.unwrap_or_default();
        let ranks = chosen.into_iter().chain(0..all as u32);
        ranks.filter_map(|rank| self.place(rank))
    }

    fn place(&self, rank: u32) -> Option<usize> {
        self.places.get(rank as usize).map(|place| *place as usize)
    }
}
