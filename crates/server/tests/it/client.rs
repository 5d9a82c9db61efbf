//! A Nostr client on somebody else's WebSocket implementation.

use std::{net::SocketAddr, time::Duration};

use futures_util::{SinkExt, StreamExt};
use hikyaku_event::{
    Event,
    testing::{Author, EventBuilder},
};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{self, Message, protocol::CloseFrame},
};

/// A test that waits longer hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) async fn patiently<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("an answer")
}

pub(crate) struct Client {
    pub(crate) socket: WebSocketStream<TcpStream>,
    address: SocketAddr,
    pub(crate) challenge: String,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let request = format!("ws://{address}/");
        let (socket, _) = patiently(tokio_tungstenite::client_async(request, stream))
            .await
            .unwrap();
        let mut client = Self {
            socket,
            address,
            challenge: String::new(),
        };
        let greeting = client.receive().await;
        assert_eq!(greeting[0], "AUTH");
        client.challenge.push_str(greeting[1].as_str().unwrap());
        client
    }

    pub(crate) async fn send(&mut self, message: Value) {
        self.send_text(message.to_string()).await;
    }

    pub(crate) async fn send_text(&mut self, text: String) {
        patiently(self.socket.send(Message::text(text)))
            .await
            .unwrap();
    }

    pub(crate) async fn send_event(&mut self, event: &Event) {
        let json = std::str::from_utf8(event.json()).unwrap();
        self.send_text(format!("[\"EVENT\",{json}]")).await;
    }

    /// Receives the next Nostr message; pings are answered on the way.
    pub(crate) async fn receive(&mut self) -> Value {
        loop {
            match self.receive_frame().await.unwrap() {
                Message::Text(text) => return serde_json::from_str(&text).unwrap(),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("a Nostr message, not {other:?}"),
            }
        }
    }

    pub(crate) async fn receive_frame(&mut self) -> Result<Message, tungstenite::Error> {
        patiently(self.socket.next())
            .await
            .unwrap_or(Err(tungstenite::Error::ConnectionClosed))
    }

    /// Reads on to the close frame.
    pub(crate) async fn receive_close(&mut self) -> Option<CloseFrame> {
        loop {
            if let Message::Close(frame) = self.receive_frame().await.unwrap() {
                return frame;
            }
        }
    }

    /// Receives the OK for this event.
    pub(crate) async fn receive_ok(&mut self, event: &Event) -> (bool, String) {
        let ok = self.receive().await;
        assert_eq!(ok[0], "OK", "{ok}");
        assert_eq!(ok[1], event.id().to_hex());
        (ok[2].as_bool().unwrap(), ok[3].as_str().unwrap().to_owned())
    }

    pub(crate) async fn publish(&mut self, event: &Event) -> (bool, String) {
        self.send_event(event).await;
        self.receive_ok(event).await
    }

    /// Subscribes and returns the stored answer, as the ids' hex.
    pub(crate) async fn subscribe(&mut self, id: &str, filter: Value) -> Vec<String> {
        self.send(json!(["REQ", id, filter])).await;
        let mut ids = Vec::new();
        loop {
            let message = self.receive().await;
            match message[0].as_str().unwrap() {
                "EVENT" => ids.push(message[2]["id"].as_str().unwrap().to_owned()),
                "EOSE" => return ids,
                _ => panic!("{message}"),
            }
        }
    }

    /// Receives an event of a subscription, as the id's hex.
    pub(crate) async fn receive_event(&mut self, subscription: &str) -> String {
        let message = self.receive().await;
        assert_eq!(message[0], "EVENT", "{message}");
        assert_eq!(message[1], subscription);
        message[2]["id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn authenticate(&mut self, author: &Author) -> (bool, String) {
        let event = now(22242)
            .tag(["relay", &format!("ws://{}", self.address)])
            .tag(["challenge", &self.challenge])
            .sign(author);
        let json = std::str::from_utf8(event.json()).unwrap();
        self.send_text(format!("[\"AUTH\",{json}]")).await;
        self.receive_ok(&event).await
    }
}

/// Begins an event of this moment.
pub(crate) fn now(kind: u16) -> EventBuilder {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    EventBuilder::new(kind).created_at(since.as_secs())
}

/// Makes a note.
pub(crate) fn note(author: u64, content: &str) -> Event {
    EventBuilder::new(1)
        .content(content)
        .sign(&Author::new(author))
}
