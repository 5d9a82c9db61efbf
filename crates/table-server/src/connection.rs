//! One connection: reads what there is, has it carried out, sends the answers, waits.
//!
//! An idle connection has no buffers. It reads into the worker's one buffer, and keeps for itself
//! only what is left over: the beginning of a request, or answers that the socket did not take. While
//! there are such answers nothing is read.

use std::{
    future::poll_fn,
    io, mem,
    rc::Rc,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use hikyaku_observe::Phase;
use hikyaku_tables::WhenDurable;

use crate::{
    door::Door,
    exchange::{Deferred, Exchange, Protocol, Step},
    metrics::Count,
    replication::Handover,
    socket::Stream,
    tally::{Run, Tally},
    timing::Wait,
    worker::{Presence, Waiting, Worker},
    writer::Outcomes,
};

/// Answers are sent when there are so many bytes of them, though more requests are at hand.
const OUTPUT_MARK: usize = 64 * 1024;
/// So many bytes are answered before other connections have their turn.
const OUTPUT_PER_TURN: usize = 1024 * 1024;
/// A beginning of a request up to this is moved into the worker's buffer, so that what follows it
/// need not be copied; a longer one grows where it is.
const SHORT_TAIL: usize = 4096;
/// A buffer that grew beyond this is given back as soon as it is empty.
const KEPT_BYTES: usize = 4096;

/// A connection.
pub(crate) struct Connection {
    stream: Stream,
    presence: Presence,
    door: Door,
    /// Received and not yet carried out, from `tail_at` on.
    tail: Vec<u8>,
    tail_at: usize,
    /// The tail may hold requests that can be carried out.
    is_ready: bool,
    /// Bytes that the request at the tail's beginning has in all, as far as is known.
    needed: usize,
    /// Answers that the socket did not take, from `unsent_at` on.
    unsent: Vec<u8>,
    unsent_at: usize,
    deferred: Deferred,
    /// What the unsent answers wait for.
    held: Option<WhenDurable>,
    /// Requests that wait, to be taken down when they are answered.
    delayed: Vec<Delayed>,
    /// Nothing more is carried out.
    is_closing: bool,
    /// Nothing more is carried out here.
    leaving: Option<Handover>,
}

/// Requests whose answers wait for a table's writer, or for the log.
struct Delayed {
    tally: Tally,
    begun: Instant,
    worked: Duration,
    work: Phase,
}

/// What a connection does after a turn.
enum Next {
    /// Waits for its table's writer.
    Settle,
    /// Waits until the answers may be sent.
    Durable(WhenDurable),
    /// Lets the others have their turn.
    Rest,
    /// Ends: there is nobody any more, or too late.
    End,
    /// Leaves the worker.
    HandOver(Handover),
}

/// Why no more is carried out for now.
enum Stop {
    Read(usize),
    Settle,
    Full,
    Close,
    HandOver(Handover),
}

/// What became of answers.
enum Sent {
    Whole,
    InPart,
    /// They wait for this.
    Held(WhenDurable),
}

impl Connection {
    pub(crate) fn new(worker: &Worker, stream: Stream, presence: Presence) -> Self {
        let is_locked = worker.shared.config.token.is_some() && !stream.is_unix();
        Self {
            stream,
            presence,
            door: if is_locked { Door::Locked } else { Door::Open },
            tail: Vec::new(),
            tail_at: 0,
            is_ready: false,
            needed: 1,
            unsent: Vec::new(),
            unsent_at: 0,
            deferred: Deferred::default(),
            held: None,
            delayed: Vec::new(),
            is_closing: false,
            leaving: None,
        }
    }

    /// Serves until the end.
    pub(crate) async fn run(mut self, worker: Rc<Worker>) {
        loop {
            match poll_fn(|cx| self.turn(&worker, cx)).await {
                Ok(Next::Rest) => tokio::task::yield_now().await,
                Ok(Next::Settle) => {
                    if !self.settle(&worker).await {
                        return;
                    }
                }
                Ok(Next::Durable(durable)) => self.wait_for(durable, &worker).await,
                Ok(Next::End) => return,
                Ok(Next::HandOver(handover)) => {
                    if let Some(replication) = &worker.shared.replication
                        && let Ok(parcel) = self.stream.pack()
                    {
                        replication.take_over(parcel, handover);
                    }
                    return;
                }
                Err(error) => {
                    tracing::debug!(%error, "connection lost");
                    return;
                }
            }
        }
    }

    /// Sends what is unsent, carries out what is at hand, reads, and again.
    fn turn(&mut self, worker: &Worker, cx: &mut Context<'_>) -> Poll<io::Result<Next>> {
        if let Some(waiting) = self.presence.watch.overdue() {
            if waiting == Waiting::Half {
                // A courtesy.
                let _ = self.stream.try_write(self.door.overdue());
            }
            return Poll::Ready(Ok(Next::End));
        }
        self.presence.watch.attach(cx);
        let mut sent = 0;
        loop {
            if let Some(durable) = self.held.take() {
                return Poll::Ready(Ok(Next::Durable(durable)));
            }
            if !self.unsent.is_empty() {
                sent += ready!(self.poll_flush(worker, cx))?;
            }
            if let Some(handover) = self.leaving {
                return Poll::Ready(Ok(Next::HandOver(handover)));
            }
            if self.is_closing {
                return self.poll_linger(worker, cx).map_ok(|()| Next::End);
            }
            if sent > OUTPUT_PER_TURN {
                return Poll::Ready(Ok(Next::Rest));
            }
            let stop = if self.is_ready {
                self.carry_out_tail(worker, cx, &mut sent)?
            } else if worker.draining.get() {
                return Poll::Ready(Ok(Next::End));
            } else {
                match ready!(self.poll_receive(worker, cx, &mut sent))? {
                    Some(stop) => stop,
                    None => return Poll::Ready(Ok(Next::End)),
                }
            };
            self.is_ready = !matches!(stop, Stop::Read(_));
            match stop {
                Stop::Read(needed) => self.needed = needed,
                Stop::Full => {}
                Stop::Close => self.is_closing = true,
                Stop::Settle => return Poll::Ready(Ok(Next::Settle)),
                Stop::HandOver(handover) => self.leaving = Some(handover),
            }
        }
    }

    /// Reads once and carries out what came. `None`: the client has ended.
    fn poll_receive(
        &mut self,
        worker: &Worker,
        cx: &mut Context<'_>,
        sent: &mut usize,
    ) -> Poll<io::Result<Option<Stop>>> {
        let mut buffer = worker.input.borrow_mut();
        let kept = self.tail.len() - self.tail_at;
        let received = if kept <= SHORT_TAIL {
            let (front, back) = buffer.split_at_mut(kept);
            let received = self.stream.poll_read(cx, back);
            if received.is_ready() {
                front.copy_from_slice(self.tail.get(self.tail_at..).unwrap_or_default());
            }
            received
        } else {
            self.tail.drain(..mem::take(&mut self.tail_at));
            // Grows by what has come, not by what was announced.
            let room = self.needed.saturating_sub(kept).clamp(4096, kept.max(4096));
            self.tail.resize(kept + room, 0);
            let back = self.tail.get_mut(kept..).unwrap_or_default();
            let received = self.stream.poll_read(cx, back);
            let filled = match received {
                Poll::Ready(Ok(bytes)) => bytes,
                _ => 0,
            };
            self.tail.truncate(kept + filled);
            received
        };
        let Poll::Ready(received) = received else {
            let is_half = kept > 0 || self.door.is_within_request();
            let waiting = if is_half {
                Waiting::Half
            } else {
                Waiting::Idle
            };
            self.presence.watch.wait(waiting, false, worker);
            return Poll::Pending;
        };
        let received = received?;
        if received == 0 {
            return Poll::Ready(Ok(None));
        }
        worker.counts.add(Count::Reads, 1);
        worker.counts.add(Count::BytesRead, received as u64);
        if kept > SHORT_TAIL {
            drop(buffer);
            return Poll::Ready(self.carry_out_tail(worker, cx, sent).map(Some));
        }
        let input = buffer.get(..kept + received).unwrap_or_default();
        let (taken, stop) = self.carry_out(worker, input, cx, sent)?;
        self.tail.clear();
        self.tail_at = 0;
        self.tail
            .extend_from_slice(input.get(taken..).unwrap_or_default());
        self.give_back();
        Poll::Ready(Ok(Some(stop)))
    }

    /// Carries out what the tail holds.
    fn carry_out_tail(
        &mut self,
        worker: &Worker,
        cx: &mut Context<'_>,
        sent: &mut usize,
    ) -> io::Result<Stop> {
        let tail = mem::take(&mut self.tail);
        let input = tail.get(self.tail_at..).unwrap_or_default();
        let carried_out = self.carry_out(worker, input, cx, sent);
        self.tail = tail;
        let (taken, stop) = carried_out?;
        self.tail_at += taken;
        if self.tail_at == self.tail.len() {
            self.tail.clear();
            self.tail_at = 0;
        }
        self.give_back();
        Ok(stop)
    }

    fn give_back(&mut self) {
        if self.tail.is_empty() && self.tail.capacity() > 0 {
            self.tail = Vec::new();
        }
    }

    /// Carries out requests until no whole one is left, or something is in the way, and sends the
    /// answers as far as the socket takes them. Returns how much of the input was taken.
    fn carry_out(
        &mut self,
        worker: &Worker,
        input: &[u8],
        cx: &mut Context<'_>,
        sent: &mut usize,
    ) -> io::Result<(usize, Stop)> {
        let mut output = worker.output.borrow_mut();
        let mut value = worker.value.borrow_mut();
        let mut tally = worker.tally.borrow_mut();
        let is_timed = worker.timing.is_some();
        let begun = Instant::now();
        let desk = worker.desk(begun);
        tally.clear();
        let mut taken = 0;
        let stop = loop {
            let rest = input.get(taken..).unwrap_or_default();
            let mut exchange =
                Exchange::new(&desk, rest, &mut output, &mut value, &mut self.deferred);
            let stop = loop {
                let before = exchange.standing();
                let step = self.door.step(&mut exchange);
                let is_done = matches!(step, Step::Went | Step::Close | Step::HandOver(_));
                if is_timed && is_done {
                    exchange.count_step(before, &mut tally, taken);
                }
                match step {
                    Step::Went if exchange.output.len() < OUTPUT_MARK => {}
                    Step::Went => break Stop::Full,
                    // Nothing more can be left to the writer before more has come.
                    Step::Read(_) if !exchange.is_settled() => break Stop::Settle,
                    Step::Read(bytes) => break Stop::Read(bytes),
                    Step::HandOver(handover) => break Stop::HandOver(handover),
                    Step::Close if exchange.is_settled() => break Stop::Close,
                    Step::Close | Step::Settle => break Stop::Settle,
                }
            };
            tally.close(exchange.standing().passed());
            taken += exchange.taken();
            let outcome = self.send(worker, &mut output, cx, sent)?;
            let goes_on = matches!((&stop, &outcome), (Stop::Full, Sent::Whole));
            if let Sent::Held(durable) = outcome {
                self.held = Some(durable);
            }
            if !goes_on || *sent > OUTPUT_PER_TURN {
                break stop;
            }
        };
        if taken > 0 {
            self.presence.watch.wait(Waiting::No, true, worker);
        }
        if is_timed {
            self.take_down(worker, &mut tally, begun, input);
        }
        if value.capacity() > OUTPUT_MARK {
            *value = Vec::new();
        }
        Ok((taken, stop))
    }

    /// Takes down what a batch has cost, or keeps it until what waits is answered.
    fn take_down(&mut self, worker: &Worker, tally: &mut Tally, begun: Instant, input: &[u8]) {
        let door = &self.door;
        let example = |run: &Run| door.example(input.get(run.at..).unwrap_or_default());
        self.deferred.tally.write_examples(example);
        if tally.is_empty() {
            return;
        }
        let took = begun.elapsed();
        if self.held.is_some() {
            tally.write_examples(example);
            self.delayed.push(Delayed {
                tally: mem::take(tally),
                begun,
                worked: took,
                work: Phase::Handler,
            });
        } else if let Some(timing) = &worker.timing {
            timing.carried_out(tally, took, &worker.shared.catalogue, example);
        }
    }

    /// Takes down what has waited.
    fn take_down_delayed(&mut self, worker: &Worker, has_failed: bool) {
        for delayed in self.delayed.drain(..) {
            let wait = Wait {
                total: delayed.begun.elapsed(),
                worked: delayed.worked,
                work: delayed.work,
                has_failed,
            };
            if let Some(timing) = &worker.timing {
                timing.waited(&delayed.tally, &wait, &worker.shared.catalogue);
            }
        }
    }

    /// Sends, unless the answers must wait; what the socket does not take is kept. Leaves the output
    /// empty.
    fn send(
        &mut self,
        worker: &Worker,
        output: &mut Vec<u8>,
        cx: &mut Context<'_>,
        sent: &mut usize,
    ) -> io::Result<Sent> {
        let mut at = 0;
        let held = if output.is_empty() {
            None
        } else {
            worker.shared.catalogue.settled()
        };
        while held.is_none() && self.unsent.is_empty() && at < output.len() {
            let rest = output.get(at..).unwrap_or_default();
            let Poll::Ready(written) = self.stream.poll_write(cx, rest) else {
                break;
            };
            at += written_some(written?, worker)?;
        }
        *sent += at;
        let rest = output.get(at..).unwrap_or_default();
        let sent = match held {
            Some(durable) => Sent::Held(durable),
            None if rest.is_empty() => Sent::Whole,
            None => Sent::InPart,
        };
        self.unsent.extend_from_slice(rest);
        output.clear();
        output.shrink_to(4 * OUTPUT_MARK);
        Ok(sent)
    }

    /// Sends what is unsent; ready when nothing is left.
    fn poll_flush(&mut self, worker: &Worker, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut sent = 0;
        while self.unsent_at < self.unsent.len() {
            let rest = self.unsent.get(self.unsent_at..).unwrap_or_default();
            match self.stream.poll_write(cx, rest) {
                Poll::Ready(written) => {
                    let written = written_some(written?, worker)?;
                    sent += written;
                    self.unsent_at += written;
                }
                Poll::Pending => {
                    self.presence.watch.wait(Waiting::Unread, sent > 0, worker);
                    return Poll::Pending;
                }
            }
        }
        self.presence.watch.wait(Waiting::No, true, worker);
        self.unsent_at = 0;
        if self.unsent.capacity() > KEPT_BYTES {
            self.unsent = Vec::new();
        }
        self.unsent.clear();
        Poll::Ready(Ok(sent))
    }

    /// Says that nothing more will come, and waits for the client to end too: if the socket closed
    /// with something unread in it, the last answers could be lost.
    fn poll_linger(&mut self, worker: &Worker, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.stream.poll_shutdown(cx))?;
        let mut buffer = worker.input.borrow_mut();
        loop {
            if worker.draining.get() {
                return Poll::Ready(Ok(()));
            }
            match self.stream.poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Ok(())),
                Poll::Ready(received) => drop(received?),
                Poll::Pending => {
                    self.presence.watch.wait(Waiting::Unread, false, worker);
                    return Poll::Pending;
                }
            }
        }
    }

    /// Waits for the table's writer and answers. Returns false if the writer is gone.
    async fn settle(&mut self, worker: &Worker) -> bool {
        let Deferred {
            table,
            batch,
            is_aside,
            mut tally,
        } = mem::take(&mut self.deferred);
        let Some(table) = table else {
            return true;
        };
        self.presence.watch.wait(Waiting::No, true, worker);
        let begun = Instant::now();
        let served = worker.shared.catalogue.table(table);
        let writer = &served.writer;
        let settled = if is_aside {
            writer.send_aside(batch)
        } else {
            writer.send(batch)
        };
        let Ok(Outcomes { settled, worked }) = settled.await else {
            tracing::error!(table = served.name, "the table's writer has stopped");
            return false;
        };
        let mut value = worker.value.borrow_mut();
        let desk = worker.desk(Instant::now());
        let answered = self.unsent.len();
        let mut exchange =
            Exchange::new(&desk, &[], &mut self.unsent, &mut value, &mut self.deferred);
        self.door.settle(settled, &mut exchange);
        self.held = worker.shared.catalogue.settled();
        tally.add_bytes(self.unsent.len() - answered);
        self.delayed.push(Delayed {
            tally,
            begun,
            worked,
            work: if is_aside { Phase::Query } else { Phase::Write },
        });
        if self.held.is_none() {
            self.take_down_delayed(worker, false);
        }
        true
    }

    /// Waits until what the unsent answers tell of is durable. If it will not be, they are not sent,
    /// and the connection ends: nobody knows what of it a restart brings back.
    async fn wait_for(&mut self, durable: WhenDurable, worker: &Worker) {
        self.presence.watch.wait(Waiting::No, true, worker);
        let durable = durable.await;
        self.take_down_delayed(worker, durable.is_err());
        if let Err(error) = durable {
            tracing::error!(%error, "updates are not durable");
            self.unsent.clear();
            self.unsent_at = 0;
            self.unsent.extend_from_slice(self.door.not_durable());
            self.is_closing = true;
        }
    }
}

/// Counts what a write has sent; a write of nothing is an error.
fn written_some(written: usize, worker: &Worker) -> io::Result<usize> {
    if written == 0 {
        return Err(io::ErrorKind::WriteZero.into());
    }
    worker.counts.add(Count::Writes, 1);
    worker.counts.add(Count::BytesWritten, written as u64);
    Ok(written)
}
