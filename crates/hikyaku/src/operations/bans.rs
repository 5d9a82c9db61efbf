//! Who is kept out, for the operator.

use hikyaku_server::Banned;
use hikyaku_store::Ban;
use serde::{Deserialize, Serialize};

use super::{Operation, Report};
use crate::{bans::KeptBans, failure::Failure, waiting::unix_now};

/// Characters of a reason: what a close frame has room for, about.
const REASON_MAX: usize = 100;

/// One ban.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BanReport {
    /// A public key in hex, or a range of addresses.
    pub(crate) who: String,
    /// What they are told.
    pub(crate) reason: String,
    /// Unix seconds of when it was said.
    pub(crate) since: u64,
    /// Unix seconds of its end; none: never.
    pub(crate) until: Option<u64>,
}

impl From<Ban> for BanReport {
    fn from(ban: Ban) -> Self {
        Self {
            who: ban.who,
            reason: ban.reason,
            since: ban.since,
            until: ban.until,
        }
    }
}

/// Reads who is meant; returns the one way to write it.
pub(crate) fn parse_banned(who: &str) -> Result<String, Failure> {
    let banned: Result<Banned, _> = who.parse();
    banned
        .map(|banned| banned.to_string())
        .map_err(|error| Failure::Usage(error.to_string()))
}

/// Refuses a reason that no client could be told.
pub(crate) fn check_reason(reason: &str) -> Result<(), Failure> {
    if reason.chars().count() > REASON_MAX || reason.chars().any(char::is_control) {
        return Err(Failure::Usage(format!(
            "a reason is one line of at most {REASON_MAX} characters"
        )));
    }
    Ok(())
}

/// Carries out an operation that is about bans.
pub(crate) fn ask_about_bans(bans: &KeptBans, operation: &Operation) -> Result<Report, Failure> {
    let now = unix_now();
    match operation {
        Operation::Ban {
            who,
            reason,
            seconds,
        } => {
            check_reason(reason)?;
            let ban = Ban {
                who: parse_banned(who)?,
                reason: reason.clone(),
                since: now,
                until: seconds.map(|seconds| now.saturating_add(seconds)),
            };
            bans.ban(&ban)?;
            Ok(Report::Banned(ban.into()))
        }
        Operation::Unban { who } => {
            let who = parse_banned(who)?;
            if !bans.unban(&who)? {
                return Err(Failure::Failed(format!("{who} is not banned")));
            }
            Ok(Report::Unbanned { who })
        }
        Operation::Bans => {
            let mut listed: Vec<BanReport> = bans.list()?.into_iter().map(Into::into).collect();
            listed.retain(|ban| ban.until.is_none_or(|until| now < until));
            Ok(Report::Bans { bans: listed })
        }
        other => Err(Failure::Usage(format!(
            "{} is not about bans",
            other.name()
        ))),
    }
}
