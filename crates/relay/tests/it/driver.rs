//! Plays the server: one worker with the naive store, and clients that are nothing but sessions.

use std::{
    collections::BTreeMap,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use hikyaku_event::{
    Event, KindClass, PublicKey, Timestamp, Verifier,
    testing::{Author, EventBuilder},
};
use hikyaku_relay::{
    Action, Limits, ListenerKey, LiveIndex, Message, Publication, PublishOutcome, RelayConfig,
    RelayUrls, Session, SubscriptionKey, ok,
};
use hikyaku_store::{
    Budget, CommittedFeed, CountCursor, CountStep, EventStore, Outcome, QueryCursor, QueryStep,
    StoreError, StoreReader, Write,
    testing::{NaiveStore, block_on},
};
use serde_json::{Value, json};

pub(crate) const NOW: Timestamp = 1_700_000_000;
pub(crate) const URL: &str = "wss://relay.example.com";

/// A connection, by its number.
pub(crate) type ClientId = u64;

pub(crate) struct Relay {
    pub(crate) now: Timestamp,
    /// What the store answers to every query and count from now on, instead of answers.
    pub(crate) failure: Option<StoreError>,
    /// The store's counts are of what it has indexed so far.
    pub(crate) is_indexing: bool,
    config: Arc<RelayConfig>,
    store: NaiveStore,
    reader: Box<dyn StoreReader>,
    feed: CommittedFeed,
    pub(crate) index: LiveIndex,
    verifier: Verifier,
    clients: BTreeMap<ClientId, Client>,
}

struct Client {
    session: Session,
    queries: BTreeMap<SubscriptionKey, Box<dyn QueryCursor>>,
    counts: BTreeMap<SubscriptionKey, Box<dyn CountCursor>>,
    inbox: Vec<Value>,
    authenticated: Vec<PublicKey>,
    disconnected: Option<String>,
}

impl Relay {
    pub(crate) fn new() -> Self {
        Self::with_limits(|_| ())
    }

    pub(crate) fn with_limits(change: impl FnOnce(&mut Limits)) -> Self {
        let mut limits = Limits::default();
        change(&mut limits);
        let store = NaiveStore::new();
        Self {
            now: NOW,
            failure: None,
            is_indexing: false,
            config: Arc::new(RelayConfig {
                limits,
                urls: RelayUrls::public(URL).unwrap(),
            }),
            reader: store.reader(),
            feed: store.committed(),
            store,
            index: LiveIndex::new(7),
            verifier: Verifier::new(),
            clients: BTreeMap::new(),
        }
    }

    /// Opens a connection; the greeting stays unread only in [`Relay::greet`].
    pub(crate) fn connect(&mut self) -> ClientId {
        let client = self.greet();
        self.take(client);
        client
    }

    /// Opens a connection and leaves the greeting in its inbox.
    pub(crate) fn greet(&mut self) -> ClientId {
        let id = self.clients.len() as ClientId;
        let session = Session::new(Arc::clone(&self.config), challenge(id));
        self.clients.insert(
            id,
            Client {
                session,
                queries: BTreeMap::new(),
                counts: BTreeMap::new(),
                inbox: Vec::new(),
                authenticated: Vec::new(),
                disconnected: None,
            },
        );
        let mut out = Vec::new();
        self.client(id).session.open(&mut out);
        self.carry_out(id, out);
        id
    }

    /// Lets a client say something, lets everything settle, and returns what the client got.
    pub(crate) fn say(&mut self, client: ClientId, text: impl AsRef<[u8]>) -> Vec<Value> {
        self.receive(client, text);
        self.settle();
        self.take(client)
    }

    pub(crate) fn publish(&mut self, client: ClientId, event: &Event) -> Value {
        let ok = self
            .say(client, publication(event))
            .into_iter()
            .find(|message| message[0] == "OK");
        let ok = ok.expect("every EVENT is answered by an OK");
        assert_eq!(ok[1], event.id().to_hex());
        ok
    }

    pub(crate) fn authenticate(&mut self, client: ClientId, author: &Author) {
        let auth = EventBuilder::new(22242)
            .created_at(self.now)
            .tag(["relay", URL])
            .tag(["challenge", &challenge(client)])
            .sign(author);
        let answer = self.say(client, authentication(&auth));
        assert_eq!(answer, [json!(["OK", auth.id().to_hex(), true, ""])]);
        assert_eq!(self.authenticated(client).last(), Some(&auth.pubkey()));
    }

    /// Hands a message to the session and carries out what it wants, but polls no cursor and
    /// delivers no commit.
    pub(crate) fn receive(&mut self, client: ClientId, text: impl AsRef<[u8]>) {
        let mut out = Vec::new();
        let now = self.now;
        let state = self.clients.get_mut(&client).unwrap();
        state
            .session
            .receive(text.as_ref(), now, &mut self.verifier, &mut out);
        self.carry_out(client, out);
    }

    /// Takes up to this many steps of each of a client's queries and counts.
    pub(crate) fn answer(&mut self, client: ClientId, steps: usize) {
        for _ in 0..steps {
            let keys: Vec<_> = self.client(client).queries.keys().copied().collect();
            for key in keys {
                self.step_query(client, key);
            }
            let keys: Vec<_> = self.client(client).counts.keys().copied().collect();
            for key in keys {
                self.step_count(client, key);
            }
        }
    }

    /// Delivers what was committed to the live subscriptions.
    pub(crate) fn deliver(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(commit)) = self.feed.as_mut().poll_next(&mut cx) {
            for committed in &commit.events {
                self.match_live(Some(committed.sequence), &committed.event);
            }
        }
    }

    /// Delivers and answers everything there is.
    pub(crate) fn settle(&mut self) {
        self.deliver();
        for id in 0..self.clients.len() as ClientId {
            while self.is_answering(id) {
                self.answer(id, 1);
            }
        }
    }

    /// Returns what a client got since it was last asked.
    pub(crate) fn take(&mut self, client: ClientId) -> Vec<Value> {
        std::mem::take(&mut self.client(client).inbox)
    }

    /// Returns the keys that the client has shown to have.
    pub(crate) fn authenticated(&self, client: ClientId) -> &[PublicKey] {
        &self.clients[&client].authenticated
    }

    pub(crate) fn disconnected(&self, client: ClientId) -> Option<&str> {
        self.clients[&client].disconnected.as_deref()
    }

    pub(crate) fn is_answering(&self, client: ClientId) -> bool {
        let client = &self.clients[&client];
        !client.queries.is_empty() || !client.counts.is_empty()
    }

    fn client(&mut self, id: ClientId) -> &mut Client {
        self.clients.get_mut(&id).unwrap()
    }

    fn carry_out(&mut self, id: ClientId, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send(message) => self.client(id).inbox.push(read(&message)),
                Action::Publish(publication) => {
                    let message = self.write(&publication);
                    self.client(id).inbox.push(read(&message));
                }
                Action::Open {
                    key,
                    query,
                    filters,
                } => {
                    self.index.insert(listener(id, key), filters);
                    let cursor = self.reader.query(query);
                    let client = self.client(id);
                    client.session.query_started(key, cursor.snapshot());
                    client.queries.insert(key, cursor);
                }
                Action::Count { key, query } => {
                    let cursor = self.reader.count(query);
                    self.client(id).counts.insert(key, cursor);
                }
                Action::Cancel { key } => {
                    self.index.remove(listener(id, key));
                    self.client(id).queries.remove(&key);
                    self.client(id).counts.remove(&key);
                }
                Action::Authenticated(key) => self.client(id).authenticated.push(key),
                Action::Disconnect { reason } => self.client(id).disconnected = Some(reason),
            }
        }
    }

    fn write(&mut self, publication: &Publication) -> Message {
        let event = &publication.event;
        let id = event.id();
        if block_on(self.reader.contains(&[id])).unwrap() == [true] {
            return ok(&id, PublishOutcome::Written(Outcome::Duplicate));
        }
        if self.verifier.verify(event).is_err() {
            return ok(&id, PublishOutcome::WrongSignature);
        }
        if event.kind().class() == KindClass::Ephemeral {
            let listeners = self.match_live(None, event);
            return ok(&id, PublishOutcome::Delivered { listeners });
        }
        let write = Write::Event {
            event: Arc::clone(event),
            vanish: publication.vanish,
        };
        let outcomes = block_on(self.store.write(vec![write], self.now)).unwrap();
        ok(&id, PublishOutcome::Written(outcomes[0]))
    }

    fn match_live(&mut self, sequence: Option<hikyaku_store::Sequence>, event: &Arc<Event>) -> u64 {
        let mut listeners = Vec::new();
        self.index.for_each_match(event, |key| listeners.push(key));
        let mut taken = 0;
        for ListenerKey {
            connection,
            subscription,
        } in listeners
        {
            let mut out = Vec::new();
            let now = self.now;
            let session = &mut self.client(connection).session;
            taken += u64::from(session.live(subscription, sequence, event, now, &mut out));
            self.carry_out(connection, out);
        }
        taken
    }

    fn step_query(&mut self, id: ClientId, key: SubscriptionKey) {
        let (now, failure) = (self.now, self.failure.clone());
        let client = self.clients.get_mut(&id).unwrap();
        let Some(cursor) = client.queries.get_mut(&key) else {
            return;
        };
        let mut out = Vec::new();
        let mut cx = Context::from_waker(Waker::noop());
        let step = match failure {
            Some(error) => Poll::Ready(Err(error)),
            None => cursor.poll_next(&mut cx, &mut Budget::new(1)),
        };
        match step {
            Poll::Ready(Ok(QueryStep::Event(event))) => {
                out.extend(client.session.stored(key, &event).map(Action::Send));
            }
            Poll::Ready(Ok(QueryStep::End(completeness))) => {
                client.queries.remove(&key);
                client.session.query_ended(key, completeness, now, &mut out);
            }
            Poll::Ready(Err(error)) => {
                client.queries.remove(&key);
                client.session.query_failed(key, &error, &mut out);
            }
            Poll::Ready(Ok(QueryStep::Yield)) | Poll::Pending => {}
        }
        self.carry_out(id, out);
    }

    fn step_count(&mut self, id: ClientId, key: SubscriptionKey) {
        let failure = self.failure.clone();
        let client = self.clients.get_mut(&id).unwrap();
        let Some(cursor) = client.counts.get_mut(&key) else {
            return;
        };
        let mut out = Vec::new();
        let mut cx = Context::from_waker(Waker::noop());
        let step = match failure {
            Some(error) => Poll::Ready(Err(error)),
            None => cursor.poll_count(&mut cx, &mut Budget::new(1)),
        };
        match step {
            Poll::Ready(Ok(CountStep::Done(count))) if !self.is_indexing => {
                client.counts.remove(&key);
                client.session.counted(key, count, &mut out);
            }
            Poll::Ready(Ok(CountStep::Done(count) | CountStep::AtLeast(count))) => {
                client.counts.remove(&key);
                client.session.counted_at_least(key, count, &mut out);
            }
            Poll::Ready(Err(error)) => {
                client.counts.remove(&key);
                client.session.query_failed(key, &error, &mut out);
            }
            Poll::Ready(Ok(CountStep::Yield)) | Poll::Pending => {}
        }
        self.carry_out(id, out);
    }
}

