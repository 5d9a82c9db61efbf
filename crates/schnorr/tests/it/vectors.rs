//! The test vectors of BIP-340 whose messages have 32 bytes, as Nostr's all have (its numbers 0 to 14).

use hikyaku_schnorr::{BatchVerifier, testing::Signed};

fn hex<const BYTES: usize>(text: &str) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    faster_hex::hex_decode(text.as_bytes(), &mut bytes).unwrap();
    bytes
}

fn vectors() -> Vec<(Signed, bool)> {
    let vectors: Vec<_> = include_str!("bip-0340.csv")
        .lines()
        .skip(1)
        .map(|line| {
            let fields: Vec<_> = line.split(',').collect();
            let signed = Signed {
                public_key: hex(fields[1]),
                message: hex(fields[2]),
                signature: hex(fields[3]),
            };
            (signed, fields[4] == "TRUE")
        })
        .collect();
    assert_eq!(vectors.len(), 15);
    vectors
}

#[test]
fn each_vector_is_judged_rightly_in_a_batch_of_its_own() {
    for (index, (vector, valid)) in vectors().iter().enumerate() {
        let verdict = BatchVerifier::new().verify(&[vector.item()], &[1; 32]);
        assert_eq!(verdict, *valid, "vector {index}");
    }
}

#[test]
fn each_vector_is_judged_rightly_among_others() {
    let others: Vec<_> = (0..40).map(|n| Signed::by(n % 9, n)).collect();
    let mut verifier = BatchVerifier::new();
    for (index, (vector, valid)) in vectors().iter().enumerate() {
        let mut items: Vec<_> = others.iter().map(Signed::item).collect();
        items.insert(index, vector.item());
        assert_eq!(verifier.verify(&items, &[1; 32]), *valid, "vector {index}");
        let verdicts = verifier.verdicts(&items, &[1; 32]);
        for (place, verdict) in verdicts.iter().enumerate() {
            assert_eq!(
                *verdict,
                *valid || place != index,
                "vector {index}, place {place}"
            );
        }
    }
}

#[test]
fn all_vectors_together_are_judged_rightly() {
    let vectors = vectors();
    let (items, valid): (Vec<_>, Vec<_>) = vectors
        .iter()
        .map(|(vector, valid)| (vector.item(), *valid))
        .unzip();
    let verdicts = BatchVerifier::new().verdicts(&items, &[1; 32]);
    assert_eq!(verdicts, valid);
}
