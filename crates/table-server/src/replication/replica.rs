//! The side that follows.

use std::{
    io::{self, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    time::Duration,
};

use hikyaku_tables::LogPosition;

use super::{
    control::{Replication, Source},
    error::FollowError,
    frame::{self, Frame, Parsed, VERSION},
};

/// How long a source may take to be reached, and to say nothing: it says something each second.
const CONNECT: Duration = Duration::from_secs(5);
const SILENCE: Duration = Duration::from_secs(15);
/// How long is waited before a source is tried again, at first and at last.
const REST_MIN: Duration = Duration::from_millis(100);
const REST_MAX: Duration = Duration::from_secs(5);
/// Bytes that are read at once at least.
const READ_BYTES: usize = 64 * 1024;
/// Updates after which it is noted how far they were applied, if no sign of life comes before.
const NOTE_UPDATES: u64 = 4096;
/// Positions without an update for this server, after which it is noted how far they were passed.
const PASSED: u64 = 65_536;
/// Bytes of a reason at most.
const REASON_BYTES_MAX: u64 = 4096;

/// Follows whom it is told to, until the server stops.
pub(super) fn run(replication: &Replication) {
    let mut rest = REST_MIN;
    while let Some((source, generation)) = replication.next_source() {
        let mut applied = false;
        let result = follow(replication, &source, generation, &mut applied);
        if matches!(result, Err(FollowError::Ended)) {
            rest = REST_MIN;
            continue;
        }
        let why = result.map_or_else(|error| error.to_string(), |()| "it ended".to_owned());
        if replication.note(generation, None, Some(why.clone())) {
            tracing::warn!(?source, why, "not following");
        }
        rest = if applied {
            REST_MIN
        } else {
            (2 * rest).min(REST_MAX)
        };
        replication.rest(generation, rest);
    }
}

/// Follows a source until something is in the way.
fn follow(
    replication: &Replication,
    source: &Source,
    generation: u64,
    has_applied: &mut bool,
) -> Result<(), FollowError> {
    let stream = connect(source)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SILENCE))?;
    let _registration = replication.register(&stream)?;
    let tables = &replication.tables;
    if let Some(token) = &source.token {
        present(&stream, token)?;
    }
    let hello = [
        &[0xc8, 0xa1][..],
        &VERSION.to_be_bytes(),
        &tables.server().to_be_bytes(),
    ];
    (&stream).write_all(&hello.concat())?;
    hear(&stream)?;
    let mut number = [0; 4];
    (&stream).read_exact(&mut number)?;
    let server = u32::from_be_bytes(number);
    if server == tables.server() {
        return Err(FollowError::Itself(server));
    }
    let applied = tables.applied(server);
    let position = applied.map_or(u64::MAX, |(position, _)| position.0);
    let from = [position.to_be_bytes(), source.since_us.to_be_bytes()];
    (&stream).write_all(&from.concat())?;
    hear(&stream)?;
    if replication.note(generation, applied.map(|(_, at_us)| at_us), None) || applied.is_none() {
        tracing::info!(?source, server, position, "following");
    }
    let mut progress = Progress {
        replication,
        generation,
        server,
        applied,
        unnoted: 0,
    };
    let ended = progress.apply_all(&stream, has_applied);
    // What was applied is noted whatever the end.
    progress.note()?;
    ended
}

fn connect(source: &Source) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in (source.host.as_str(), source.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Presents a token as clients of all protocols do.
fn present(mut stream: &TcpStream, token: &str) -> Result<(), FollowError> {
    write!(stream, "set token 0 0 {}\r\n{token}\r\n", token.len())?;
    let mut answer = [0; 8];
    stream.read_exact(&mut answer)?;
    if &answer == b"STORED\r\n" {
        Ok(())
    } else {
        Err(FollowError::Refused("the token is wrong".to_owned()))
    }
}

/// Hears whether the source goes on.
fn hear(mut stream: &TcpStream) -> Result<(), FollowError> {
    let mut answer = [0];
    stream.read_exact(&mut answer)?;
    match answer {
        [0] => Ok(()),
        [1] => {
            let mut length = [0; 4];
            let mut why = Vec::new();
            // One that does not know the command says no more.
            if stream.read_exact(&mut length).is_err() {
                return Err(FollowError::Protocol("it does not know how to be followed"));
            }
            let length = u64::from(u32::from_be_bytes(length)).min(REASON_BYTES_MAX);
            stream.take(length).read_to_end(&mut why)?;
            Err(FollowError::Refused(
                String::from_utf8_lossy(&why).into_owned(),
            ))
        }
        _ => Err(FollowError::Protocol("its answer is neither yes nor no")),
    }
}

/// How far a source's updates were applied, and how far that is noted.
struct Progress<'a> {
    replication: &'a Replication,
    generation: u64,
    server: u32,
    applied: Option<(LogPosition, u64)>,
    unnoted: u64,
}

