//! Clients that do not read, and clients that do not answer.

use std::{sync::Arc, time::Duration};

use hikyaku_event::{
    Event,
    testing::{Author, EventBuilder},
};
use hikyaku_store::testing::NaiveStore;
use serde_json::json;
use tokio_tungstenite::tungstenite::{Message, protocol::frame::coding::CloseCode};

use crate::{
    client::{Client, note},
    relay::{Relay, config},
    wire::{OPS, Wire, frame},
};

fn large(n: u64) -> Event {
    EventBuilder::new(1)
        .content(&format!("{n} {}", "x".repeat(50_000)))
        .sign(&Author::new(1))
}

/// More than sockets buffer on the way.
const MANY: u64 = 400;

#[tokio::test]
async fn a_slow_readers_stored_answer_waits() {
    let relay = Relay::start();
    let mut publisher = Client::connect(relay.address).await;
    for n in 0..MANY {
        assert!(publisher.publish(&large(n)).await.0);
    }
    let mut slow = Client::connect(relay.address).await;
    slow.send(json!(["REQ", "s", {"kinds": [1], "limit": 5000}]))
        .await;
    let mut sent = f64::MIN;
    // Until nothing moves any more, others are served as ever.
    loop {
        let before = std::mem::replace(&mut sent, relay.figure("hikyaku_sent_bytes_total"));
        for n in 0..20 {
            let event = EventBuilder::new(7)
                .content(&format!("{sent} {n}"))
                .sign(&Author::new(2));
            assert!(publisher.publish(&event).await.0);
        }
        if sent - before < 50_000.0 {
            break;
        }
    }
    assert_eq!(
        relay.figure("hikyaku_queries_total{outcome=\"ended\"}"),
        0.0
    );
    let returned = relay.figure("hikyaku_query_rows_returned_total");
    assert!(
        returned < MANY as f64 / 2.0,
        "{returned} events for who reads none"
    );
    for _ in 0..MANY {
        slow.receive_event("s").await;
    }
    assert_eq!(slow.receive().await[0], "EOSE");
}

#[tokio::test]
async fn who_does_not_read_live_events_is_closed_with_a_reason() {
    let mut config = config();
    config.queued_bytes_max = 256 * 1024;
    let relay = Relay::with(config, Arc::new(NaiveStore::new()));
    let mut slow = Client::connect(relay.address).await;
    slow.subscribe("s", json!({"kinds": [1]})).await;
    let mut publisher = Client::connect(relay.address).await;
    let mut n = 0;
    while relay.figure("hikyaku_slow_readers_closed_total") == 0.0 {
        assert!(publisher.publish(&large(n)).await.0);
        n += 1;
        assert!(n < MANY, "nobody was closed");
    }
    let frame = slow.receive_close().await.unwrap();
    assert_eq!(frame.code, CloseCode::Policy);
    assert!(frame.reason.starts_with("too slow"), "{}", frame.reason);
}

#[tokio::test]
async fn who_answers_pings_stays() {
    let mut config = config();
    config.ping_interval = Duration::from_millis(100);
    let relay = Relay::with(config, Arc::new(NaiveStore::new()));
    let mut client = Client::connect(relay.address).await;
    for _ in 0..5 {
        assert!(matches!(client.receive_frame().await, Ok(Message::Ping(_))));
    }
    assert!(client.publish(&note(1, "hello")).await.0);
}

#[tokio::test]
async fn who_does_not_answer_a_ping_is_given_up() {
    let mut config = config();
    config.ping_interval = Duration::from_millis(50);
    let relay = Relay::with(config, Arc::new(NaiveStore::new()));
    let mut wire = Wire::open(relay.address).await;
    assert_eq!(wire.receive().await, Some((OPS[4], Vec::new())));
    assert_eq!(wire.receive().await, None);
    assert_eq!(relay.figure("hikyaku_unresponsive_closed_total"), 1.0);
}

#[tokio::test]
async fn who_ends_without_a_goodbye_is_cut_off() {
    let mut config = config();
    config.close_timeout = Duration::from_millis(50);
    let relay = Relay::with(config, Arc::new(NaiveStore::new()));
    let mut wire = Wire::open(relay.address).await;
    wire.send(&frame(OPS[2], b"binary")).await;
    assert_eq!(wire.receive_close().await.0, 1003);
    // Our side stays open and silent; the server does not wait for ever.
    while relay.figure("hikyaku_connections_closed_total") == 0.0 {
        tokio::task::yield_now().await;
    }
}
