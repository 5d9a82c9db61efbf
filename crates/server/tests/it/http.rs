//! HTTP on the relay's address, and on the operator's.

use std::{sync::Arc, time::Duration};

use hikyaku_server::Gauge;
use hikyaku_store::testing::NaiveStore;
use serde_json::Value;

use crate::{
    client::{Client, note},
    relay::{Relay, config},
    wire::{HANDSHAKE, Wire},
};

/// Returns the head in lower case, and the body.
fn parts(response: &str) -> (String, &str) {
    let (head, body) = response
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("{response}"));
    (head.to_lowercase(), body)
}

async fn get(relay: &Relay, path: &str, headers: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: r\r\nConnection: close\r\n{headers}\r\n");
    Wire::request(relay.address, &request).await
}

#[tokio::test]
async fn the_information_document_is_for_everybody() {
    let relay = Relay::start();
    for accept in [
        "application/nostr+json",
        "text/html;q=0.1, Application/Nostr+JSON;q=0.9",
    ] {
        let response = get(&relay, "/", &format!("Accept: {accept}\r\n")).await;
        let (head, body) = parts(&response);
        assert!(head.starts_with("http/1.1 200 "), "{head}");
        assert!(
            head.contains("content-type: application/nostr+json"),
            "{head}"
        );
        for name in ["origin: *", "headers: *", "methods: get"] {
            assert!(
                head.contains(&format!("access-control-allow-{name}")),
                "{name} in {head}"
            );
        }
        let document: Value = serde_json::from_str(body).unwrap();
        assert_eq!(document["name"], "test relay");
        assert!(
            document["supported_nips"]
                .as_array()
                .unwrap()
                .contains(&11.into())
        );
        assert_eq!(document["limitation"]["max_message_length"], 1024 * 1024);
    }
}

#[tokio::test]
async fn a_browser_asks_first_whether_it_may() {
    let relay = Relay::start();
    let request = "OPTIONS / HTTP/1.1\r\nHost: r\r\nConnection: close\r\nOrigin: https://c\r\n\r\n";
    let response = Wire::request(relay.address, request).await;
    let (head, _) = parts(&response);
    assert!(head.starts_with("http/1.1 204 "), "{head}");
    assert!(head.contains("access-control-allow-origin: *"), "{head}");
}

#[tokio::test]
async fn a_browser_sees_a_page() {
    let relay = Relay::start();
    let response = get(
        &relay,
        "/",
        "Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n",
    )
    .await;
    let (head, body) = parts(&response);
    assert!(head.contains("content-type: text/html"), "{head}");
    assert!(
        head.contains("content-security-policy: default-src 'none'"),
        "{head}"
    );
    assert!(body.contains("<h1>test relay</h1>"), "{body}");
    let head_only = Wire::request(
        relay.address,
        "HEAD / HTTP/1.1\r\nHost: r\r\nConnection: close\r\n\r\n",
    )
    .await;
    assert!(parts(&head_only).1.is_empty());
}

#[tokio::test]
async fn there_is_one_endpoint_only() {
    let relay = Relay::start();
    for path in ["/nostr", "//", "/favicon.ico", "/metrics"] {
        let response = get(&relay, path, "Accept: application/nostr+json\r\n").await;
        assert!(response.starts_with("HTTP/1.1 404 "), "{path}: {response}");
        let handshake = HANDSHAKE.replacen("GET / ", &format!("GET {path} "), 1);
        let mut wire = Wire::connect(relay.address).await;
        wire.send(format!("{handshake}\r\n").as_bytes()).await;
        let head = wire.receive_head().await;
        assert!(head.starts_with("HTTP/1.1 404 "), "{path}: {head}");
    }
}

#[tokio::test]
async fn a_handshake_must_be_one() {
    let relay = Relay::start();
    for (from, to, status) in [
        ("Version: 13", "Version: 8", "426"),
        ("nonce", "nonce", "101"),
        ("dGhlIHNhbXBsZSBub25jZQ==", "dGhl", "400"),
        ("Connection: Upgrade", "Connection: keep-alive", "400"),
        (
            "Connection: Upgrade",
            "Connection: keep-alive, Upgrade",
            "101",
        ),
        ("GET", "POST", "400"),
    ] {
        let mut wire = Wire::connect(relay.address).await;
        wire.send(format!("{}\r\n", HANDSHAKE.replacen(from, to, 1)).as_bytes())
            .await;
        let head = wire.receive_head().await;
        assert!(
            head.starts_with(&format!("HTTP/1.1 {status} ")),
            "{from} -> {to}: {head}"
        );
        if status == "426" {
            assert!(
                head.to_lowercase().contains("sec-websocket-version: 13"),
                "{head}"
            );
        }
    }
}

#[tokio::test]
async fn other_methods_are_refused() {
    let relay = Relay::start();
    let request = "DELETE / HTTP/1.1\r\nHost: r\r\nConnection: close\r\n\r\n";
    let response = Wire::request(relay.address, request).await;
    assert!(response.starts_with("HTTP/1.1 405 "), "{response}");
}

#[tokio::test]
async fn who_dawdles_over_a_request_is_cut_off() {
    let mut config = config();
    config.header_timeout = Duration::from_millis(50);
    let relay = Relay::with(config, Arc::new(NaiveStore::new()));
    let answer = Wire::request(relay.address, "GET / HTTP/1.1\r\nHost: r\r\nX-Slow: ").await;
    assert!(!answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn an_endless_request_is_cut_off() {
    let relay = Relay::start();
    let request = format!("GET / HTTP/1.1\r\nHost: r\r\nX: {}", "x".repeat(64 * 1024));
    let answer = Wire::request(relay.address, &request).await;
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 431 "),
        "{answer}"
    );
    let request = format!(
        "GET / HTTP/1.1\r\nHost: r\r\n{}\r\n",
        "X: x\r\n".repeat(100)
    );
    let answer = Wire::request(relay.address, &request).await;
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 431 "),
        "{answer}"
    );
}

#[tokio::test]
async fn the_operator_reads_the_metrics() {
    let mut config = config();
    config.metrics_listen = Some(([127, 0, 0, 1], 0).into());
    config.gauges = Some(Arc::new(|| {
        vec![Gauge {
            name: "store_events",
            help: "Events stored",
            value: 42.0,
        }]
    }));
    let relay = Relay::with(config, Arc::new(NaiveStore::new()));
    let mut client = Client::connect(relay.address).await;
    client.publish(&note(1, "hello")).await;
    let address = relay.metrics_address.unwrap();
    let response = Wire::request(address, "GET /metrics HTTP/1.1\r\nHost: m\r\n\r\n").await;
    let (head, body) = parts(&response);
    assert!(head.starts_with("http/1.1 200 "), "{head}");
    for line in [
        "hikyaku_connections 1",
        "hikyaku_messages_received_total{type=\"EVENT\"} 1",
        "hikyaku_publish_seconds_count 1",
        "hikyaku_store_events 42",
    ] {
        assert!(body.lines().any(|other| other == line), "{line} in\n{body}");
    }
    let response = Wire::request(address, "GET / HTTP/1.1\r\nHost: m\r\n\r\n").await;
    assert!(response.starts_with("HTTP/1.1 404 "), "{response}");
}
