//! Measures live delivery between two nodes: publishes at one at a steady rate, subscribes at both, and
//! prints how long after its sending each event came.
//!
//! `node_latency 127.0.0.1:7777 127.0.0.1:7778 [EVENTS_PER_SECOND] [SECONDS]`

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a measurement may panic"
)]

use std::{
    net::TcpStream,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use hikyaku_event::testing::{Author, EventBuilder};
use serde_json::Value;
use tokio_tungstenite::tungstenite::{Message, WebSocket, client};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |at: usize, default: u64| arguments.get(at).map_or(default, |n| n.parse().unwrap());
    let (rate, seconds) = (number(2, 500), number(3, 20));
    let count = usize::try_from(rate * seconds).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let author = Author::new(now.subsec_nanos().into());
    let messages: Vec<String> = (0..count)
        .map(|number| {
            let event = EventBuilder::new(1).created_at(now.as_secs());
            let event = event.content(&number.to_string()).sign(&author);
            format!("[\"EVENT\",{}]", str::from_utf8(event.json()).unwrap())
        })
        .collect();
    let author = EventBuilder::new(1).sign(&author).pubkey().to_hex();

    let listeners: Vec<_> = [&arguments[0], &arguments[1]]
        .map(|address| {
            let mut socket = connect(address);
            let request = format!(r#"["REQ","live",{{"authors":["{author}"],"limit":0}}]"#);
            socket.send(Message::text(request)).unwrap();
            while next(&mut socket)[0] != "EOSE" {}
            thread::spawn(move || {
                let mut arrivals = vec![None; count];
                for _ in 0..count {
                    let message = next(&mut socket);
                    let number: usize = message[2]["content"].as_str().unwrap().parse().unwrap();
                    let before = arrivals[number].replace(Instant::now());
                    assert!(before.is_none(), "event {number} came twice");
                }
                arrivals
            })
        })
        .into();

    let mut socket = connect(&arguments[0]);
    let interval = Duration::from_secs(1) / u32::try_from(rate).unwrap();
    let start = Instant::now();
    let mut sent = Vec::with_capacity(count);
    for (number, message) in (0..).zip(messages) {
        let due = start + interval * number;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        // Measured from when it was due: a sender that was held up does not flatter.
        sent.push(due);
        socket.send(Message::text(message)).unwrap();
    }
    let names = ["the same node", "the other node"];
    for (name, listener) in names.iter().zip(listeners) {
        let arrivals = listener.join().unwrap();
        let took = |(sent, arrived): (&Instant, Option<Instant>)| arrived.unwrap() - *sent;
        let mut took: Vec<Duration> = sent.iter().zip(arrivals).map(took).collect();
        took.sort_unstable();
        let at = |share: usize| took[(took.len() * share / 1000).min(took.len() - 1)];
        println!(
            "{name}: {count} events, p50 {:.1?}, p90 {:.1?}, p99 {:.1?}, max {:.1?}",
            at(500),
            at(900),
            at(990),
            at(1000)
        );
    }
}

fn connect(address: &str) -> WebSocket<TcpStream> {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    client(format!("ws://{address}/"), stream).unwrap().0
}

/// Returns the next message, other than the challenge and OKs.
fn next(socket: &mut WebSocket<TcpStream>) -> Value {
    loop {
        if let Message::Text(text) = socket.read().unwrap() {
            let message: Value = serde_json::from_str(&text).unwrap();
            if message[0] == "EVENT" || message[0] == "EOSE" {
                return message;
            }
        }
    }
}
