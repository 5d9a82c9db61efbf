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
    http::{Http, http},
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
    /// Load a server of records by key: memcached, Redis, or the tables
    ///
    /// Writes every key once and reads it back, then loads the server: one at a time, on many
    /// connections, without answers, pipelined, at a rate. Every answer must be right to the byte, and
    /// every value the one written last. Existing records of the same names are overwritten. Where a
    /// server speaks Tokyo Tyrant's protocol, or rotates values, that is measured too.
    #[command(after_help = "\
Examples:
  hikyaku bench tables 127.0.0.1:11211
  hikyaku bench tables 127.0.0.1:11211 --vs redis://127.0.0.1:6379 --value-bytes 100")]
    Tables(Box<Tables>),
    /// Load one route of an HTTP server
    ///
    /// What it answers to the first request it must answer to all: one at a time, on many connections,
    /// at a rate.
    #[command(after_help = "\
Examples:
  hikyaku bench http http://127.0.0.1:8080/ --vs http://127.0.0.1:8081/
  hikyaku bench http http://127.0.0.1:8080/notes --method POST --body note.json --varying")]
    Http(Box<Http>),
    /// Weigh a data folder against the JSON of the corpus that is in it
    Disk(Disk),
    /// Start a relay again and again: how long until it is ready, after a stop and after kill -9
    Start(Start),
}

/// Runs a measurement; it ends with what it has when the flag is set.
pub fn run(bench: &Bench, stop: &AtomicBool) -> Result<(), BenchError> {
    match bench {
        Bench::Generate(options) => {
            let mut out = BufWriter::with_capacity(1 << 20, stdout().lock());
            generate(options, &mut out, stop)
        }
        Bench::Relay(options) => relay(options, stop),
        Bench::Tables(options) => tables(options, stop),
        Bench::Http(options) => http(options, stop),
        Bench::Disk(options) => disk(options, stop),
        Bench::Start(options) => start(options, stop),
    }
}
