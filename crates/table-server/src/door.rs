//! The first bytes of a connection: the token, where one is needed, and which protocol it speaks.
//!
//! The token is presented as memcached's own ASCII authentication has it, whatever is spoken after
//! it: `set <any key> <any flags> <any expiry> <length>`, and as the data block the token, or a name,
//! a space and the token. The answer is `STORED`. Then the next byte tells the protocol.

use crate::{
    exchange::{Exchange, Protocol, Step},
    memcached,
    metrics::Count,
    tyrant,
    writer::Settled,
};

/// The first byte of every Tokyo Tyrant command.
const TYRANT: u8 = 0xC8;

/// Bytes of the line and of the data by which a token is presented.
const LINE_BYTES_MAX: usize = 2048;
const TOKEN_BYTES_MAX: usize = 1024;

/// What a connection speaks.
#[derive(Debug)]
pub(crate) enum Door {
    /// Nothing before the token.
    Locked,
    /// Nothing yet.
    Open,
    /// memcached's text protocol.
    Memcached(memcached::Session),
    /// Tokyo Tyrant's binary protocol.
    Tyrant(tyrant::Session),
}

impl Door {
    /// Tells whether the client is in the middle of a request of which nothing is kept.
    pub(crate) fn is_within_request(&self) -> bool {
        match self {
            Self::Locked | Self::Open => false,
            Self::Memcached(session) => session.is_within_request(),
            Self::Tyrant(session) => session.is_within_request(),
        }
    }

    /// What a client hears whose request did not come to its end in time.
    pub(crate) fn overdue(&self) -> &'static [u8] {
        match self {
            Self::Locked | Self::Open | Self::Memcached(_) => {
                b"SERVER_ERROR request not completed in time\r\n"
            }
            Self::Tyrant(_) => tyrant::OVERDUE,
        }
    }

    /// What a client hears whose updates could not be made durable.
    pub(crate) fn not_durable(&self) -> &'static [u8] {
        match self {
            Self::Locked | Self::Open | Self::Memcached(_) => {
                b"SERVER_ERROR the update log has stopped\r\n"
            }
            Self::Tyrant(_) => tyrant::OVERDUE,
        }
    }

    /// Writes a request down that this is the beginning of, without its value.
    pub(crate) fn example(&self, input: &[u8]) -> Option<String> {
        match self {
            Self::Locked | Self::Open => None,
            Self::Memcached(_) => memcached::example(input),
            Self::Tyrant(_) => tyrant::example(input),
        }
    }

    fn unlock(&mut self, exchange: &mut Exchange<'_>) -> Step {
        let input = exchange.input();
        if input.first() == Some(&TYRANT) {
            exchange.count(Count::AuthErrors, 1);
            // Its status of failure.
            exchange.output.push(1);
            return Step::Close;
        }
        let searched = input.get(..LINE_BYTES_MAX).unwrap_or(input);
        let Some(end) = searched.iter().position(|&byte| byte == b'\n') else {
            if searched.len() < LINE_BYTES_MAX {
                return Step::Read(input.len() + 1);
            }
            return refuse(exchange, "unauthenticated");
        };
        let (line, rest) = input.split_at(end + 1);
        let mut words = line
            .trim_ascii()
            .split(|&byte| byte == b' ')
            .filter(|word| !word.is_empty());
        let (command, length) = (words.next(), words.nth(3));
        if command != Some(b"set") {
            return refuse(exchange, "unauthenticated");
        }
        let length = length
            .and_then(|length| std::str::from_utf8(length).ok()?.parse::<usize>().ok())
            .filter(|&length| length <= TOKEN_BYTES_MAX);
        let Some(length) = length else {
            return refuse(exchange, "bad command line format");
        };
        let Some(presented) = rest.get(..length + 2) else {
            return Step::Read(line.len() + length + 2);
        };
        let presented = presented.get(..length).unwrap_or_default();
        exchange.count(Count::Auth, 1);
        let secret = presented
            .iter()
            .position(|&byte| byte == b' ')
            .and_then(|space| presented.get(space + 1..));
        let token = exchange.config().token.as_deref().unwrap_or_default();
        let is_right = |secret| is_equal(secret, token.as_bytes());
        if !(is_right(presented) | secret.is_some_and(is_right)) {
            return refuse(exchange, "authentication failure");
        }
        exchange.take(line.len() + length + 2);
        exchange.output.extend_from_slice(b"STORED\r\n");
        *self = Self::Open;
        Step::Went
    }
}

fn refuse(exchange: &mut Exchange<'_>, why: &str) -> Step {
    exchange.count(Count::AuthErrors, 1);
    let answer = ["CLIENT_ERROR ", why, "\r\n"].concat();
    exchange.output.extend_from_slice(answer.as_bytes());
    Step::Close
}

/// Compares in a time that does not tell where the difference is.
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    let differing = one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
    one.len() == other.len() && differing == 0
}

impl Protocol for Door {
    fn step(&mut self, exchange: &mut Exchange<'_>) -> Step {
        match self {
            Self::Memcached(session) => session.step(exchange),
            Self::Tyrant(session) => session.step(exchange),
            Self::Open => match exchange.input().first() {
                None => Step::Read(1),
                Some(&TYRANT) => {
                    *self = Self::Tyrant(tyrant::Session::default());
                    Step::Went
                }
                Some(_) => {
                    *self = Self::Memcached(memcached::Session::default());
                    Step::Went
                }
            },
            Self::Locked => self.unlock(exchange),
        }
    }

    fn settle(&mut self, settled: Vec<Settled>, exchange: &mut Exchange<'_>) {
        match self {
            Self::Memcached(session) => session.settle(settled, exchange),
            Self::Tyrant(session) => session.settle(settled, exchange),
            Self::Locked | Self::Open => {}
        }
    }
}
