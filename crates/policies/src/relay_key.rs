//! The relay's own key, with which it says who is a member.

use std::fmt;

use hikyaku_event::{Event, EventId, PublicKey, Timestamp};
use hmac::{Hmac, KeyInit, Mac};
use secp256k1::{Keypair, schnorr};
use serde_json::json;
use sha2::{Digest, Sha256};

/// The relay's secret key: the one whose public half is `self` in its information document (NIP-11).
#[derive(Clone)]
pub struct RelayKey {
    pair: Keypair,
    public: PublicKey,
}

impl fmt::Debug for RelayKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayKey")
            .field("public", &self.public)
            .finish_non_exhaustive()
    }
}

impl RelayKey {
    /// Takes a secret key's bytes; none if they are no secret key.
    pub fn new(secret: [u8; 32]) -> Option<Self> {
        let pair = Keypair::from_secret_bytes(secret).ok()?;
        let public = PublicKey::new(pair.x_only_public_key().0.to_byte_array());
        Some(Self { pair, public })
    }

    /// Returns the public key.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// Makes an event of the relay's, without content. The tags hold nothing that JSON escapes in
    /// more than one way.
    pub(crate) fn sign(
        &self,
        kind: u16,
        created_at: Timestamp,
        tags: &[Vec<String>],
    ) -> Option<Event> {
        let public = self.public.to_hex();
        let signed = json!([0, public, created_at, kind, tags, ""]).to_string();
        let id = EventId::new(Sha256::digest(signed.as_bytes()).into());
        let signature = schnorr::sign_no_aux_rand(id.as_bytes(), &self.pair);
        let event = json!({
            "id": id.to_hex(),
            "pubkey": public,
            "created_at": created_at,
            "kind": kind,
            "tags": tags,
            "content": "",
            "sig": hikyaku_event::Signature::new(signature.to_byte_array()).to_string(),
        });
        Event::parse(event.to_string().as_bytes()).ok()
    }

    /// Begins a code over something that only this key can make or check.
    pub(crate) fn code(&self, purpose: &[u8]) -> Option<Hmac<Sha256>> {
        let mut code = Hmac::<Sha256>::new_from_slice(&self.pair.to_secret_bytes()).ok()?;
        code.update(purpose);
        Some(code)
    }
}
