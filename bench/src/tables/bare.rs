//! Closed loops with a client as thin as it can be: what it sends was made before, what comes back is
//! compared, and a blocking call more would be seen in the figures.

use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use crate::{
    error::{BenchError, During, Result},
    load::{Class, Measured, Meter, Pace, Patience},
    report::{Progress, Target},
    tables::{
        script::{Ask, Script},
        speech::{RECORD_COUNT, RECORD_COUNT_BYTES, misanswer},
    },
};

/// How often memory is read and progress shown.
const TICK: Duration = Duration::from_millis(200);
/// How long one call may block: then it is looked whether the operator wants the run to end.
const SLICE: Duration = Duration::from_millis(50);

/// A closed loop on some connections, each with a script of its own.
pub(crate) struct Bare<'a> {
    pub(crate) label: &'a str,
    pub(crate) target: &'a Target,
    pub(crate) class: Class,
    pub(crate) scripts: &'a [Script],
    /// Requests that are under way on a connection, for the report.
    pub(crate) window: usize,
    pub(crate) at_most: Duration,
    pub(crate) operations: usize,
    pub(crate) patience: Patience<'a>,
    pub(crate) progress: &'a Progress,
}

/// A connection, how far its script is, and what it carried.
struct Player<'a> {
    script: &'a Script,
    socket: TcpStream,
    next: usize,
    sent_at: Duration,
    carried_out: usize,
    bytes: (u64, u64),
    patience: Patience<'a>,
}

impl Bare<'_> {
    /// Puts the load on. Returns what each connection has carried out too. A request counts when it
    /// is answered; one without an answer, when something behind it is.
    pub(crate) fn run(&self) -> Result<(Measured, Vec<usize>)> {
        let mut players = Vec::new();
        for script in self.scripts.iter().filter(|script| script.len() > 0) {
            players.push(Player::new(script, self.target, self.patience)?);
        }
        let pace = Pace::Closed {
            window: self.window,
        };
        let mut measured = Measured::new(pace, std::slice::from_ref(&self.class));
        let mut buffer = vec![0; 64 * 1024];
        let meter = Meter::start(self.target.process.as_ref())?;
        let (begun, mut next_tick, mut count) = (Instant::now(), Duration::ZERO, 0);
        loop {
            let now = begun.elapsed();
            if now >= next_tick {
                next_tick = now + TICK;
                self.tick(now, count, &meter, &mut measured)?;
            }
            measured.interrupted = self.patience.stop.load(Ordering::Relaxed);
            let is_over = now >= self.at_most || count >= self.operations || players.is_empty();
            if is_over || measured.interrupted {
                break;
            }
            match turn(&mut players, begun, &mut buffer, &mut measured) {
                Ok(done) => count += done,
                Err(BenchError::Interrupted) => measured.interrupted = true,
                Err(error) => return Err(error),
            }
        }
        for player in &mut players {
            match player.wait_for_end() {
                Err(BenchError::Interrupted) => measured.interrupted = true,
                end => end?,
            }
        }
        measured.elapsed = begun.elapsed();
        measured.loaded = measured.elapsed;
        measured.offered = measured.achieved();
        meter.finish(&mut measured)?;
        for player in &players {
            measured.bytes_sent += player.bytes.0;
            measured.bytes_received += player.bytes.1;
        }
        Ok((
            measured,
            players.iter().map(|player| player.carried_out).collect(),
        ))
    }

    fn tick(
        &self,
        now: Duration,
        count: usize,
        meter: &Meter<'_>,
        measured: &mut Measured,
    ) -> Result<()> {
        meter.look(measured)?;
        self.progress.show(|| {
            let seconds = now.as_secs_f64();
            let rate = count as f64 / seconds.max(0.1);
            let most = self.at_most.as_secs_f64();
            format!(
                "{}: {count} done, {rate:.0}/s, {seconds:.0} of at most {most:.0} s",
                self.label
            )
        });
        Ok(())
    }
}

