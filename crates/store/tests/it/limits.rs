//! How many answers a filter may have.

use hikyaku_store::{Allowance, LimitPolicy};

#[test]
fn whose_limit_counts_and_how_far() {
    let policy = LimitPolicy {
        default: 10,
        max: 30,
    };
    for (limit, enough, most) in [
        (None, 10, 20),
        (Some(0), 0, 0),
        (Some(1), 1, 1),
        (Some(29), 29, 29),
        (Some(30), 30, 30),
        (Some(31), 30, 31),
        (Some(59), 30, 59),
        (Some(60), 30, 60),
        (Some(61), 30, 60),
        (Some(u64::MAX), 30, 60),
    ] {
        assert_eq!(
            policy.allowance(limit),
            Allowance { enough, most },
            "{limit:?}"
        );
    }
    let small = LimitPolicy {
        default: 50,
        max: 30,
    };
    assert_eq!(
        small.allowance(None),
        Allowance {
            enough: 30,
            most: 60
        }
    );
    let unlimited = LimitPolicy::UNLIMITED.allowance(None);
    assert!(unlimited.admits(u64::from(u32::MAX) - 1, false));
}

#[test]
fn a_run_goes_on_past_enough_and_never_past_most() {
    let allowance = Allowance { enough: 2, most: 4 };
    for (taken, new_time, same_time) in [
        (0, true, true),
        (1, true, true),
        (2, false, true),
        (3, false, true),
        (4, false, false),
        (5, false, false),
    ] {
        assert_eq!(allowance.admits(taken, false), new_time, "{taken}");
        assert_eq!(allowance.admits(taken, true), same_time, "{taken}");
    }
    let nothing = Allowance { enough: 0, most: 0 };
    assert!(!nothing.admits(0, false) && !nothing.admits(0, true));
}
