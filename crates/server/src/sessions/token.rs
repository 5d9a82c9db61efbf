//! The text that a session is.

use data_encoding::BASE64URL_NOPAD;
use hikyaku_event::{PublicKey, Timestamp};
use hikyaku_store::SessionId;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The first byte: another layout would have another one.
const VERSION: u8 = 1;
/// Bytes that are sealed: version, name, key, epoch, end.
const SEALED: usize = 1 + 16 + 32 + 8 + 8;
/// Bytes with the seal (HMAC-SHA-256), before they are written as base64.
const BYTES: usize = SEALED + 32;
/// Characters of the text.
const LENGTH: usize = (BYTES * 4).div_ceil(3);

/// What a session's text says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) id: SessionId,
    /// Who has logged in.
    pub(crate) key: PublicKey,
    /// The key's epoch at that time ([`hikyaku_store::Revoked::Key`]).
    pub(crate) epoch: u64,
    pub(crate) ends_at: Timestamp,
}

/// What makes texts, and tells which it has made.
#[derive(Clone)]
pub(crate) struct Seal(Hmac<Sha256>);

impl Seal {
    pub(crate) fn new(secret: &[u8; 32]) -> Self {
        // HMAC fills a shorter key up with zeros.
        let mut block = [0; 64];
        let (start, _) = block.split_at_mut(secret.len());
        start.copy_from_slice(secret);
        Self(Hmac::new(&block.into()))
    }

    /// Writes a session's text.
    pub(crate) fn write(&self, token: &Token) -> String {
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.push(VERSION);
        bytes.extend_from_slice(&token.id.0);
        bytes.extend_from_slice(token.key.as_bytes());
        bytes.extend_from_slice(&token.epoch.to_be_bytes());
        bytes.extend_from_slice(&token.ends_at.to_be_bytes());
        let seal = self.0.clone().chain_update(&bytes).finalize();
        bytes.extend_from_slice(&seal.into_bytes());
        BASE64URL_NOPAD.encode(&bytes)
    }

    /// Reads a text that was made with the same secret; `None` if it was not. How much of a wrong seal
    /// is right makes no difference in time.
    pub(crate) fn read(&self, text: &[u8]) -> Option<Token> {
        if text.len() != LENGTH {
            return None;
        }
        let bytes = BASE64URL_NOPAD.decode(text).ok()?;
        let (sealed, seal) = bytes.split_at_checked(SEALED)?;
        let expected = self.0.clone().chain_update(sealed);
        expected.verify_slice(seal).ok()?;
        let (&[version], rest) = sealed.split_first_chunk()?;
        let (id, rest) = rest.split_first_chunk()?;
        let (key, rest) = rest.split_first_chunk()?;
        let (epoch, ends_at) = rest.split_first_chunk()?;
        (version == VERSION).then_some(Token {
            id: SessionId(*id),
            key: PublicKey::new(*key),
            epoch: u64::from_be_bytes(*epoch),
            ends_at: u64::from_be_bytes(ends_at.try_into().ok()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn token(id: [u8; 16], key: [u8; 32], epoch: u64, ends_at: u64) -> Token {
        Token {
            id: SessionId(id),
            key: PublicKey::new(key),
            epoch,
            ends_at,
        }
    }

    #[test]
    fn another_secret_makes_another_seal() {
        let token = token([1; 16], [2; 32], 3, 4);
        let text = Seal::new(&[7; 32]).write(&token);
        assert_eq!(text.len(), LENGTH);
        assert_eq!(Seal::new(&[7; 32]).read(text.as_bytes()), Some(token));
        assert_eq!(Seal::new(&[8; 32]).read(text.as_bytes()), None);
    }

    #[test]
    fn the_seal_is_the_one_that_rfc_2104_describes() {
        // By another implementation: python's hmac.new(b"\x07" * 32, b"\x01" + ..., "sha256").
        let text = Seal::new(&[7; 32]).write(&token([1; 16], [2; 32], 3, 4));
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).unwrap();
        assert_eq!(
            data_encoding::HEXLOWER.encode(&bytes[SEALED..]),
            "2fe93a59f1bc94d0503e3145b65de5c4fb4ad5b3e6d8896cc51968d93dd74a7c"
        );
    }

    proptest! {
        #[test]
        fn a_text_is_read_as_it_was_written(
            id: [u8; 16],
            key: [u8; 32],
            epoch: u64,
            ends_at: u64,
            secret: [u8; 32],
        ) {
            let (seal, token) = (Seal::new(&secret), token(id, key, epoch, ends_at));
            prop_assert_eq!(seal.read(seal.write(&token).as_bytes()), Some(token));
        }

        #[test]
        fn a_text_that_was_changed_anywhere_is_none(at in 0..LENGTH, to: u8, cut in 0..LENGTH) {
            let seal = Seal::new(&[7; 32]);
            let text = seal.write(&token([1; 16], [2; 32], 3, 4)).into_bytes();
            prop_assert_eq!(seal.read(&text[..cut]), None);
            prop_assert_eq!(seal.read(&[&text[..], &[to]].concat()), None);
            let mut changed = text.clone();
            changed[at] = to;
            prop_assert_eq!(seal.read(&changed).is_some(), changed == text);
        }

        #[test]
        fn what_is_no_session_is_none(bytes: Vec<u8>) {
            prop_assert_eq!(Seal::new(&[7; 32]).read(&bytes), None);
        }
    }
}
