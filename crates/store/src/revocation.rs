//! Sessions that are refused before their time, as stores keep it.

use std::{fmt, str::FromStr};

use hikyaku_event::{PublicKey, Timestamp};

/// The name of a browser's session: 128 random bits, in hex.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionId(pub [u8; 16]);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(bytes) = self;
        bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A text that names no session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a session's name is 32 hex digits")]
pub struct SessionIdError;

impl FromStr for SessionId {
    type Err = SessionIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let plain = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = plain.then(|| u128::from_str_radix(text, 16));
        match number {
            Some(Ok(number)) => Ok(Self(number.to_be_bytes())),
            _ => Err(SessionIdError),
        }
    }
}

/// Which sessions are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revoked {
    /// This one.
    Session(SessionId),
    /// All of a key that have begun in an earlier epoch of it.
    ///
    /// An epoch is the time (microseconds) at which all sessions of the key were last revoked, and 0
    /// before: a session carries the one it has begun in. So whether a session is refused is no matter
    /// of whose clock was right.
    Key {
        /// The key.
        key: PublicKey,
        /// The epoch that begins with this revocation.
        epoch: u64,
    },
}

/// Sessions that are refused before they end by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Revocation {
    /// Which.
    pub revoked: Revoked,
    /// When none of them is left, and this need not be remembered any more.
    pub until: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written() {
        let id = SessionId([0xab; 16]);
        assert_eq!(id.to_string().parse(), Ok(id));
        let zeros = "0".repeat(32);
        assert_eq!(zeros.parse::<SessionId>().unwrap().to_string(), zeros);
        for none in [
            "",
            "ab",
            &"0".repeat(33),
            &"0".repeat(31),
            &format!("+{}", "0".repeat(31)),
        ] {
            assert_eq!(none.parse::<SessionId>(), Err(SessionIdError), "{none}");
        }
    }
}
