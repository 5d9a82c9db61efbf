//! Identities and signed events (NIP-01, BIP-340).

use std::sync::OnceLock;

use secp256k1::{Keypair, schnorr};
use sha2::{Digest, Sha256};

/// One author's key.
#[derive(Debug)]
pub(crate) struct Identity {
    keypair: Keypair,
    public_hex: String,
}

impl Identity {
    /// Derives the `index`-th key of a seed.
    fn derive(seed: u64, index: usize) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"hikyaku-bench identity");
        hash.update(seed.to_be_bytes());
        hash.update((index as u64).to_be_bytes());
        let mut secret: [u8; 32] = hash.finalize().into();
        loop {
            if let Ok(keypair) = Keypair::from_secret_bytes(secret) {
                let (public, _) = keypair.x_only_public_key();
                let public_hex = faster_hex::hex_string(&public.to_byte_array());
                return Self {
                    keypair,
                    public_hex,
                };
            }
            // One hash in 2^128 is not a key.
            secret = Sha256::digest(secret).into();
        }
    }

    pub(crate) fn public_hex(&self) -> &str {
        &self.public_hex
    }
}

/// The identities of a seed, each derived when it is first needed.
#[derive(Debug)]
pub(crate) struct Identities {
    seed: u64,
    slots: Vec<OnceLock<Identity>>,
}

impl Identities {
    pub(crate) fn new(seed: u64, count: usize) -> Self {
        Self {
            seed,
            slots: std::iter::repeat_with(OnceLock::new).take(count).collect(),
        }
    }

    /// Returns an identity; an index past the end wraps around.
    pub(crate) fn get(&self, index: usize) -> &Identity {
        let index = index % self.slots.len().max(1);
        #[expect(
            clippy::expect_used,
            reason = "the index was just taken modulo the length"
        )]
        let slot = self
            .slots
            .get(index)
            .expect("there is at least one identity");
        slot.get_or_init(|| Identity::derive(self.seed, index))
    }
}

/// An event before it is signed. `tags` and `content` are JSON text already, compact and escaped as
/// NIP-01 demands.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) author: usize,
    pub(crate) created_at: u64,
    pub(crate) kind: u16,
    pub(crate) tags: String,
    pub(crate) content: String,
}

/// A draft that has its id.
#[derive(Debug)]
pub(crate) struct Identified {
    pub(crate) draft: Draft,
    pub(crate) id: [u8; 32],
}

impl Draft {
    pub(crate) fn identify(self, identities: &Identities) -> Identified {
        let author = identities.get(self.author);
        let mut hash = Sha256::new();
        hash.update(format!(
            "[0,\"{}\",{},{},",
            author.public_hex, self.created_at, self.kind
        ));
        hash.update(&self.tags);
        hash.update(b",");
        hash.update(&self.content);
        hash.update(b"]");
        Identified {
            id: hash.finalize().into(),
            draft: self,
        }
    }
}

impl Identified {
    /// Signs, and returns the event's JSON.
    pub(crate) fn sign(&self, identities: &Identities) -> String {
        let author = identities.get(self.draft.author);
        let signature = schnorr::sign_no_aux_rand(&self.id, &author.keypair);
        format!(
            "{{\"id\":\"{}\",\"pubkey\":\"{}\",\"created_at\":{},\"kind\":{},\"tags\":{},\
             \"content\":{},\"sig\":\"{}\"}}",
            faster_hex::hex_string(&self.id),
            author.public_hex,
            self.draft.created_at,
            self.draft.kind,
            self.draft.tags,
            self.draft.content,
            faster_hex::hex_string(signature.as_byte_array()),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signed_event_verifies_against_its_own_key() {
        let identities = Identities::new(3, 1);
        let draft = Draft {
            author: 0,
            created_at: 1,
            kind: 1,
            tags: "[]".to_owned(),
            content: "\"hello\"".to_owned(),
        };
        let identified = draft.identify(&identities);
        let value: serde_json::Value = serde_json::from_str(&identified.sign(&identities)).unwrap();
        let canonical = serde_json::json!([
            0,
            value["pubkey"],
            value["created_at"],
            value["kind"],
            value["tags"],
            value["content"]
        ]);
        let id: [u8; 32] = Sha256::digest(canonical.to_string()).into();
        assert_eq!(id, identified.id);
        let mut signature = [0; 64];
        faster_hex::hex_decode(value["sig"].as_str().unwrap().as_bytes(), &mut signature).unwrap();
        let (key, _) = identities.get(0).keypair.x_only_public_key();
        let signature = schnorr::Signature::from_byte_array(signature);
        assert!(signature.verify(&id, &key).is_ok());
    }
}
