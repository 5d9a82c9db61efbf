//! What `hikyaku bench` can do.

use std::{
    io::{BufWriter, stdout},
    sync::atomic::AtomicBool,
};

use clap::Subcommand;

use crate::{
    corpus::{Generate, generate},
    disk::{Disk, disk},
    error::BenchError,
    relay::{Relay, relay},
    start::{Start, start},
    tables::{Tables, tables},
};

/// The measurements.
#[derive(Debug, Clone, Subcommand)]
pub enum Bench {
    /// Write a corpus of signed events to standard output, one JSON object a line
    ///
    /// Kinds, tags, sizes, authors and hashtags follow recordings of the real network; replies name
    /// recent notes; replaceable events and deletions come in proportion. The same seed gives the
    /// same events.
    Generate(Generate),
    /// Load a Nostr relay, any, and check every answer
    ///
    /// Brings the relay to a known state (a corpus is published), checks its answers, then runs the
    /// phases, or a level with a score. A wrong answer ends the run without a score. The relay should
    /// be empty, or hold this corpus from an earlier run: what is as old as the corpus and not of it
    /// would be taken for a wrong answer. What was published stays in the relay.
    #[command(after_help = "\
Examples:
  hikyaku bench relay ws://127.0.0.1:7777
  hikyaku bench relay ws://127.0.0.1:7777 --vs ws://127.0.0.1:7778 --rounds 5 --html report.html
  hikyaku bench relay ws://127.0.0.1:7777 --level auto")]
    Relay(Box<Relay>),
    /// Weigh a data folder against the JSON of the corpus that is in it
    Disk(Disk),
    /// Start a relay again and again: how long until it is ready, after a stop and after kill -9
    Start(Start),
    /// Set and rotate small values in a table server, beside memcached and Redis, all running
    Tables(Tables),
}

/// Runs a measurement; it ends with what it has when the flag is set.
pub fn run(bench: &Bench, stop: &AtomicBool) -> Result<(), BenchError> {
    match bench {
        Bench::Generate(options) => {
            let mut out = BufWriter::with_capacity(1 << 20, stdout().lock());
            generate(options, &mut out)
        }
        Bench::Relay(options) => relay(options, stop),
        Bench::Disk(options) => disk(options),
        Bench::Start(options) => start(options),
        Bench::Tables(options) => tables(options),
    }
}
