//! How much memory a connection costs that says nothing; of servers on this machine.

use std::{thread, time::Duration};

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::{
    error::{BenchError, During, Result},
    load::Process,
    relay::{run::Setting, websocket::WebSocket},
    report::{Cell, Report, Table},
};

/// Half a minute is enough for any server to come to rest.
const SECONDS_TO_REST: usize = 30;

/// Opens the connections at one server after the other.
pub(crate) fn run(setting: &Setting<'_>, report: &mut Report) -> Result<()> {
    let count = setting.options.shape.idle;
    let columns = &["at", "connections", "before MB", "after MB", "bytes each"];
    let mut table = Table::new("idle connections, each with one live subscription", columns);
    allow_descriptors(count as u64 + 64)?;
    let patience = setting.series().patience();
    for target in &report.targets {
        let Some(process) = &target.process else {
            let note = format!(
                "{}: its process can't be seen: no memory of idle connections",
                target.name
            );
            report.notes.push(note);
            continue;
        };
        let before = at_rest(setting, process)?;
        let mut connections = Vec::with_capacity(count);
        for number in 0..count {
            if setting.is_stopped() {
                return Err(BenchError::Interrupted);
            }
            let mut socket = WebSocket::open(&target.address, patience)?;
            // As a client has that waits for news.
            let listen = format!("[\"REQ\",\"live\",{{\"#t\":[\"idle{number}\"],\"limit\":0}}]");
            socket.send(&listen, patience)?;
            while !socket.receive(patience)?.starts_with(b"[\"EOSE\"") {}
            socket.stream().release_buffers();
            connections.push(socket);
            setting
                .progress
                .show(|| format!("idle, {}: {number} of {count}", target.name));
        }
        let after = at_rest(setting, process)?;
        let each = after.saturating_sub(before) as f64 / count.max(1) as f64;
        table.row(vec![
            target.name.into(),
            count.into(),
            Cell::Number(before as f64 / 1e6, 1),
            Cell::Number(after as f64 / 1e6, 1),
            Cell::Number(each, 0),
        ]);
        setting.progress.tell(&format!(
            "idle, {}: {each:.0} bytes a connection",
            target.name
        ));
    }
    report.tables.push(table);
    Ok(())
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

/// Waits until the memory no longer changes by more than 1 % in a second.
fn at_rest(setting: &Setting<'_>, process: &Process) -> Result<u64> {
    let mut last = process.memory_bytes()?;
    for _ in 0..SECONDS_TO_REST {
        thread::sleep(Duration::from_secs(1));
        let now = process.memory_bytes()?;
        if setting.is_stopped() || now.abs_diff(last) * 100 <= last {
            return Ok(now);
        }
        last = now;
    }
    Ok(last)
}
