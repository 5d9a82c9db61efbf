//! What was answered OK survives kill -9, and nothing comes back that was never sent.

use std::{
    collections::{HashMap, HashSet},
    net::TcpStream,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc::{Sender, channel},
    },
    thread,
};

use hikyaku_event::testing::{Author, EventBuilder};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Error, Message, WebSocket, client};

use crate::{
    program::{Place, Relay},
    websocket::Client,
};

const ROUNDS: u64 = 20;
const PUBLISHERS: u64 = 4;
/// Events under way on each connection.
const WINDOW: usize = 24;
/// One event in so many is deleted by its author.
const DELETED: u64 = 7;
/// Asked for at a time.
const PAGE: usize = 250;
const FIRST_SECOND: u64 = 1_700_000_000;

/// Everything that was ever sent and answered.
#[derive(Default)]
struct Ledger {
    /// Every event by its id. Written before it is sent.
    sent: HashMap<String, Value>,
    /// Which event each deletion names.
    deletions: HashMap<String, String>,
    accepted: HashSet<String>,
}

impl Ledger {
    /// Returns an accepted note of this author that nobody has asked to delete yet.
    fn deletable(&self, author: &str) -> Option<String> {
        let named: HashSet<_> = self.deletions.values().collect();
        let mut free = self.accepted.iter().filter(|id| !named.contains(id));
        let is_own_note = |id: &&String| {
            let event = self.sent.get(*id);
            event.is_some_and(|event| event["kind"] == 1 && event["pubkey"] == author)
        };
        free.find(is_own_note).cloned()
    }
}

/// What the publishers share.
struct Shared {
    ledger: Mutex<Ledger>,
    /// Every event has a second of its own, so that pages of an answer do not overlap.
    clock: AtomicU64,
}

#[test]
fn what_was_answered_ok_survives_kill_nine() {
    let place = Place::new();
    let shared = Arc::new(Shared {
        ledger: Mutex::default(),
        clock: AtomicU64::new(FIRST_SECOND),
    });
    for round in 0..ROUNDS {
        // From the middle of the first commit to hundreds of commits.
        let moment = (round * round * 2 + 1) as usize;
        publish_until_killed(&place, &shared, moment);
        let relay = Relay::start(&place);
        check(&relay, &shared.ledger.lock().unwrap());
        kill_nine(relay);
    }
}

/// Ends a relay with no chance to finish anything.
fn kill_nine(relay: Relay) {
    relay.signal(Signal::KILL);
    relay.wait();
}

/// Publishes on several connections at once, and kills the relay at so many OKs.
fn publish_until_killed(place: &Place, shared: &Arc<Shared>, moment: usize) {
    let relay = Relay::start(place);
    let (answered, answers) = channel();
    let publishers: Vec<_> = (0..PUBLISHERS)
        .map(|number| {
            let publisher = Publisher::connect(&relay.address);
            let (shared, answered) = (Arc::clone(shared), answered.clone());
            thread::spawn(move || publish(publisher, &Author::new(number), &shared, &answered))
        })
        .collect();
    drop(answered);
    let heard = answers.iter().take(moment).count();
    assert_eq!(heard, moment, "the relay went away by itself");
    kill_nine(relay);
    for publisher in publishers {
        publisher.join().unwrap();
    }
}

/// A connection that may break at any moment.
struct Publisher(WebSocket<TcpStream>);

impl Publisher {
    fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(client(format!("ws://{address}/"), stream).unwrap().0)
    }

    fn publish(&mut self, event: &str) -> Result<(), Error> {
        self.0.send(Message::text(format!("[\"EVENT\",{event}]")))
    }

    /// Waits for the next OK.
    fn answer(&mut self) -> Result<Value, Error> {
        loop {
            if let Message::Text(text) = self.0.read()? {
                let message: Value = serde_json::from_str(&text).unwrap();
                if message[0] == "OK" {
                    return Ok(message);
                }
            }
        }
    }
}

/// Publishes until the connection breaks.
fn publish(mut publisher: Publisher, author: &Author, shared: &Shared, answered: &Sender<()>) {
    let mut under_way = 0;
    loop {
        while under_way < WINDOW {
            if publisher.publish(&next_event(author, shared)).is_err() {
                return;
            }
            under_way += 1;
        }
        let Ok(answer) = publisher.answer() else {
            return;
        };
        assert_eq!(answer[2], true, "refused: {answer}");
        let id = answer[1].as_str().unwrap().to_owned();
        shared.ledger.lock().unwrap().accepted.insert(id);
        // After the kill nobody counts any more.
        let _ = answered.send(());
        under_way -= 1;
    }
}

/// Makes an event, or a deletion of an accepted one, and enters it in the ledger.
fn next_event(author: &Author, shared: &Shared) -> String {
    let second = shared.clock.fetch_add(1, Ordering::Relaxed);
    let mut ledger = shared.ledger.lock().unwrap();
    let deleted = if second.is_multiple_of(DELETED) {
        ledger.deletable(&author.pubkey().to_hex())
    } else {
        None
    };
    let builder = match &deleted {
        Some(target) => EventBuilder::new(5).tag(["e", target]),
        None => EventBuilder::new(1).tag(["t", "kill-nine"]),
    };
    let builder = builder
        .created_at(second)
        .content(&format!("note {second}"));
    let json = String::from_utf8(builder.sign_json(author)).unwrap();
    let event: Value = serde_json::from_str(&json).unwrap();
    let id = event["id"].as_str().unwrap().to_owned();
    if let Some(target) = deleted {
        ledger.deletions.insert(id.clone(), target);
    }
    ledger.sent.insert(id, event);
    json
}

/// Compares what the relay has with what it may and must have.
fn check(relay: &Relay, ledger: &Ledger) {
    let mut client = Client::connect(&relay.address);
    let events = everything(&mut client);
    for event in &events {
        let id = event["id"].as_str().unwrap();
        let sent = ledger.sent.get(id);
        assert_eq!(Some(event), sent, "what is there is not what was sent");
    }
    let stored = ids(&events);
    // A deletion without an OK may or may not have been carried out.
    let perhaps_gone: HashSet<_> = ledger.deletions.values().collect();
    let accepted = ledger.accepted.iter();
    let must: Vec<_> = accepted.filter(|id| !perhaps_gone.contains(id)).collect();
    for id in &must {
        assert!(
            stored.contains(*id),
            "{id} was answered OK and is not listed"
        );
    }
    for page in must.chunks(PAGE) {
        let found = ids(&client.query(&json!({ "ids": page, "limit": PAGE })));
        for id in page {
            assert!(
                found.contains(*id),
                "{id} was answered OK and is not found by its id"
            );
        }
    }
    for (deletion, target) in &ledger.deletions {
        let is_there = ledger.accepted.contains(deletion) && stored.contains(target);
        assert!(
            !is_there,
            "{target} is there, though its deletion was answered OK"
        );
    }
}

fn ids(events: &[Value]) -> HashSet<String> {
    let id = |event: &Value| event["id"].as_str().unwrap().to_owned();
    events.iter().map(id).collect()
}

/// Returns all events that the relay has, page by page.
fn everything(client: &mut Client) -> Vec<Value> {
    let mut events: Vec<Value> = Vec::new();
    let mut until = u64::MAX >> 1;
    loop {
        let page = client.query(&json!({ "kinds": [1, 5], "until": until, "limit": PAGE }));
        let Some(oldest) = page.last().and_then(|event| event["created_at"].as_u64()) else {
            return events;
        };
        until = oldest - 1;
        events.extend(page);
    }
}
