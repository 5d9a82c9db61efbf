//! Bans, for people.

use std::{fmt::Write, time::Duration};

use super::figures::duration;
use crate::{operations::BanReport, waiting::unix_now};

/// Writes a ban.
pub(super) fn ban(ban: &BanReport) -> String {
    let BanReport { who, reason, .. } = ban;
    let length = ban.until.map_or(String::new(), |until| {
        let left = Duration::from_secs(until.saturating_sub(unix_now()));
        format!(" for {}", duration(left))
    });
    match reason.as_str() {
        "" => format!("{who} is banned{length}\n"),
        reason => format!("{who} is banned{length}: {reason}\n"),
    }
}

/// Writes a list of bans.
pub(super) fn bans(listed: &[BanReport]) -> String {
    if listed.is_empty() {
        return "nobody is banned\n".to_owned();
    }
    let mut text = String::new();
    for one in listed {
        // Writing to a string does not fail.
        let _ = write!(text, "{}", ban(one));
    }
    text
}
