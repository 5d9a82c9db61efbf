//! Load, scoring, comparisons: the measuring commands. They speak to a relay as any client does and
//! share no code with it, so that they judge this relay and its peers alike.

mod corpus;
mod disk;
mod error;
mod fanout;
mod fresh;
mod generate;
mod idle;
mod latency;
mod metrics;
mod process;
mod publish;
mod query;
mod questions;
mod random;
mod report;
mod shape;
mod sign;
mod socket;
mod start;

use std::{
    io::{BufWriter, stdout},
    process::ExitCode,
};

use clap::{Parser, Subcommand};

/// Measures a Nostr relay.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Writes a corpus of signed events to standard output.
    Generate(generate::Corpus),
    /// Publishes a corpus and counts the events accepted a second.
    Publish(publish::Publish),
    /// Publishes one event at a time: how long to its OK, and to a live subscriber.
    Latency(latency::Latency),
    /// Asks what clients ask, and checks the answers.
    Query(query::Query),
    /// Publishes to many live subscribers.
    Fanout(fanout::Fanout),
    /// Opens many connections that say nothing: what each costs in memory.
    Idle(idle::Idle),
    /// Weighs a data folder against the JSON of what is in it.
    Disk(disk::Disk),
    /// Starts a relay again and again: how long until it is ready.
    Start(start::Start),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Generate(corpus) => {
            let mut out = BufWriter::with_capacity(1 << 20, stdout().lock());
            generate::generate(&corpus, &mut out)
        }
        Command::Publish(options) => publish::publish(&options),
        Command::Latency(options) => latency::latency(&options),
        Command::Query(options) => query::query(&options),
        Command::Fanout(options) => fanout::fanout(&options),
        Command::Idle(options) => idle::idle(&options),
        Command::Disk(options) => disk::disk(&options),
        Command::Start(options) => start::start(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hikyaku-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
