//! The program: flags, config, logging, signals.
fn main() {}
