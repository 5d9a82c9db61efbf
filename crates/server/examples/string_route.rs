//! A plugin's route that answers with a string, to be loaded from outside.
//!
//! `cargo run --release -p hikyaku-server --features testing --example string_route -- PORT [WORKERS]`.
//! `bench/run.sh http` measures it beside other servers.

use std::{error::Error, num::NonZeroUsize, sync::Arc};

use hikyaku_server::{Request, Server, ServerConfig, get};
use hikyaku_store::testing::NaiveStore;

struct Hello;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let port = arguments
        .next()
        .ok_or("usage: string_route PORT [WORKERS]")?;
    let mut config = ServerConfig::new(([127, 0, 0, 1], port.parse()?).into());
    config.workers = match arguments.next() {
        Some(workers) => Some(workers.parse()?),
        None => NonZeroUsize::new(1),
    };
    Server::new(config, Arc::new(NaiveStore::new()))
        .plugin(async |_| Ok(Hello))
        .route(get("/hello"), async |_: &Hello, _: Request| "Hello, World!")
        .run()?;
    Ok(())
}
