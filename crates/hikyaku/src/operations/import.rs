//! Storing the events of an input: one thread reads, one per core checks, this one hands over to the
//! store's writer and counts. Chunks keep their order, and only so many are under way: memory does
//! not depend on the input.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    num::NonZeroUsize,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, SyncSender},
    },
    thread,
    time::Duration,
};

use hikyaku_event::{Event, EventError, Verifier};
use hikyaku_relay::is_to_vanish;
use hikyaku_sources::Note;
use hikyaku_store::{EventStore, Outcome, Refusal, StoreError, Write, WriteFuture};

use super::{
    Audience, BadLine, Host, ImportEnd, ImportReport, Input, Progress,
    lines::{Chunk, ChunkReader, ChunkText},
};
use crate::{
    failure::Failure,
    waiting::{unix_now, wait},
};

/// Batches (a megabyte of lines each) handed to the writer and not yet answered: while the store is served,
/// whose clients wait behind them, and where nobody is, so that the writer takes many at once.
const WRITES_IN_FLIGHT_MAX: usize = 3;
const WRITES_IN_FLIGHT_ALONE_MAX: usize = 12;
/// How often a stop is looked for while no input comes.
const STOP_CHECK: Duration = Duration::from_millis(200);
/// A store that has no room for the moment is asked again after this, so many times.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
const RETRIES_MAX: u32 = 150;
/// Signatures that are checked together.
const TOGETHER_MAX: usize = 512;
/// How many invalid lines are shown.
const FIRST_INVALID_MAX: usize = 10;

/// What an operator may choose.
#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    /// Stop at the first bad line.
    pub(super) strict: bool,
    /// Take signatures on trust.
    pub(super) unchecked: bool,
}

/// A chunk with its place.
struct Numbered<T> {
    index: u64,
    item: T,
}

/// What the checks found in a chunk.
struct Checked {
    lines: Vec<Line>,
    bytes_end: u64,
}

enum Line {
    /// Valid, or stored already: then its signature is not looked at again.
    Event(Arc<Event>),
    /// A row that the source does not serve any more.
    LeftOut,
    Invalid(u64, Fault),
}

enum Fault {
    Event(EventError),
    /// A row that the source could not read.
    Unreadable(String),
    TooLong,
}

/// Imports. See [`super::Operation::Import`].
pub(super) fn import(
    host: &Host,
    input: Input,
    how: How,
    stop: &Arc<AtomicBool>,
    audience: &mut dyn Audience,
) -> Result<ImportReport, Failure> {
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let chunks_read = Arc::new(AtomicU64::new(0));
    let (chunks, to_check) = mpsc::sync_channel(threads);
    let (results, checked) = mpsc::sync_channel(threads);
    let reading = {
        let (stop, chunks_read) = (stop.clone(), chunks_read.clone());
        move || read(input, &stop, &chunks_read, &chunks)
    };
    let start = |name: &str, run: Box<dyn FnOnce() + Send>| {
        thread::Builder::new()
            .name(name.into())
            .spawn(run)
            .map_err(|error| Failure::io("can't start a thread", &error))
    };
    let (read_error, read_failed) = mpsc::channel();
    // Not joined: it may wait for input that never comes. It ends with its channel.
    start(
        "import-read",
        Box::new(move || {
            if let Err(error) = reading() {
                // Nobody asks when the import has failed already.
                let _ = read_error.send(error);
            }
        }),
    )?;
    let to_check = Arc::new(Mutex::new(to_check));
    for _ in 0..threads {
        let (to_check, results) = (to_check.clone(), results.clone());
        let store: Arc<dyn EventStore> = host.store.events();
        start(
            "import-check",
            Box::new(move || check(&*store, how.unchecked, &to_check, &results)),
        )?;
    }
    drop((results, to_check));
    let mut committer = Committer {
        host,
        store: host.store.events(),
        strict: how.strict,
        audience,
        report: ImportReport::default(),
        bytes: 0,
        in_flight: VecDeque::new(),
    };
    committer.run(&checked, &chunks_read, stop)?;
    let mut report = committer.report;
    if report.end != ImportEnd::Interrupted {
        // Who stops it need not wait for that: it is done by who comes next.
        host.store.finish_import()?;
    }
    if let Ok(error) = read_failed.try_recv() {
        report.break_off(&error);
    }
    Ok(report)
}

fn read(
    input: Input,
    stop: &AtomicBool,
    chunks_read: &AtomicU64,
    chunks: &SyncSender<Numbered<Chunk>>,
) -> io::Result<()> {
    let mut reader = ChunkReader::new(input);
    let mut index = 0;
    while !stop.load(Ordering::Relaxed) {
        let Some(item) = reader.next()? else { break };
        chunks_read.fetch_add(1, Ordering::Relaxed);
        if chunks.send(Numbered { index, item }).is_err() {
            break;
        }
        index += 1;
    }
    Ok(())
}

