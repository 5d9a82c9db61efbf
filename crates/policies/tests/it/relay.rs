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
use hikyaku_policies::{Policies, PolicyConfig, RelayKey};
use hikyaku_server::{Bans, Server, ServerConfig, ServerError};
use hikyaku_store::{Ban, EventStore, testing::NaiveStore};
use hikyaku_tables::{MemoryOptions, MemoryTable};
use serde_json::{Value, json};
use tokio::{net::TcpStream, sync::oneshot};
use tokio_tungstenite::{WebSocketStream, tungstenite::Message};

/// A test that waits longer hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Relay {
    address: SocketAddr,
    bans: Bans,
    client: Option<Client>,
    shutdown: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), ServerError>>>,
}

impl Relay {
    pub(crate) async fn with(policies: PolicyConfig) -> Self {
        Self::over(Arc::new(NaiveStore::new()), policies).await
    }

    /// Starts a relay on a store that others may have too.
    pub(crate) async fn over(store: Arc<dyn EventStore>, config: PolicyConfig) -> Self {
        let mut server = ServerConfig::new(([127, 0, 0, 1], 0).into());
        server.workers = NonZeroUsize::new(2);
        Self::of(server, store, config).await
    }

    /// Starts a relay with this configuration.
    pub(crate) async fn of(
        server: ServerConfig,
        store: Arc<dyn EventStore>,
        config: PolicyConfig,
    ) -> Self {
        let first_tries = MemoryTable::new(MemoryOptions::default(), None);
        let policies = Policies::new(config.clone())
            .unwrap()
            .with_relay_key(key())
            .with_first_tries(Arc::new(first_tries));
        let server = Server::new(server, store)
            .information(move |document| config.describe(document))
            .plugin(|worker| policies.on_worker(worker))
            .on_event(Policies::on_event)
            .on_query(Policies::on_query)
            .task("policies", Policies::follow)
            .bind()
            .unwrap();
        let (address, bans) = (server.address(), server.bans());
        let (shutdown, told) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            server.run(async {
                let _ = told.await;
            })
        });
        Self {
            address,
            bans,
            client: Some(Client::connect(address).await),
            shutdown: Some(shutdown),
            thread: Some(thread),
        }
    }

    /// Keeps out these authors and nobody else.
    pub(crate) fn ban(&self, authors: &[u64]) {
        let ban = |author: &u64| Ban {
            who: Author::new(*author).pubkey().to_hex(),
            reason: String::new(),
            since: 0,
            until: None,
        };
        self.bans.set(&authors.iter().map(ban).collect::<Vec<_>>());
    }

    /// Publishes these events on one connection, before any is answered.
    pub(crate) async fn send_all(&mut self, events: &[Event]) {
        for event in events {
            self.client.as_mut().unwrap().send(event).await;
        }
    }

    /// Receives the answers to so many events: whether each is accepted, and why not.
    pub(crate) async fn receive_all(&mut self, count: usize) -> Vec<(bool, String)> {
        let mut answers = Vec::new();
        for _ in 0..count {
            let (_, accepted, reason) = self.client.as_mut().unwrap().receive_ok().await;
            answers.push((accepted, reason));
        }
        answers
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

    /// Connects a client that has authenticated these keys.
    pub(crate) async fn client_of(&self, authors: &[u64]) -> Client {
        let mut client = Client::connect(self.address).await;
        let challenge = client.receive().await[1].as_str().unwrap().to_owned();
        for author in authors {
            let answer = draft(22242, "")
                .tag(["relay", &format!("ws://{}/", self.address)])
                .tag(["challenge", &challenge])
                .sign(&Author::new(*author));
            client.say("AUTH", &answer).await;
            let (_, accepted, reason) = client.receive_ok().await;
            assert!(accepted, "{reason}");
        }
        client
    }

    /// Returns the information document.
    pub(crate) async fn information(&self) -> Value {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request = "GET / HTTP/1.1\r\nHost: r\r\nConnection: close\r\n\
            Accept: application/nostr+json\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap()
    }
}

/// The relay's own key.
pub(crate) fn key() -> RelayKey {
    RelayKey::new([9; 32]).unwrap()
}

pub(crate) struct Client(WebSocketStream<TcpStream>);

impl Client {
    /// Publishes an event; returns whether it is accepted, and the reason.
    pub(crate) async fn publish(&mut self, event: &Event) -> (bool, String) {
        self.send(event).await;
        let (id, accepted, reason) = self.receive_ok().await;
        assert_eq!(id, event.id().to_hex());
        (accepted, reason)
    }

    /// Asks for stored events; `Err` with why not.
    pub(crate) async fn ask(&mut self, filter: Value) -> Result<Vec<Event>, String> {
        let request = json!(["REQ", "asked", filter]).to_string();
        self.0.send(Message::text(request)).await.unwrap();
        let mut events = Vec::new();
        loop {
            let message = self.receive().await;
            match message[0].as_str().unwrap() {
                "EVENT" => events.push(Event::parse(message[2].to_string().as_bytes()).unwrap()),
                "EOSE" => return Ok(events),
                "CLOSED" => return Err(message[2].as_str().unwrap().to_owned()),
                _ => {}
            }
        }
    }

    async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let (client, _) = tokio_tungstenite::client_async(format!("ws://{address}/"), stream)
            .await
            .unwrap();
        Self(client)
    }

    async fn send(&mut self, event: &Event) {
        self.say("EVENT", event).await;
    }

    async fn say(&mut self, verb: &str, event: &Event) {
        let json = std::str::from_utf8(event.json()).unwrap();
        let message = Message::text(format!("[\"{verb}\",{json}]"));
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
    draft(kind, content).sign(&Author::new(author))
}

/// Begins an event of this moment.
pub(crate) fn draft(kind: u16, content: &str) -> EventBuilder {
    EventBuilder::new(kind).created_at(now()).content(content)
}

pub(crate) fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_secs()
}
