//! Who looked at whose page.

use hikyaku_members::{MemberNumber, Members, Visit};
use proptest::prelude::*;

use crate::{LIMITS, NOW, at, enrol, open, tables};

fn all_on(members: &Members, count: u8) -> Vec<MemberNumber> {
    let enrolled: Vec<_> = (1..=count).map(|byte| enrol(members, byte)).collect();
    for member in &enrolled {
        members.switch_footprints(*member, true, at(NOW)).unwrap();
    }
    enrolled
}

fn visitors(members: &Members, page_of: MemberNumber, now: u64) -> Vec<(u32, u64)> {
    let visits = members.footprints(page_of, now).unwrap();
    visits
        .iter()
        .map(|visit| (visit.visitor.get(), visit.at))
        .collect()
}

#[test]
fn the_last_visitors_come_newest_first_and_each_once() {
    let members = open(&tables());
    let all = all_on(&members, 6);
    for (seconds, visitor) in [(1, 1), (2, 2), (3, 3), (4, 1), (5, 4)] {
        let left = members.leave_footprint(all[visitor], all[0], at(NOW + seconds));
        assert!(left.unwrap());
    }
    let expected = [(5, NOW + 5), (2, NOW + 4), (4, NOW + 3)];
    assert_eq!(visitors(&members, all[0], NOW + 5), expected);
}

#[test]
fn nobody_leaves_footprints_until_both_have_switched_them_on() {
    let members = open(&tables());
    let (visitor, owner) = (enrol(&members, 1), enrol(&members, 2));
    let leave = || members.leave_footprint(visitor, owner, at(NOW)).unwrap();
    assert!(!leave());
    members.switch_footprints(visitor, true, at(NOW)).unwrap();
    assert!(!leave());
    members.switch_footprints(owner, true, at(NOW)).unwrap();
    assert!(leave());
    members.switch_footprints(visitor, false, at(NOW)).unwrap();
    assert_eq!(visitors(&members, owner, NOW), []);
    assert!(!leave());
}

#[test]
fn switching_off_takes_away_what_was_there() {
    let members = open(&tables());
    let all = all_on(&members, 2);
    members.leave_footprint(all[1], all[0], at(NOW)).unwrap();
    members.switch_footprints(all[0], false, at(NOW)).unwrap();
    members.switch_footprints(all[0], true, at(NOW)).unwrap();
    assert_eq!(visitors(&members, all[0], NOW), []);
}

#[test]
fn nobody_leaves_footprints_at_home() {
    let members = open(&tables());
    let all = all_on(&members, 1);
    assert!(!members.leave_footprint(all[0], all[0], at(NOW)).unwrap());
}

proptest! {
    /// Against a plain list of all visits.
    #[test]
    fn footprints_are_the_newest_visits_within_the_limits(
        visits in proptest::collection::vec((1_usize..8, 0_u64..400), 0..40),
        later in 0_u64..2_000,
    ) {
        let members = open(&tables());
        let all = all_on(&members, 8);
        let mut model: Vec<Visit> = Vec::new();
        let mut now = NOW;
        for (visitor, pause) in visits {
            now += pause;
            let visitor = all[visitor];
            members.leave_footprint(visitor, all[0], at(now)).unwrap();
            model.retain(|visit| visit.visitor != visitor && visit.at + LIMITS.seconds_max >= now);
            model.insert(0, Visit { visitor, at: now });
            model.truncate(LIMITS.visitors_max);
        }
        now += later;
        model.retain(|visit| visit.at + LIMITS.seconds_max >= now);
        prop_assert_eq!(members.footprints(all[0], now).unwrap(), model);
    }
}
