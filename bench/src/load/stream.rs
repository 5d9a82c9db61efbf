//! A TCP connection with its two buffers: what waits to be sent, and what was read and not taken.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    ops::Range,
    os::fd::{AsFd, BorrowedFd},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use crate::{
    error::{BenchError, During, Result},
    load::address::Address,
};

/// How long one call may block: then it is looked whether the operator wants the run to end.
const SLICE: Duration = Duration::from_millis(50);
/// How long connecting may take, at most.
const CONNECT: Duration = Duration::from_secs(10);
/// What one read may take. Large enough for many messages, small enough for the cache.
const READ_BYTES: usize = 256 * 1024;

/// How long an answer is waited for, and what ends the waiting before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience<'a> {
    pub(crate) lasts: Duration,
    pub(crate) stop: &'a AtomicBool,
}

impl Patience<'_> {
    /// Fails when the operator wants an end, or the server has had its time.
    pub(crate) fn check(self, since: Instant, server: &str) -> Result<()> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(BenchError::Interrupted);
        }
        if since.elapsed() >= self.lasts {
            let lasts = self.lasts;
            return Err(BenchError::Server(format!("{server} for {lasts:?}")));
        }
        Ok(())
    }
}

/// A connection. It blocks until [`Stream::set_nonblocking`].
#[derive(Debug)]
pub(crate) struct Stream {
    socket: TcpStream,
    /// What was read: `[start..end]` is not yet taken.
    input: Vec<u8>,
    start: usize,
    end: usize,
    /// What waits to be sent, behind what is sent already.
    output: Vec<u8>,
    written: usize,
    sent: u64,
    received: u64,
    /// The server has ended it: nothing comes any more.
    ended: bool,
}

impl Stream {
    /// Connects. Without `TCP_NODELAY` the kernel would hold a small request back until the server's
    /// delayed acknowledgement, 40 ms later, and the load would measure that.
    pub(crate) fn open(address: &Address) -> Result<Self> {
        let connected = TcpStream::connect_timeout(&address.socket(), CONNECT);
        let socket = connected.during(address.as_str())?;
        socket.set_nodelay(true).during("TCP_NODELAY")?;
        socket
            .set_read_timeout(Some(SLICE))
            .during("read timeout")?;
        socket
            .set_write_timeout(Some(SLICE))
            .during("write timeout")?;
        Ok(Self {
            socket,
            input: Vec::new(),
            start: 0,
            end: 0,
            output: Vec::new(),
            written: 0,
            sent: 0,
            received: 0,
            ended: false,
        })
    }

    pub(crate) fn set_nonblocking(&self, nonblocking: bool) -> Result<()> {
        self.socket.set_nonblocking(nonblocking).during("socket")
    }

    /// Returns the bytes sent and received so far.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.sent, self.received)
    }

    /// Gives back the buffers: an idle connection of ours should not weigh on the machine.
    pub(crate) fn release_buffers(&mut self) {
        if self.start == self.end {
            (self.input, self.start, self.end) = (Vec::new(), 0, 0);
        }
        if self.output.is_empty() {
            self.output = Vec::new();
        }
    }

    /// Returns where bytes to be sent are put; [`Stream::flush`] sends them.
    pub(crate) fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Tells whether bytes wait because the socket takes no more.
    pub(crate) fn is_blocked(&self) -> bool {
        !self.output.is_empty()
    }

    /// Sends what waits; the socket blocks.
    pub(crate) fn send(&mut self, patience: Patience<'_>) -> Result<()> {
        let since = Instant::now();
        self.flush()?;
        while self.is_blocked() {
            patience.check(since, "took nothing")?;
            self.flush()?;
        }
        Ok(())
    }

    /// Sends what waits, or as much of it as the socket takes at once.
    pub(crate) fn flush(&mut self) -> Result<()> {
        while let Some(due) = self
            .output
            .get(self.written..)
            .filter(|due| !due.is_empty())
        {
            match self.socket.write(due) {
                Ok(count) => {
                    self.written += count;
                    self.sent += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error).during("sending"),
            }
        }
        self.output.clear();
        self.written = 0;
        Ok(())
    }

    /// Reads once. Returns 0 if nothing is there.
    pub(crate) fn fill(&mut self) -> Result<usize> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start > 0 && self.input.len() - self.end < READ_BYTES / 2 {
            self.input.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.input.len() - self.end < READ_BYTES / 2 {
            self.input.resize(self.end + READ_BYTES, 0);
        }
        let free = self.input.get_mut(self.end..).unwrap_or_default();
        match self.socket.read(free) {
            Ok(0) => {
                self.ended = true;
                Err(BenchError::Server("closed the connection".to_owned()))
            }
            Ok(count) => {
                self.end += count;
                self.received += count as u64;
                Ok(count)
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                Ok(0)
            }
            Err(error) => Err(error).during("receiving"),
        }
    }

    /// Reads until something is there; the socket blocks.
    pub(crate) fn wait(&mut self, patience: Patience<'_>) -> Result<()> {
        let since = Instant::now();
        while self.fill()? == 0 {
            patience.check(since, "said nothing")?;
        }
        Ok(())
    }

    /// Tells whether the server has ended the connection: what was read is all there is.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Reads one line and takes it; the socket blocks.
    pub(crate) fn line(&mut self, patience: Patience<'_>) -> Result<()> {
        loop {
            if let Some(end) = self.unread().iter().position(|byte| *byte == b'\n') {
                self.take(end + 1);
                return Ok(());
            }
            self.wait(patience)?;
        }
    }

    /// Returns what was read and not taken.
    pub(crate) fn unread(&self) -> &[u8] {
        self.input.get(self.start..self.end).unwrap_or_default()
    }

    /// Takes so many bytes; returns where they are, for [`Stream::taken`].
    pub(crate) fn take(&mut self, count: usize) -> Range<usize> {
        let begin = self.start;
        self.start = (begin + count).min(self.end);
        begin..self.start
    }

    /// Returns taken bytes, as long as nothing more is read.
    pub(crate) fn taken(&self, range: Range<usize>) -> &[u8] {
        self.input.get(range).unwrap_or_default()
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::load::Permission;

    /// A server that accepts and says nothing, and a connection to it.
    fn silent() -> (TcpListener, Stream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let text = listener.local_addr().unwrap().to_string();
        let address = Address::reach(&text, "", None, Permission::default()).unwrap();
        (listener, Stream::open(&address).unwrap())
    }

    #[test]
    fn an_operator_who_stops_a_run_is_not_told_that_the_server_failed() {
        let (_listener, mut stream) = silent();
        let patience = Patience {
            lasts: Duration::from_hours(1),
            stop: &AtomicBool::new(true),
        };
        let end = stream.wait(patience);
        assert!(matches!(end, Err(BenchError::Interrupted)), "{end:?}");
        // More than any socket's buffers hold.
        stream.output().resize(64 << 20, b'x');
        let end = stream.send(patience);
        assert!(matches!(end, Err(BenchError::Interrupted)), "{end:?}");
    }

    #[test]
    fn a_silent_server_is_given_as_much_time_as_was_said() {
        let (_listener, mut stream) = silent();
        let patience = Patience {
            lasts: Duration::from_millis(60),
            stop: &AtomicBool::new(false),
        };
        let said = stream.wait(patience).unwrap_err().to_string();
        assert_eq!(said, "the server said nothing for 60ms");
    }
}