/// Lets each connection send once, and reads the answers; returns how many requests that were.
fn turn(
    players: &mut [Player<'_>],
    begun: Instant,
    buffer: &mut [u8],
    measured: &mut Measured,
) -> Result<usize> {
    for player in &mut *players {
        player.sent_at = begun.elapsed();
        player.send()?;
    }
    let mut count = 0;
    for player in players {
        let done = player.receive(buffer)?;
        count += done;
        let at = begun.elapsed();
        let latency = player
            .is_answered()
            .then(|| at.saturating_sub(player.sent_at));
        measured.record_many(done as u64, 0, latency, at);
    }
    Ok(count)
}

impl<'a> Player<'a> {
    fn new(script: &'a Script, target: &Target, patience: Patience<'a>) -> Result<Self> {
        let socket = TcpStream::connect(target.address.socket()).during(target.address.as_str())?;
        // A small request would wait for the acknowledgement of the last one, 40 ms.
        socket.set_nodelay(true).during("TCP_NODELAY")?;
        let slice = Some(SLICE);
        socket.set_read_timeout(slice).during("read timeout")?;
        socket.set_write_timeout(slice).during("write timeout")?;
        Ok(Self {
            script,
            socket,
            next: 0,
            sent_at: Duration::ZERO,
            carried_out: 0,
            bytes: (0, 0),
            patience,
        })
    }

    fn is_answered(&self) -> bool {
        !matches!(self.script.ask, Ask::QuietSet | Ask::Putnr)
    }

    fn send(&mut self) -> Result<()> {
        let (requests, _, _) = self.script.send(self.next);
        self.bytes.0 += requests.len() as u64;
        self.write(requests)
    }

    /// Reads the answers to what was sent last; returns how many requests that were.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let (_, mut right, count) = self.script.send(self.next);
        while !right.is_empty() {
            let found = self.read(buffer)?;
            let Some(rest) = right.strip_prefix(found) else {
                let same = found
                    .iter()
                    .zip(right)
                    .take_while(|(it, right)| it == right);
                let line = line_of(right, same.count());
                return Err(misanswer(
                    found.get(line..).unwrap_or_default(),
                    right.get(line..).unwrap_or_default(),
                ));
            };
            right = rest;
        }
        self.next = (self.next + 1) % self.script.len();
        self.carried_out += count;
        Ok(count)
    }

    /// Waits until all that has no answer is carried out: for the answer to something behind it.
    fn wait_for_end(&mut self) -> Result<()> {
        let (request, right, length): (_, &[u8], _) = match self.script.ask {
            Ask::QuietSet => (&b"version\r\n"[..], b"VERSION ", b"VERSION ".len()),
            Ask::Putnr => (RECORD_COUNT, b"\0", RECORD_COUNT_BYTES),
            Ask::Get | Ask::Set | Ask::Rotate => return Ok(()),
        };
        self.write(request)?;
        let (mut answer, mut buffer) = (Vec::new(), [0; 256]);
        while answer.len() < length {
            let found = self.read(&mut buffer)?;
            answer.extend_from_slice(found);
        }
        if answer.starts_with(right) {
            return Ok(());
        }
        Err(misanswer(&answer, right))
    }

    fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        let since = Instant::now();
        while !bytes.is_empty() {
            match self.socket.write(bytes) {
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(error) if is_pause(&error) => self.patience.check(since, "took nothing")?,
                Err(error) => return Err(error).during("sending"),
            }
        }
        Ok(())
    }

    fn read<'b>(&mut self, buffer: &'b mut [u8]) -> Result<&'b [u8]> {
        let since = Instant::now();
        let count = loop {
            match self.socket.read(buffer) {
                Err(error) if is_pause(&error) => self.patience.check(since, "said nothing")?,
                read => break read.during("receiving")?,
            }
        };
        if count == 0 {
            return Err(BenchError::Server("closed the connection".to_owned()));
        }
        self.bytes.1 += count as u64;
        Ok(buffer.get(..count).unwrap_or_default())
    }
}

/// A blocking call that has had its slice of time says that it would block.
fn is_pause(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Returns where the line begins that a byte is in.
pub(crate) fn line_of(bytes: &[u8], place: usize) -> usize {
    let before = bytes.get(..place).unwrap_or_default();
    before
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1)
}
