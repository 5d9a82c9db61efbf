//! The sessions of a server, and who keeps what must outlast it.

use std::{error::Error, fmt, sync::Arc, time::Duration};

use hikyaku_event::{PublicKey, Timestamp};
use hikyaku_store::{Revocation, Revoked, SessionId};
use hikyaku_tables::{MemoryOptions, MemoryTable, Stamp, Table as _, TableError};

use super::{
    records,
    token::{Seal, Token},
};
use crate::clock::{unix_now, unix_now_us};

/// Bytes of memory for revocations: room for half a million.
const REVOKED_BYTES_MAX: u64 = 64 << 20;
/// Places of it that are looked at in one sweep.
const SLOTS_PER_SWEEP: usize = 10_000;

/// How sessions are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionOptions {
    /// How long after its login a session ends: at most [`SessionOptions::LIFETIME_MAX`].
    pub lifetime: Duration,
    /// The path at which browsers log in and out.
    pub path: String,
}

impl SessionOptions {
    /// The longest lifetime there is: browsers keep no cookie for longer than 400 days. What is
    /// revoked of a key is remembered for as long, whatever the lifetime is, was, or will be.
    pub const LIFETIME_MAX: Duration = Duration::from_hours(400 * 24);
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            lifetime: Duration::from_hours(30 * 24),
            path: "/session".to_owned(),
        }
    }
}

/// Whose sessions are to be revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhoseSessions {
    /// One session.
    One {
        /// Its name.
        id: SessionId,
        /// When it ends by itself; `None` if that is not known.
        ends_at: Option<Timestamp>,
    },
    /// All sessions of a key.
    Of(PublicKey),
}

/// Keeps revocations where they outlast the server, and where other nodes hear of them.
pub trait SessionKeeper: Send + Sync {
    /// Keeps a revocation, and returns it as it is kept: the epoch of a key goes beyond any that is
    /// kept already. May wait for a disk or a database; called on a thread that may.
    fn keep(&self, revocation: Revocation) -> Result<Revocation, Box<dyn Error + Send + Sync>>;
    /// Forgets what nothing is left of by `now`, a part at a time. May wait, too.
    fn forget(&self, now: Timestamp) -> Result<(), Box<dyn Error + Send + Sync>>;
}

/// Why sessions can't be had, or not be revoked.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// There are as many revocations as there is room for.
    #[error("there is no room for another revocation")]
    Full,
    /// The system has no randomness.
    #[error("the system has no randomness")]
    Random(#[source] getrandom::Error),
    /// The table they are kept in refuses, or is damaged.
    #[error("the table of sessions is unavailable")]
    Table(#[source] TableError),
    /// What keeps them says so. Here, revoked sessions are refused until the server ends.
    #[error("the revocation is not kept")]
    Kept(#[source] Box<dyn Error + Send + Sync>),
}

impl From<TableError> for SessionError {
    fn from(error: TableError) -> Self {
        match error {
            TableError::Full => Self::Full,
            error => Self::Table(error),
        }
    }
}

/// The sessions of a server's browsers. A copy is the same ones.
#[derive(Clone)]
pub struct Sessions(Arc<Inner>);

struct Inner {
    seal: Seal,
    options: SessionOptions,
    /// In force now.
    revoked: MemoryTable,
    keeper: Arc<dyn SessionKeeper>,
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions")
            .field("options", &self.0.options)
            .finish_non_exhaustive()
    }
}

/// A session that has just begun.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) token: Token,
    /// What the browser is to keep.
    pub(crate) text: String,
}

