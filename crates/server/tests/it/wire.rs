//! A client that speaks raw bytes, to say what no library would.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::client::patiently;

pub(crate) struct Wire {
    pub(crate) stream: TcpStream,
}

/// The handshake, up to its last header.
pub(crate) const HANDSHAKE: &str = "GET / HTTP/1.1\r\nHost: relay\r\nConnection: Upgrade\r\n\
    Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

impl Wire {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self {
            stream: TcpStream::connect(address).await.unwrap(),
        }
    }

    /// Connects, shakes hands and takes the greeting.
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let mut wire = Self::connect(address).await;
        wire.send(format!("{HANDSHAKE}\r\n").as_bytes()).await;
        let head = wire.receive_head().await;
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        let (op, greeting) = wire.receive().await.unwrap();
        assert_eq!(op, OPS[1]);
        assert!(greeting.starts_with(b"[\"AUTH\","));
        wire
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        patiently(self.stream.write_all(bytes)).await.unwrap();
    }

    /// Sends, and tells whether the other side is still there.
    pub(crate) async fn try_send(&mut self, bytes: &[u8]) -> bool {
        patiently(self.stream.write_all(bytes)).await.is_ok()
    }

    /// Reads a response's head and returns its status; none if the connection was cut.
    pub(crate) async fn receive_status(&mut self) -> Option<String> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(patiently(self.stream.read_u8()).await.ok()?);
        }
        Some(
            String::from_utf8(head)
                .unwrap()
                .split(' ')
                .nth(1)?
                .to_owned(),
        )
    }

    /// Sends a request and reads the answer to the end of the connection.
    pub(crate) async fn request(address: SocketAddr, request: &str) -> String {
        let answer = Self::request_bytes(address, request.as_bytes()).await;
        String::from_utf8(answer).unwrap()
    }

    /// The same, of an answer that is no text.
    pub(crate) async fn request_bytes(address: SocketAddr, request: &[u8]) -> Vec<u8> {
        let mut wire = Self::connect(address).await;
        wire.send(request).await;
        let mut answer = Vec::new();
        // A reset ends it as well.
        let _ = patiently(wire.stream.read_to_end(&mut answer)).await;
        answer
    }

    /// Reads a response's head.
    pub(crate) async fn receive_head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(patiently(self.stream.read_u8()).await.unwrap());
        }
        String::from_utf8(head).unwrap()
    }

    /// Reads so many bytes.
    pub(crate) async fn receive_exactly(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        patiently(self.stream.read_exact(&mut bytes)).await.unwrap();
        bytes
    }

    /// Receives a frame: its first byte and its payload; `None` at the end of the connection.
    pub(crate) async fn receive(&mut self) -> Option<(u8, Vec<u8>)> {
        let first = patiently(self.stream.read_u8()).await.ok()?;
        let length = match patiently(self.stream.read_u8()).await.unwrap() {
            126 => usize::from(self.stream.read_u16().await.unwrap()),
            127 => usize::try_from(self.stream.read_u64().await.unwrap()).unwrap(),
            short => usize::from(short),
        };
        let mut payload = vec![0; length];
        patiently(self.stream.read_exact(&mut payload))
            .await
            .unwrap();
        Some((first, payload))
    }

    /// Receives the close frame's code and reason.
    pub(crate) async fn receive_close(&mut self) -> (u16, String) {
        loop {
            let (first, payload) = self.receive().await.expect("a close frame");
            if first == 0x88 {
                let code = u16::from_be_bytes([payload[0], payload[1]]);
                return (code, String::from_utf8(payload[2..].to_vec()).unwrap());
            }
        }
    }
}

/// First bytes of last frames, by operation: continuation, text, binary, close, ping, pong.
pub(crate) const OPS: [u8; 6] = [0x80, 0x81, 0x82, 0x88, 0x89, 0x8a];

/// Makes a client's frame.
pub(crate) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [0x12, 0x34, 0x56, 0x78];
    let mut frame = vec![first];
    match payload.len() {
        length @ 0..=125 => frame.push(0x80 | length as u8),
        length @ 126..=0xffff => {
            frame.push(0xfe);
            frame.extend((length as u16).to_be_bytes());
        }
        length => {
            frame.push(0xff);
            frame.extend((length as u64).to_be_bytes());
        }
    }
    frame.extend(mask);
    frame.extend(
        payload
            .iter()
            .zip(mask.iter().cycle())
            .map(|(byte, mask)| byte ^ mask),
    );
    frame
}
