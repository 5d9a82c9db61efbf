//! Signatures: BIP-340, one by one over libsecp256k1, many together over one equation.

use std::fmt;

use hikyaku_schnorr::{BatchVerifier, Item};
use secp256k1::{XOnlyPublicKey, schnorr};

use crate::{Event, EventError, PublicKey};

/// How many parsed keys are kept: a power of two. At about 100 bytes each it fits the second-level
/// cache, and parsing a key is a tenth of a verification.
const CACHED_KEYS: usize = 1024;

/// Checks signatures; keep one per thread.
///
/// It remembers the keys it has parsed, so that the events of a busy author cost less.
pub struct Verifier {
    /// Each key has one place, given by its bytes; a later one takes it over.
    keys: Box<[Option<(PublicKey, XOnlyPublicKey)>]>,
    /// Made for the first events that are checked together.
    batches: Option<Box<BatchVerifier>>,
}

impl Verifier {
    /// How many events are worth being checked together: fewer cost less one by one.
    pub const TOGETHER_MIN: usize = BatchVerifier::TOGETHER_MIN;

    /// Creates a verifier.
    pub fn new() -> Self {
        Self {
            keys: vec![None; CACHED_KEYS].into_boxed_slice(),
            batches: None,
        }
    }

    /// Checks the event's BIP-340 signature over its id. Does not check the id itself.
    pub fn verify(&mut self, event: &Event) -> Result<(), EventError> {
        let key = self.parsed(event.pubkey())?;
        let sig = schnorr::Signature::from_byte_array(*event.sig().as_bytes());
        schnorr::verify(&sig, event.id().as_bytes(), &key).map_err(|_| EventError::WrongSignature)
    }

    /// Tells for each event whether its signature over its id is right: the same verdicts as
    /// [`Self::verify`], for three quarters to a quarter of the time, from some
    /// [`TOGETHER_MIN`](Self::TOGETHER_MIN) events on.
    ///
    /// The seed must be random and drawn when the events are there: whoever knows it beforehand can
    /// make wrong signatures that pass together. A wrong one among many costs as much as two or three
    /// batches more, so check a source that had one by one.
    pub fn verify_together<'a>(
        &mut self,
        events: impl IntoIterator<Item = &'a Event>,
        seed: &[u8; 32],
    ) -> Vec<bool> {
        self.together(events, |verifier, items| verifier.verdicts(items, seed))
    }

    /// Tells whether the signatures of all events are right. About the seed see
    /// [`Self::verify_together`]; unlike it this does not look for the wrong ones, so that it costs
    /// the same whatever it is given.
    pub fn are_right<'a>(
        &mut self,
        events: impl IntoIterator<Item = &'a Event>,
        seed: &[u8; 32],
    ) -> bool {
        self.together(events, |verifier, items| verifier.verify(items, seed))
    }

    fn together<'a, T>(
        &mut self,
        events: impl IntoIterator<Item = &'a Event>,
        verify: impl FnOnce(&mut BatchVerifier, &[Item<'_>]) -> T,
    ) -> T {
        let signed: Vec<_> = events
            .into_iter()
            .map(|event| (event.pubkey(), event.id(), event.sig()))
            .collect();
        let items: Vec<_> = signed
            .iter()
            .map(|(key, id, sig)| Item {
                public_key: key.as_bytes(),
                message: id.as_bytes(),
                signature: sig.as_bytes(),
            })
            .collect();
        verify(self.batches.get_or_insert_default(), &items)
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