impl Sessions {
    /// Makes sessions that are good at every server with this secret. Who knows the secret can be
    /// anybody here. What is revoked already is to be [told](Self::learn).
    pub fn new(secret: &[u8; 32], options: SessionOptions, keeper: Arc<dyn SessionKeeper>) -> Self {
        let table = MemoryOptions {
            limit_bytes: REVOKED_BYTES_MAX,
            ..MemoryOptions::default()
        };
        let lifetime = options.lifetime.min(SessionOptions::LIFETIME_MAX);
        Self(Arc::new(Inner {
            seal: Seal::new(secret),
            options: SessionOptions {
                lifetime,
                ..options
            },
            revoked: MemoryTable::new(table, None),
            keeper,
        }))
    }

    /// Returns how they are.
    pub fn options(&self) -> &SessionOptions {
        &self.0.options
    }

    /// Takes a revocation that is kept already: another node's, or one from before the start.
    pub fn learn(&self, revocation: &Revocation) -> Result<(), SessionError> {
        records::learn(&self.0.revoked, revocation, stamp())?;
        Ok(())
    }

    /// Revokes sessions: they are refused when this returns, here and soon at other nodes. May wait for
    /// a disk or a database.
    pub fn revoke(&self, whose: WhoseSessions) -> Result<Revocation, SessionError> {
        let stamp = stamp();
        let last_end = stamp.seconds() + SessionOptions::LIFETIME_MAX.as_secs();
        let revocation = match whose {
            WhoseSessions::One { id, ends_at } => Revocation {
                revoked: Revoked::Session(id),
                until: ends_at.unwrap_or(last_end),
            },
            WhoseSessions::Of(key) => Revocation {
                revoked: Revoked::Key {
                    key,
                    epoch: stamp.at_us,
                },
                until: last_end,
            },
        };
        // Here first: what can't be kept is refused here at least.
        let begun = records::begin(&self.0.revoked, &revocation, stamp)?;
        let kept = self.0.keeper.keep(begun).map_err(SessionError::Kept)?;
        self.learn(&kept)?;
        Ok(kept)
    }

    /// Lists what is revoked.
    pub fn revocations(&self) -> Result<Vec<Revocation>, SessionError> {
        Ok(records::list(&self.0.revoked, unix_now(), |_| false)?)
    }

    /// Begins a session of a key.
    pub(crate) fn begin(&self, key: PublicKey) -> Result<Begun, SessionError> {
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(SessionError::Random)?;
        let now = unix_now();
        let token = Token {
            id: SessionId(id),
            key,
            epoch: records::epoch_of(&self.0.revoked, &key, now)?,
            ends_at: now + self.0.options.lifetime.as_secs(),
        };
        let text = self.0.seal.write(&token);
        Ok(Begun { token, text })
    }

    /// Reads the text of a session; `None` if it is none of ours, has ended, or was revoked.
    pub(crate) fn check(&self, text: &[u8], now: Timestamp) -> Option<Token> {
        let token = self.0.seal.read(text)?;
        let table = &self.0.revoked;
        // A table in memory does not fail to read; if it did, nobody would be let in.
        let epoch = records::epoch_of(table, &token.key, now).unwrap_or(u64::MAX);
        let revoked = records::has_session(table, token.id, now).unwrap_or(true);
        (now < token.ends_at && epoch <= token.epoch && !revoked).then_some(token)
    }

    /// Forgets what nothing is left of, a part at a time. May wait.
    pub(crate) fn sweep(&self) {
        let now = unix_now();
        let swept = self.0.revoked.sweep(now, SLOTS_PER_SWEEP);
        if let Err(error) = swept {
            tracing::warn!(%error, "revoked sessions are not forgotten");
        }
        if let Err(error) = self.0.keeper.forget(now) {
            tracing::warn!(%error, "revoked sessions are not forgotten where they are kept");
        }
    }
}

