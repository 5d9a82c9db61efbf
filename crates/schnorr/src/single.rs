//! One signature on its own, by libsecp256k1: the arbiter.

use secp256k1::{XOnlyPublicKey, schnorr};

/// A signature over a message of 32 bytes, and whose it is said to be.
#[derive(Debug, Clone, Copy)]
pub struct Item<'a> {
    /// The author's key: an abscissa, highest byte first.
    pub public_key: &'a [u8; 32],
    /// What was signed.
    pub message: &'a [u8; 32],
    /// The signature of BIP-340: r and s, highest byte first.
    pub signature: &'a [u8; 64],
}

impl Item<'_> {
    /// Checks the signature alone.
    pub fn is_valid(&self) -> bool {
        let signature = schnorr::Signature::from_byte_array(*self.signature);
        XOnlyPublicKey::from_byte_array(*self.public_key)
            .is_ok_and(|key| schnorr::verify(&signature, self.message, &key).is_ok())
    }
}
