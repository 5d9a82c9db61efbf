//! Events: parsing from the wire, identity, signature, and the questions the rules ask of them.

use std::borrow::Cow;

use bytes::Bytes;

use crate::{EventId, Kind, PublicKey, Signature, Timestamp};

/// Why bytes are not an acceptable event. The text is fit for a client, after `invalid: `.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// Not JSON, or not the object NIP-01 describes; says what and where.
    #[error("{0}")]
    Malformed(String),
    /// The id is not the hash of the event.
    #[error("the id does not match the event")]
    WrongId,
    /// The signature does not belong to id and key.
    #[error("the signature is not valid")]
    WrongSignature,
}

/// One signed event, parsed once and then shared.
///
/// It keeps the JSON that is stored and sent: what came in, or, where that held anything but the
/// seven fields of NIP-01 in compact form, those seven fields written anew. What nobody signed is
/// not kept.
#[derive(Debug, Clone)]
pub struct Event {
    json: Bytes,
    id: EventId,
    pubkey: PublicKey,
    created_at: Timestamp,
    kind: Kind,
    sig: Signature,
    // private representation (tag spans, ...) goes here
}

/// One tag of an event.
#[derive(Debug, Clone, Copy)]
pub struct Tag<'a> {
    event: &'a Event,
    // private representation goes here
}

impl<'a> Tag<'a> {
    /// Returns the `index`-th string of the tag, unescaped: 0 is the name, 1 the value.
    pub fn get(&self, index: usize) -> Option<Cow<'a, str>> {
        let _ = (index, self.event);
        unimplemented!()
    }
    /// Returns the tag's name; an empty tag has an empty name.
    pub fn name(&self) -> Cow<'a, str> {
        self.get(0).unwrap_or_default()
    }
    /// Returns the tag's value, if it has one.
    pub fn value(&self) -> Option<Cow<'a, str>> {
        self.get(1)
    }
    /// Returns the name if it is one ASCII letter: the tags that filters can ask for.
    pub fn letter(&self) -> Option<u8> {
        unimplemented!()
    }
}

/// The address of a replaceable or addressable event: kind, author, and `d` (empty where the kind
/// has none).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    /// The kind.
    pub kind: Kind,
    /// The author.
    pub pubkey: PublicKey,
    /// The value of the `d` tag; empty if missing, and for replaceable kinds.
    pub d: String,
}

impl Address {
    /// Parses `kind:pubkey:d` as an `a` tag has it. `None` for anything else, and for kinds that
    /// are neither replaceable nor addressable; for a replaceable kind `d` must be empty (a trailing
    /// colon may be missing).
    pub fn parse(text: &str) -> Option<Self> {
        let _ = text;
        unimplemented!()
    }
}

/// Checks signatures; keep one per thread.
#[derive(Debug, Default)]
pub struct Verifier {}

impl Verifier {
    /// Creates a verifier.
    pub fn new() -> Self {
        Self::default()
    }
    /// Checks the event's BIP-340 signature over its id. Does not check the id itself.
    pub fn verify(&mut self, event: &Event) -> Result<(), EventError> {
        let _ = event;
        unimplemented!()
    }
}

impl Event {
    /// Parses an event from the wire: shape, types, UTF-8, no lone surrogates, integers only.
    /// Checks neither id nor signature; see [`Event::verify_id`] and [`Verifier`].
    pub fn parse(json: &[u8]) -> Result<Self, EventError> {
        let _ = json;
        unimplemented!()
    }
    /// Parses an event's JSON that this crate has produced before ([`Event::json`]), without a copy.
    pub fn from_stored(json: Bytes) -> Result<Self, EventError> {
        let _ = json;
        unimplemented!()
    }
    /// Checks that the id is the hash of the event (NIP-01).
    pub fn verify_id(&self) -> Result<(), EventError> {
        unimplemented!()
    }
    /// Returns the JSON to store and to send.
    pub fn json(&self) -> &Bytes {
        &self.json
    }
    /// Returns the id.
    pub fn id(&self) -> EventId {
        self.id
    }
    /// Returns the author.
    pub fn pubkey(&self) -> PublicKey {
        self.pubkey
    }
    /// Returns the time its author gave it.
    pub fn created_at(&self) -> Timestamp {
        self.created_at
    }
    /// Returns the kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }
    /// Returns the signature.
    pub fn sig(&self) -> Signature {
        self.sig
    }
    /// Returns the content, unescaped.
    pub fn content(&self) -> Cow<'_, str> {
        unimplemented!()
    }
    /// Returns the tags in order.
    pub fn tags(&self) -> impl Iterator<Item = Tag<'_>> {
        std::iter::empty()
    }
    /// Returns the values of the tags with this single-letter name, in order, doubles included.
    pub fn tag_values(&self, letter: u8) -> impl Iterator<Item = Cow<'_, str>> {
        self.tags()
            .filter(move |tag| tag.letter() == Some(letter))
            .filter_map(|tag| tag.value())
    }
    /// Returns all (letter, value) pairs that filters can ask for, in order, doubles included.
    pub fn indexed_tags(&self) -> impl Iterator<Item = (u8, Cow<'_, str>)> {
        self.tags()
            .filter_map(|tag| Some((tag.letter()?, tag.value()?)))
    }
    /// Returns the address, if the kind is replaceable or addressable.
    pub fn address(&self) -> Option<Address> {
        unimplemented!()
    }
    /// Returns when the event expires (NIP-40), if it says so in a well-formed `expiration` tag.
    /// It is absent from that second on.
    pub fn expires_at(&self) -> Option<Timestamp> {
        unimplemented!()
    }
    /// Tells whether the event has NIP-70's `-` tag.
    pub fn is_protected(&self) -> bool {
        unimplemented!()
    }
    /// Tells whether `key` is one of the parties of an event of a private kind: the p-tagged, and
    /// for kind 4 the author.
    pub fn is_party(&self, key: &PublicKey) -> bool {
        let _ = key;
        unimplemented!()
    }
}
