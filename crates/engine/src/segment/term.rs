//! Terms: the keyed hashes under which documents are found.

use std::hash::Hasher;

use hikyaku_event::{Address, EventId, Kind, PublicKey};
use siphasher::sip128::{Hasher128, SipHasher13};

/// What documents are looked up by: the hash of a family and a value.
///
/// 96 bits of SipHash-1-3 under the store's secret key. Nobody who doesn't know the key can choose
/// two values with the same term, and by chance it happens among 10^9 terms once in 10^11 stores, so a
/// term found is the value found: the event itself need not be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Term(u128);

impl Term {
    /// How many bits a term has. With the 32 bits of a document number it fills a `u128`.
    pub(crate) const BITS: u32 = 96;

    /// Takes the low 96 bits.
    pub(crate) const fn new(bits: u128) -> Self {
        Self(bits & ((1 << Self::BITS) - 1))
    }

    /// Returns the term's 96 bits.
    pub(crate) const fn bits(self) -> u128 {
        self.0
    }
}

/// What a term's value means. The number is hashed before the value, so it never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Family {
    /// Events of an author. Value: the key.
    Author = 1,
    /// Events of a kind. Value: the kind, 2 bytes little-endian.
    Kind = 2,
    /// Events of an author and kind. Value: the key, the kind.
    AuthorKind = 3,
    /// Events with a single-letter tag. Value: the letter, the tag's unescaped value.
    Tag = 4,
    /// Versions of a replaceable or addressable event. Value: the kind, the key, `d`.
    Address = 5,
    /// Kind 5 events that name an id. Value: the deletion's author, the id named.
    DeletesId = 6,
    /// Kind 5 events that name an address of their author. Value: author, then as `Address`.
    DeletesAddress = 7,
    /// Kind 62 events that were carried out. Value: the key.
    Vanish = 8,
    /// Events of private kinds. No value.
    Private = 9,
    /// Events that expire. No value.
    Expiring = 10,
    // 32 is kept for the words of a full-text search.
}

/// Which families a segment indexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Families(u64);

impl Families {
    /// Those that this program indexes.
    pub(crate) const ALL: Self = Self(0b111_1111_1110);

    /// Reads the set from its bits: bit n is the family n.
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns the set's bits.
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// Returns what both index.
    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

/// Makes terms, under the key of one store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TermHasher {
    sip: SipHasher13,
}

impl TermHasher {
    /// Takes the store's key: random, kept as long as the store, told to nobody.
    pub(crate) fn new(key: [u8; 16]) -> Self {
        Self {
            sip: SipHasher13::new_with_key(&key),
        }
    }

    /// The events of an author.
    pub(crate) fn author(&self, author: &PublicKey) -> Term {
        self.hash(Family::Author, &[author.as_bytes()])
    }

    /// The events of a kind.
    pub(crate) fn kind(&self, kind: Kind) -> Term {
        self.hash(Family::Kind, &[&kind.0.to_le_bytes()])
    }

    /// The events of an author and kind.
    pub(crate) fn author_kind(&self, author: &PublicKey, kind: Kind) -> Term {
        self.hash(
            Family::AuthorKind,
            &[author.as_bytes(), &kind.0.to_le_bytes()],
        )
    }

    /// The events with a single-letter tag of this value (unescaped).
    pub(crate) fn tag(&self, letter: u8, value: &[u8]) -> Term {
        self.hash(Family::Tag, &[&[letter], value])
    }

    /// The versions of a replaceable or addressable event.
    pub(crate) fn address(&self, address: &Address) -> Term {
        let Address { kind, pubkey, d } = address;
        let kind = kind.0.to_le_bytes();
        self.hash(Family::Address, &[&kind, pubkey.as_bytes(), d.as_bytes()])
    }

    /// The deletions by `deleter` that name this id.
    pub(crate) fn deletes_id(&self, deleter: &PublicKey, id: &EventId) -> Term {
        self.hash(Family::DeletesId, &[deleter.as_bytes(), id.as_bytes()])
    }

    /// The deletions by `deleter` that name this address.
    pub(crate) fn deletes_address(&self, deleter: &PublicKey, address: &Address) -> Term {
        let Address { kind, pubkey, d } = address;
        let kind = kind.0.to_le_bytes();
        let value: [&[u8]; 4] = [deleter.as_bytes(), &kind, pubkey.as_bytes(), d.as_bytes()];
        self.hash(Family::DeletesAddress, &value)
    }

    /// The carried-out requests of a key to vanish.
    pub(crate) fn vanish(&self, key: &PublicKey) -> Term {
        self.hash(Family::Vanish, &[key.as_bytes()])
    }

    /// The events of private kinds.
    pub(crate) fn private(&self) -> Term {
        self.hash(Family::Private, &[])
    }

    /// The events that expire.
    pub(crate) fn expiring(&self) -> Term {
        self.hash(Family::Expiring, &[])
    }

    /// Returns the seed for id indexes: as secret as the key, and not the key.
    pub(crate) fn id_seed(&self) -> [u8; 16] {
        // Family 0 is none, so no term has this hash.
        self.sip.hash(&[0]).as_u128().to_le_bytes()
    }

    /// Hashes a family and its value. The parts before the last are of fixed length, so that no two
    /// values run together into the same bytes.
    fn hash(&self, family: Family, value: &[&[u8]]) -> Term {
        let mut sip = self.sip;
        sip.write(&[family as u8]);
        for part in value {
            sip.write(part);
        }
        Term::new(sip.finish128().as_u128())
    }
}
