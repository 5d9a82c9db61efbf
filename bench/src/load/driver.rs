//! The loop that loads a server: one thread, so that it needs little of the machine that it shares
//! with the server.
//!
//! In an open loop operations come due at a rate, whatever the server does, and their latency counts
//! from when they were due: a server that stalls is charged for everyone who would have come
//! meanwhile (this is what coordinated omission hides). In a closed loop every connection has so
//! many operations under way, and their latency counts from when they were sent.

use std::{
    collections::VecDeque,
    os::fd::BorrowedFd,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{
    error::{BenchError, During, Result},
    load::{
        measured::{Class, Measured},
        meter::Meter,
        process::Process,
    },
    report::Progress,
};

/// How often memory is read and progress shown.
const TICK: Duration = Duration::from_millis(200);
/// An interrupted load waits no longer for what is under way.
const GRACE_INTERRUPTED: Duration = Duration::from_secs(1);

/// How operations are handed out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Pace {
    /// So many a second.
    Open { per_second: f64 },
    /// So many under way on each connection.
    Closed { window: usize },
}

/// An operation to come: what it is counted as, and the connection that carries it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Planned {
    pub(crate) class: usize,
    pub(crate) lane: usize,
}

/// The end of an operation.
#[derive(Debug)]
pub(crate) struct Done {
    /// Its place in the plan.
    pub(crate) number: usize,
    /// What it is counted as, if not what was planned: a delivery of what was published.
    pub(crate) class: Option<usize>,
    pub(crate) outcome: Outcome,
}

#[derive(Debug)]
pub(crate) enum Outcome {
    Done,
    /// Says why in few words: failures are counted by this.
    Failed(String),
}

impl Done {
    pub(crate) fn of(number: usize) -> Self {
        Self {
            number,
            class: None,
            outcome: Outcome::Done,
        }
    }

    pub(crate) fn failed(number: usize, reason: impl Into<String>) -> Self {
        Self {
            number,
            class: None,
            outcome: Outcome::Failed(reason.into()),
        }
    }
}

/// A connection that carries operations; its socket does not block.
pub(crate) trait Lane {
    fn socket(&self) -> BorrowedFd<'_>;
    /// Tells whether the protocol allows one more at the same time.
    fn has_room(&self) -> bool;
    /// How many operations have no end yet.
    fn under_way(&self) -> usize;
    /// Puts an operation behind what waits to be sent.
    fn start(&mut self, number: usize) -> Result<()>;
    /// Sends what waits, as far as the socket takes it.
    fn flush(&mut self) -> Result<()>;
    /// Tells whether something waits for the socket to take more.
    fn is_blocked(&self) -> bool;
    /// Reads what came; tells what ended. A wrong answer is an error that ends the run.
    fn read(&mut self, done: &mut Vec<Done>) -> Result<()>;
    /// Gives up what is under way.
    fn abandon(&mut self, reason: &str, done: &mut Vec<Done>);
    /// Bytes sent and received.
    fn bytes(&self) -> (u64, u64);
}

/// A load to be put on a server.
pub(crate) struct Load<'a> {
    /// What the progress line calls it.
    pub(crate) label: &'a str,
    pub(crate) classes: &'a [Class],
    pub(crate) plan: &'a [Planned],
    pub(crate) pace: Pace,
    /// Nothing is started after this.
    pub(crate) at_most: Duration,
    /// How long the last answers may take.
    pub(crate) patience: Duration,
    pub(crate) process: Option<&'a Process>,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) progress: &'a Progress,
}

/// A load under way.
struct Run<'a, 'l> {
    load: &'a Load<'a>,
    lanes: &'a mut [Box<dyn Lane + 'l>],
    /// What is due on each lane and not sent.
    queues: Vec<VecDeque<usize>>,
    /// Why a lane carries nothing any more.
    lost: Vec<Option<String>>,
    /// From when an operation's latency counts.
    since: Vec<Duration>,
    due_count: usize,
    begun: Instant,
    meter: &'a Meter<'a>,
    measured: Measured,
    done: Vec<Done>,
}

