//! `stats`.

use hikyaku_tables::Kind;

use crate::{exchange::Exchange, metrics::Count};

/// Writes the answer to `stats`: what is asked about the server as a whole, or about its tables.
/// Tells whether there are such statistics.
pub(super) fn write(about: Option<&[u8]>, exchange: &mut Exchange<'_>) -> bool {
    let mut lines = Vec::new();
    match about {
        None => general(exchange, &mut lines),
        Some(b"tables") => tables(exchange, &mut lines),
        Some(b"settings") => settings(exchange, &mut lines),
        // What memcached keeps of its slabs, and a table has not.
        Some(b"items" | b"slabs" | b"sizes" | b"conns") => {}
        Some(b"reset") => {
            exchange.metrics().begin_anew();
            exchange.output.extend_from_slice(b"RESET\r\n");
            return true;
        }
        Some(_) => return false,
    }
    for (name, value) in lines {
        let line = ["STAT ", &name, " ", &value, "\r\n"].concat();
        exchange.output.extend_from_slice(line.as_bytes());
    }
    exchange.output.extend_from_slice(b"END\r\n");
    true
}

type Lines = Vec<(String, String)>;

fn general(exchange: &Exchange<'_>, lines: &mut Lines) {
    let mut add = |name: &str, value: String| lines.push((name.to_owned(), value));
    let now_us = exchange.stamp().at_us;
    add("pid", std::process::id().to_string());
    let uptime = now_us.saturating_sub(exchange.started_us()) / 1_000_000;
    add("uptime", uptime.to_string());
    add("time", (now_us / 1_000_000).to_string());
    add("version", env!("CARGO_PKG_VERSION").to_owned());
    add("pointer_size", usize::BITS.to_string());
    let metrics = exchange.metrics();
    add("curr_connections", metrics.connections().to_string());
    add(
        "max_connections",
        exchange.config().connections_max.to_string(),
    );
    add("threads", metrics.workers().to_string());
    for &count in Count::ALL {
        add(count.name(), metrics.since_reset(count).to_string());
    }
    let (mut records, mut bytes) = (0_u64, 0_u64);
    for (_, served) in exchange.catalogue().tables() {
        records = records.saturating_add(served.table.count());
        bytes = bytes.saturating_add(served.table.bytes());
    }
    add("curr_items", records.to_string());
    add("bytes", bytes.to_string());
}

fn tables(exchange: &Exchange<'_>, lines: &mut Lines) {
    for (_, served) in exchange.catalogue().tables() {
        let kind = match served.table.kind() {
            Kind::Fixed => "fixed",
            Kind::Hash => "hash",
            Kind::Ordered => "ordered",
            Kind::Memory => "memory",
        };
        let name = &served.name;
        lines.push((format!("{name}:kind"), kind.to_owned()));
        lines.push((
            format!("{name}:curr_items"),
            served.table.count().to_string(),
        ));
        lines.push((format!("{name}:bytes"), served.table.bytes().to_string()));
    }
}

fn settings(exchange: &Exchange<'_>, lines: &mut Lines) {
    let config = exchange.config();
    let mut add = |name: &str, value: String| lines.push((name.to_owned(), value));
    add("maxconns", config.connections_max.to_string());
    add("item_size_max", config.value_bytes_max.to_string());
    add("num_threads", exchange.metrics().workers().to_string());
    add("cas_enabled", "yes".to_owned());
    add("flush_enabled", "yes".to_owned());
    let is_locked = if config.token.is_some() { "yes" } else { "no" };
    add("auth_enabled_ascii", is_locked.to_owned());
}
