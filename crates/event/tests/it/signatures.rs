//! Which signatures are right.

use hikyaku_event::{
    Event, EventError, PublicKey, Signature, Verifier,
    testing::{Author, EventBuilder},
};

#[test]
fn a_signature_belongs_to_one_id_and_one_key() {
    let mut verifier = Verifier::new();
    let (alice, bob) = (Author::new(1), Author::new(2));
    let builder = EventBuilder::new(1)
        .tag(["t", "\u{7f}\u{1}\n"])
        .content("hello \u{1f980}");
    let event = builder.sign(&alice);
    assert_eq!(event.verify_id(), Ok(()));
    // Twice, for the key is remembered the second time.
    assert_eq!(verifier.verify(&event), Ok(()));
    assert_eq!(verifier.verify(&event), Ok(()));

    let other = builder.clone().created_at(5).sign(&alice);
    let mut flipped = *event.sig().as_bytes();
    flipped[40] ^= 1;
    for (id, key, sig) in [
        (event.id(), bob.pubkey(), event.sig()),
        (event.id(), alice.pubkey(), other.sig()),
        (other.id(), alice.pubkey(), event.sig()),
        (event.id(), alice.pubkey(), Signature::new(flipped)),
        (event.id(), alice.pubkey(), Signature::new([0; 64])),
        (event.id(), alice.pubkey(), Signature::new([0xff; 64])),
        // Not on the curve, and above the field's prime.
        (event.id(), PublicKey::new([5; 32]), event.sig()),
        (event.id(), PublicKey::new([0xff; 32]), event.sig()),
    ] {
        let forged = Event::parse(&builder.json(id, key, sig)).unwrap();
        for _ in 0..2 {
            assert_eq!(verifier.verify(&forged), Err(EventError::WrongSignature));
        }
    }
    assert_eq!(verifier.verify(&event), Ok(()));
}

#[test]
fn more_authors_than_are_remembered_are_all_verified() {
    let mut verifier = Verifier::new();
    let authors: Vec<_> = (0..1500).map(Author::new).collect();
    let events: Vec<_> = authors
        .iter()
        .map(|author| EventBuilder::new(1).sign(author))
        .collect();
    for event in events.iter().chain(events.iter().rev()) {
        assert_eq!(verifier.verify(event), Ok(()));
    }
}

#[test]
fn together_each_event_is_judged_as_alone() {
    let mut verifier = Verifier::new();
    let authors: Vec<_> = (0..5).map(Author::new).collect();
    for size in [0, 1, Verifier::TOGETHER_MIN - 1, Verifier::TOGETHER_MIN, 60] {
        let events: Vec<_> = (0..size)
            .map(|n| {
                let author = &authors[n % 5];
                let builder = EventBuilder::new(1).created_at(n as u64);
                let event = builder.clone().sign(author);
                if n % 7 != 3 {
                    return event;
                }
                let other = builder.clone().created_at(1_000).sign(author);
                Event::parse(&builder.json(event.id(), author.pubkey(), other.sig())).unwrap()
            })
            .collect();
        let alone: Vec<_> = events.iter().map(|e| verifier.verify(e).is_ok()).collect();
        assert_eq!(verifier.verify_together(&events, &[9; 32]), alone);
        assert_eq!(
            alone.iter().filter(|valid| !**valid).count(),
            (size + 3) / 7
        );
    }
}

/// Vectors of BIP-340: two that are right, one whose key is not on the curve, one whose s is the
/// order of the curve.
#[test]
fn bip340_vectors_hold() {
    let cases = [
        (
            "f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9",
            "0000000000000000000000000000000000000000000000000000000000000000",
            "e907831f80848d1069a5371b402410364bdf1c5f8307b0084c55f1ce2dca821525f66a4a85ea8b71e482a74f382d2ce5ebeee8fdb2172f477df4900d310536c0",
            true,
        ),
        (
            "dff1d77f2a671c5f36183726db2341be58feae1da2deced843240f7b502ba659",
            "243f6a8885a308d313198a2e03707344a4093822299f31d0082efa98ec4e6c89",
            "6896bd60eeae296db48a229ff71dfe071bde413e6d43f917dc8dcf8c78de33418906d11ac976abccb20b091292bff4ea897efcb639ea871cfa95f6de339e4b0a",
            true,
        ),
        (
            "eefdea4cdb677750a420fee807eacf21eb9898ae79b9768766e4faa04a2d4a34",
            "243f6a8885a308d313198a2e03707344a4093822299f31d0082efa98ec4e6c89",
            "6cff5c3ba86c69ea4b7376f31a9bcb4f74c1976089b2d9963da2e5543e17776969e89b4c5564d00349106b8497785dd7d1d713a8ae82b32fa79d5f7fc407d39b",
            false,
        ),
        (
            "dff1d77f2a671c5f36183726db2341be58feae1da2deced843240f7b502ba659",
            "243f6a8885a308d313198a2e03707344a4093822299f31d0082efa98ec4e6c89",
            "6cff5c3ba86c69ea4b7376f31a9bcb4f74c1976089b2d9963da2e5543e177769fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141",
            false,
        ),
    ];
    for (key, id, sig, valid) in cases {
        let json = format!(
            r#"{{"id":"{id}","pubkey":"{key}","created_at":0,"kind":1,"tags":[],"content":"","sig":"{sig}"}}"#
        );
        let event = Event::parse(json.as_bytes()).unwrap();
        assert_eq!(Verifier::new().verify(&event).is_ok(), valid, "{key}");
    }
}