impl Load<'_> {
    /// Puts the load on. Fails if an answer is wrong, or if every connection is lost.
    pub(crate) fn run(&self, lanes: &mut [Box<dyn Lane + '_>]) -> Result<Measured> {
        let meter = Meter::start(self.process)?;
        let bytes_before = bytes(lanes);
        let mut run = Run {
            load: self,
            queues: vec![VecDeque::new(); lanes.len()],
            lost: vec![None; lanes.len()],
            since: vec![Duration::ZERO; self.plan.len()],
            due_count: 0,
            begun: Instant::now(),
            measured: Measured::new(self.pace, self.classes),
            done: Vec::new(),
            meter: &meter,
            lanes,
        };
        run.work_off()?;
        let Run { mut measured, .. } = run;
        meter.finish(&mut measured)?;
        let (sent, received) = bytes(lanes);
        measured.bytes_sent = sent - bytes_before.0;
        measured.bytes_received = received - bytes_before.1;
        Ok(measured)
    }

    /// When an operation of an open loop is due.
    fn due(&self, number: usize) -> Duration {
        match self.pace {
            Pace::Open { per_second } => {
                Duration::from_secs_f64(number as f64 / per_second.max(1e-3))
            }
            Pace::Closed { .. } => Duration::ZERO,
        }
    }
}

impl Run<'_, '_> {
    fn work_off(&mut self) -> Result<()> {
        let mut next_tick = Duration::ZERO;
        let mut over: Option<Duration> = None;
        loop {
            let now = self.begun.elapsed();
            if now >= next_tick {
                next_tick = now + TICK;
                self.tick(now)?;
            }
            let interrupted = self.load.stop.load(Ordering::Relaxed);
            self.measured.interrupted |= interrupted;
            if over.is_none() {
                self.come_due(now.min(self.load.at_most));
                self.send(now)?;
                let all_sent = self.due_count == self.load.plan.len()
                    && self.queues.iter().all(VecDeque::is_empty);
                if all_sent || interrupted || now >= self.load.at_most {
                    over = Some(now);
                    self.measured.loaded = match self.load.pace {
                        Pace::Open { .. } => {
                            // The last one stands for its share of the time too.
                            self.load.due(self.due_count).max(Duration::from_millis(1))
                        }
                        Pace::Closed { .. } => now,
                    };
                }
            }
            if let Some(over) = over {
                let waiting: usize = self.lanes.iter().map(|lane| lane.under_way()).sum();
                if waiting == 0 {
                    break;
                }
                let patience = if interrupted {
                    GRACE_INTERRUPTED
                } else {
                    self.load.patience
                };
                if now >= over + patience {
                    self.give_up(interrupted);
                    break;
                }
            }
            let mut wait = next_tick.saturating_sub(now);
            if over.is_none() && self.due_count < self.load.plan.len() {
                wait = wait.min(self.load.due(self.due_count).saturating_sub(now));
            }
            self.receive(wait)?;
        }
        self.measured.elapsed = self.begun.elapsed();
        let left: usize = self.queues.iter().map(VecDeque::len).sum();
        match self.load.pace {
            Pace::Open { .. } => {
                self.measured.offered = self.due_count as u64;
                self.measured.dropped = left as u64;
            }
            Pace::Closed { .. } => self.measured.offered = (self.due_count - left) as u64,
        }
        Ok(())
    }

    /// Queues what is due by now.
    fn come_due(&mut self, now: Duration) {
        while let Some(planned) = self.load.plan.get(self.due_count) {
            if self.load.due(self.due_count) > now {
                break;
            }
            if let Some(queue) = self.queues.get_mut(planned.lane) {
                queue.push_back(self.due_count);
            }
            self.due_count += 1;
        }
    }

