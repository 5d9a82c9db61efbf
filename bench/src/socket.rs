//! A client's WebSocket (RFC 6455), as cheap as it can be: it shares the machine with the server it
//! measures. Frames are made and masked before the clock runs, and read without a copy.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream, ToSocketAddrs},
    ops::Range,
    os::fd::{AsFd, BorrowedFd},
    str::FromStr,
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error::{BenchError, During, Result};

/// A relay that says nothing for so long has hung.
const PATIENCE: Duration = Duration::from_mins(1);
/// What one read may take. Large enough for many frames, small enough for the cache.
const READ_BYTES: usize = 256 * 1024;
/// Any mask does; it is there so that no proxy mistakes the bytes for HTTP.
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// Where a relay listens: `ws://host:port`.
#[derive(Debug, Clone)]
pub(crate) struct RelayUrl {
    text: String,
    address: SocketAddr,
}

impl FromStr for RelayUrl {
    type Err = BenchError;
    fn from_str(text: &str) -> Result<Self> {
        let host = text
            .strip_prefix("ws://")
            .ok_or_else(|| BenchError::Input(format!("{text}: expected ws://host:port")))?;
        let host = host.trim_end_matches('/');
        let address = host
            .to_socket_addrs()
            .during(text)?
            .next()
            .ok_or_else(|| BenchError::Input(format!("{text}: no address")))?;
        Ok(Self {
            text: text.trim_end_matches('/').to_owned(),
            address,
        })
    }
}

impl RelayUrl {
    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }
}

/// Appends one masked text frame.
pub(crate) fn frame(payload: &[u8], out: &mut Vec<u8>) {
    framed(0x1, payload, out);
}

fn framed(opcode: u8, payload: &[u8], out: &mut Vec<u8>) {
    out.push(0x80 | opcode);
    match payload.len() {
        length @ 0..126 => out.push(0x80 | length as u8),
        length @ 126..0x1_0000 => {
            out.push(0x80 | 0x7e);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            out.push(0x80 | 0x7f);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&MASK);
    out.extend(
        payload
            .iter()
            .zip(MASK.iter().cycle())
            .map(|(byte, mask)| byte ^ mask),
    );
}

/// Waits until some connections can be read or, where that is asked too, written; returns which, by
/// their place.
pub(crate) fn ready<'a>(
    connections: impl IntoIterator<Item = (&'a Connection, bool)>,
) -> Result<Vec<usize>> {
    let wait = |(connection, write): (&'a Connection, bool)| {
        let mut interest = PollFlags::IN;
        interest.set(PollFlags::OUT, write);
        PollFd::new(connection, interest)
    };
    let mut waits: Vec<_> = connections.into_iter().map(wait).collect();
    let patience = Timespec::try_from(PATIENCE).ok();
    if poll(&mut waits, patience.as_ref()).during("poll")? == 0 {
        return Err(BenchError::Relay(format!("said nothing for {PATIENCE:?}")));
    }
    let woken = waits
        .iter()
        .enumerate()
        .filter(|(_, wait)| !wait.revents().is_empty());
    Ok(woken.map(|(place, _)| place).collect())
}

/// One connection to a relay.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    /// What was read: `[start..end]` is not yet taken.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// The beginning of a message that comes in several frames.
    partial: Vec<u8>,
    whole: Vec<u8>,
}

