//! A relay with one policy, in ten lines: notes must not be longer than 280 characters.
//!
//! `cargo run -p hikyaku-server --example one_policy`, then speak Nostr to
//! <ws://127.0.0.1:7779>. The events are in memory; see docs/plugins.md for a store that stays.

use std::sync::Arc;

use hikyaku_event::{Event, Kind};
use hikyaku_server::{Client, Server, ServerConfig, ServerError, Verdict};
use hikyaku_store::testing::NaiveStore;

struct Brevity {
    characters_max: usize,
}

fn main() -> Result<(), ServerError> {
    let config = ServerConfig::new(([127, 0, 0, 1], 7779).into());
    Server::new(config, Arc::new(NaiveStore::new()))
        .plugin(async |_| {
            Ok(Brevity {
                characters_max: 280,
            })
        })
        .on_event(async |p: &Brevity, _: &Client, event: &Event| {
            let is_long = event.content().chars().count() > p.characters_max;
            match event.kind() {
                Kind(1) if is_long => Verdict::reject("notes have 280 characters at most here"),
                _ => Verdict::Accept,
            }
        })
        .run()
}
