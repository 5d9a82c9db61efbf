//! Events: parsing from the wire, identity, and the questions the rules ask of them.

use std::{borrow::Cow, io::Write};

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::{
    Address, EventId, Kind, KindClass, PublicKey, Signature, Tag, Timestamp,
    escape::Controls,
    json::{Fault, Scanner},
    scan::{Layout, ScannedEvent, scan_event},
};

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

impl From<Fault> for EventError {
    fn from(fault: Fault) -> Self {
        Self::Malformed(fault.to_string())
    }
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
    layout: Layout,
}

impl Event {
    /// Parses an event from the wire: shape, types, UTF-8, no lone surrogates, integers only.
    /// Checks neither id nor signature; see [`Event::verify_id`] and [`crate::Verifier`].
    ///
    /// Keys may come in any order, and unknown keys with any value are allowed (and dropped); none
    /// of the seven fields may come twice.
    pub fn parse(json: &[u8]) -> Result<Self, EventError> {
        let mut scanner = Scanner::new(json)?;
        let scanned = scan_event(&mut scanner)?;
        scanner.end()?;
        Self::from_scanned(scanned)
    }

    /// Parses an event's JSON that this crate has produced before ([`Event::json`]), without a copy.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "it is kept, by way of a slice of it"
    )]
    pub fn from_stored(json: Bytes) -> Result<Self, EventError> {
        let mut scanner = Scanner::new(&json)?;
        let scanned = scan_event(&mut scanner)?;
        scanner.end()?;
        if !scanned.compact {
            return Self::from_scanned(scanned);
        }
        let object = json.slice_ref(scanned.json);
        Ok(Self::assemble(scanned, object))
    }

    /// Makes an event of a scanned object: with a copy of it if it is compact, else rewritten.
    pub(crate) fn from_scanned(scanned: ScannedEvent<'_>) -> Result<Self, EventError> {
        if scanned.compact {
            let json = Bytes::copy_from_slice(scanned.json);
            return Ok(Self::assemble(scanned, json));
        }
        let json = Bytes::from(scanned.rewrite());
        let rewritten = scan_event(&mut Scanner::trusted(&json))?;
        Ok(Self::assemble(rewritten, json.clone()))
    }

    fn assemble(scanned: ScannedEvent<'_>, json: Bytes) -> Self {
        Self {
            json,
            id: scanned.id,
            pubkey: scanned.pubkey,
            created_at: scanned.created_at,
            kind: scanned.kind,
            sig: scanned.sig,
            layout: scanned.layout,
        }
    }

    /// Checks that the id is the hash of the event (NIP-01).
    ///
    /// NIP-01 names seven escapes and has every other character verbatim; but JSON can't hold
    /// control characters verbatim, and most clients hash what their JSON library writes, which is
    /// `\u00xx`. An id of either form is right. No two events share a serialisation because of it:
    /// a backslash of the text itself is always doubled.
    pub fn verify_id(&self) -> Result<(), EventError> {
        let id = if self.layout.is_canonical() {
            self.hash_as_it_stands()
        } else {
            self.hash_rewritten(Controls::Escaped)
        };
        let matches = id == self.id
            || !self.layout.is_canonical() && self.hash_rewritten(Controls::Verbatim) == self.id;
        if matches {
            Ok(())
        } else {
            Err(EventError::WrongId)
        }
    }

    /// Hashes the raw tags and content, which are canonical already.
    fn hash_as_it_stands(&self) -> EventId {
        let mut hasher = Sha256::new();
        hasher.update(self.serialisation_head());
        hasher.update(self.layout.raw_tags(&self.json));
        hasher.update(b",\"");
        hasher.update(self.layout.raw_content(&self.json).raw);
        hasher.update(b"\"]");
        EventId::new(hasher.finalize().into())
    }

    fn hash_rewritten(&self, controls: Controls) -> EventId {
        let mut text = self.serialisation_head();
        self.layout.write_tags(&mut text, &self.json, controls);
        text.push(b',');
        self.layout.write_content(&mut text, &self.json, controls);
        text.push(b']');
        EventId::new(Sha256::digest(&text).into())
    }

    fn serialisation_head(&self) -> Vec<u8> {
        // Room for the longest one, so that it never grows.
        let mut head = Vec::with_capacity(100);
        let (pubkey, created_at, kind) = (self.pubkey, self.created_at, self.kind.0);
        // Writing to memory does not fail.
        let _ = write!(head, "[0,\"{pubkey}\",{created_at},{kind},");
        head
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
        self.layout.raw_content(&self.json).text()
    }

    /// Returns the tags in order.
    pub fn tags(&self) -> impl Iterator<Item = Tag<'_>> {
        let starts = self.layout.tag_starts.iter();
        starts.map(|&start| Tag::new(&self.json, start))
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
        let d = match self.kind.class() {
            KindClass::Replaceable => String::new(),
            KindClass::Addressable => {
                let mut tags = self.tags();
                let d = tags.find(|tag| tag.letter() == Some(b'd'));
                d.and_then(|tag| tag.value())
                    .unwrap_or_default()
                    .into_owned()
            }
            KindClass::Regular | KindClass::Ephemeral => return None,
        };
        Some(Address {
            kind: self.kind,
            pubkey: self.pubkey,
            d,
        })
    }

    /// Returns when the event expires (NIP-40), if it says so in a well-formed `expiration` tag
    /// (decimal digits); the first such tag counts. It is absent from that second on.
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.tags()
            .filter(|tag| tag.is_named("expiration"))
            .find_map(|tag| {
                let value = tag.value()?;
                let digits = value.bytes().all(|byte| byte.is_ascii_digit());
                // `parse` alone would take a leading plus sign.
                digits.then(|| value.parse().ok()).flatten()
            })
    }

    /// Tells whether the event has NIP-70's `-` tag.
    pub fn is_protected(&self) -> bool {
        self.tags().any(|tag| tag.is_named("-"))
    }

    /// Tells whether `key` is one of the parties of an event of a private kind: the p-tagged, and
    /// for kind 4 the author.
    pub fn is_party(&self, key: &PublicKey) -> bool {
        self.kind == Kind::DIRECT_MESSAGE && self.pubkey == *key || {
            let hex = key.to_hex();
            self.tags()
                .any(|tag| tag.letter() == Some(b'p') && tag.value_is(hex.as_bytes()))
        }
    }
}
