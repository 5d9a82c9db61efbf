//! Numbers, sightings, counts, forgetting.

use hikyaku_event::Kind;
use hikyaku_members::{AddressFamily, MembersError, Sighting};
use hikyaku_tables::{Change, Update};

use crate::{NOW, at, enrol, key, open, tables};

const DAY: u64 = 24 * 60 * 60;

fn from(at: u64, family: AddressFamily) -> Sighting {
    Sighting { at, family }
}

#[test]
fn members_are_numbered_densely_as_they_appear() {
    let members = open(&tables());
    let numbers: Vec<_> = [9, 4, 9, 7, 4]
        .into_iter()
        .map(|byte| enrol(&members, byte).get())
        .collect();
    assert_eq!(numbers, [1, 2, 1, 3, 2]);
    assert_eq!(members.len(), 3);
    assert_eq!(members.number(&key(1)), None);
    let listed: Vec<_> = members.iter(None).map(|m| m.unwrap().key).collect();
    assert_eq!(listed, [key(9), key(4), key(7)]);
    let second = members.number(&key(4));
    let rest: Vec<_> = members.iter(second).map(|m| m.unwrap().key).collect();
    assert_eq!(rest, [key(7)]);
}

#[test]
fn numbers_outlast_the_program() {
    let tables = tables();
    let members = open(&tables);
    for byte in 1..=200 {
        enrol(&members, byte);
    }
    members.forget(&key(50), at(NOW)).unwrap();
    drop(members);
    let members = open(&tables);
    assert_eq!(members.len(), 199);
    for byte in (1..=200).filter(|byte| *byte != 50) {
        assert_eq!(members.number(&key(byte)).unwrap().get(), u32::from(byte));
    }
    assert_eq!(members.number(&key(50)), None);
    assert_eq!(enrol(&members, 201).get(), 201);
}

#[test]
fn the_latest_sighting_stands() {
    let members = open(&tables());
    let member = enrol(&members, 1);
    assert_eq!(members.get(member).unwrap().unwrap().seen, None);
    for sighting in [
        from(NOW, AddressFamily::V4),
        from(NOW + 5, AddressFamily::V6),
        from(NOW + 3, AddressFamily::V4),
    ] {
        members.see(member, sighting, at(NOW)).unwrap();
    }
    let seen = members.get(member).unwrap().unwrap().seen;
    assert_eq!(seen, Some(from(NOW + 5, AddressFamily::V6)));
}

#[test]
fn a_member_counts_once_on_each_day() {
    let members = open(&tables());
    let midnight = NOW / DAY * DAY;
    for (byte, time) in [
        (1, midnight),
        (1, midnight + 1),
        (2, midnight + DAY - 1),
        (1, midnight + DAY),
        (1, midnight + DAY + 9),
    ] {
        let member = enrol(&members, byte);
        let sighting = from(time, AddressFamily::V4);
        members.see(member, sighting, at(time)).unwrap();
    }
    assert_eq!(members.seen_on_day_of(midnight + 7).unwrap(), 2);
    assert_eq!(members.seen_on_day_of(midnight + DAY).unwrap(), 1);
    assert_eq!(members.seen_on_day_of(midnight + 2 * DAY).unwrap(), 0);
}

#[test]
fn events_are_counted_by_member_and_kind() {
    let members = open(&tables());
    let (one, two) = (enrol(&members, 1), enrol(&members, 2));
    let counts = [(one, Kind(1), 2), (two, Kind(1), 5), (one, Kind(30023), 1)];
    members.count(&counts, at(NOW)).unwrap();
    members.count(&[(one, Kind(1), 40)], at(NOW)).unwrap();
    let counts = members.counts(one).unwrap();
    assert_eq!(counts, [(Kind(1), 42), (Kind(30023), 1)]);
    assert_eq!(members.counts(two).unwrap(), [(Kind(1), 5)]);
}

#[test]
fn of_a_forgotten_member_nothing_is_left_but_a_number_nobody_gets() {
    let members = open(&tables());
    let member = enrol(&members, 1);
    let sighting = from(NOW, AddressFamily::V4);
    members.see(member, sighting, at(NOW)).unwrap();
    members.count(&[(member, Kind(1), 1)], at(NOW)).unwrap();
    members.switch_footprints(member, true, at(NOW)).unwrap();
    members.forget(&key(1), at(NOW)).unwrap();
    members.forget(&key(1), at(NOW)).unwrap();
    assert_eq!(members.number(&key(1)), None);
    assert_eq!(members.get(member).unwrap(), None);
    assert!(members.counts(member).unwrap().is_empty());
    assert!(members.is_empty());
    let again = enrol(&members, 1);
    assert_ne!(again, member);
    let again = members.get(again).unwrap().unwrap();
    assert_eq!((again.seen, again.footprints), (None, false));
}

#[test]
fn damaged_records_are_errors_that_name_them() {
    let tables = tables();
    let members = open(&tables);
    let member = enrol(&members, 1);
    let damage = Update::new(b"1", Change::Put(b"short"));
    tables.seen.update(&damage, at(NOW)).unwrap();
    let error = members.get(member).unwrap_err();
    assert!(
        matches!(&error, MembersError::Corrupt { table: "seen", key } if key == "1"),
        "{error}"
    );
    tables.keys.update(&damage, at(NOW)).unwrap();
    let error = hikyaku_members::Members::open(tables, crate::LIMITS, 7).unwrap_err();
    assert!(
        matches!(error, MembersError::Corrupt { table: "keys", .. }),
        "{error}"
    );
}
