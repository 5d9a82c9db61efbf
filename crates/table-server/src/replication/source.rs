//! The side that is followed.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use hikyaku_tables::{Follower, LogPosition, TableError, UpdateLog};

use super::{
    control::Replication,
    frame::{self, Frame, VERSION},
    tyrant,
};
use crate::socket::Parcel;

/// How often a follower hears something.
pub(super) const SIGN_OF_LIFE: Duration = Duration::from_secs(1);
/// How long a look at the log's end may take until a stop is noticed.
const LOOK: Duration = Duration::from_millis(100);
/// How long a follower may take to say where it is.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Frames are sent when there are so many bytes of them.
const SEND_BYTES: usize = 64 * 1024;
/// Updates that are looked at before it is time for a sign of life: those of the follower itself are
/// left out, and may be many.
const LOOKED_AT: u32 = 1024;

/// A connection that is no client's any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handover {
    /// It is a follower of ours.
    Follow { version: u32, server_id: u32 },
    /// It is a slave of Tokyo Tyrant's.
    Tyrant { from_us: u64, server_id: u32 },
}

/// Serves a follower until it is gone, or the server stops.
pub(super) fn serve(replication: &Replication, parcel: Parcel, handover: Handover) {
    let Parcel::Tcp(stream) = parcel else {
        tracing::warn!("a follower comes over a Unix socket: they do over TCP only");
        return;
    };
    match converse(replication, &stream, handover) {
        Ok(()) => {}
        Err(SourceError::Connection(error)) => tracing::info!(%error, "a follower is gone"),
        Err(SourceError::Log(error)) => {
            tracing::warn!(%error, "a follower can't go on");
            if matches!(handover, Handover::Follow { .. }) {
                let why = error.to_string();
                let mut farewell = Vec::new();
                frame::write(&mut farewell, &Frame::End(&why));
                // It may be gone too.
                let _ = (&stream).write_all(&farewell);
            }
        }
    }
}

#[derive(Debug)]
enum SourceError {
    Connection(io::Error),
    Log(TableError),
}

impl From<io::Error> for SourceError {
    fn from(error: io::Error) -> Self {
        Self::Connection(error)
    }
}

fn converse(
    replication: &Replication,
    mut stream: &TcpStream,
    handover: Handover,
) -> Result<(), SourceError> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(HANDSHAKE))?;
    stream.set_write_timeout(Some(replication.config.unread_timeout))?;
    let _registration = replication.register(stream)?;
    let Some(log) = replication.tables.log() else {
        return refuse(
            stream,
            handover,
            "this server keeps no update log to follow",
        );
    };
    let follower = match handover {
        Handover::Follow { version, server_id } => {
            let theirs = (server_id != log.server()).then_some(server_id);
            let Some(theirs) = theirs.filter(|id| *id != 0) else {
                let why = "each server needs a number of its own, from 1";
                return refuse(stream, handover, why);
            };
            if version != VERSION {
                let why = format!("this server speaks version {VERSION}, and not {version}");
                return refuse(stream, handover, &why);
            }
            stream.write_all(&[0])?;
            stream.write_all(&log.server().to_be_bytes())?;
            match begin(stream, log)? {
                Ok(follower) => follower.except(theirs),
                Err(error) => {
                    let why = format!(
                        "{error}: give the follower a copy of this server's tables to begin with"
                    );
                    return refuse(stream, handover, &why);
                }
            }
        }
        Handover::Tyrant { from_us, server_id } => {
            if server_id == 0 || server_id == log.server() {
                return Ok(());
            }
            stream.write_all(&log.server().to_be_bytes())?;
            let follower = log.follow_since(from_us).map_err(SourceError::Log)?;
            follower.except(server_id)
        }
    };
    tracing::info!(?handover, position = follower.position().0, "a follower");
    ship(replication, stream, follower, handover)
}

/// Hears where a follower is, and begins there.
fn begin(
    mut stream: &TcpStream,
    log: &UpdateLog,
) -> Result<Result<Follower, TableError>, SourceError> {
    let mut from = [0; 16];
    stream.read_exact(&mut from)?;
    let (position, since_us) = from.split_at(8);
    let number = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    };
    let (position, since_us) = (number(position), number(since_us));
    let follower = match (position, since_us) {
        (u64::MAX, 0) => log.follow(LogPosition(0)),
        (u64::MAX, since_us) => log.follow_since(since_us),
        (position, _) => log.follow(LogPosition(position)),
    };
    if follower.is_ok() {
        stream.write_all(&[0])?;
    }
    Ok(follower)
}

fn refuse(mut stream: &TcpStream, handover: Handover, why: &str) -> Result<(), SourceError> {
    tracing::warn!(?handover, why, "a follower is refused");
    if matches!(handover, Handover::Follow { .. }) {
        let length = (why.len() as u32).to_be_bytes();
        stream.write_all(&[&[1][..], &length, why.as_bytes()].concat())?;
    }
    Ok(())
}

/// Sends updates as they come.
fn ship(
    replication: &Replication,
    mut stream: &TcpStream,
    mut follower: Follower,
    handover: Handover,
) -> Result<(), SourceError> {
    let default = replication.tables.iter().next();
    let default = default.map_or("", |(named, _)| named.name.as_str());
    let mut output = Vec::new();
    let mut last_said = Instant::now();
    let mut looked_at = 0;
    while !replication.stopping.load(Relaxed) {
        let start = output.len();
        let is_at_end = match follower.next_update().map_err(SourceError::Log)? {
            None => true,
            Some(logged) => {
                // It is known when the update is written.
                let position = LogPosition(0);
                match handover {
                    Handover::Follow { .. } => {
                        frame::write(&mut output, &Frame::Update { logged, position });
                    }
                    Handover::Tyrant { .. } if logged.table == default => {
                        tyrant::write(&mut output, &logged);
                    }
                    Handover::Tyrant { .. } => {}
                }
                looked_at += 1;
                false
            }
        };
        if !is_at_end && matches!(handover, Handover::Follow { .. }) {
            frame::set_position(&mut output, start, follower.position());
        }
        if output.len() >= SEND_BYTES || is_at_end || looked_at >= LOOKED_AT {
            looked_at = 0;
            if output.is_empty() && last_said.elapsed() >= SIGN_OF_LIFE {
                match handover {
                    Handover::Follow { .. } => {
                        frame::write(&mut output, &Frame::At(follower.position()));
                    }
                    Handover::Tyrant { .. } => output.push(tyrant::SIGN_OF_LIFE),
                }
            }
            if !output.is_empty() {
                stream.write_all(&output)?;
                output.clear();
                output.shrink_to(4 * SEND_BYTES);
                last_said = Instant::now();
            }
        }
        if is_at_end {
            follower.wait(LOOK).map_err(SourceError::Log)?;
        }
    }
    Ok(())
}