impl Progress<'_> {
    /// Applies what comes until something is in the way.
    fn apply_all(&mut self, stream: &TcpStream, has_applied: &mut bool) -> Result<(), FollowError> {
        let mut frames = Frames {
            stream,
            buffer: Vec::new(),
            at: 0,
        };
        loop {
            if self.replication.is_over(self.generation) {
                return Err(FollowError::Ended);
            }
            match frames.next(self)? {
                Frame::At(position) => self.pass(position)?,
                Frame::End(why) => return Err(FollowError::Refused(why.to_owned())),
                Frame::Update { logged, position } => {
                    let applied = self.replication.tables.apply(&logged);
                    applied.map_err(|error| FollowError::Table {
                        table: logged.table.to_owned(),
                        source: error,
                    })?;
                    *has_applied = true;
                    self.applied = Some((position, logged.stamp.at_us));
                    self.unnoted += 1;
                    if self.unnoted >= NOTE_UPDATES {
                        self.note()?;
                    }
                }
            }
        }
    }

    /// Notes durably how far updates were applied. Those behind a note are applied again after a
    /// crash, which comes to the same.
    fn note(&mut self) -> Result<(), FollowError> {
        if self.unnoted == 0 {
            return Ok(());
        }
        if let Some((position, at_us)) = self.applied {
            let noted = self
                .replication
                .tables
                .note_applied(self.server, position, at_us);
            noted.map_err(|error| FollowError::Table {
                table: "(all)".to_owned(),
                source: error,
            })?;
        }
        self.unnoted = 0;
        Ok(())
    }

    /// Shows how far updates were applied.
    fn show(&self) {
        let applied_us = self.applied.map(|(_, at_us)| at_us);
        self.replication.note(self.generation, applied_us, None);
    }

    /// Notes that there was nothing for this server up to a position, if that is far: its own updates
    /// are left out, and the source may forget them. A note for each would be one more update for
    /// those who follow this server, and theirs for it.
    fn pass(&mut self, position: LogPosition) -> Result<(), FollowError> {
        let (last, at_us) = self.applied.unwrap_or_default();
        if position.0 >= last.0.saturating_add(PASSED) {
            self.applied = Some((position, at_us));
            self.unnoted = 1;
        }
        self.note()
    }
}

/// Frames from a connection.
struct Frames<'a> {
    stream: &'a TcpStream,
    buffer: Vec<u8>,
    at: usize,
}

impl Frames<'_> {
    /// Returns the next frame.
    fn next(&mut self, progress: &Progress<'_>) -> Result<Frame<'_>, FollowError> {
        let needed = loop {
            let rest = self.buffer.get(self.at..).unwrap_or_default();
            match frame::parse(rest) {
                Parsed::Whole(_, len) => break len,
                Parsed::Broken => return Err(FollowError::Protocol("that is no frame")),
                Parsed::Part(needed) => {
                    progress.show();
                    self.read(needed)?;
                }
            }
        };
        let start = self.at;
        self.at += needed;
        let bytes = self.buffer.get(start..).unwrap_or_default();
        match frame::parse(bytes) {
            Parsed::Whole(frame, _) => Ok(frame),
            _ => Err(FollowError::Protocol("that is no frame")),
        }
    }

    /// Reads more of a frame. The buffer grows by what comes, not by what was announced.
    fn read(&mut self, needed: usize) -> Result<(), FollowError> {
        self.buffer.drain(..self.at);
        self.at = 0;
        let kept = self.buffer.len();
        let room = (needed - kept).clamp(READ_BYTES, READ_BYTES.max(kept));
        self.buffer.resize(kept + room, 0);
        let back = self.buffer.get_mut(kept..).unwrap_or_default();
        let read = self.stream.read(back);
        let got = *read.as_ref().unwrap_or(&0);
        self.buffer.truncate(kept + got);
        match read? {
            0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            _ => Ok(()),
        }
    }
}
