//! What docs/plugins.md shows beside a khatru relay: a rule about events, one about filters, greetings,
//! and a page. `cargo run -p hikyaku-server --features testing --example instead_of_khatru`

use std::sync::Arc;

use hikyaku_event::{Event, Filter};
use hikyaku_server::{
    Client, QueryVerdict, Request, Server, ServerConfig, ServerError, Verdict, get,
};
use hikyaku_store::testing::NaiveStore;

struct Policy;

fn main() -> Result<(), ServerError> {
    let mut config = ServerConfig::new(([127, 0, 0, 1], 7777).into());
    config.information.name = Some("my relay".into());
    // A store in memory, for a try; `hikyaku_engine::Engine` keeps what it is given.
    Server::new(config, Arc::new(NaiveStore::new()))
        .plugin(async |_| Ok(Policy))
        .on_event(async |_: &Policy, _: &Client, event: &Event| {
            match event.content().chars().count() {
                0..=280 => Verdict::Accept,
                _ => Verdict::reject("too long"),
            }
        })
        .on_query(
            async |_: &Policy, _: &Client, filters: &[Filter]| match filters.len() {
                0..=3 => QueryVerdict::Accept,
                _ => QueryVerdict::refuse("too complex"),
            },
        )
        .on_open(async |_: &Policy, client: &Client| println!("{} is here", client.address()))
        .route(get("/hello"), async |_: &Policy, _: Request| "hello\n")
        .run()
}
