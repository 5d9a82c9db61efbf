//! What `stat` says: lines of a name, a tab and a value.

use std::{fmt::Write, process};

use hikyaku_tables::Kind;

use crate::{catalogue::Catalogue, exchange::Exchange, metrics::Count};

/// The version of the protocol that is spoken here.
const PROTOCOL_VERSION: &str = "0.91";

/// Writes the figures of the default table and of the server.
pub(super) fn text(exchange: &Exchange<'_>) -> String {
    let served = exchange.catalogue().table(Catalogue::DEFAULT);
    let stamp = exchange.stamp();
    let kind = match served.table.kind() {
        Kind::Fixed => "fixed-length",
        Kind::Hash => "hash",
        Kind::Ordered => "B+ tree",
        Kind::Memory => "on-memory tree",
    };
    let mut text = String::new();
    let mut line = |name: &str, value: &dyn std::fmt::Display| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name}\t{value}");
    };
    line("version", &concat!("hikyaku ", env!("CARGO_PKG_VERSION")));
    line("protver", &PROTOCOL_VERSION);
    line("os", &std::env::consts::OS);
    line("time", &seconds(stamp.at_us));
    line("pid", &process::id());
    line("sid", &stamp.origin);
    line("type", &kind);
    line("path", &served.name);
    line("rnum", &served.table.count());
    line("size", &served.table.bytes());
    line("bigend", &0);
    if let Some(following) = exchange.replication().and_then(|it| it.following()) {
        line("mhost", &following.source.host);
        line("mport", &following.source.port);
        line("rts", &following.applied_us);
        let delay = stamp.at_us.saturating_sub(following.applied_us);
        line("delay", &seconds(delay));
        if let Some(error) = &following.error {
            line("merror", &error.replace(['\n', '\t'], " "));
        }
    }
    let running = stamp.at_us.saturating_sub(exchange.started_us());
    line("ru_real", &seconds(running));
    line("curr_connections", &exchange.metrics().connections());
    for count in Count::ALL {
        if count.name().starts_with("cnt_") {
            line(count.name(), &exchange.metrics().get(*count));
        }
    }
    text
}

/// Writes microseconds as seconds.
fn seconds(us: u64) -> String {
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}
