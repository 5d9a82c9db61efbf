//! What is decided from which facts.

use std::sync::Arc;

use hikyaku_event::{Address, Event, EventId, Kind, Timestamp};
use hikyaku_store::{
    Refusal::{Deleted, Ephemeral, Expired, Vanished},
    rules::{
        Decision::{self, Duplicate, Refuse, Store, Superseded},
        DeletionTargets, Effect, Facts, Version, decide, deleters, effect, may_delete, may_sweep,
    },
    testing::{draft, key},
};

const NOW: Timestamp = 1_000;

/// Facts from a few words, about an event of second 100.
fn facts(words: &str) -> Facts {
    let mut facts = Facts::default();
    for word in words.split_whitespace() {
        match word {
            "stored" => facts.stored = true,
            "deleted-by-id" => facts.deleted_by_id = true,
            "deleted-until-100" => facts.address_deleted_until = Some(100),
            "deleted-until-99" => facts.address_deleted_until = Some(99),
            "vanished-until-100" => facts.vanished_until = Some(100),
            "vanished-until-99" => facts.vanished_until = Some(99),
            "newest-at-99" => facts.newest_version = Some(version(99, 0)),
            "newest-at-101" => facts.newest_version = Some(version(101, 0xff)),
            "newest-lower" => facts.newest_version = Some(version(100, 0)),
            "newest-higher" => facts.newest_version = Some(version(100, 0xff)),
            other => panic!("{other}?"),
        }
    }
    facts
}

fn version(created_at: Timestamp, byte: u8) -> Version {
    let id = EventId::new([byte; 32]);
    Version { created_at, id }
}

fn check(event: &Event, cases: &[(&str, Decision)]) {
    for (words, decision) in cases {
        assert_eq!(
            decide(event, &facts(words), NOW),
            *decision,
            "{words}: {event:?}"
        );
    }
}

#[test]
fn any_event_is_judged_by_what_is_stored() {
    for kind in [1, 4, 1059, 0, 3, 10_000, 30_023, 65_535] {
        check(
            &draft(1, kind, 100).build(),
            &[
                ("", Store),
                ("stored", Duplicate),
                ("deleted-by-id", Refuse(Deleted)),
                ("vanished-until-100", Refuse(Vanished)),
                ("vanished-until-99", Store),
            ],
        );
    }
}

#[test]
fn addresses_are_judged_by_their_newest_version_and_deletion() {
    for kind in [0, 3, 10_000, 19_999, 30_000, 39_999] {
        check(
            &draft(1, kind, 100).tag(&["d", "x"]).build(),
            &[
                ("newest-at-99", Store),
                ("newest-at-101", Superseded),
                ("newest-higher", Store),
                ("newest-lower", Superseded),
                ("deleted-until-100", Refuse(Deleted)),
                ("deleted-until-99", Store),
                ("deleted-until-99 newest-at-99", Store),
                ("deleted-until-99 newest-at-101", Superseded),
            ],
        );
    }
}

#[test]
fn the_first_reason_in_order_is_given() {
    let reasons = [
        "stored",
        "vanished-until-100",
        "deleted-by-id deleted-until-100",
        "newest-at-101",
    ];
    let decisions = [Duplicate, Refuse(Vanished), Refuse(Deleted), Superseded];
    let event = draft(1, 30_023, 100).build();
    let expired = draft(1, 30_023, 100).tag(&["expiration", "1000"]).build();
    for (first, decision) in decisions.into_iter().enumerate() {
        let words = reasons[first..].join(" ");
        check(&event, &[(&words, decision)]);
        let expected = if first == 0 {
            Duplicate
        } else {
            Refuse(Expired)
        };
        check(&expired, &[(&words, expected)]);
    }
}

#[test]
fn an_event_is_expired_from_its_very_second() {
    for (at, decision) in [
        ("999", Refuse(Expired)),
        ("1000", Refuse(Expired)),
        ("1001", Store),
    ] {
        for kind in [1, 0, 5, 62] {
            check(
                &draft(1, kind, 100).tag(&["expiration", at]).build(),
                &[("", decision)],
            );
        }
    }
}

#[test]
fn ephemeral_kinds_are_never_stored() {
    for kind in [20_000, 21_059, 22_242, 29_999] {
        check(
            &draft(1, kind, 100).tag(&["expiration", "1"]).build(),
            &[
                ("", Refuse(Ephemeral)),
                ("vanished-until-100", Refuse(Ephemeral)),
            ],
        );
    }
}

#[test]
fn deletions_can_vanish_but_not_be_deleted() {
    check(
        &draft(1, 5, 100).build(),
        &[
            ("deleted-by-id", Store),
            ("vanished-until-100", Refuse(Vanished)),
            ("vanished-until-99 deleted-by-id", Store),
        ],
    );
}

#[test]
fn requests_to_vanish_are_always_stored() {
    check(
        &draft(1, 62, 100).build(),
        &[
            ("deleted-by-id", Store),
            ("vanished-until-100 deleted-by-id", Store),
        ],
    );
}

