//! The whole program with the plugin in it. `cargo run -p hikyaku-plugin-template -- serve` serves at
//! <ws://127.0.0.1:7777> as `hikyaku serve` does; `... -- explain` carries the plugin's command out.

use std::process::ExitCode;

fn main() -> ExitCode {
    hikyaku::main_with(hikyaku_plugin_template::serve)
}