pub(super) fn stamp() -> Stamp {
    Stamp {
        at_us: unix_now_us(),
        origin: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps what is kept elsewhere with an epoch of its own, or nothing at all.
    struct Elsewhere {
        epoch: Option<u64>,
    }

    impl SessionKeeper for Elsewhere {
        fn keep(
            &self,
            mut revocation: Revocation,
        ) -> Result<Revocation, Box<dyn Error + Send + Sync>> {
            let least = self.epoch.ok_or("no")?;
            if let Revoked::Key { epoch, .. } = &mut revocation.revoked {
                *epoch = least.max(*epoch);
            }
            Ok(revocation)
        }
        fn forget(&self, _now: Timestamp) -> Result<(), Box<dyn Error + Send + Sync>> {
            Ok(())
        }
    }

    fn sessions(epoch: Option<u64>) -> Sessions {
        let keeper = Arc::new(Elsewhere { epoch });
        Sessions::new(&[1; 32], SessionOptions::default(), keeper)
    }

    fn check(sessions: &Sessions, begun: &Begun) -> bool {
        let found = sessions.check(begun.text.as_bytes(), unix_now());
        found.is_some_and(|token| token == begun.token)
    }

    #[test]
    fn a_session_is_good_until_its_end() {
        let sessions = sessions(Some(0));
        let begun = sessions.begin(PublicKey::new([7; 32])).unwrap();
        let (text, end) = (begun.text.as_bytes(), begun.token.ends_at);
        assert!(sessions.check(text, end - 1).is_some());
        assert!(sessions.check(text, end).is_none());
    }

    #[test]
    fn one_session_is_revoked_and_the_others_are_not() {
        let sessions = sessions(Some(0));
        let key = PublicKey::new([7; 32]);
        let [one, other] = [(); 2].map(|()| sessions.begin(key).unwrap());
        let whose = WhoseSessions::One {
            id: one.token.id,
            ends_at: Some(one.token.ends_at),
        };
        sessions.revoke(whose).unwrap();
        assert!(!check(&sessions, &one));
        assert!(check(&sessions, &other));
    }

    #[test]
    fn all_sessions_of_a_key_are_revoked_and_new_ones_are_good_whatever_the_clocks() {
        // Where it is kept, somebody with a clock that is far ahead was there before.
        let ahead = 2 * unix_now_us();
        let sessions = sessions(Some(ahead));
        let [one, other] = [7, 8].map(|byte| PublicKey::new([byte; 32]));
        let old = sessions.begin(one).unwrap();
        let others = sessions.begin(other).unwrap();
        sessions.revoke(WhoseSessions::Of(one)).unwrap();
        assert!(!check(&sessions, &old));
        assert!(check(&sessions, &others));
        let new = sessions.begin(one).unwrap();
        assert_eq!(new.token.epoch, ahead);
        assert!(check(&sessions, &new));
        sessions.revoke(WhoseSessions::Of(one)).unwrap();
        assert!(!check(&sessions, &new));
        assert!(check(&sessions, &sessions.begin(one).unwrap()));
    }

    #[test]
    fn what_can_not_be_kept_is_refused_here_all_the_same() {
        let sessions = sessions(None);
        let key = PublicKey::new([7; 32]);
        let begun = sessions.begin(key).unwrap();
        let error = sessions.revoke(WhoseSessions::Of(key)).unwrap_err();
        assert!(matches!(error, SessionError::Kept(_)), "{error}");
        assert!(!check(&sessions, &begun));
    }

    #[test]
    fn what_another_node_has_revoked_is_revoked_here() {
        let [here, there] = [(); 2].map(|()| sessions(Some(0)));
        let key = PublicKey::new([7; 32]);
        let begun = there.begin(key).unwrap();
        assert!(check(&here, &begun));
        here.learn(&there.revoke(WhoseSessions::Of(key)).unwrap())
            .unwrap();
        assert!(!check(&here, &begun));
        assert_eq!(here.revocations().unwrap(), there.revocations().unwrap());
        // Begun there before it was revoked here: this node does not believe it, that one soon not.
        let late = there.begin(key).unwrap();
        let again = here.revoke(WhoseSessions::Of(key)).unwrap();
        assert!(check(&there, &late));
        there.learn(&again).unwrap();
        assert!(!check(&there, &late));
    }
}
