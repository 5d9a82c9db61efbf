//! Shutting down, and not starting at all.

use std::sync::Arc;

use hikyaku_server::{Server, ServerError};
use hikyaku_store::testing::NaiveStore;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::{
    client::{Client, note},
    gated_store::{Gate, GatedStore},
    relay::{Relay, config},
};

#[tokio::test]
async fn a_shutdown_finishes_writes_sends_their_oks_and_says_goodbye() {
    let (store, mut keeper) = GatedStore::new(Gate::Closed);
    let mut relay = Relay::with(config(), store);
    let mut silent = Client::connect(relay.address).await;
    let mut client = Client::connect(relay.address).await;
    let event = note(1, "hello");
    client.send_event(&event).await;
    assert_eq!(keeper.written.recv().await, Some(1));
    relay.begin_shutdown();
    let goodbye = silent.receive_close().await.unwrap();
    assert_eq!(goodbye.code, CloseCode::Away);
    keeper.gate.send(Gate::Open).unwrap();
    assert!(client.receive_ok(&event).await.0);
    assert_eq!(client.receive_close().await.unwrap().code, CloseCode::Away);
    drop((client, silent));
    let address = relay.address;
    relay.join().unwrap();
    assert!(
        TcpStream::connect(address).await.is_err(),
        "still accepting"
    );
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_ever() {
    let (store, mut keeper) = GatedStore::new(Gate::Closed);
    let mut config = config();
    config.drain_timeout = std::time::Duration::from_millis(50);
    let relay = Relay::with(config, store);
    let mut client = Client::connect(relay.address).await;
    client.send_event(&note(1, "hello")).await;
    assert_eq!(keeper.written.recv().await, Some(1));
    relay.join().unwrap();
}

#[test]
fn a_port_in_use_is_refused() {
    let relay = Relay::start();
    let mut config = config();
    config.listen = relay.address;
    let refused = Server::new(config, Arc::new(NaiveStore::new())).bind();
    assert!(
        matches!(refused, Err(ServerError::Listen { .. })),
        "{refused:?}"
    );
}

#[test]
fn a_public_address_must_be_one() {
    let mut config = config();
    config.public_url = Some("https://example.com".into());
    let refused = Server::new(config, Arc::new(NaiveStore::new())).bind();
    assert!(
        matches!(refused, Err(ServerError::PublicUrl(_))),
        "{refused:?}"
    );
}
