//! `fanout`: how many deliveries a second a relay makes when every event goes to many subscribers.

use std::time::Instant;

use crate::{
    error::{BenchError, Result},
    fresh::Fresh,
    process::Process,
    report::{Cell, Output, Report},
    socket::{Connection, RelayUrl, frame, ready},
};

/// Where, and how much.
#[derive(Debug, clap::Args)]
pub(crate) struct Fanout {
    /// The relay, as ws://host:port.
    relay: RelayUrl,
    /// How many connections listen.
    #[arg(long, default_value_t = 200)]
    subscribers: usize,
    /// How many events are published.
    #[arg(long, default_value_t = 2_000)]
    events: usize,
    /// How many of them are under way at a time.
    #[arg(long, default_value_t = 64)]
    window: usize,
    #[command(flatten)]
    output: Output,
}

/// Runs the measurement.
pub(crate) fn fanout(options: &Fanout) -> Result<()> {
    let process = Process::listening(&options.relay)?;
    let mut fresh = Fresh::new();
    let frames: Vec<Vec<u8>> = (0..options.events)
        .map(|_| {
            let mut bytes = Vec::new();
            frame(
                format!("[\"EVENT\",{}]", fresh.note()).as_bytes(),
                &mut bytes,
            );
            bytes
        })
        .collect();
    let request = format!(
        "[\"REQ\",\"live\",{{\"#t\":[\"{}\"],\"limit\":0}}]",
        fresh.hashtag
    );
    // The publisher is the last connection.
    let mut connections = Vec::with_capacity(options.subscribers + 1);
    for _ in 0..options.subscribers {
        let mut subscriber = Connection::open(&options.relay)?;
        subscriber.send(&request)?;
        while !subscriber.receive()?.starts_with(b"[\"EOSE\"") {}
        subscriber.set_nonblocking(true)?;
        connections.push(subscriber);
    }
    let publisher = Connection::open(&options.relay)?;
    publisher.set_nonblocking(true)?;
    connections.push(publisher);

    let expected = options.subscribers * options.events;
    let (mut sent, mut answered, mut delivered) = (0, 0, 0);
    let cpu_before = process.cpu_seconds()?;
    let begun = Instant::now();
    while delivered < expected || answered < options.events {
        let due = frames.get(sent..(answered + options.window).min(frames.len()));
        if let (Some(due), Some(publisher)) = (due, connections.last_mut()) {
            // The window is small enough for the socket's buffer.
            publisher.send_frames(&due.concat())?;
            sent += due.len();
        }
        for place in ready(connections.iter().map(|it| (it, false)))? {
            let Some(connection) = connections.get_mut(place) else {
                continue;
            };
            connection.fill()?;
            while let Some(message) = connection.received()? {
                if message.starts_with(b"[\"EVENT\"") {
                    delivered += 1;
                } else if message.starts_with(b"[\"OK\"") {
                    answered += 1;
                } else if message.starts_with(b"[\"CLOSED\"") {
                    let said = String::from_utf8_lossy(message).into_owned();
                    return Err(BenchError::Relay(format!("ended a subscription: {said}")));
                }
            }
        }
    }
    let elapsed = begun.elapsed().as_secs_f64();
    let cpu_seconds = process.cpu_seconds()? - cpu_before;

    let mut report = Report::new(
        "fan-out",
        &[
            "subscribers",
            "events",
            "deliveries/s",
            "server cpu µs/delivery",
        ],
    );
    report.row(vec![
        options.subscribers.into(),
        options.events.into(),
        Cell::Number(delivered as f64 / elapsed, 0),
        Cell::Number(cpu_seconds * 1e6 / delivered as f64, 2),
    ]);
    report.finish(&options.output)
}
