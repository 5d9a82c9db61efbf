//! Signatures: BIP-340 over libsecp256k1.

use std::fmt;

use secp256k1::{XOnlyPublicKey, schnorr};

use crate::{Event, EventError, PublicKey};

/// How many parsed keys are kept: a power of two. At about 100 bytes each it fits the second-level
/// cache, and parsing a key is a tenth of a verification.
const CACHED_KEYS: usize = 1024;

/// Checks signatures; keep one per thread.
///
/// It remembers the keys it has parsed, so that the events of a busy author cost less.
#[derive(Clone)]
pub struct Verifier {
    /// Each key has one place, given by its bytes; a later one takes it over.
    keys: Box<[Option<(PublicKey, XOnlyPublicKey)>]>,
}

impl Verifier {
    /// Creates a verifier.
    pub fn new() -> Self {
        Self {
            keys: vec![None; CACHED_KEYS].into_boxed_slice(),
        }
    }

    /// Checks the event's BIP-340 signature over its id. Does not check the id itself.
    pub fn verify(&mut self, event: &Event) -> Result<(), EventError> {
        let key = self.parsed(event.pubkey())?;
        let sig = schnorr::Signature::from_byte_array(*event.sig().as_bytes());
        schnorr::verify(&sig, event.id().as_bytes(), &key).map_err(|_| EventError::WrongSignature)
    }

    /// Returns the curve point of a key. A key that is none makes every signature wrong.
    fn parsed(&mut self, key: PublicKey) -> Result<XOnlyPublicKey, EventError> {
        let [low, high, ..] = *key.as_bytes();
        let place = usize::from(u16::from_le_bytes([low, high])) % CACHED_KEYS;
        if let Some(Some((cached, parsed))) = self.keys.get(place)
            && *cached == key
        {
            return Ok(*parsed);
        }
        let parsed = XOnlyPublicKey::from_byte_array(*key.as_bytes())
            .map_err(|_| EventError::WrongSignature)?;
        if let Some(slot) = self.keys.get_mut(place) {
            *slot = Some((key, parsed));
        }
        Ok(parsed)
    }
}

impl Default for Verifier {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").finish_non_exhaustive()
    }
}
