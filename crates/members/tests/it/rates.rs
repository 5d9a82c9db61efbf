//! How fast a client may go.

use hikyaku_members::{Rate, RateLimits};
use hikyaku_tables::Stamp;
use proptest::prelude::*;

use crate::{NOW, at};

const RATE: Rate = Rate {
    per_minute: 60,
    burst: 3,
};

fn limits() -> RateLimits {
    RateLimits::new(1 << 20)
}

#[test]
fn a_burst_passes_and_then_one_an_interval() {
    let limits = limits();
    let take = |seconds| limits.take(b"client", 1, RATE, at(NOW + seconds)).unwrap();
    assert_eq!([take(0), take(0), take(0)], [Ok(()); 3]);
    assert_eq!(take(0), Err(1));
    assert_eq!([take(1), take(1)], [Ok(()), Err(1)]);
    assert_eq!([take(3), take(3), take(3)], [Ok(()), Ok(()), Err(1)]);
}

#[test]
fn who_is_told_to_wait_has_room_when_the_wait_is_over() {
    let limits = limits();
    let slow = Rate {
        per_minute: 1,
        burst: 1,
    };
    let take = |seconds| limits.take(b"client", 1, slow, at(NOW + seconds)).unwrap();
    assert_eq!(take(0), Ok(()));
    assert_eq!(take(20), Err(40));
    assert_eq!(take(59), Err(1));
    assert_eq!(take(60), Ok(()));
}

#[test]
fn clients_do_not_use_up_each_others_allowance() {
    let limits = limits();
    while limits.take(b"one", 1, RATE, at(NOW)).unwrap().is_ok() {}
    assert_eq!(limits.take(b"two", 3, RATE, at(NOW)).unwrap(), Ok(()));
}

#[test]
fn a_rate_of_nothing_lets_nothing_pass() {
    let none = Rate {
        per_minute: 0,
        burst: 10,
    };
    assert!(limits().take(b"c", 1, none, at(NOW)).unwrap().is_err());
}

proptest! {
    /// Over any span a client gets no more than a burst and what the rate allows in that time, and
    /// one that keeps to the rate is never told to wait.
    #[test]
    fn the_rate_holds_over_any_span(pauses in proptest::collection::vec(0_u64..3_000_000, 1..60)) {
        let limits = limits();
        let mut now = NOW * 1_000_000;
        let mut taken = Vec::new();
        for pause in pauses {
            now += pause;
            let stamp = Stamp { at_us: now, origin: 0 };
            if limits.take(b"c", 1, RATE, stamp).unwrap().is_ok() {
                taken.push(now);
            } else {
                prop_assert!(pause < 1_000_000);
            }
        }
        for (index, from) in taken.iter().enumerate() {
            for (further, to) in taken[index..].iter().enumerate() {
                let allowed = 3 + (to - from) / 1_000_000;
                prop_assert!((further as u64) < allowed, "{} in {} us", further + 1, to - from);
            }
        }
    }
}
