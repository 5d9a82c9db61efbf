//! Keys from a number, and events validly signed with them.

use secp256k1::{Keypair, schnorr};
use sha2::{Digest, Sha256};

use crate::{Event, EventId, PublicKey, Signature, Timestamp, escape_into};

/// A key pair that a number stands for, the same in every run.
#[derive(Debug, Clone)]
pub struct Author {
    keypair: Keypair,
    pubkey: PublicKey,
}

impl Author {
    /// Makes the key pair of a number.
    pub fn new(seed: u64) -> Self {
        let secret =
            Sha256::digest([b"hikyaku test key ".as_slice(), &seed.to_be_bytes()].concat());
        #[expect(clippy::expect_used, reason = "one hash in 2^128 is not a secret key")]
        let keypair = Keypair::from_secret_bytes(secret.into()).expect("a secret key");
        let pubkey = PublicKey::new(keypair.x_only_public_key().0.to_byte_array());
        Self { keypair, pubkey }
    }

    /// Returns the public key.
    pub fn pubkey(&self) -> PublicKey {
        self.pubkey
    }

    /// Signs an id, deterministically.
    pub fn sign(&self, id: EventId) -> Signature {
        let signature = schnorr::sign_no_aux_rand(id.as_bytes(), &self.keypair);
        Signature::new(signature.to_byte_array())
    }
}

/// An event to be signed.
///
/// ```
/// use hikyaku_event::testing::{Author, EventBuilder};
///
/// let alice = Author::new(1);
/// let event = EventBuilder::new(1)
///     .created_at(1_700_000_000)
///     .tag(["t", "ham"])
///     .content("hello")
///     .sign(&alice);
/// assert_eq!(event.verify_id(), Ok(()));
/// ```
#[derive(Debug, Clone)]
pub struct EventBuilder {
    kind: u16,
    created_at: Timestamp,
    /// The tags so far in canonical JSON, without the outer brackets.
    tags: Vec<u8>,
    /// The content in canonical JSON, with its quotes.
    content: Vec<u8>,
}

impl EventBuilder {
    /// Begins an event of a kind, at second 1,700,000,000, without tags and content.
    pub fn new(kind: u16) -> Self {
        Self {
            kind,
            created_at: 1_700_000_000,
            tags: Vec::new(),
            content: b"\"\"".to_vec(),
        }
    }

    /// Sets the time.
    #[must_use]
    pub fn created_at(mut self, created_at: Timestamp) -> Self {
        self.created_at = created_at;
        self
    }

    /// Sets the content.
    #[must_use]
    pub fn content(mut self, content: &str) -> Self {
        self.content.clear();
        escape_into(&mut self.content, content);
        self
    }

    /// Adds a tag.
    #[must_use]
    pub fn tag(mut self, strings: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        self.tags
            .extend_from_slice(if self.tags.is_empty() { b"[" } else { b",[" });
        for (index, string) in strings.into_iter().enumerate() {
            if index > 0 {
                self.tags.push(b',');
            }
            escape_into(&mut self.tags, string.as_ref());
        }
        self.tags.push(b']');
        self
    }

    /// Signs the event.
    pub fn sign(&self, author: &Author) -> Event {
        #[expect(clippy::expect_used, reason = "the JSON is made right here")]
        let event = Event::from_stored(self.sign_json(author).into()).expect("a well-formed event");
        event
    }

    /// Signs the event and returns its JSON.
    pub fn sign_json(&self, author: &Author) -> Vec<u8> {
        let mut canonical = format!(
            "[0,\"{}\",{},{},[",
            author.pubkey, self.created_at, self.kind
        )
        .into_bytes();
        canonical.extend_from_slice(&self.tags);
        canonical.extend_from_slice(b"],");
        canonical.extend_from_slice(&self.content);
        canonical.push(b']');
        let id = EventId::new(Sha256::digest(&canonical).into());
        self.json(id, author.pubkey, author.sign(id))
    }

    /// Returns the event's JSON with this id, author and signature, right or wrong.
    pub fn json(&self, id: EventId, pubkey: PublicKey, sig: Signature) -> Vec<u8> {
        let head = format!(
            "{{\"id\":\"{id}\",\"pubkey\":\"{pubkey}\",\"created_at\":{},\"kind\":{},\"tags\":[",
            self.created_at, self.kind
        );
        let tail = format!(",\"sig\":\"{sig}\"}}");
        [
            head.as_bytes(),
            &self.tags,
            b"],\"content\":",
            &self.content,
            tail.as_bytes(),
        ]
        .concat()
    }
}