fn listener(connection: ClientId, subscription: SubscriptionKey) -> ListenerKey {
    ListenerKey {
        connection,
        subscription,
    }
}

fn read(message: &Message) -> Value {
    let bytes = match message {
        Message::Text(text) => text.to_vec(),
        Message::Event { header, json } => [header.as_ref(), json, b"]"].concat(),
    };
    serde_json::from_slice(&bytes).expect("what a relay says is JSON")
}

/// The challenge that a connection gets.
pub(crate) fn challenge(client: ClientId) -> String {
    format!("challenge \"{client}\"")
}

pub(crate) fn publication(event: &Event) -> Vec<u8> {
    [br#"["EVENT","#.as_slice(), event.json(), b"]"].concat()
}

pub(crate) fn authentication(event: &Event) -> Vec<u8> {
    [br#"["AUTH","#.as_slice(), event.json(), b"]"].concat()
}

pub(crate) fn request(id: &str, filters: impl IntoIterator<Item = Value>) -> String {
    message("REQ", id, filters)
}

pub(crate) fn count(id: &str, filters: impl IntoIterator<Item = Value>) -> String {
    message("COUNT", id, filters)
}

fn message(name: &str, id: &str, filters: impl IntoIterator<Item = Value>) -> String {
    let mut message = vec![json!(name), json!(id)];
    message.extend(filters);
    Value::from(message).to_string()
}

/// The message that brings an event.
pub(crate) fn event_for(id: &str, event: &Event) -> Value {
    let event: Value = serde_json::from_slice(event.json()).unwrap();
    json!(["EVENT", id, event])
}

/// A note of an author.
pub(crate) fn note(author: &Author, content: &str) -> Event {
    EventBuilder::new(1)
        .created_at(NOW)
        .content(content)
        .sign(author)
}

/// Asserts that a message is an OK false or a CLOSED whose reason begins like this.
pub(crate) fn assert_refused(message: &Value, prefix: &str) {
    let reason = match message[0].as_str() {
        Some("OK") => {
            assert_eq!(message[2], false, "{message}");
            &message[3]
        }
        Some("CLOSED") => &message[2],
        _ => panic!("neither OK nor CLOSED: {message}"),
    };
    let reason = reason.as_str().unwrap();
    assert!(reason.starts_with(prefix), "{reason}");
    let (_, words) = reason.split_once(": ").expect("a prefix and a reason");
    assert!(!words.is_empty(), "{reason}");
}
