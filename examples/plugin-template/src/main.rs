//! A relay with the plugin, on the embedded store in `./data`. `cargo run -p hikyaku-plugin-template`
//! serves at <ws://127.0.0.1:7777>; `... -- explain` carries a command out.

use std::{process::ExitCode, sync::Arc};

use hikyaku_engine::{Engine, Options};
use hikyaku_server::{Server, ServerConfig};
use hikyaku_vfs::RealDisk;

fn main() -> ExitCode {
    // Keys the store's index, so that nobody can choose what collides in it.
    let mut options = Options::default();
    if let Err(error) = getrandom::fill(&mut options.term_key) {
        eprintln!("the system has no randomness: {error}");
        return ExitCode::FAILURE;
    }
    let store = match Engine::open(Arc::new(RealDisk), "./data".into(), options) {
        Ok(store) => store,
        Err(error) => {
            eprintln!("can't open the store: {error}");
            return ExitCode::FAILURE;
        }
    };
    let config = ServerConfig::new(([127, 0, 0, 1], 7777).into());
    hikyaku_plugin_template::serve(Server::new(config, Arc::new(store))).main()
}
