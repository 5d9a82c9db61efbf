//! The one place where the wall clock is read.

use std::time::{SystemTime, UNIX_EPOCH};

use hikyaku_event::Timestamp;

/// Returns the current time in microseconds.
pub(crate) fn unix_now_us() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_micros() as u64)
}

/// Returns the current time.
pub(crate) fn unix_now() -> Timestamp {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
