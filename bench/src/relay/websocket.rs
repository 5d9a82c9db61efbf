//! A client's WebSocket (RFC 6455), as cheap as it can be: it shares the machine with the server it
//! measures. Frames are made and masked before the clock runs, and read without a copy.

use std::ops::Range;

use crate::{
    error::{BenchError, Result},
    load::{Address, Patience, Stream},
};

/// Any mask does; it is there so that no proxy mistakes the bytes for HTTP.
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// Appends one masked text frame.
pub(crate) fn frame(payload: &[u8], out: &mut Vec<u8>) {
    header(0x1, payload.len(), out);
    mask(payload, out);
}

/// A text message whose first part is told when it is sent, and whose rest is masked before.
#[derive(Debug)]
pub(crate) struct Prepared(Vec<u8>);

impl Prepared {
    /// Prepares what comes behind a first part, whose length is a multiple of the mask's.
    pub(crate) fn new(rest: &[u8]) -> Self {
        let mut masked = Vec::with_capacity(rest.len());
        mask(rest, &mut masked);
        Self(masked)
    }

    /// Appends the message with this first part.
    pub(crate) fn frame(&self, first: &[u8], out: &mut Vec<u8>) {
        debug_assert_eq!(
            first.len() % MASK.len(),
            0,
            "the rest was masked from its beginning"
        );
        header(0x1, first.len() + self.0.len(), out);
        mask(first, out);
        out.extend_from_slice(&self.0);
    }
}

fn header(opcode: u8, length: usize, out: &mut Vec<u8>) {
    out.push(0x80 | opcode);
    match length {
        0..126 => out.push(0x80 | length as u8),
        126..0x1_0000 => {
            out.push(0x80 | 0x7e);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        _ => {
            out.push(0x80 | 0x7f);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&MASK);
}

fn mask(payload: &[u8], out: &mut Vec<u8>) {
    let masks = MASK.iter().cycle();
    out.extend(payload.iter().zip(masks).map(|(byte, mask)| byte ^ mask));
}

/// One connection to a relay.
#[derive(Debug)]
pub(crate) struct WebSocket {
    stream: Stream,
    /// The beginning of a message that comes in several frames.
    partial: Vec<u8>,
    whole: Vec<u8>,
}

impl WebSocket {
    /// Connects and shakes hands. The socket blocks.
    pub(crate) fn open(relay: &Address, patience: Patience<'_>) -> Result<Self> {
        let mut stream = Stream::open(relay)?;
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: aGlreWFrdS1iZW5jaC0hIQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
            relay.path(),
            relay.host()
        );
        stream.output().extend_from_slice(request.as_bytes());
        stream.send(patience)?;
        loop {
            let seen = stream.unread();
            if let Some(length) = seen.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                if !seen.starts_with(b"HTTP/1.1 101") {
                    let said = String::from_utf8_lossy(seen.get(..length).unwrap_or_default());
                    return Err(BenchError::Server(format!("refused the handshake: {said}")));
                }
                stream.take(length + 4);
                return Ok(Self {
                    stream,
                    partial: Vec::new(),
                    whole: Vec::new(),
                });
            }
            stream.wait(patience)?;
        }
    }

    pub(crate) fn stream(&mut self) -> &mut Stream {
        &mut self.stream
    }

    pub(crate) fn as_stream(&self) -> &Stream {
        &self.stream
    }

    /// Sends one text message; the socket blocks.
    pub(crate) fn send(&mut self, text: &str, patience: Patience<'_>) -> Result<()> {
        frame(text.as_bytes(), self.stream.output());
        self.stream.send(patience)
    }

    /// Waits for the next message; the socket blocks.
    pub(crate) fn receive(&mut self, patience: Patience<'_>) -> Result<&[u8]> {
        let message = loop {
            if let Some(message) = self.take()? {
                break message;
            }
            self.stream.wait(patience)?;
        };
        Ok(self.message(message))
    }

    /// Returns the next message that has been read wholly, without reading.
    pub(crate) fn received(&mut self) -> Result<Option<&[u8]>> {
        let message = self.take()?;
        Ok(message.map(|message| self.message(message)))
    }

    fn message(&self, message: Message) -> &[u8] {
        match message {
            Message::InBuffer(range) => self.stream.taken(range),
            Message::Joined => &self.whole,
        }
    }

    fn take(&mut self) -> Result<Option<Message>> {
        while let Some(frame) = Frame::parse(self.stream.unread())? {
            self.stream.take(frame.header);
            let payload = self.stream.take(frame.payload);
            match (frame.opcode, frame.last) {
                (0x1, true) => return Ok(Some(Message::InBuffer(payload))),
                (0x0 | 0x1, last) => {
                    let bytes = self.stream.taken(payload);
                    self.partial.extend_from_slice(bytes);
                    if last {
                        self.whole = std::mem::take(&mut self.partial);
                        return Ok(Some(Message::Joined));
                    }
                }
                (0x8, _) => {
                    let reason = self.stream.taken(payload);
                    let reason = String::from_utf8_lossy(reason.get(2..).unwrap_or_default());
                    return Err(BenchError::Server(format!(
                        "closed the connection: {reason}"
                    )));
                }
                (0x9, _) => {
                    let echoed = self.stream.taken(payload).to_vec();
                    header(0xa, echoed.len(), self.stream.output());
                    mask(&echoed, self.stream.output());
                    self.stream.flush()?;
                }
                _ => {}
            }
        }
        Ok(None)
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
            return Err(BenchError::Server(
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
    use std::{
        io::{Read, Write},
        net::TcpListener,
        sync::atomic::AtomicBool,
        time::Duration,
    };

    use super::*;
    use crate::load::Permission;

    #[test]
    fn a_message_in_pieces_with_a_ping_between_arrives_whole() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            // The first connection only finds out that somebody listens.
            let _ = listener.accept().unwrap();
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
        let address = Address::reach(&url, "ws://", None, Permission::default()).unwrap();
        let patience = Patience {
            lasts: Duration::from_mins(1),
            stop: &AtomicBool::new(false),
        };
        let mut socket = WebSocket::open(&address, patience).unwrap();
        assert_eq!(socket.receive(patience).unwrap(), b"abcdef");
        assert_eq!(socket.receive(patience).unwrap(), b"ok");
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

    #[test]
    fn a_prepared_message_is_the_same_as_one_framed_at_once() {
        let (mut prepared, mut whole) = (Vec::new(), Vec::new());
        Prepared::new(b"the rest").frame(b"12345678", &mut prepared);
        frame(b"12345678the rest", &mut whole);
        assert_eq!(prepared, whole);
    }
}
