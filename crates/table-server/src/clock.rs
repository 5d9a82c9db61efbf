//! The one place where the wall clock is read.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the microseconds since 1970.
pub(crate) fn now_us() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
        })
}