impl Connection {
    /// Connects and shakes hands. Without `TCP_NODELAY` the kernel would wait for more to send.
    pub(crate) fn open(relay: &RelayUrl) -> Result<Self> {
        let stream = TcpStream::connect(relay.address).during(relay.as_str())?;
        stream.set_nodelay(true).during("TCP_NODELAY")?;
        stream
            .set_read_timeout(Some(PATIENCE))
            .during("read timeout")?;
        let mut connection = Self {
            stream,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            partial: Vec::new(),
            whole: Vec::new(),
        };
        let request = format!(
            "GET / HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: aGlreWFrdS1iZW5jaC0hIQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
            relay.address
        );
        connection
            .stream
            .write_all(request.as_bytes())
            .during(relay.as_str())?;
        loop {
            let seen = connection.unread();
            if let Some(length) = seen.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                if !seen.starts_with(b"HTTP/1.1 101") {
                    let said = String::from_utf8_lossy(seen.get(..length).unwrap_or_default());
                    return Err(BenchError::Relay(format!("refused the handshake: {said}")));
                }
                connection.start += length + 4;
                return Ok(connection);
            }
            connection.fill()?;
        }
    }

    pub(crate) fn set_nonblocking(&self, nonblocking: bool) -> Result<()> {
        self.stream.set_nonblocking(nonblocking).during("socket")
    }

    /// Gives back the read buffer: an idle connection of ours should not weigh on the machine.
    pub(crate) fn release_buffer(&mut self) {
        if self.start == self.end {
            (self.buffer, self.start, self.end) = (Vec::new(), 0, 0);
        }
    }

    /// Sends one text message.
    pub(crate) fn send(&mut self, text: &str) -> Result<()> {
        let mut bytes = Vec::with_capacity(text.len() + 14);
        frame(text.as_bytes(), &mut bytes);
        self.send_frames(&bytes)
    }

    /// Sends frames made by [`frame`], all of them.
    pub(crate) fn send_frames(&mut self, frames: &[u8]) -> Result<()> {
        self.stream.write_all(frames).during("sending")
    }

    /// Sends as much of the frames as the socket takes; returns how many bytes that was.
    pub(crate) fn send_some(&mut self, frames: &[u8]) -> Result<usize> {
        match self.stream.write(frames) {
            Ok(count) => Ok(count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(error) => Err(error).during("sending"),
        }
    }

    /// Waits for the next message.
    pub(crate) fn receive(&mut self) -> Result<&[u8]> {
        let message = loop {
            if let Some(message) = self.take()? {
                break message;
            }
            if self.fill()? == 0 {
                return Err(BenchError::Relay("says nothing".to_owned()));
            }
        };
        Ok(self.message(message))
    }

    /// Returns the next message that has been read wholly, without reading.
    pub(crate) fn received(&mut self) -> Result<Option<&[u8]>> {
        let message = self.take()?;
        Ok(message.map(|message| self.message(message)))
    }

    /// Reads once. Returns 0 if nothing is there (only a non-blocking socket).
    pub(crate) fn fill(&mut self) -> Result<usize> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start > 0 && self.buffer.len() - self.end < READ_BYTES / 2 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.buffer.len() - self.end < READ_BYTES / 2 {
            self.buffer.resize(self.end + READ_BYTES, 0);
        }
        let free = self.buffer.get_mut(self.end..).unwrap_or_default();
        match self.stream.read(free) {
            Ok(0) => Err(BenchError::Relay("closed the connection".to_owned())),
            Ok(count) => {
                self.end += count;
                Ok(count)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(error) => Err(error).during("receiving"),
        }
    }

    fn unread(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    fn message(&self, message: Message) -> &[u8] {
        match message {
            Message::InBuffer(range) => self.buffer.get(range).unwrap_or_default(),
            Message::Joined => &self.whole,
        }
    }

    fn take(&mut self) -> Result<Option<Message>> {
        while let Some(frame) = Frame::parse(self.unread())? {
            let payload = self.start + frame.header..self.start + frame.header + frame.payload;
            self.start = payload.end;
            match (frame.opcode, frame.last) {
                (0x1, true) => return Ok(Some(Message::InBuffer(payload))),
                (0x0 | 0x1, last) => {
                    let bytes = self.buffer.get(payload).unwrap_or_default();
                    self.partial.extend_from_slice(bytes);
                    if last {
                        self.whole = std::mem::take(&mut self.partial);
                        return Ok(Some(Message::Joined));
                    }
                }
                (0x8, _) => {
                    let reason = self.buffer.get(payload).unwrap_or_default();
                    let reason = String::from_utf8_lossy(reason.get(2..).unwrap_or_default());
                    return Err(BenchError::Relay(format!("closed: {reason}")));
                }
                (0x9, _) => {
                    let mut pong = Vec::new();
                    framed(0xa, self.buffer.get(payload).unwrap_or_default(), &mut pong);
                    self.send_frames(&pong)?;
                }
                _ => {}
            }
        }
        Ok(None)
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Where a message's bytes are.
enum Message {
    InBuffer(Range<usize>),
    Joined,
}

/// A server's frame: lengths of header and payload.
struct Frame {
    opcode: u8,
    last: bool,
    header: usize,
    payload: usize,
}

impl Frame {
    fn parse(bytes: &[u8]) -> Result<Option<Self>> {
        let [first, second, rest @ ..] = bytes else {
            return Ok(None);
        };
        if second & 0x80 != 0 || first & 0x70 != 0 {
            return Err(BenchError::Relay(
                "sent a masked or extended frame".to_owned(),
            ));
        }
        let (header, payload): (usize, usize) = match second & 0x7f {
            126 => match rest.first_chunk() {
                Some(length) => (4, usize::from(u16::from_be_bytes(*length))),
                None => return Ok(None),
            },
            127 => match rest.first_chunk() {
                Some(length) => (10, u64::from_be_bytes(*length) as usize),
                None => return Ok(None),
            },
            length => (2, usize::from(length)),
        };
        let whole = bytes.len() >= header.saturating_add(payload);
        Ok(whole.then_some(Self {
            opcode: first & 0xf,
            last: first & 0x80 != 0,
            header,
            payload,
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_message_in_pieces_with_a_ping_between_arrives_whole() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).unwrap();
            stream
                .write_all(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
                .unwrap();
            stream
                .write_all(b"\x01\x03abc\x89\x02hi\x80\x03def\x81\x02ok")
                .unwrap();
            let mut pong = [0; 8];
            stream.read_exact(&mut pong).unwrap();
            pong
        });
        let mut connection = Connection::open(&url.parse().unwrap()).unwrap();
        assert_eq!(connection.receive().unwrap(), b"abcdef");
        assert_eq!(connection.receive().unwrap(), b"ok");
        let pong = server.join().unwrap();
        assert_eq!(pong[0], 0x8a);
        assert_eq!([pong[6] ^ MASK[0], pong[7] ^ MASK[1]], *b"hi");
    }

    #[test]
    fn lengths_of_all_three_kinds_are_written() {
        for (length, header) in [(125, 6), (126, 8), (65_536, 14)] {
            let mut out = Vec::new();
            frame(&vec![b'x'; length], &mut out);
            assert_eq!(out.len(), length + header);
        }
    }
}
