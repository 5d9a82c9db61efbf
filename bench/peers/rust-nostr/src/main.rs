//! rust-nostr's relay on LMDB, as its own examples set it up, without the limits on rates: usage
//! `rust-nostr-relay FOLDER PORT`.

use std::{error::Error, net::Ipv4Addr};

use nostr_lmdb::NostrLMDB;
use nostr_relay_builder::{LocalRelay, RelayBuilder, builder::RateLimit};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(folder), Some(port)) = (arguments.next(), arguments.next()) else {
        return Err("usage: rust-nostr-relay FOLDER PORT".into());
    };
    let builder = RelayBuilder::default()
        .addr(Ipv4Addr::LOCALHOST.into())
        .port(port.parse()?)
        .database(NostrLMDB::open(folder)?)
        .rate_limit(RateLimit {
            max_reqs: usize::MAX,
            notes_per_minute: u32::MAX,
        });
    let relay = LocalRelay::new(builder);
    relay.run().await?;
    tokio::signal::ctrl_c().await?;
    relay.shutdown();
    Ok(())
}
