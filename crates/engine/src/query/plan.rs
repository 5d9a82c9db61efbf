//! What a filter asks, in the index's words: its terms, hashed once for all parts of a snapshot.

use foldhash::fast::FixedState;
use hashbrown::HashSet;
use hikyaku_event::{EventId, Filter, Kind, PublicKey, Timestamp};
use hikyaku_store::Reader;

use crate::segment::{Term, TermHasher};

/// Terms are keyed hashes already: any spread of them does.
pub(super) type TermSet = HashSet<Term, FixedState>;

/// The authors of a filter.
#[derive(Debug)]
pub(super) struct Authors {
    pub(super) keys: Vec<PublicKey>,
    pub(super) terms: Vec<Term>,
    /// For small parts, where looking at each document costs less than looking up each author.
    pub(super) term_set: TermSet,
}

/// One filter of a query, ready to run against any part.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(super) hasher: TermHasher,
    pub(super) ids: Option<Vec<EventId>>,
    pub(super) authors: Option<Authors>,
    pub(super) kinds: Option<Vec<Kind>>,
    /// One list of terms per tag name: an AND of ORs.
    pub(super) tags: Vec<Vec<Term>>,
    pub(super) since: Timestamp,
    pub(super) until: Timestamp,
    pub(super) rights: Rights,
    pub(super) now: Timestamp,
    /// How many matches are likely to be asked for; steers the choice of a driver only.
    pub(super) wanted: u64,
    pub(super) matches_nothing: bool,
}

/// What of the private kinds may be read.
#[derive(Debug)]
pub(super) enum Rights {
    /// Everything.
    All,
    /// What one of these keys is a party of: (its author term, its p tag's term).
    PartyTo(Vec<(Term, Term)>),
}

impl Plan {
    pub(crate) fn new(
        filter: &Filter,
        reader: &Reader,
        now: Timestamp,
        wanted: u64,
        hasher: &TermHasher,
    ) -> Self {
        let authors = filter.authors.as_ref().map(|keys| {
            let terms: Vec<Term> = keys.iter().map(|key| hasher.author(key)).collect();
            Authors {
                keys: keys.clone(),
                term_set: terms.iter().copied().collect(),
                terms,
            }
        });
        let tags = filter
            .tags
            .iter()
            .map(|condition| {
                // Longer names are not indexed, and refused before.
                let letter = condition.name.letter().into_iter();
                let values = letter.flat_map(|letter| {
                    let values = condition.values.iter();
                    values.map(move |value| hasher.tag(letter, value.as_bytes()))
                });
                values.collect()
            })
            .collect();
        let rights = if reader.is_operator() {
            Rights::All
        } else {
            Rights::PartyTo(
                reader
                    .keys()
                    .iter()
                    .map(|key| {
                        (
                            hasher.author(key),
                            hasher.tag(b'p', key.to_hex().as_bytes()),
                        )
                    })
                    .collect(),
            )
        };
        Self {
            hasher: *hasher,
            ids: filter.ids.clone(),
            authors,
            kinds: filter.kinds.clone(),
            tags,
            since: filter.since.unwrap_or(0),
            until: filter.until.unwrap_or(Timestamp::MAX),
            rights,
            now,
            wanted,
            matches_nothing: filter.matches_nothing(),
        }
    }

    /// Returns how many terms have to be looked up in a part.
    pub(super) fn lookups(&self) -> usize {
        let tags: usize = self.tags.iter().map(Vec::len).sum();
        let authors = self
            .authors
            .as_ref()
            .map_or(0, |authors| authors.terms.len());
        let ids = self.ids.as_ref().map_or(0, Vec::len);
        let kinds = self.kinds.as_ref().map_or(0, Vec::len);
        tags + authors + ids + kinds
    }

    /// Tells whether the filter has a condition on nothing but the time.
    pub(super) fn is_unconditional(&self) -> bool {
        self.ids.is_none() && self.authors.is_none() && self.kinds.is_none() && self.tags.is_empty()
    }
}
