//! `publish`: how many events a second a relay accepts, in a closed loop: so many connections, each
//! with so many events under way, an answered one replaced by the next.
//!
//! Events are signed, framed and masked before the clock runs. With `--vs` two relays get the same
//! events in turns, so that whatever else the machine does falls on both.

use std::{
    collections::HashMap,
    fs::File,
    io::{BufRead, BufReader},
    path::PathBuf,
    time::{Duration, Instant},
};

use crate::{
    error::{BenchError, During, Result},
    process::Process,
    report::{Cell, Output, Report, median},
    socket::{Connection, RelayUrl, frame, ready},
};

/// What to publish, where, and how.
#[derive(Debug, clap::Args)]
pub(crate) struct Publish {
    /// The relay, as ws://host:port.
    relay: RelayUrl,
    /// The corpus, as `generate` writes it.
    corpus: PathBuf,
    /// A second relay, measured in turns with the first.
    #[arg(long, value_name = "URL")]
    vs: Option<RelayUrl>,
    /// Connections to each relay.
    #[arg(long, default_value_t = 4)]
    connections: usize,
    /// Events under way on each connection.
    #[arg(long, default_value_t = 256)]
    window: usize,
    /// How many events of the corpus; all by default.
    #[arg(long)]
    events: Option<usize>,
    /// How many events of the corpus to leave out at its beginning.
    #[arg(long, default_value_t = 0)]
    skip: usize,
    /// Leave out events of this kind; may be given several times.
    #[arg(long, value_name = "KIND")]
    without_kind: Vec<u16>,
    /// Into how many rounds they are divided.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    #[command(flatten)]
    output: Output,
}

/// What one round at one relay took.
#[derive(Debug, Default)]
pub(crate) struct Round {
    pub(crate) accepted: usize,
    pub(crate) refused: HashMap<String, usize>,
    pub(crate) elapsed: Duration,
}

impl Round {
    pub(crate) fn rate(&self) -> f64 {
        self.accepted as f64 / self.elapsed.as_secs_f64()
    }
}

struct Contestant {
    relay: RelayUrl,
    process: Process,
    rates: Vec<f64>,
    accepted: usize,
    refused: HashMap<String, usize>,
    cpu_seconds: f64,
}

impl Contestant {
    fn new(relay: &RelayUrl) -> Result<Self> {
        Ok(Self {
            relay: relay.clone(),
            process: Process::listening(relay)?,
            rates: Vec::new(),
            accepted: 0,
            refused: HashMap::new(),
            cpu_seconds: 0.0,
        })
    }

    fn round(&mut self, lines: &[String], options: &Publish) -> Result<()> {
        let cpu_before = self.process.cpu_seconds()?;
        let round = publish_lines(&self.relay, lines, options.connections, options.window)?;
        self.cpu_seconds += self.process.cpu_seconds()? - cpu_before;
        self.rates.push(round.rate());
        self.accepted += round.accepted;
        for (reason, count) in round.refused {
            *self.refused.entry(reason).or_default() += count;
        }
        Ok(())
    }
}

/// Runs the measurement.
pub(crate) fn publish(options: &Publish) -> Result<()> {
    let mut contestants = vec![Contestant::new(&options.relay)?];
    if let Some(relay) = &options.vs {
        contestants.push(Contestant::new(relay)?);
    }
    let lines = read_lines(options)?;
    let per_round = lines.len().div_ceil(options.rounds.max(1)).max(1);
    for lines in lines.chunks(per_round) {
        for contestant in &mut contestants {
            contestant.round(lines, options)?;
            let rate = contestant.rates.last().copied().unwrap_or_default();
            eprintln!(
                "{}: {} events, {rate:.0} a second",
                contestant.relay.as_str(),
                lines.len()
            );
        }
    }
    let mut report = Report::new(
        "publish",
        &[
            "relay",
            "accepted",
            "refused",
            "events/s",
            "cpu µs/event",
            "memory MB",
            "ratio",
        ],
    );
    let last = contestants
        .last()
        .map(|last| last.rates.clone())
        .unwrap_or_default();
    for contestant in &contestants {
        let ratios: Vec<_> = contestant
            .rates
            .iter()
            .zip(&last)
            .map(|(ours, theirs)| ours / theirs)
            .collect();
        report.row(vec![
            contestant.relay.as_str().into(),
            contestant.accepted.into(),
            contestant.refused.values().sum::<usize>().into(),
            Cell::Number(median(&contestant.rates), 0),
            Cell::Number(
                contestant.cpu_seconds * 1e6 / contestant.accepted.max(1) as f64,
                1,
            ),
            Cell::Number(contestant.process.memory_bytes()? as f64 / 1e6, 1),
            Cell::Number(median(&ratios), 2),
        ]);
        for (reason, count) in &contestant.refused {
            eprintln!("{}: {count} refused: {reason}", contestant.relay.as_str());
        }
    }
    report.finish(&options.output)
}

