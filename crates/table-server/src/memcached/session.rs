//! One client's conversation in memcached's text protocol.

use crate::{
    exchange::{Exchange, Protocol, Step},
    writer::Settled,
};

/// A line that is longer is refused, and its client with it.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// One client's conversation.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// Bytes still to be skipped of a request that was refused.
    skip: u64,
}

impl Session {
    /// Tells whether the client is in the middle of a request of which nothing is kept.
    pub(crate) fn is_within_request(&self) -> bool {
        self.skip > 0
    }
}

impl Protocol for Session {
    fn step(&mut self, exchange: &mut Exchange<'_>) -> Step {
        let input = exchange.input();
        if self.skip > 0 {
            if input.is_empty() {
                return Step::Read(1);
            }
            let skipped =
                usize::try_from(self.skip).map_or(input.len(), |skip| skip.min(input.len()));
            self.skip -= skipped as u64;
            exchange.take(skipped);
            return Step::Went;
        }
        let Some(end) = input.iter().position(|&byte| byte == b'\n') else {
            if input.len() < LINE_BYTES_MAX {
                return Step::Read(input.len() + 1);
            }
            exchange
                .output
                .extend_from_slice(b"CLIENT_ERROR line too long\r\n");
            return Step::Close;
        };
        let line = input.get(..end).unwrap_or_default().trim_ascii();
        exchange.take(end + 1);
        let answer: &[u8] = match line {
            b"quit" => return Step::Close,
            b"version" => concat!("VERSION ", env!("CARGO_PKG_VERSION"), "\r\n").as_bytes(),
            b"mn" => b"MN\r\n",
            _ => b"ERROR\r\n",
        };
        exchange.output.extend_from_slice(answer);
        Step::Went
    }

    fn settle(&mut self, _settled: Vec<Settled>, _exchange: &mut Exchange<'_>) {}
}
