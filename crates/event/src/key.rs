//! The three fixed-width values of NIP-01: event ids, public keys, signatures.

use std::fmt;

/// Text that is not lower-case hex of the expected length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected} lower-case hex digits")]
pub struct HexError {
    /// How many hex digits were expected.
    pub expected: usize,
}

/// Decodes exactly `2 * N` lower-case hex digits.
pub(crate) fn decode_hex<const N: usize>(hex: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let decoded = hex.len() == 2 * N && faster_hex::hex_decode(hex, &mut bytes).is_ok();
    // Of the hex digits in ASCII, those in upper case lack this bit.
    let lower = hex.iter().fold(0x20, |bits, digit| bits & digit) != 0;
    (decoded && lower).then_some(bytes)
}

macro_rules! fixed_bytes {
    ($(#[$doc:meta])* $name:ident, $len:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; $len]);

        impl $name {
            /// Wraps raw bytes. Whether they mean anything (a point on the curve, say) is not checked.
            pub const fn new(bytes: [u8; $len]) -> Self {
                Self(bytes)
            }

            /// Returns the raw bytes.
            pub const fn as_bytes(&self) -> &[u8; $len] {
                &self.0
            }

            /// Parses lower-case hex of exactly the right length, as NIP-01 demands.
            pub fn from_hex(hex: &[u8]) -> Result<Self, HexError> {
                decode_hex(hex).map(Self).ok_or(HexError { expected: 2 * $len })
            }

            /// Writes the value as lower-case hex.
            pub fn to_hex(&self) -> String {
                faster_hex::hex_string(&self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut hex = [0; 2 * $len];
                f.write_str(faster_hex::hex_encode(&self.0, &mut hex).map_err(|_| fmt::Error)?)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

fixed_bytes!(
    /// An event's id: SHA-256 of its canonical serialisation (NIP-01).
    EventId, 32
);
fixed_bytes!(
    /// An x-only public key (BIP-340).
    PublicKey, 32
);
fixed_bytes!(
    /// A Schnorr signature (BIP-340).
    Signature, 64
);
