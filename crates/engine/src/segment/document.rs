//! Documents: what a segment keeps of an event.

use hikyaku_event::{Event, Kind, Timestamp};
use hikyaku_store::{
    Key, Sequence,
    rules::{self, Effect},
};

use super::{Term, TermHasher};

/// A document's number in its segment: 0 is the newest. The order is that of answers (`created_at`
/// descending, then id ascending).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct DocId(pub(crate) u32);

/// What is quickly known about a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Flags(pub(crate) u8);

impl Flags {
    /// Of a private kind: only its parties may read it.
    pub(crate) const PRIVATE: Self = Self(1);
    /// It has an expiry.
    pub(crate) const EXPIRING: Self = Self(2);
    /// A request to vanish that was carried out.
    pub(crate) const VANISH: Self = Self(4);

    /// Tells whether all of these flags are set.
    pub(crate) const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Returns the flags with these set, or cleared.
    #[must_use]
    pub(crate) const fn with(self, flags: Self, set: bool) -> Self {
        if set {
            Self(self.0 | flags.0)
        } else {
            Self(self.0 & !flags.0)
        }
    }
}

/// One event, as it is indexed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Document {
    /// Its place in the order of answers. Two documents of one segment may have the same id only if
    /// all but the one with the highest sequence are tombstoned.
    pub(crate) key: Key,
    /// Its place in the order of writing.
    pub(crate) sequence: Sequence,
    /// Its kind.
    pub(crate) kind: Kind,
    /// Its flags; [`Flags::EXPIRING`] says the same as `expires_at`, which decides.
    pub(crate) flags: Flags,
    /// Where the log has it.
    pub(crate) position: u64,
    /// When it expires (NIP-40).
    pub(crate) expires_at: Option<Timestamp>,
    /// Its author's term, which no other author's document has.
    pub(crate) author: Term,
    /// All its terms, in any order.
    pub(crate) terms: Vec<Term>,
}

impl Document {
    /// Indexes an event. `vanish` says that it is of kind 62 and was carried out.
    pub(crate) fn from_event(
        event: &Event,
        vanish: bool,
        sequence: Sequence,
        position: u64,
        hasher: &TermHasher,
    ) -> Self {
        let (author, kind) = (event.pubkey(), event.kind());
        let expires_at = event.expires_at();
        let author_term = hasher.author(&author);
        let mut terms = vec![
            author_term,
            hasher.kind(kind),
            hasher.author_kind(&author, kind),
        ];
        let tags = event.indexed_tags();
        terms.extend(tags.map(|(letter, value)| hasher.tag(letter, value.as_bytes())));
        terms.extend(event.address().map(|address| hasher.address(&address)));
        match rules::effect(event, vanish) {
            Effect::None => {}
            Effect::Delete(targets) => {
                let ids = targets.ids.iter();
                terms.extend(ids.map(|id| hasher.deletes_id(&author, id)));
                let addresses = targets.addresses.iter();
                terms.extend(addresses.map(|address| hasher.deletes_address(&author, address)));
            }
            Effect::Vanish { key, .. } => terms.push(hasher.vanish(&key)),
        }
        terms.extend(kind.is_private().then(|| hasher.private()));
        terms.extend(expires_at.map(|_| hasher.expiring()));
        terms.sort_unstable();
        terms.dedup();
        Self {
            key: Key {
                created_at: event.created_at(),
                id: event.id(),
            },
            sequence,
            kind,
            flags: Flags::default()
                .with(Flags::PRIVATE, kind.is_private())
                .with(Flags::EXPIRING, expires_at.is_some())
                .with(Flags::VANISH, vanish),
            position,
            expires_at,
            author: author_term,
            terms,
        }
    }
}
