//! Sessions of browsers, for the operator.

use hikyaku_event::PublicKey;
use hikyaku_server::{Sessions, WhoseSessions};
use hikyaku_store::{Revocation, Revoked};
use serde::{Deserialize, Serialize};

use super::{Operation, Report};
use crate::failure::{Failure, chain};

/// What was revoked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RevocationReport {
    /// A session's name, or the public key whose sessions they are; both in hex.
    pub(crate) who: String,
    /// Unix seconds of when it began, for a key: who has logged in since is not meant.
    pub(crate) since: Option<u64>,
    /// Unix seconds of when nothing is left of them.
    pub(crate) until: u64,
}

impl From<Revocation> for RevocationReport {
    fn from(revocation: Revocation) -> Self {
        let (who, since) = match revocation.revoked {
            Revoked::Session(id) => (id.to_string(), None),
            Revoked::Key { key, epoch } => (key.to_hex(), Some(epoch / 1_000_000)),
        };
        Self {
            who,
            since,
            until: revocation.until,
        }
    }
}

/// Reads whose sessions are meant.
pub(crate) fn parse_whose_sessions(who: &str) -> Result<WhoseSessions, Failure> {
    if let Ok(id) = who.parse() {
        return Ok(WhoseSessions::One { id, ends_at: None });
    }
    PublicKey::from_hex(who.as_bytes())
        .map(WhoseSessions::Of)
        .map_err(|_| {
            Failure::Usage(format!(
                "`{who}` is neither a public key in hex nor the name of a session (32 hex digits)"
            ))
        })
}

/// Carries out an operation that is about sessions.
pub(crate) fn ask_about_sessions(
    sessions: &Sessions,
    operation: &Operation,
) -> Result<Report, Failure> {
    let failed = |error| Failure::Failed(chain(&error));
    match operation {
        Operation::RevokeSessions { who } => {
            let revoked = sessions.revoke(parse_whose_sessions(who)?);
            Ok(Report::SessionsRevoked(revoked.map_err(failed)?.into()))
        }
        Operation::RevokedSessions => {
            let listed = sessions.revocations().map_err(failed)?;
            Ok(Report::RevokedSessions {
                sessions: listed.into_iter().map(Into::into).collect(),
            })
        }
        other => Err(Failure::Usage(format!(
            "{} is not about sessions",
            other.name()
        ))),
    }
}

/// Says that browsers can't log in here.
pub(crate) fn no_sessions() -> Failure {
    Failure::Failed("browsers can't log in here (sessions.enabled is false)".to_owned())
}
