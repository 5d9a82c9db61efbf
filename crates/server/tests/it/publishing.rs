//! Publishing: OKs, duplicates, failures, ephemeral events.

use hikyaku_event::{
    Event,
    testing::{Author, EventBuilder},
};
use hikyaku_store::StoreError;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::{
    client::{Client, note, now},
    gated_store::{Gate, GatedStore},
    relay::{Relay, config},
};

#[tokio::test]
async fn an_event_is_stored_once() {
    let relay = Relay::start();
    let mut client = Client::connect(relay.address).await;
    let event = note(1, "hello");
    assert_eq!(client.publish(&event).await, (true, String::new()));
    let (accepted, reason) = client.publish(&event).await;
    assert!(accepted && reason.starts_with("duplicate:"), "{reason}");
    let ids = client.subscribe("a", json!({"kinds": [1]})).await;
    assert_eq!(ids, [event.id().to_hex()]);
}

#[tokio::test]
async fn a_known_event_costs_no_signature_check() {
    let relay = Relay::start();
    let mut client = Client::connect(relay.address).await;
    let alice = Author::new(1);
    let event = note(1, "hello");
    client.publish(&event).await;
    let forged = EventBuilder::new(1).content("hello").json(
        event.id(),
        alice.pubkey(),
        Author::new(2).sign(event.id()),
    );
    let (accepted, reason) = client.publish(&Event::parse(&forged).unwrap()).await;
    assert!(accepted && reason.starts_with("duplicate:"), "{reason}");
}

#[tokio::test]
async fn a_wrong_signature_is_refused_and_the_others_of_the_batch_are_stored() {
    let relay = Relay::start();
    let mut client = Client::connect(relay.address).await;
    let alice = Author::new(1);
    let good: Vec<_> = (0..40).map(|n| note(1, &n.to_string())).collect();
    let other = note(1, "bad");
    let bad = EventBuilder::new(1).content("bad").json(
        other.id(),
        alice.pubkey(),
        Author::new(2).sign(other.id()),
    );
    let bad = Event::parse(&bad).unwrap();
    let mut batch = good.clone();
    batch.insert(20, bad.clone());
    for event in &batch {
        client.send_event(event).await;
    }
    for event in &batch {
        let (accepted, reason) = client.receive_ok(event).await;
        assert_eq!(accepted, event.id() != bad.id(), "{reason}");
        assert_eq!(reason.starts_with("invalid:"), !accepted);
    }
    assert_eq!(client.subscribe("a", json!({"kinds": [1]})).await.len(), 40);
    assert_eq!(
        relay.figure("hikyaku_events_total{outcome=\"stored\"}"),
        40.0
    );
    assert_eq!(
        relay.figure("hikyaku_events_total{outcome=\"wrong_signature\"}"),
        1.0
    );
}

#[tokio::test]
async fn what_the_store_cannot_write_is_refused_with_an_error() {
    let (store, keeper) = GatedStore::new(Gate::Failing(StoreError::Unavailable("full".into())));
    let relay = Relay::with(config(), store);
    let mut client = Client::connect(relay.address).await;
    let event = note(1, "hello");
    let (accepted, reason) = client.publish(&event).await;
    assert!(!accepted && reason.starts_with("error:"), "{reason}");
    keeper.gate.send(Gate::Open).unwrap();
    assert_eq!(client.publish(&event).await, (true, String::new()));
}

#[tokio::test]
async fn a_connection_is_served_while_its_write_is_under_way() {
    let (store, mut keeper) = GatedStore::new(Gate::Closed);
    let relay = Relay::with(config(), store);
    let mut client = Client::connect(relay.address).await;
    let (first, second) = (note(1, "first"), note(1, "second"));
    client.send_event(&first).await;
    assert_eq!(keeper.written.recv().await, Some(1));
    client.subscribe("a", json!({"kinds": [7]})).await;
    // A second batch does not wait for the first.
    client.send_event(&second).await;
    assert_eq!(keeper.written.recv().await, Some(1));
    keeper.gate.send(Gate::Open).unwrap();
    assert!(client.receive_ok(&first).await.0);
    assert!(client.receive_ok(&second).await.0);
}

#[tokio::test]
async fn events_in_flight_are_bounded() {
    let (store, mut keeper) = GatedStore::new(Gate::Closed);
    let mut config = config();
    config.publications_in_flight_max = 10;
    let relay = Relay::with(config, store);
    let mut client = Client::connect(relay.address).await;
    let events: Vec<_> = (0..30).map(|n| note(1, &n.to_string())).collect();
    // One at a time, so that no read brings more than one.
    for event in &events[..10] {
        client.send_event(event).await;
        assert_eq!(keeper.written.recv().await, Some(1));
    }
    for event in &events[10..] {
        client.send_event(event).await;
    }
    let mut other = Client::connect(relay.address).await;
    other.subscribe("a", json!({"kinds": [7]})).await;
    assert!(
        keeper.written.try_recv().is_err(),
        "read on with 10 in flight"
    );
    keeper.gate.send(Gate::Open).unwrap();
    for event in &events {
        assert!(client.receive_ok(event).await.0);
    }
}

#[tokio::test]
async fn what_was_sent_before_the_goodbye_is_stored() {
    let relay = Relay::start();
    let mut client = Client::connect(relay.address).await;
    let events: Vec<_> = (0..100).map(|n| note(1, &n.to_string())).collect();
    for event in &events {
        client.send_event(event).await;
    }
    client.socket.close(None).await.unwrap();
    for event in &events {
        assert!(client.receive_ok(event).await.0);
    }
    assert!(matches!(
        client.receive_frame().await,
        Ok(Message::Close(_))
    ));
    let mut other = Client::connect(relay.address).await;
    assert_eq!(other.subscribe("a", json!({"kinds": [1]})).await.len(), 100);
}

#[tokio::test]
async fn ephemeral_events_reach_the_listeners_of_all_workers_and_no_store() {
    let (store, mut keeper) = GatedStore::new(Gate::Open);
    let relay = Relay::with(config(), store);
    let mut publisher = Client::connect(relay.address).await;
    let unheard = now(20_001).content("anybody?").sign(&Author::new(1));
    let (accepted, reason) = publisher.publish(&unheard).await;
    assert!(!accepted && reason.starts_with("mute:"), "{reason}");

    let mut listeners = Vec::new();
    for _ in 0..12 {
        let mut listener = Client::connect(relay.address).await;
        assert!(
            listener
                .subscribe("e", json!({"kinds": [20_001]}))
                .await
                .is_empty()
        );
        listeners.push(listener);
    }
    let heard = now(20_001).content("hello").sign(&Author::new(1));
    assert_eq!(publisher.publish(&heard).await, (true, String::new()));
    for listener in &mut listeners {
        assert_eq!(listener.receive_event("e").await, heard.id().to_hex());
    }
    assert!(
        publisher
            .subscribe("e", json!({"kinds": [20_001]}))
            .await
            .is_empty()
    );
    assert!(
        keeper.written.try_recv().is_err(),
        "an ephemeral event was written"
    );
}
