//! Who was here, as the server takes it down; and how fast clients may go.

use std::sync::Arc;

use hikyaku_event::{Kind, testing::Author};
use hikyaku_members::{FootprintLimits, MemberTables, Members, Rate};
use hikyaku_server::ServerConfig;
use hikyaku_store::testing::NaiveStore;
use hikyaku_tables::{MemoryOptions, MemoryTable, Table};
use serde_json::json;

use crate::{
    client::{Client, note, now},
    relay::{Relay, config},
    wire::Wire,
};

fn members() -> Arc<Members> {
    let table = || -> Arc<dyn Table> { Arc::new(MemoryTable::new(MemoryOptions::default(), None)) };
    let tables = MemberTables {
        keys: table(),
        seen: table(),
        days: table(),
        counts: table(),
        footprints: table(),
        settings: table(),
    };
    Arc::new(Members::open(tables, FootprintLimits::default(), 7).unwrap())
}

fn start(change: impl FnOnce(&mut ServerConfig)) -> Relay {
    let mut config = config();
    change(&mut config);
    Relay::with(config, Arc::new(NaiveStore::new()))
}

#[tokio::test]
async fn what_was_accepted_is_counted_for_its_author() {
    let members = members();
    let relay = start(|config| config.members = Some(members.clone()));
    let mut client = Client::connect(relay.address).await;
    let author = Author::new(1);
    for index in 0..3 {
        let event = now(1).content(&index.to_string()).sign(&author);
        client.publish(&event).await;
        client.publish(&event).await;
    }
    client.publish(&now(7).sign(&author)).await;
    drop(client);
    relay.join().unwrap();
    let member = members.number(&author.pubkey()).unwrap();
    assert_eq!(
        members.counts(member).unwrap(),
        [(Kind(1), 3), (Kind(7), 1)]
    );
    assert!(members.get(member).unwrap().unwrap().seen.is_some());
}

#[tokio::test]
async fn an_old_event_does_not_show_that_its_author_is_here() {
    let members = members();
    let relay = start(|config| config.members = Some(members.clone()));
    let mut client = Client::connect(relay.address).await;
    client
        .publish(&note(1, "of long ago, passed on by a stranger"))
        .await;
    drop(client);
    relay.join().unwrap();
    let member = members.number(&Author::new(1).pubkey()).unwrap();
    assert_eq!(members.get(member).unwrap().unwrap().seen, None);
}

#[tokio::test]
async fn who_authenticates_is_here_and_who_only_reads_is_nobody() {
    let members = members();
    let relay = start(|config| config.members = Some(members.clone()));
    let mut client = Client::connect(relay.address).await;
    client
        .subscribe("a", json!({"authors": [Author::new(2).pubkey().to_hex()]}))
        .await;
    assert!(client.authenticate(&Author::new(1)).await.0);
    drop(client);
    relay.join().unwrap();
    let member = members.number(&Author::new(1).pubkey()).unwrap();
    assert!(members.get(member).unwrap().unwrap().seen.is_some());
    assert_eq!(members.len(), 1);
}

#[tokio::test]
async fn who_vanishes_is_forgotten() {
    let members = members();
    let relay = start(|config| config.members = Some(members.clone()));
    let mut client = Client::connect(relay.address).await;
    let author = Author::new(1);
    client.publish(&now(1).sign(&author)).await;
    let vanish = now(62).tag(["relay", "ALL_RELAYS"]).sign(&author);
    assert!(client.publish(&vanish).await.0);
    drop(client);
    relay.join().unwrap();
    assert_eq!(members.number(&author.pubkey()), None);
    assert!(members.is_empty());
}

#[tokio::test]
async fn the_page_says_how_many_members_there_are() {
    let members = members();
    let relay = start(|config| config.members = Some(members.clone()));
    let mut client = Client::connect(relay.address).await;
    client.authenticate(&Author::new(1)).await;
    client.authenticate(&Author::new(2)).await;
    while members.len() < 2 {
        tokio::task::yield_now().await;
    }
    let page = Wire::request(
        relay.address,
        "GET / HTTP/1.1\r\nHost: r\r\nConnection: close\r\n\r\n",
    );
    let page = page.await;
    assert!(page.contains("2 members, "), "{page}");
}

fn slow(burst: u32) -> Rate {
    Rate {
        per_minute: 1,
        burst,
    }
}

#[tokio::test]
async fn an_address_that_publishes_too_fast_is_told_to_wait() {
    let relay = start(|config| {
        config.unlimited_addresses.clear();
        config.rates.events_per_address = slow(2);
    });
    let mut client = Client::connect(relay.address).await;
    assert!(client.publish(&note(1, "a")).await.0);
    assert!(client.publish(&note(2, "b")).await.0);
    let (accepted, reason) = client.publish(&note(3, "c")).await;
    assert!(!accepted && reason.starts_with("rate-limited:"), "{reason}");
    let mut other = Client::connect(relay.address).await;
    let (accepted, _) = other.publish(&note(4, "d")).await;
    assert!(!accepted, "another connection is the same address");
    assert_eq!(
        relay.figure("hikyaku_events_total{outcome=\"rate_limited\"}"),
        2.0
    );
}

#[tokio::test]
async fn a_keys_rate_is_used_up_by_its_own_signatures_only() {
    let relay = start(|config| {
        config.unlimited_addresses.clear();
        config.rates.events_per_key = slow(1);
    });
    let mut client = Client::connect(relay.address).await;
    let real = note(1, "real");
    let forged = {
        let author = Author::new(1);
        let json = hikyaku_event::testing::EventBuilder::new(1)
            .content("forged")
            .json(
                note(1, "forged").id(),
                author.pubkey(),
                Author::new(2).sign(real.id()),
            );
        hikyaku_event::Event::parse(&json).unwrap()
    };
    let (accepted, reason) = client.publish(&forged).await;
    assert!(!accepted && reason.starts_with("invalid:"), "{reason}");
    assert!(client.publish(&real).await.0);
    let (accepted, reason) = client.publish(&note(1, "more")).await;
    assert!(!accepted && reason.starts_with("rate-limited:"), "{reason}");
    assert!(client.publish(&note(2, "somebody else")).await.0);
}

#[tokio::test]
async fn who_asks_too_much_is_told_to_wait() {
    let relay = start(|config| {
        config.unlimited_addresses.clear();
        config.rates.queries_per_address = slow(2);
    });
    let mut client = Client::connect(relay.address).await;
    client.subscribe("a", json!({"kinds": [1]})).await;
    client.send(json!(["COUNT", "b", {"kinds": [1]}])).await;
    assert_eq!(client.receive().await[0], "COUNT");
    for message in ["REQ", "COUNT"] {
        client.send(json!([message, "c", {"kinds": [1]}])).await;
        let closed = client.receive().await;
        assert_eq!((&closed[0], &closed[1]), (&json!("CLOSED"), &json!("c")));
        assert!(closed[2].as_str().unwrap().starts_with("rate-limited:"));
    }
    assert_eq!(relay.figure("hikyaku_subscriptions"), 1.0);
}

#[tokio::test]
async fn unlimited_addresses_have_no_rate() {
    let relay = start(|config| {
        config.rates.events_per_address = slow(1);
        config.rates.events_per_key = slow(1);
        config.rates.queries_per_address = slow(1);
    });
    let mut client = Client::connect(relay.address).await;
    for content in ["a", "b", "c"] {
        assert!(client.publish(&note(1, content)).await.0);
        client.subscribe("a", json!({"kinds": [1]})).await;
        client.send(json!(["CLOSE", "a"])).await;
    }
}
