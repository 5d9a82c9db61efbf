//! Batches of valid signatures, of tampered ones, and of what was made to cancel.

use hikyaku_schnorr::{
    BatchVerifier, Item,
    testing::{Signed, fuzz_batch},
};
use proptest::prelude::*;

const SEED: [u8; 32] = [3; 32];

fn batch(size: u64, authors: u64) -> Vec<Signed> {
    (0..size).map(|n| Signed::by(n % authors, n)).collect()
}

fn check(signed: &[Signed], case: &str) {
    let items: Vec<_> = signed.iter().map(Signed::item).collect();
    let alone: Vec<_> = items.iter().map(Item::is_valid).collect();
    let mut verifier = BatchVerifier::new();
    let all = alone.iter().all(|valid| *valid);
    assert_eq!(verifier.verify(&items, &SEED), all, "{case}");
    assert_eq!(verifier.verdicts(&items, &SEED), alone, "{case}");
    // With the authors' points known.
    assert_eq!(verifier.verify(&items, &SEED), all, "{case}, again");
}

/// Adds to the last byte, without a carry.
fn shift(bytes: &mut [u8], by: i8) {
    let last = bytes.last_mut().unwrap();
    *last = last.checked_add_signed(by).unwrap();
}

#[test]
fn valid_batches_of_any_size_pass() {
    for size in [0, 1, 2, 3, 4, 5, 11, 12, 13, 40, 63, 64, 65, 130, 300] {
        check(&batch(size, 1), "one author");
        check(&batch(size, 300), "strangers");
        check(&batch(size, 7), "few authors");
    }
}

#[test]
fn a_repeated_signature_is_as_valid_as_once() {
    check(&[Signed::by(1, 1); 50], "the same 50 times");
    let mut mixed = batch(40, 3);
    mixed.extend(batch(40, 3));
    check(&mixed, "each twice");
    let mut bad = Signed::by(1, 1);
    bad.message[0] ^= 1;
    mixed.extend([bad; 20]);
    check(&mixed, "a bad one 20 times");
}

#[test]
fn errors_that_would_cancel_in_a_plain_sum_are_found() {
    for (one, other) in [(3, 17), (0, 39), (5, 12)] {
        let mut signed = batch(40, 7);
        let last = |signed: &[Signed], place: usize| signed[place].signature[63];
        let room = last(&signed, one) < 255 && last(&signed, other) > 0;
        let by = if room { 1 } else { -1 };
        shift(&mut signed[one].signature, by);
        shift(&mut signed[other].signature, -by);
        check(&signed, "s + 1 here and s - 1 there");
    }
    let mut signed = batch(40, 7);
    let (a, b) = (signed[3].signature, signed[8].signature);
    signed[3].signature = b;
    signed[8].signature = a;
    check(&signed, "two signatures exchanged");
    let mut signed = batch(40, 1);
    let (a, b) = (signed[3].signature, signed[8].signature);
    signed[3].signature[..32].copy_from_slice(&b[..32]);
    signed[8].signature[..32].copy_from_slice(&a[..32]);
    check(&signed, "one author's R's exchanged");
}

#[test]
fn points_that_coincide_are_added_rightly() {
    let mut signed = batch(40, 7);
    for at in 0..7 {
        let key = signed[at].public_key;
        signed[at].signature[..32].copy_from_slice(&key);
    }
    check(&signed, "R = P");
    let mut signed = batch(40, 7);
    let r = signed[0].signature;
    for one in &mut signed[1..20] {
        one.signature[..32].copy_from_slice(&r[..32]);
    }
    check(&signed, "equal R's");
    let mut signed = batch(40, 7);
    for one in &mut signed[..20] {
        one.signature[32..].fill(0);
    }
    check(&signed, "s = 0");
    // The generator's own abscissa, where s G and R meet.
    let generator = [
        0x79, 0xBE, 0x66, 0x7E, 0xF9, 0xDC, 0xBB, 0xAC, 0x55, 0xA0, 0x62, 0x95, 0xCE, 0x87, 0x0B,
        0x07, 0x02, 0x9B, 0xFC, 0xDB, 0x2D, 0xCE, 0x28, 0xD9, 0x59, 0xF2, 0x81, 0x5B, 0x16, 0xF8,
        0x17, 0x98,
    ];
    let mut signed = batch(40, 7);
    for one in &mut signed[..10] {
        one.signature[..32].copy_from_slice(&generator);
    }
    for one in &mut signed[10..20] {
        one.public_key = generator;
    }
    check(&signed, "R = G, P = G");
}

#[test]
fn one_bad_signature_is_found_wherever_it_is() {
    let valid = batch(64, 20);
    for place in 0..64 {
        let mut signed = valid.clone();
        match place % 4 {
            0 => signed[place].signature[7] ^= 1,
            1 => signed[place].signature[40] ^= 1,
            2 => signed[place].message[9] ^= 1,
            _ => signed[place].public_key = signed[(place + 1) % 64].public_key,
        }
        check(&signed, "one");
    }
}

#[test]
fn nothing_but_bad_signatures_is_said_to_be_so() {
    let mut signed = batch(200, 30);
    for one in &mut signed {
        one.message[0] ^= 1;
    }
    check(&signed, "all bad");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn tampered_batches_are_judged_as_libsecp256k1_judges(
        data in prop::collection::vec(any::<u8>(), 1..60),
    ) {
        fuzz_batch(&data);
    }

    #[test]
    fn lightly_tampered_batches_are_judged_as_libsecp256k1_judges(
        size in 12u8..80,
        edit in any::<[u8; 4]>(),
    ) {
        let [which, how, at, value] = edit;
        fuzz_batch(&[size, which % size, how, at, value]);
    }

    #[test]
    fn any_bytes_are_judged_as_libsecp256k1_judges(
        rest in prop::collection::vec((any::<[u8; 32]>(), any::<[u8; 32]>(), any::<[u8; 32]>()), 1..8),
    ) {
        let mut signed = batch(20, 3);
        signed.extend(rest.iter().map(|(public_key, r, s)| Signed {
            public_key: *public_key,
            message: [9; 32],
            signature: [*r, *s].concat().try_into().unwrap(),
        }));
        check(&signed, "any bytes");
    }
}
