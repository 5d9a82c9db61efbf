//! A client of the relay, over a WebSocket library that is not ours.

use std::net::TcpStream;

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Message, WebSocket, client};

pub(crate) struct Client(WebSocket<TcpStream>);

impl Client {
    pub(crate) fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        let (socket, _) = client(format!("ws://{address}/"), stream).unwrap();
        let mut client = Self(socket);
        // The relay begins with its challenge (NIP-42).
        assert_eq!(client.next().unwrap()[0], "AUTH");
        client
    }

    /// Connects; returns the challenge too.
    pub(crate) fn connect_to_authenticate(address: &str) -> (Self, String) {
        let stream = TcpStream::connect(address).unwrap();
        let (socket, _) = client(format!("ws://{address}/"), stream).unwrap();
        let mut client = Self(socket);
        let challenge = client.next().unwrap()[1].as_str().unwrap().to_owned();
        (client, challenge)
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.0.send(Message::text(message.to_string())).unwrap();
    }

    /// Returns the next message; `None` when the relay has said goodbye.
    pub(crate) fn next(&mut self) -> Option<Value> {
        loop {
            match self.0.read().ok()? {
                Message::Text(text) => return Some(serde_json::from_str(&text).unwrap()),
                Message::Close(_) => return None,
                _ => {}
            }
        }
    }

    /// Returns the code the relay closes with.
    pub(crate) fn close_code(&mut self) -> u16 {
        self.goodbye().0
    }

    /// Returns the code and the reason the relay closes with.
    pub(crate) fn goodbye(&mut self) -> (u16, String) {
        loop {
            if let Message::Close(frame) = self.0.read().unwrap() {
                let frame = frame.expect("a reason");
                return (frame.code.into(), frame.reason.to_string());
            }
        }
    }

    /// Publishes; returns the OK.
    pub(crate) fn publish(&mut self, event: &[u8]) -> Value {
        let event = std::str::from_utf8(event).unwrap();
        let message = format!("[\"EVENT\",{event}]");
        self.0.send(Message::text(message)).unwrap();
        self.next().unwrap()
    }

    /// Returns the stored events of a filter.
    pub(crate) fn query(&mut self, filter: &Value) -> Vec<Value> {
        self.send(&json!(["REQ", "query", filter]));
        let mut events = Vec::new();
        loop {
            let message = self.next().unwrap();
            match message[0].as_str().unwrap() {
                "EVENT" => events.push(message[2].clone()),
                "EOSE" => break,
                _ => panic!("{message}"),
            }
        }
        self.send(&json!(["CLOSE", "query"]));
        events
    }
}
