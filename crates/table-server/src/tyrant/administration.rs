//! What is about the server and its files: copies, whom it follows, who follows it.

use super::{
    Session,
    session::{MISCELLANEOUS, done, refuse_all},
    wire::FAILED,
};
use crate::{
    exchange::{Exchange, Step},
    replication::{Handover, Source},
};

impl Session {
    /// Writes a copy of the default table. The name is that of a new file in the folder for copies: a
    /// client writes nowhere else, and no name runs anything.
    pub(super) fn copy(&mut self, name: &[u8], exchange: &mut Exchange<'_>) -> Step {
        let folder = exchange.config().copies.clone();
        let Some(path) = folder
            .zip(plain_name(name))
            .map(|(dir, name)| dir.join(name))
        else {
            if !exchange.is_settled() {
                return Step::Settle;
            }
            let why = "a copy is a plain name in the folder for copies, if there is one";
            self.error = Some((MISCELLANEOUS, why.to_owned()));
            exchange.output.push(FAILED);
            return Step::Went;
        };
        self.task(Box::new(move |table, _| done(table.copy(&path))), exchange)
    }
}

/// Gives the connection to whoever serves followers.
pub(super) fn hand_over(handover: Handover, bytes: usize, exchange: &mut Exchange<'_>) -> Step {
    if exchange.replication().is_none() {
        return refuse_all(exchange);
    }
    exchange.take(bytes);
    Step::HandOver(handover)
}

/// Follows another server from now on, or nobody if there is no host.
pub(super) fn set_master(
    host: &[u8],
    port: i32,
    since_us: u64,
    exchange: &Exchange<'_>,
) -> Result<(), &'static str> {
    let replication = exchange
        .replication()
        .ok_or("this server can follow nobody")?;
    if host.is_empty() {
        replication.follow(None);
        return Ok(());
    }
    let host = std::str::from_utf8(host).map_err(|_| "the host is no name")?;
    let port = u16::try_from(port).ok().filter(|port| *port > 0);
    replication.follow(Some(Source {
        host: host.to_owned(),
        port: port.ok_or("the port is not from 1 to 65535")?,
        token: None,
        since_us,
    }));
    Ok(())
}

/// Returns a file's name that leads nowhere else.
fn plain_name(name: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(name).ok()?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let is_plain = !name.is_empty() && !name.starts_with('.') && name.chars().all(is_plain);
    is_plain.then_some(name)
}
