//! A TCP connection with its two buffers: what waits to be sent, and what was read and not taken.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    ops::Range,
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use crate::{
    error::{BenchError, During, Result},
    load::address::Address,
};

/// A server that says nothing for so long has hung.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
/// What one read may take. Large enough for many messages, small enough for the cache.
const READ_BYTES: usize = 256 * 1024;

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
}

impl Stream {
    /// Connects. Without `TCP_NODELAY` the kernel would hold a small request back until the server's
    /// delayed acknowledgement, 40 ms later, and the load would measure that.
    pub(crate) fn open(address: &Address) -> Result<Self> {
        let socket = TcpStream::connect(address.socket()).during(address.as_str())?;
        socket.set_nodelay(true).during("TCP_NODELAY")?;
        socket
            .set_read_timeout(Some(PATIENCE))
            .during("read timeout")?;
        Ok(Self {
            socket,
            input: Vec::new(),
            start: 0,
            end: 0,
            output: Vec::new(),
            written: 0,
            sent: 0,
            received: 0,
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

    /// Sends what waits, or as much of it as a non-blocking socket takes.
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

    /// Reads once. Returns 0 if nothing is there (only a non-blocking socket, or after patience).
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
            Ok(0) => Err(BenchError::Server("closed the connection".to_owned())),
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
    pub(crate) fn wait(&mut self) -> Result<()> {
        if self.fill()? == 0 {
            return Err(BenchError::Server(format!("said nothing for {PATIENCE:?}")));
        }
        Ok(())
    }

    /// Reads one line and takes it; the socket blocks.
    pub(crate) fn line(&mut self) -> Result<()> {
        loop {
            if let Some(end) = self.unread().iter().position(|byte| *byte == b'\n') {
                self.take(end + 1);
                return Ok(());
            }
            self.wait()?;
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