    /// Starts what is due, as far as there is room.
    fn send(&mut self, now: Duration) -> Result<()> {
        let window = match self.load.pace {
            Pace::Open { .. } => usize::MAX,
            Pace::Closed { window } => window,
        };
        for place in 0..self.lanes.len() {
            let (Some(lane), Some(queue)) = (self.lanes.get_mut(place), self.queues.get_mut(place))
            else {
                continue;
            };
            if let Some(Some(reason)) = self.lost.get(place) {
                // Who has no connection fails at once.
                let failed = |number| Done::failed(number, reason.clone());
                self.done.extend(queue.drain(..).map(failed));
                continue;
            }
            let alone = queue.len() == 1;
            let mut started = Ok(());
            while started.is_ok() && lane.has_room() && lane.under_way() < window {
                let Some(number) = queue.pop_front() else {
                    break;
                };
                let since = match self.load.pace {
                    Pace::Open { .. } => self.load.due(number),
                    Pace::Closed { .. } => now,
                };
                if alone {
                    self.measured.lateness.record(now.saturating_sub(since));
                }
                if let Some(slot) = self.since.get_mut(number) {
                    *slot = since;
                }
                started = lane.start(number);
            }
            if let Err(error) = started.and_then(|()| lane.flush()) {
                self.lose(place, error)?;
            }
        }
        self.settle();
        Ok(())
    }

    /// Waits for answers, so long at most, and counts them.
    fn receive(&mut self, wait: Duration) -> Result<()> {
        // Looked at in this order: a lost lane's socket would wake at once, for ever.
        let open: Vec<usize> = (0..self.lanes.len())
            .filter(|place| matches!(self.lost.get(*place), Some(None)))
            .collect();
        let sockets = open.iter().filter_map(|place| {
            let lane = self.lanes.get(*place)?;
            let mut interest = PollFlags::IN;
            interest.set(PollFlags::OUT, lane.is_blocked());
            Some(PollFd::from_borrowed_fd(lane.socket(), interest))
        });
        let mut sockets: Vec<_> = sockets.collect();
        let wait = Timespec::try_from(wait).ok();
        match poll(&mut sockets, wait.as_ref()) {
            Ok(_) => {}
            // A signal: the loop looks whether it means to stop.
            Err(error) if error == rustix::io::Errno::INTR => return Ok(()),
            Err(error) => return Err(error).during("poll"),
        }
        let woken: Vec<usize> = sockets
            .iter()
            .zip(&open)
            .filter(|(socket, _)| !socket.revents().is_empty())
            .map(|(_, place)| *place)
            .collect();
        drop(sockets);
        for place in woken {
            let Some(lane) = self.lanes.get_mut(place) else {
                continue;
            };
            let flushed = lane.flush();
            if let Err(error) = flushed.and_then(|()| lane.read(&mut self.done)) {
                self.lose(place, error)?;
            }
            self.settle();
        }
        Ok(())
    }

    /// Counts what ended, as of now.
    fn settle(&mut self) {
        let at = self.begun.elapsed();
        for done in self.done.drain(..) {
            let planned = self.load.plan.get(done.number).map(|planned| planned.class);
            let class = done.class.or(planned).unwrap_or_default();
            let since = self.since.get(done.number).copied().unwrap_or_default();
            self.measured.record(done, class, since, at);
        }
    }

    /// Goes on without a connection. A wrong answer, or the last connection, ends the run.
    fn lose(&mut self, place: usize, error: BenchError) -> Result<()> {
        if matches!(error, BenchError::Wrong(_)) {
            return Err(error);
        }
        let reason = format!("connection lost: {error}");
        if let Some(lane) = self.lanes.get_mut(place) {
            lane.abandon(&reason, &mut self.done);
        }
        if let Some(lost) = self.lost.get_mut(place) {
            *lost = Some(reason);
        }
        if self.lost.iter().all(Option::is_some) {
            return Err(error);
        }
        Ok(())
    }

    fn give_up(&mut self, interrupted: bool) {
        let reason = if interrupted {
            "interrupted".to_owned()
        } else {
            format!("no answer for {:?}", self.load.patience)
        };
        for lane in self.lanes.iter_mut() {
            lane.abandon(&reason, &mut self.done);
        }
        if interrupted {
            // Nobody knows what would have become of them.
            self.done.clear();
        }
        self.settle();
    }

    fn tick(&mut self, now: Duration) -> Result<()> {
        self.meter.look(&mut self.measured)?;
        let done = self.measured.achieved();
        let rate = done as f64 / now.as_secs_f64().max(0.1);
        self.load.progress.show(|| {
            let failed = self.measured.failures();
            format!(
                "{}: {done} done, {rate:.0}/s, {failed} failed, {:.0} of at most {:.0} s",
                self.load.label,
                now.as_secs_f64(),
                self.load.at_most.as_secs_f64()
            )
        });
        Ok(())
    }
}

