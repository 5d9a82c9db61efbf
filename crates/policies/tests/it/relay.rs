//! A running relay with policies, and a client of it.

use std::{
    net::SocketAddr,
    num::NonZeroUsize,
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures_util::{SinkExt, StreamExt};
use hikyaku_event::{
    Event,
    testing::{Author, EventBuilder},
};
use hikyaku_policies::{Policies, PolicyConfig};
use hikyaku_server::{Server, ServerConfig, ServerError};
use hikyaku_store::testing::NaiveStore;
use serde_json::{Value, json};
use tokio::{net::TcpStream, sync::oneshot};
use tokio_tungstenite::{WebSocketStream, tungstenite::Message};

/// A test that waits longer hangs.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Relay {
    address: SocketAddr,
    client: Option<Client>,
    shutdown: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), ServerError>>>,
}

impl Relay {
    pub(crate) async fn with(policies: PolicyConfig) -> Self {
        let mut config = ServerConfig::new(([127, 0, 0, 1], 0).into());
        config.workers = NonZeroUsize::new(2);
        let policies = Policies::new(policies).unwrap();
        let server = Server::new(config, Arc::new(NaiveStore::new()))
            .plugin(async move |_| Ok(policies))
            .on_event(Policies::on_event)
            .bind()
            .unwrap();
        let address = server.address();
        let (shutdown, told) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            server.run(async {
                let _ = told.await;
            })
        });
        Self {
            address,
            client: Some(Client::connect(address).await),
            shutdown: Some(shutdown),
            thread: Some(thread),
        }
    }

    pub(crate) async fn publish(&mut self, event: &Event) -> (bool, String) {
        let client = self.client.as_mut().unwrap();
        client.send(event).await;
        let (id, accepted, reason) = client.receive_ok().await;
        assert_eq!(id, event.id().to_hex());
        (accepted, reason)
    }

    /// Publishes each event on a connection of its own, before any is answered; returns how many
    /// are accepted.
    pub(crate) async fn publish_together(&self, events: &[Event]) -> usize {
        let mut clients = Vec::new();
        for event in events {
            let mut client = Client::connect(self.address).await;
            client.send(event).await;
            clients.push(client);
        }
        let mut accepted = 0;
        for client in &mut clients {
            accepted += usize::from(client.receive_ok().await.1);
        }
        accepted
    }

    pub(crate) async fn is_stored(&mut self, event: &Event) -> bool {
        self.client.as_mut().unwrap().is_stored(event).await
    }
}

struct Client(WebSocketStream<TcpStream>);

impl Client {
    async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let (client, _) = tokio_tungstenite::client_async(format!("ws://{address}/"), stream)
            .await
            .unwrap();
        Self(client)
    }

    async fn send(&mut self, event: &Event) {
        let json = std::str::from_utf8(event.json()).unwrap();
        let message = Message::text(format!("[\"EVENT\",{json}]"));
        self.0.send(message).await.unwrap();
    }

    /// Receives the next OK: the event's id, whether it is accepted, and why not.
    async fn receive_ok(&mut self) -> (String, bool, String) {
        loop {
            let message = self.receive().await;
            if message[0] == "OK" {
                let text = |index: usize| message[index].as_str().unwrap().to_owned();
                return (text(1), message[2].as_bool().unwrap(), text(3));
            }
        }
    }

    async fn is_stored(&mut self, event: &Event) -> bool {
        let request = json!(["REQ", "s", {"ids": [event.id().to_hex()]}]);
        let request = Message::text(request.to_string());
        self.0.send(request).await.unwrap();
        let mut found = false;
        loop {
            match self.receive().await[0].as_str().unwrap() {
                "EVENT" => found = true,
                "EOSE" => return found,
                _ => {}
            }
        }
    }

    async fn receive(&mut self) -> Value {
        loop {
            let message = tokio::time::timeout(PATIENCE, self.0.next()).await;
            if let Message::Text(text) = message.expect("an answer").unwrap().unwrap() {
                return serde_json::from_str(&text).unwrap();
            }
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // Lest the server waits for its goodbye.
        drop(self.client.take());
        drop(self.shutdown.take());
        let result = self.thread.take().unwrap().join();
        if !std::thread::panicking() {
            result.unwrap().unwrap();
        }
    }
}

/// Makes an event of this moment.
pub(crate) fn event(author: u64, kind: u16, content: &str) -> Event {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    EventBuilder::new(kind)
        .created_at(now.as_secs())
        .content(content)
        .sign(&Author::new(author))
}
