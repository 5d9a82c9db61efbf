//! What a relay says of its own work: one counter of its Prometheus page.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use crate::error::{BenchError, During, Result};

/// The counter of events that queries looked at, whether they were answers or not.
const EXAMINED: &str = "hikyaku_query_rows_examined_total";

/// Reads the counter from a metrics address, `host:port`.
pub(crate) fn examined(address: &str) -> Result<u64> {
    let mut stream = TcpStream::connect(address).during(address)?;
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).during(address)?;
    let mut page = String::new();
    stream.read_to_string(&mut page).during(address)?;
    let value = page
        .lines()
        .find_map(|line| line.strip_prefix(EXAMINED))
        .and_then(|value| value.trim().parse().ok());
    value.ok_or_else(|| BenchError::Relay(format!("has no {EXAMINED} at {address}")))
}
