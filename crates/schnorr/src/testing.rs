//! Signatures to test with, and the body of the fuzz target. Nothing here is fit for keys that matter.

use secp256k1::{Keypair, schnorr};
use sha2::{Digest, Sha256};

use crate::{BatchVerifier, Item};

/// A signature and what belongs to it.
#[derive(Debug, Clone, Copy)]
pub struct Signed {
    /// See [`Item::public_key`].
    pub public_key: [u8; 32],
    /// See [`Item::message`].
    pub message: [u8; 32],
    /// See [`Item::signature`].
    pub signature: [u8; 64],
}

impl Signed {
    /// Has the author whom a number stands for sign the message that a number stands for.
    pub fn by(author: u64, message: u64) -> Self {
        let hash = |what: &str, number: u64| -> [u8; 32] {
            let hash = Sha256::new_with_prefix(what).chain_update(number.to_be_bytes());
            hash.finalize().into()
        };
        #[expect(clippy::expect_used, reason = "one hash in 2^128 is not a secret key")]
        let author = Keypair::from_secret_bytes(hash("author", author)).expect("a secret key");
        let message = hash("message", message);
        Self {
            public_key: author.x_only_public_key().0.to_byte_array(),
            message,
            signature: schnorr::sign_no_aux_rand(&message, &author).to_byte_array(),
        }
    }

    /// Returns it as verifiers take it.
    pub fn item(&self) -> Item<'_> {
        Item {
            public_key: &self.public_key,
            message: &self.message,
            signature: &self.signature,
        }
    }
}

/// Whatever is done to signatures, the verdicts about a batch are libsecp256k1's about each.
///
/// The first byte says how many there are, each four more what is done to one of them.
pub fn fuzz_batch(data: &[u8]) {
    let Some((size, edits)) = data.split_first() else {
        return;
    };
    let mut batch: Vec<_> = (0..u64::from(*size % 80))
        .map(|n| Signed::by(n % 7, n % 50))
        .collect();
    for edit in edits.as_chunks::<4>().0.iter().take(64) {
        tamper(&mut batch, *edit);
    }
    let items: Vec<_> = batch.iter().map(Signed::item).collect();
    let alone: Vec<_> = items.iter().map(Item::is_valid).collect();
    let mut verifier = BatchVerifier::new();
    assert_eq!(
        verifier.verify(&items, &[*size; 32]),
        alone.iter().all(|valid| *valid),
        "all together"
    );
    assert_eq!(
        verifier.verdicts(&items, &[*size; 32]),
        alone,
        "one verdict is not libsecp256k1's"
    );
}

/// Changes one signature: `which` by `how` at a place, with a value or with another one's part.
fn tamper(batch: &mut [Signed], [which, how, at, value]: [u8; 4]) {
    let other = batch.get(usize::from(value) % batch.len().max(1)).copied();
    let one = batch.get_mut(usize::from(which) % 80);
    let (Some(one), Some(other)) = (one, other) else {
        return;
    };
    let (r, s) = one.signature.split_at_mut(32);
    let (other_r, other_s) = other.signature.split_at(32);
    match how % 14 {
        0 => flip(&mut one.public_key, at, value),
        1 => flip(&mut one.message, at, value),
        2 => flip(r, at, value),
        3 => flip(s, at, value),
        4 => *one = other,
        5 => one.public_key = other.public_key,
        6 => r.copy_from_slice(other_r),
        7 => s.copy_from_slice(other_s),
        // R = P or -P.
        8 => r.copy_from_slice(&other.public_key),
        9 => s.fill(0),
        10 => r.fill(value),
        11 => r.copy_from_slice(&near(P, at)),
        12 => s.copy_from_slice(&near(N, at)),
        _ => one.public_key = near(P, at),
    }
}

fn flip(bytes: &mut [u8], at: u8, value: u8) {
    if let Some(byte) = bytes.get_mut(usize::from(at) % 32) {
        *byte ^= value;
    }
}

/// p and n, highest word first.
const P: [u64; 4] = [u64::MAX, u64::MAX, u64::MAX, 0xFFFF_FFFE_FFFF_FC2F];
const N: [u64; 4] = [
    u64::MAX,
    u64::MAX - 1,
    0xBAAE_DCE6_AF48_A03B,
    0xBFD2_5E8C_D036_4141,
];

/// Returns the number a little above or below, without carries.
fn near(words: [u64; 4], by: u8) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (place, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *place = word.to_be_bytes();
    }
    if let Some(last) = bytes.last_mut() {
        *last = last.wrapping_add(by);
    }
    bytes
}
