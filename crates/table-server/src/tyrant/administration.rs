//! What is about the server and its files: copies, whom it follows, who follows it.

use std::path::{Path, PathBuf};

use hikyaku_tables::{Stamp, Table, TableError};

use super::{
    Session,
    session::{MISCELLANEOUS, done, refuse_all},
    wire::{DONE, FAILED, Refusal},
};
use crate::{
    catalogue::Catalogue,
    exchange::{Exchange, Step},
    replication::{Handover, Replication, Source},
};

/// The longest host, with what stands before its name.
const HOST_BYTES_MAX: usize = 4096;

impl Session {
    /// Writes a copy of the default table. The name is that of a new file in the folder for copies: a
    /// client writes nowhere else, and no name runs anything.
    pub(super) fn copy(&mut self, name: &[u8], exchange: &mut Exchange<'_>) -> Step {
        let Some(path) = within(exchange.config().copies.as_deref(), name) else {
            let why = "a copy is a plain name in the folder for copies, if there is one";
            return self.refuse(why, exchange);
        };
        let copy = move |table: &dyn Table, _: Stamp| done(table.copy(&path));
        self.task_aside(Catalogue::DEFAULT, Box::new(copy), Refusal::Code, exchange)
    }

    /// Carries out again what an update log has from a time on (microseconds since 1970). The name is
    /// that of a log's folder in the folder for them: a client reads nowhere else.
    pub(super) fn restore(
        &mut self,
        name: &[u8],
        from_us: u64,
        is_checked: bool,
        exchange: &mut Exchange<'_>,
    ) -> Step {
        let path = within(exchange.config().restores.as_deref(), name);
        let set = exchange.catalogue().set().cloned();
        let Some((path, set)) = path.zip(set) else {
            let why = "an update log is a plain name in the folder for them, if there is one";
            return self.refuse(why, exchange);
        };
        let restore = move |_: &dyn Table, _: Stamp| {
            let replayed = set.restore(&path, from_us)?;
            set.checkpoint()?;
            tracing::info!(?path, ?replayed, "restored");
            if is_checked && replayed.refused + replayed.other_tables > 0 {
                return Err(TableError::Syntax(format!(
                    "{} updates were refused, {} are of tables that are not open",
                    replayed.refused, replayed.other_tables
                )));
            }
            Ok(vec![DONE])
        };
        let restore = Box::new(restore);
        self.task_aside(Catalogue::DEFAULT, restore, Refusal::Code, exchange)
    }

    /// Follows another server from now on, or nobody if there is no host.
    pub(super) fn set_master(
        &mut self,
        host: &[u8],
        port: i32,
        since_us: u64,
        exchange: &mut Exchange<'_>,
    ) -> Step {
        let Some(replication) = exchange.replication().cloned() else {
            return self.refuse("this server can follow nobody", exchange);
        };
        match source(host, port, since_us, &replication) {
            Ok(source) => {
                let follow = move |_: &dyn Table, _: Stamp| {
                    done(replication.follow_and_keep(source.clone()))
                };
                self.task_aside(
                    Catalogue::DEFAULT,
                    Box::new(follow),
                    Refusal::Code,
                    exchange,
                )
            }
            Err(why) => self.refuse(why, exchange),
        }
    }

    fn refuse(&mut self, why: &'static str, exchange: &mut Exchange<'_>) -> Step {
        if !exchange.is_settled() {
            return Step::Settle;
        }
        self.error = Some((MISCELLANEOUS, why.to_owned()));
        exchange.output.push(FAILED);
        Step::Went
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

/// Returns what a client has this server follow; nobody if there is no host. What that server wants to
/// be told first stands before its name: `TOKEN@HOST`.
fn source(
    host: &[u8],
    port: i32,
    since_us: u64,
    replication: &Replication,
) -> Result<Option<Source>, &'static str> {
    if host.is_empty() {
        return Ok(None);
    }
    if replication.tables.log().is_none() {
        return Err("following another server needs an update log here");
    }
    if host.len() > HOST_BYTES_MAX {
        return Err("the host is longer than 4,096 bytes");
    }
    let host = std::str::from_utf8(host).map_err(|_| "the host is no name")?;
    let (token, host) = match host.rsplit_once('@') {
        Some((token, host)) => (Some(token.to_owned()), host),
        None => (None, host),
    };
    if host.is_empty() || host.contains(|c: char| c.is_control() || c.is_whitespace()) {
        return Err("the host is no name");
    }
    let port = u16::try_from(port).ok().filter(|port| *port > 0);
    Ok(Some(Source {
        host: host.to_owned(),
        port: port.ok_or("the port is not from 1 to 65535")?,
        token,
        since_us,
    }))
}

/// Returns the place of a name in a folder; of one that could lead elsewhere there is none.
fn within(folder: Option<&Path>, name: &[u8]) -> Option<PathBuf> {
    let name = std::str::from_utf8(name).ok()?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let is_plain = !name.is_empty() && !name.starts_with('.') && name.chars().all(is_plain);
    folder.filter(|_| is_plain).map(|folder| folder.join(name))
}