fn bytes(lanes: &[Box<dyn Lane + '_>]) -> (u64, u64) {
    let each = lanes.iter().map(|lane| lane.bytes());
    each.fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1))
}

#[cfg(test)]
mod tests {
    use std::os::{fd::AsFd, unix::net::UnixStream};

    use super::*;
    use crate::load::measured::{Kind, Limit};

    /// A lane to a server that answers at once, but takes no more than so many and no more at all
    /// after some.
    struct Echo {
        socket: UnixStream,
        other: UnixStream,
        open: VecDeque<usize>,
        room: usize,
        answers_left: usize,
        most_under_way: usize,
    }

    impl Echo {
        fn new(room: usize, answers_left: usize) -> Self {
            let (socket, other) = UnixStream::pair().unwrap();
            socket.set_nonblocking(true).unwrap();
            Self {
                socket,
                other,
                open: VecDeque::new(),
                room,
                answers_left,
                most_under_way: 0,
            }
        }
    }

    impl Lane for Echo {
        fn socket(&self) -> BorrowedFd<'_> {
            self.socket.as_fd()
        }
        fn has_room(&self) -> bool {
            self.open.len() < self.room
        }
        fn under_way(&self) -> usize {
            self.open.len()
        }
        fn start(&mut self, number: usize) -> Result<()> {
            self.open.push_back(number);
            self.most_under_way = self.most_under_way.max(self.open.len());
            std::io::Write::write_all(&mut self.other, b"x").during("echo")
        }
        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
        fn is_blocked(&self) -> bool {
            false
        }
        fn read(&mut self, done: &mut Vec<Done>) -> Result<()> {
            let mut byte = [0];
            let _ = std::io::Read::read(&mut self.socket, &mut byte);
            if self.answers_left > 0 {
                self.answers_left -= 1;
                done.extend(self.open.pop_front().map(Done::of));
            }
            Ok(())
        }
        fn abandon(&mut self, reason: &str, done: &mut Vec<Done>) {
            done.extend(
                self.open
                    .drain(..)
                    .map(|number| Done::failed(number, reason)),
            );
        }
        fn bytes(&self) -> (u64, u64) {
            (0, 0)
        }
    }

    fn run(lane: Echo, pace: Pace, operations: usize, stop: bool) -> Measured {
        let load = Load {
            label: "",
            classes: &[Class::new("echo", Kind::Read)],
            plan: &vec![Planned { class: 0, lane: 0 }; operations],
            pace,
            at_most: Duration::from_millis(300),
            patience: Duration::from_millis(50),
            process: None,
            stop: &AtomicBool::new(stop),
            progress: &Progress::silent(),
        };
        load.run(&mut [Box::new(lane)]).unwrap()
    }

    #[test]
    fn every_operation_of_a_closed_loop_is_done_and_counted() {
        let measured = run(Echo::new(9, 500), Pace::Closed { window: 3 }, 500, false);
        assert_eq!((measured.offered, measured.achieved()), (500, 500));
        assert_eq!(measured.counts[0].latencies.summary().count, 500);
        assert_eq!(measured.dropped, 0);
    }

    #[test]
    fn latency_of_an_open_loop_counts_from_when_it_was_due() {
        // One answer, then none: whoever comes behind waits, is not sent, and is not forgotten.
        let pace = Pace::Open {
            per_second: 1_000.0,
        };
        let measured = run(Echo::new(2, 1), pace, 100, false);
        assert_eq!((measured.offered, measured.achieved()), (100, 1));
        assert_eq!(measured.dropped, 97, "two were under way");
        assert_eq!(measured.failures(), 2);
        assert_eq!(measured.limit(), Limit::Server);
    }

    #[test]
    fn an_interrupted_load_ends_with_what_it_has() {
        let measured = run(Echo::new(9, 500), Pace::Closed { window: 3 }, 500, true);
        assert!(measured.interrupted);
        assert!(measured.achieved() < 500);
        assert_eq!(measured.failures(), 0);
    }
}