fn check(
    store: &dyn EventStore,
    unchecked: bool,
    to_check: &Mutex<Receiver<Numbered<Chunk>>>,
    results: &SyncSender<Result<Numbered<Checked>, StoreError>>,
) {
    let reader = store.reader();
    let mut verifier = Verifier::new();
    loop {
        let next = to_check
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .recv();
        let Ok(Numbered { index, item }) = next else {
            return;
        };
        let mut lines = parse(&item);
        if unchecked {
            let sent = results.send(Ok(numbered(index, lines, item.bytes_end)));
            if sent.is_err() {
                return;
            }
            continue;
        }
        let ids: Vec<_> = lines.iter().filter_map(event).map(Event::id).collect();
        let stored = wait(reader.contains(&ids));
        let result = stored.map(|stored| {
            let mut stored = stored.into_iter();
            let mut unseen: Vec<_> = lines
                .iter_mut()
                .filter(|line| event(line).is_some() && stored.next() != Some(true))
                .collect();
            check_signatures(&mut verifier, &mut unseen);
            numbered(index, lines, item.bytes_end)
        });
        if results.send(result).is_err() {
            return;
        }
    }
}

/// Checks the signatures of lines that are events: many together, until one of them is wrong.
fn check_signatures(verifier: &mut Verifier, lines: &mut [&mut (Line, u64)]) {
    let mut all_right = true;
    for lines in lines.chunks_mut(TOGETHER_MAX) {
        let mut seed = [0; 32];
        let together = all_right && getrandom::fill(&mut seed).is_ok();
        let events = lines.iter().filter_map(|line| event(line));
        let verdicts = if together {
            verifier.verify_together(events, &seed)
        } else {
            events.map(|event| verifier.verify(event).is_ok()).collect()
        };
        let mut verdicts = verdicts.into_iter();
        for (line, number) in lines.iter_mut().map(|line| &mut **line) {
            if verdicts.next() != Some(true) {
                all_right = false;
                *line = Line::Invalid(*number, Fault::Event(EventError::WrongSignature));
            }
        }
    }
}

fn numbered(index: u64, lines: Vec<(Line, u64)>, bytes_end: u64) -> Numbered<Checked> {
    Numbered {
        index,
        item: Checked {
            lines: lines.into_iter().map(|(line, _)| line).collect(),
            bytes_end,
        },
    }
}

fn event((line, _): &(Line, u64)) -> Option<&Event> {
    match line {
        Line::Event(event) => Some(event),
        Line::LeftOut | Line::Invalid(..) => None,
    }
}

/// Parses a chunk's lines and checks the ids.
fn parse(chunk: &Chunk) -> Vec<(Line, u64)> {
    let text = match &chunk.text {
        ChunkText::Lines(text) => text,
        ChunkText::TooLong => {
            let number = chunk.first_line;
            return vec![(Line::Invalid(number, Fault::TooLong), number)];
        }
    };
    (chunk.first_line..)
        .zip(text.split(|byte| *byte == b'\n'))
        .map(|(number, line)| (number, line.trim_ascii()))
        .filter(|(_, line)| !line.is_empty())
        .map(|(number, line)| (parse_line(line, number), number))
        .collect()
}

fn parse_line(line: &[u8], number: u64) -> Line {
    match Note::parse(line) {
        Some(Note::LeftOut) => return Line::LeftOut,
        Some(Note::Unreadable(reason)) => {
            return Line::Invalid(number, Fault::Unreadable(reason));
        }
        None => {}
    }
    match Event::parse(line).and_then(|event| event.verify_id().map(|()| event)) {
        Ok(event) => Line::Event(Arc::new(event)),
        Err(error) => Line::Invalid(number, Fault::Event(error)),
    }
}

struct Committer<'a> {
    host: &'a Host,
    store: Arc<dyn EventStore>,
    strict: bool,
    audience: &'a mut dyn Audience,
    report: ImportReport,
    bytes: u64,
    in_flight: VecDeque<(Vec<Write>, WriteFuture)>,
}

