//! `idle`: how much memory a connection costs that says nothing.

use std::{thread, time::Duration};

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::{
    error::{BenchError, During, Result},
    process::Process,
    report::{Cell, Output, Report},
    socket::{Connection, RelayUrl},
};

/// Where, and how many.
#[derive(Debug, clap::Args)]
pub(crate) struct Idle {
    /// The relay, as ws://host:port.
    relay: RelayUrl,
    /// How many connections.
    #[arg(long, default_value_t = 10_000)]
    connections: usize,
    /// Give each one live subscription, as a client has that waits for news.
    #[arg(long)]
    subscribed: bool,
    #[command(flatten)]
    output: Output,
}

/// Runs the measurement.
pub(crate) fn idle(options: &Idle) -> Result<()> {
    allow_descriptors(options.connections as u64 + 64)?;
    let process = Process::listening(&options.relay)?;
    let before = settled(process)?;
    let mut connections = Vec::with_capacity(options.connections);
    for number in 0..options.connections {
        let mut connection = Connection::open(&options.relay)?;
        if options.subscribed {
            let request = format!("[\"REQ\",\"live\",{{\"#t\":[\"idle{number}\"],\"limit\":0}}]");
            connection.send(&request)?;
            while !connection.receive()?.starts_with(b"[\"EOSE\"") {}
        }
        connection.release_buffer();
        connections.push(connection);
    }
    let after = settled(process)?;
    let mut report = Report::new(
        "idle",
        &["connections", "before MB", "after MB", "bytes each"],
    );
    let each = after.saturating_sub(before) as f64 / options.connections.max(1) as f64;
    report.row(vec![
        connections.len().into(),
        Cell::Number(before as f64 / 1e6, 1),
        Cell::Number(after as f64 / 1e6, 1),
        Cell::Number(each, 0),
    ]);
    report.finish(&options.output)
}

/// Raises the limit on open files as far as it may be raised.
fn allow_descriptors(needed: u64) -> Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.maximum.is_some_and(|maximum| maximum < needed) {
        return Err(BenchError::Input(format!(
            "{needed} open files are needed; raise the hard limit (ulimit -Hn)"
        )));
    }
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).during("RLIMIT_NOFILE")
}

/// Waits until the memory no longer changes by more than 1 % in a second, or half a minute.
fn settled(process: Process) -> Result<u64> {
    let mut last = process.memory_bytes()?;
    for _ in 0..30 {
        thread::sleep(Duration::from_secs(1));
        let now = process.memory_bytes()?;
        if now.abs_diff(last) * 100 <= last {
            return Ok(now);
        }
        last = now;
    }
    Ok(last)
}
