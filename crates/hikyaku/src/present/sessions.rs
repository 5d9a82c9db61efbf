//! Sessions of browsers, for people.

use std::{fmt::Write, time::Duration};

use super::figures::duration;
use crate::{operations::RevocationReport, waiting::unix_now};

/// Writes what was revoked.
pub(super) fn revocation(one: &RevocationReport) -> String {
    let ago = one.since.map(|since| {
        let passed = unix_now().saturating_sub(since);
        duration(Duration::from_secs(passed))
    });
    match ago {
        Some(ago) => format!(
            "{}: all sessions that began {ago} ago or earlier\n",
            one.who
        ),
        None => format!("{}: this session\n", one.who),
    }
}

/// Writes a list of them.
pub(super) fn revocations(listed: &[RevocationReport]) -> String {
    if listed.is_empty() {
        return "no session is revoked\n".to_owned();
    }
    let mut text = String::new();
    for one in listed {
        // Writing to a string does not fail.
        let _ = write!(text, "{}", revocation(one));
    }
    text
}