#[test]
fn a_sweep_takes_what_expired_but_no_requests() {
    for (kind, expiry, takes) in [
        (1, "1000", true),
        (1, "1001", false),
        (0, "1", true),
        (1059, "1", true),
        (5, "1", false),
        (62, "1", false),
    ] {
        let event = draft(1, kind, 100).tag(&["expiration", expiry]).build();
        assert_eq!(may_sweep(&event, NOW), takes, "kind {kind}, {expiry}");
    }
    assert!(!may_sweep(&draft(1, 1, 100).build(), u64::MAX));
}

#[test]
fn versions_are_ordered_by_time_and_then_by_the_lowest_id() {
    let [old, new] = [version(100, 0), version(101, 0xff)];
    let low = version(101, 1);
    assert!(new.supersedes(&old) && low.supersedes(&new) && low.supersedes(&old));
    assert!(!old.supersedes(&new) && !new.supersedes(&low) && !low.supersedes(&low));
}

/// An event of that kind, p-tagged to 2, to 3 twice and to nobody.
fn tagged(kind: u16) -> Arc<Event> {
    draft(1, kind, 100)
        .tag(&["p", &key(2).to_hex()])
        .tag(&["p", "nobody"])
        .tag(&["p"])
        .tag(&["P", &key(4).to_hex()])
        .tag(&["p", &key(3).to_hex(), "wss://relay.example.com/"])
        .tag(&["p", &key(3).to_hex()])
        .tag(&["p", &key(1).to_hex()])
        .tag(&["p", &key(5).to_hex().to_uppercase()])
        .build()
}

#[test]
fn recipients_reach_gift_wraps_alone() {
    assert_eq!(deleters(&tagged(1059)), [key(1), key(2), key(3)]);
    for kind in [1, 4, 5, 62, 1058, 1060, 30_023] {
        assert_eq!(deleters(&tagged(kind)), [key(1)], "kind {kind}");
    }
}

#[test]
fn who_may_delete_what() {
    for (author, kind, target, may) in [
        (1, 5, tagged(1), true),
        (1, 5, tagged(0), true),
        (1, 5, tagged(1059), true),
        (2, 5, tagged(1059), true),
        (3, 5, tagged(1059), true),
        (4, 5, tagged(1059), false),
        (2, 5, tagged(1), false),
        (2, 5, tagged(4), false),
        (1, 5, tagged(5), false),
        (1, 5, tagged(62), false),
        (1, 62, tagged(1), false),
        (1, 1, tagged(1), false),
    ] {
        let deletion = draft(author, kind, 50).build();
        assert_eq!(
            may_delete(&deletion, &target),
            may,
            "{author} {kind} {target:?}"
        );
    }
}

#[test]
fn a_deletion_names_ids_and_its_authors_own_addresses() {
    let [low, high] = ["11", "ff"].map(|byte| byte.repeat(32));
    let (me, other) = (key(1), key(2));
    let deletion = draft(1, 5, 100)
        .tag(&["e", &high])
        .tag(&["e", &low, "wss://relay.example.com/"])
        .tag(&["e", &high])
        .tag(&["e", &high.to_uppercase()])
        .tag(&["e", &high[..62]])
        .tag(&["e", ""])
        .tag(&["e"])
        .tag(&["E", &"22".repeat(32)])
        .tag(&["a", &format!("30023:{me}:b:c")])
        .tag(&["a", &format!("30023:{me}:")])
        .tag(&["a", &format!("30023:{other}:x")])
        .tag(&["a", &format!("0:{me}:")])
        .tag(&["a", &format!("10002:{me}")])
        .tag(&["a", &format!("1:{me}:")])
        .tag(&["a", &format!("30023:{me}:b:c")])
        .tag(&["A", &format!("30023:{me}:y")])
        .tag(&["a", "30023"])
        .tag(&["k", "1"])
        .build();
    let address = |kind, d: &str| Address {
        kind: Kind(kind),
        pubkey: me,
        d: d.to_owned(),
    };
    let targets = DeletionTargets {
        ids: vec![EventId::new([0x11; 32]), EventId::new([0xff; 32])],
        addresses: vec![
            address(0, ""),
            address(10_002, ""),
            address(30_023, ""),
            address(30_023, "b:c"),
        ],
    };
    assert_eq!(effect(&deletion, false), Effect::Delete(targets));
}

#[test]
fn only_a_request_that_means_us_vanishes() {
    let request = draft(1, 62, 100).tag(&["relay", "ALL_RELAYS"]).build();
    let vanish = Effect::Vanish {
        key: key(1),
        until: 100,
    };
    assert_eq!(effect(&request, true), vanish);
    assert_eq!(effect(&request, false), Effect::None);
    for kind in [0, 1, 1059, 30_023] {
        let event = draft(1, kind, 100).tag(&["e", &"11".repeat(32)]).build();
        assert_eq!(effect(&event, true), Effect::None);
    }
}