impl Committer<'_> {
    fn run(
        &mut self,
        checked: &Receiver<Result<Numbered<Checked>, StoreError>>,
        chunks_read: &AtomicU64,
        stop: &AtomicBool,
    ) -> Result<(), Failure> {
        let mut early = BTreeMap::new();
        let mut next = 0;
        while self.report.end == ImportEnd::Complete {
            match checked.recv_timeout(STOP_CHECK) {
                Ok(result) => {
                    let Numbered { index, item } = result?;
                    early.insert(index, item);
                }
                Err(RecvTimeoutError::Timeout) => {
                    // Nothing to do: what has been handed over is answered meanwhile.
                    self.settle(0)?;
                    let all_came = next == chunks_read.load(Ordering::Relaxed);
                    if stop.load(Ordering::Relaxed) && all_came {
                        break;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
            while let Some(chunk) = early.remove(&next) {
                next += 1;
                self.take(chunk)?;
                if self.report.end != ImportEnd::Complete {
                    break;
                }
            }
        }
        self.settle(0)?;
        if stop.load(Ordering::Relaxed) && self.report.end == ImportEnd::Complete {
            self.report.end = ImportEnd::Interrupted;
        }
        Ok(())
    }

    /// Hands a chunk's events to the writer, and counts what is not valid.
    fn take(&mut self, chunk: Checked) -> Result<(), Failure> {
        let mut writes = Vec::with_capacity(chunk.lines.len());
        for line in chunk.lines {
            self.report.events += 1;
            match line {
                Line::Event(event) => writes.push(Write::Event {
                    vanish: is_to_vanish(&event, &self.host.urls),
                    event,
                }),
                Line::LeftOut => self.report.left_out += 1,
                Line::Invalid(line, fault) => {
                    self.count_invalid(line, &fault);
                    if self.strict {
                        self.report.end = ImportEnd::InvalidLine;
                        break;
                    }
                }
            }
        }
        self.bytes = chunk.bytes_end;
        if !writes.is_empty() {
            let future = self.store.write(writes.clone(), unix_now());
            self.in_flight.push_back((writes, future));
        }
        self.settle(match self.host.watch {
            Some(_) => WRITES_IN_FLIGHT_MAX,
            None => WRITES_IN_FLIGHT_ALONE_MAX,
        })
    }

    /// Waits until no more than so many batches are unanswered.
    fn settle(&mut self, in_flight_max: usize) -> Result<(), Failure> {
        while self.in_flight.len() > in_flight_max {
            let Some((writes, future)) = self.in_flight.pop_front() else {
                break;
            };
            let outcomes = self.answer(&writes, future)?;
            for outcome in outcomes {
                self.count(outcome);
            }
        }
        let settled = self.report.events;
        self.audience
            .progress(Progress {
                events: settled,
                bytes: self.bytes,
            })
            .map_err(|error| Failure::output(&error))
    }

    /// Waits for a batch. One that finds no room is tried again for a while: nothing of it is stored.
    fn answer(&self, writes: &[Write], mut future: WriteFuture) -> Result<Vec<Outcome>, Failure> {
        let mut retries = 0;
        loop {
            match wait(future) {
                Err(StoreError::Unavailable(_)) if retries < RETRIES_MAX => {
                    retries += 1;
                    thread::sleep(RETRY_PAUSE);
                    future = self.store.write(writes.to_vec(), unix_now());
                }
                result => return Ok(result?),
            }
        }
    }

    fn count(&mut self, outcome: Outcome) {
        let report = &mut self.report;
        match outcome {
            Outcome::Stored(_) => report.stored += 1,
            Outcome::Duplicate => report.duplicates += 1,
            Outcome::Superseded => report.superseded += 1,
            Outcome::Refused(Refusal::Deleted) => report.refused.deleted += 1,
            Outcome::Refused(Refusal::Vanished) => report.refused.vanished += 1,
            Outcome::Refused(Refusal::Expired) => report.refused.expired += 1,
            Outcome::Refused(Refusal::Ephemeral) => report.refused.ephemeral += 1,
            // Answers to writes that are no events.
            Outcome::Done | Outcome::Absent => {}
        }
    }

    fn count_invalid(&mut self, line: u64, fault: &Fault) {
        let invalid = &mut self.report.invalid;
        let reason = match fault {
            Fault::Event(error) => {
                match error {
                    EventError::Malformed(_) => invalid.malformed += 1,
                    EventError::WrongId => invalid.wrong_id += 1,
                    EventError::WrongSignature => invalid.wrong_signature += 1,
                }
                error.to_string()
            }
            Fault::Unreadable(reason) => {
                invalid.unreadable += 1;
                reason.clone()
            }
            Fault::TooLong => {
                invalid.too_long += 1;
                "the line is longer than any event".to_owned()
            }
        };
        if self.report.first_invalid.len() < FIRST_INVALID_MAX {
            self.report.first_invalid.push(BadLine { line, reason });
        }
    }
}
