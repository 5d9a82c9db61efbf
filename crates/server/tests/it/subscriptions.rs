//! Subscriptions: stored answers, live events, reading rights, counts.

use std::collections::HashMap;

use hikyaku_event::testing::{Author, EventBuilder};
use serde_json::json;

use crate::{
    client::{Client, note},
    relay::Relay,
};

#[tokio::test]
async fn a_new_event_reaches_the_subscribers_of_all_workers_once() {
    let relay = Relay::start();
    let mut publisher = Client::connect(relay.address).await;
    let old = note(1, "old");
    publisher.publish(&old).await;
    let mut subscribers = Vec::new();
    for _ in 0..12 {
        let mut subscriber = Client::connect(relay.address).await;
        assert_eq!(
            subscriber.subscribe("s", json!({"kinds": [1]})).await,
            [old.id().to_hex()]
        );
        subscribers.push(subscriber);
    }
    let news: Vec<_> = (0..20).map(|n| note(2, &n.to_string())).collect();
    for event in &news {
        assert!(publisher.publish(event).await.0);
    }
    for subscriber in &mut subscribers {
        for event in &news {
            assert_eq!(subscriber.receive_event("s").await, event.id().to_hex());
        }
    }
    assert_eq!(relay.figure("hikyaku_live_deliveries_total"), 240.0);
}

#[tokio::test]
async fn a_closed_subscription_gets_nothing_more() {
    let relay = Relay::start();
    let mut client = Client::connect(relay.address).await;
    client.subscribe("a", json!({"kinds": [1]})).await;
    client.subscribe("b", json!({"kinds": [1]})).await;
    assert_eq!(relay.figure("hikyaku_subscriptions"), 2.0);
    client.send(json!(["CLOSE", "a"])).await;
    let event = note(1, "hello");
    client.send_event(&event).await;
    let mut kinds = Vec::new();
    for _ in 0..2 {
        let message = client.receive().await;
        kinds.push(message[0].as_str().unwrap().to_owned());
        if message[0] == "EVENT" {
            assert_eq!(message[1], "b");
        }
    }
    kinds.sort_unstable();
    assert_eq!(kinds, ["EVENT", "OK"]);
    drop(client);
    let mut other = Client::connect(relay.address).await;
    other
        .subscribe("c", json!({"kinds": [1], "limit": 0}))
        .await;
}

/// Publishers publish and subscribers come in between: whatever a subscriber's snapshot has or has
/// not, it gets every event exactly once.
#[tokio::test]
async fn each_event_is_delivered_exactly_once_between_stored_and_live() {
    const PUBLISHERS: u64 = 4;
    const EVENTS: u64 = 60;
    let relay = Relay::start();
    let address = relay.address;
    let publishers: Vec<_> = (0..PUBLISHERS)
        .map(|author| {
            tokio::spawn(async move {
                let mut client = Client::connect(address).await;
                for n in 0..EVENTS {
                    assert!(client.publish(&note(author, &n.to_string())).await.0);
                }
            })
        })
        .collect();
    let subscribers: Vec<_> = (0..24)
        .map(|_| {
            tokio::spawn(async move {
                let mut client = Client::connect(address).await;
                let mut seen: HashMap<String, u32> = HashMap::new();
                client
                    .send(json!(["REQ", "s", {"kinds": [1], "limit": 5000}]))
                    .await;
                while seen.len() < (PUBLISHERS * EVENTS) as usize {
                    let message = client.receive().await;
                    if message[0] == "EVENT" {
                        let id = message[2]["id"].as_str().unwrap();
                        *seen.entry(id.to_owned()).or_default() += 1;
                    }
                }
                // Whatever else was to come has come before the answer to this.
                client.send(json!(["COUNT", "c", {"kinds": [7]}])).await;
                loop {
                    let message = client.receive().await;
                    match message[0].as_str().unwrap() {
                        "COUNT" => break,
                        "EVENT" => panic!("a double: {message}"),
                        _ => {}
                    }
                }
                assert!(seen.values().all(|times| *times == 1));
            })
        })
        .collect();
    for task in publishers.into_iter().chain(subscribers) {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn private_events_are_for_their_authenticated_parties() {
    let relay = Relay::start();
    let (alice, bob) = (Author::new(1), Author::new(2));
    let message = EventBuilder::new(4)
        .tag(["p", &bob.pubkey().to_hex()])
        .content("secret")
        .sign(&alice);
    let mut publisher = Client::connect(relay.address).await;
    assert!(publisher.publish(&message).await.0);

    let mut reader = Client::connect(relay.address).await;
    reader.send(json!(["REQ", "dm", {"kinds": [4]}])).await;
    let closed = reader.receive().await;
    assert_eq!(closed[0], "CLOSED");
    assert!(
        closed[2].as_str().unwrap().starts_with("auth-required:"),
        "{closed}"
    );
    assert_eq!(reader.authenticate(&bob).await, (true, String::new()));
    assert_eq!(
        reader.subscribe("dm", json!({"kinds": [4]})).await,
        [message.id().to_hex()]
    );
}

#[tokio::test]
async fn counts_are_answered() {
    let relay = Relay::start();
    let mut client = Client::connect(relay.address).await;
    for n in 0..7 {
        client.publish(&note(n, "x")).await;
    }
    client
        .send(json!(["COUNT", "c", {"kinds": [1], "limit": 2}]))
        .await;
    let count = client.receive().await;
    assert_eq!(count, json!(["COUNT", "c", {"count": 7}]));
}

#[tokio::test]
async fn nonsense_gets_a_notice_and_the_connection_goes_on() {
    let relay = Relay::start();
    let mut client = Client::connect(relay.address).await;
    client.send_text("nonsense".into()).await;
    assert_eq!(client.receive().await[0], "NOTICE");
    assert!(client.publish(&note(1, "hello")).await.0);
}
