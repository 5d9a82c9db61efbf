//! How many connections, from where; frames that break the rules; memory.

use std::{sync::Arc, time::Duration};

use hikyaku_server::ServerConfig;
use hikyaku_store::testing::NaiveStore;

use crate::{
    client::{Client, note},
    relay::{Relay, config},
    wire::{HANDSHAKE, OPS, Wire, frame},
};

fn start(change: impl FnOnce(&mut ServerConfig)) -> Relay {
    let mut config = config();
    change(&mut config);
    Relay::with(config, Arc::new(NaiveStore::new()))
}

/// Tries to connect, as a client that a proxy speaks for if one is named. Returns the status line's
/// code; none if the connection was cut.
async fn try_connect(relay: &Relay, forwarded: Option<&str>) -> (Wire, Option<String>) {
    let mut wire = Wire::connect(relay.address).await;
    let header = forwarded.map(|client| format!("X-Forwarded-For: {client}\r\n"));
    let request = format!("{HANDSHAKE}{}\r\n", header.unwrap_or_default());
    let status = if wire.try_send(request.as_bytes()).await {
        wire.receive_status().await
    } else {
        None
    };
    (wire, status)
}

#[tokio::test]
async fn an_address_has_its_share_of_connections() {
    let relay = start(|config| {
        config.connections_per_address_max = 2;
        config.unlimited_addresses.clear();
    });
    let first = Wire::open(relay.address).await;
    let _second = Wire::open(relay.address).await;
    let (_, status) = try_connect(&relay, None).await;
    assert!(status.is_none_or(|status| status == "429"));
    assert_eq!(relay.figure("hikyaku_connections_refused_total"), 1.0);
    drop(first);
    while relay.figure("hikyaku_connections_closed_total") == 0.0 {
        tokio::task::yield_now().await;
    }
    Wire::open(relay.address).await;
}

#[tokio::test]
async fn a_trusted_proxys_clients_have_their_own_shares() {
    let relay = start(|config| {
        config.connections_per_address_max = 1;
        config.unlimited_addresses.clear();
        config.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    });
    let (_one, status) = try_connect(&relay, Some("192.0.2.1")).await;
    assert_eq!(status.as_deref(), Some("101"));
    let (_two, status) = try_connect(&relay, Some("198.51.100.9, 192.0.2.2, 127.0.0.9")).await;
    assert_eq!(status.as_deref(), Some("101"));
    let (_, status) = try_connect(&relay, Some("198.51.100.10, 192.0.2.2")).await;
    assert_eq!(status.as_deref(), Some("429"));
}

#[tokio::test]
async fn what_a_stranger_says_about_addresses_is_not_read() {
    let relay = start(|config| {
        config.connections_per_address_max = 1;
        config.unlimited_addresses.clear();
    });
    let (_one, status) = try_connect(&relay, Some("192.0.2.1")).await;
    assert_eq!(status.as_deref(), Some("101"));
    let (_, status) = try_connect(&relay, Some("192.0.2.2")).await;
    assert!(status.is_none_or(|status| status == "429"));
}

#[tokio::test]
async fn connections_are_spread_evenly_over_the_workers() {
    let relay = start(|config| config.workers = std::num::NonZeroUsize::new(3));
    let mut wires = Vec::new();
    for _ in 0..9 {
        wires.push(Wire::open(relay.address).await);
    }
    for worker in 0..3 {
        let name = format!("hikyaku_worker_connections{{worker=\"{worker}\"}}");
        assert_eq!(relay.figure(&name), 3.0, "worker {worker}");
    }
}

#[tokio::test]
async fn connections_are_limited_in_all() {
    let relay = start(|config| config.connections_max = 1);
    let _first = Wire::open(relay.address).await;
    let (_, status) = try_connect(&relay, None).await;
    assert!(status.is_none_or(|status| status == "429"));
}

#[tokio::test]
async fn broken_frames_are_answered_with_their_codes() {
    let relay = start(|config| config.limits.message_bytes_max = 1000);
    let unmasked = b"\x81\x05hello".to_vec();
    let cases = [
        ("unmasked", unmasked, 1002),
        ("reserved bit", frame(0xc1, b"x"), 1002),
        ("unknown operation", frame(0x83, b"x"), 1002),
        ("binary", frame(OPS[2], b"x"), 1003),
        ("not UTF-8", frame(OPS[1], b"\xff"), 1007),
        ("too big", frame(OPS[1], &[b'x'; 1001]), 1009),
        (
            "too big in fragments",
            [frame(0x01, &[b'x'; 600]), frame(OPS[0], &[b'x'; 600])].concat(),
            1009,
        ),
        ("continuation of nothing", frame(OPS[0], b"x"), 1002),
        ("ping in fragments", frame(0x09, b"x"), 1002),
        (
            "close code of ours",
            frame(OPS[3], &1006_u16.to_be_bytes()),
            1002,
        ),
    ];
    for (name, bytes, code) in cases {
        let mut wire = Wire::open(relay.address).await;
        wire.send(&bytes).await;
        let (closed, reason) = wire.receive_close().await;
        assert_eq!(closed, code, "{name}: {reason}");
        wire.send(&frame(OPS[3], &code.to_be_bytes())).await;
        assert_eq!(wire.receive().await, None, "{name}");
    }
}

#[tokio::test]
async fn control_frames_come_between_fragments() {
    let relay = start(|_| {});
    let mut wire = Wire::open(relay.address).await;
    let event = note(1, "in parts");
    let text = format!("[\"EVENT\",{}]", std::str::from_utf8(event.json()).unwrap());
    let (head, tail) = text.as_bytes().split_at(100);
    let frames = [
        frame(0x01, head),
        frame(OPS[4], b"there?"),
        frame(0x00, b""),
        frame(OPS[0], tail),
    ];
    for byte in frames.concat() {
        wire.send(&[byte]).await;
    }
    assert_eq!(wire.receive().await, Some((OPS[5], b"there?".to_vec())));
    let (_, ok) = wire.receive().await.unwrap();
    assert!(String::from_utf8(ok).unwrap().contains(",true,"));
    wire.send(&frame(OPS[3], &1000_u16.to_be_bytes())).await;
    assert_eq!(wire.receive_close().await, (1000, String::new()));
    assert_eq!(wire.receive().await, None);
}

#[tokio::test]
async fn what_comes_with_the_handshake_is_not_lost() {
    let relay = start(|_| {});
    let mut wire = Wire::connect(relay.address).await;
    let ping = frame(OPS[4], b"early");
    wire.send(&[format!("{HANDSHAKE}\r\n").as_bytes(), &ping].concat())
        .await;
    wire.receive_head().await;
    assert_eq!(wire.receive().await.unwrap().0, OPS[1]);
    assert_eq!(wire.receive().await, Some((OPS[5], b"early".to_vec())));
}

#[tokio::test]
async fn an_aborted_connection_harms_nobody() {
    let relay = start(|_| {});
    for _ in 0..20 {
        let mut wire = Wire::open(relay.address).await;
        wire.send(&frame(OPS[1], b"[\"REQ\",\"a\",{}]")).await;
        wire.send(&frame(OPS[1], b"not all of it")[..9]).await;
        socket2::SockRef::from(&wire.stream)
            .set_linger(Some(Duration::ZERO))
            .unwrap();
    }
    let mut client = Client::connect(relay.address).await;
    assert!(client.publish(&note(1, "hello")).await.0);
    while relay.figure("hikyaku_connections_closed_total") < 20.0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(relay.figure("hikyaku_subscriptions"), 0.0);
}