fn read_lines(options: &Publish) -> Result<Vec<String>> {
    let path = &options.corpus;
    let left_out: Vec<_> = options
        .without_kind
        .iter()
        .map(|kind| format!("\"kind\":{kind},"))
        .collect();
    // The first `"kind":` of a line is the event's own: tags and content come after it.
    let is_left_out = |line: &str| {
        let kind = line
            .find("\"kind\":")
            .and_then(|at| line.get(at..))
            .unwrap_or_default();
        left_out.iter().any(|it| kind.starts_with(it))
    };
    BufReader::new(File::open(path).at(path)?)
        .lines()
        .skip(options.skip)
        .filter(|line| !line.as_ref().is_ok_and(|line| is_left_out(line)))
        .take(options.events.unwrap_or(usize::MAX))
        .map(|line| line.at(path))
        .collect()
}

/// Publishes events over several connections and waits for every OK.
pub(crate) fn publish_lines(
    relay: &RelayUrl,
    lines: &[String],
    connections: usize,
    window: usize,
) -> Result<Round> {
    let connections = connections.clamp(1, lines.len().max(1));
    let mut lanes = (0..connections)
        .map(|first| Lane::new(relay, lines.iter().skip(first).step_by(connections)))
        .collect::<Result<Vec<_>>>()?;
    let begun = Instant::now();
    for lane in &mut lanes {
        lane.push_out(window)?;
    }
    while lanes.iter().any(|lane| !lane.is_done()) {
        for place in ready(lanes.iter().map(|it| (&it.connection, it.is_blocked)))? {
            if let Some(lane) = lanes.get_mut(place) {
                lane.take_in()?;
                lane.push_out(window)?;
            }
        }
    }
    let mut round = Round {
        elapsed: begun.elapsed(),
        ..Round::default()
    };
    for lane in lanes {
        lane.settle(&mut round)?;
    }
    Ok(round)
}

/// One connection and what it has to publish.
struct Lane {
    connection: Connection,
    frames: Vec<u8>,
    /// Where each frame ends.
    ends: Vec<usize>,
    /// The ids as hex, in the order sent.
    ids: Vec<String>,
    sent: usize,
    is_blocked: bool,
    /// Each answer: the message as it came.
    answers: Vec<Box<[u8]>>,
}

impl Lane {
    fn new<'a>(relay: &RelayUrl, lines: impl Iterator<Item = &'a String>) -> Result<Self> {
        let connection = Connection::open(relay)?;
        connection.set_nonblocking(true)?;
        let mut lane = Self {
            connection,
            frames: Vec::new(),
            ends: Vec::new(),
            ids: Vec::new(),
            sent: 0,
            is_blocked: false,
            answers: Vec::new(),
        };
        let mut message = Vec::new();
        for line in lines {
            message.clear();
            message.extend_from_slice(b"[\"EVENT\",");
            message.extend_from_slice(line.as_bytes());
            message.push(b']');
            frame(&message, &mut lane.frames);
            lane.ends.push(lane.frames.len());
            lane.ids.push(id_of(line)?.to_owned());
        }
        lane.answers.reserve(lane.ends.len());
        Ok(lane)
    }

    fn is_done(&self) -> bool {
        self.answers.len() == self.ends.len()
    }

    /// Sends what the window allows.
    fn push_out(&mut self, window: usize) -> Result<()> {
        let allowed = (self.answers.len() + window).min(self.ends.len());
        let end = allowed.checked_sub(1).and_then(|last| self.ends.get(last));
        let due = self
            .frames
            .get(self.sent..end.copied().unwrap_or(0))
            .unwrap_or_default();
        self.is_blocked = false;
        if !due.is_empty() {
            let length = due.len();
            let taken = self.connection.send_some(due)?;
            self.sent += taken;
            self.is_blocked = taken < length;
        }
        Ok(())
    }

    fn take_in(&mut self) -> Result<()> {
        self.connection.fill()?;
        while let Some(message) = self.connection.received()? {
            if message.starts_with(b"[\"OK\"") {
                self.answers.push(message.into());
            } else if message.starts_with(b"[\"NOTICE\"") {
                eprintln!("{}", String::from_utf8_lossy(message));
            }
        }
        Ok(())
    }

    /// Checks that every event was answered once, and counts what was said.
    fn settle(self, round: &mut Round) -> Result<()> {
        let mut waiting: HashMap<&str, usize> = HashMap::new();
        for id in &self.ids {
            *waiting.entry(id).or_default() += 1;
        }
        for answer in &self.answers {
            let value: serde_json::Value = serde_json::from_slice(answer)
                .map_err(|error| BenchError::Relay(format!("sent no JSON: {error}")))?;
            let id = value.get(1).and_then(|id| id.as_str()).unwrap_or_default();
            match waiting.get_mut(id) {
                Some(count) if *count > 0 => *count -= 1,
                _ => {
                    return Err(BenchError::Relay(format!(
                        "answered {id}, which was not asked"
                    )));
                }
            }
            if value.get(2).and_then(serde_json::Value::as_bool) == Some(true) {
                round.accepted += 1;
            } else {
                let reason = value
                    .get(3)
                    .and_then(|reason| reason.as_str())
                    .unwrap_or_default();
                *round.refused.entry(reason.to_owned()).or_default() += 1;
            }
        }
        Ok(())
    }
}

/// Returns the id of an event as our own generator and most relays write it: as the first field.
pub(crate) fn id_of(line: &str) -> Result<&str> {
    line.strip_prefix("{\"id\":\"")
        .and_then(|rest| rest.get(..64))
        .ok_or_else(|| {
            BenchError::Input("an event of the corpus does not begin with id".to_owned())
        })
}
