//! One connection's turn of the loop: read, publish, answer, write.

use std::{
    cell::RefCell,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
};

use hikyaku_event::Event;
use hikyaku_relay::{Session, SubscriptionKey};
use hikyaku_store::Sequence;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{
    answering::Answering,
    publishing::Publisher,
    state::{Phase, State},
};
use crate::{
    address::AddressPermit,
    metrics::Count,
    plugin,
    rates::Client,
    stream::Stream,
    websocket::CloseCode,
    worker::{ConnectionPermit, Worker},
};

/// Bytes written in one turn before others have theirs.
const WRITTEN_PER_TURN: usize = 1024 * 1024;

/// One WebSocket connection. Its task polls it; the feeds reach it through the worker.
pub(crate) struct Connection {
    inner: RefCell<Inner>,
}

struct Inner {
    state: State,
    stream: Stream,
    /// Wakes the connection's task, once it has been polled.
    waker: Option<Waker>,
    /// The socket was full when it was last written to.
    full: bool,
    /// The write side has been shut.
    shut: bool,
    bytes_sent: u64,
    _permits: (ConnectionPermit, Option<AddressPermit>),
}

impl Connection {
    pub(crate) fn new(
        worker: &Worker,
        id: u64,
        client: Client,
        who: Option<Rc<plugin::Client>>,
        session: Session,
        stream: Stream,
        permits: (ConnectionPermit, Option<AddressPermit>),
    ) -> Self {
        let message_bytes_max = worker.shared.config.limits.message_bytes_max;
        Self {
            inner: RefCell::new(Inner {
                state: State::new(
                    id,
                    Publisher {
                        client,
                        who,
                        is_suspect: Rc::default(),
                    },
                    session,
                    message_bytes_max,
                    worker.now(),
                ),
                stream,
                waker: None,
                full: false,
                shut: false,
                bytes_sent: 0,
                _permits: permits,
            }),
        }
    }

    /// Serves the connection to its end; `received` has come with the handshake.
    pub(crate) async fn run(&self, worker: &Rc<Worker>, mut received: Vec<u8>) {
        {
            let state = &mut self.inner.borrow_mut().state;
            state.announce(worker);
            state.open(worker);
            if !received.is_empty() {
                state.receive(worker, &mut received);
            }
        }
        drop(received);
        std::future::poll_fn(|cx| self.inner.borrow_mut().turn(worker, cx)).await;
    }

    /// Takes a new event for one of the connection's subscriptions. Tells whether the client gets
    /// it.
    pub(crate) fn live(
        &self,
        worker: &Worker,
        key: SubscriptionKey,
        sequence: Option<Sequence>,
        event: &Arc<Event>,
    ) -> bool {
        let mut inner = self.inner.borrow_mut();
        let taken = inner.state.live(worker, key, sequence, event);
        inner.wake();
        taken
    }

    /// Looks after a silent client; returns (queries, publications, bytes) that wait.
    pub(crate) fn look_after(&self, worker: &Worker) -> (usize, usize, usize) {
        let mut inner = self.inner.borrow_mut();
        if inner.state.look_after(worker) {
            inner.wake();
        }
        (
            inner.state.answering.len(),
            inner.state.publishing.events_in_flight(),
            inner.state.outbox.bytes(),
        )
    }

    /// Ends the connection if its client is kept out.
    pub(crate) fn enforce_bans(&self, worker: &Worker) {
        let mut inner = self.inner.borrow_mut();
        inner.state.enforce_bans(worker);
        inner.wake();
    }

    /// Takes no more messages, answers what was published, and says goodbye.
    pub(crate) fn drain(&self, worker: &Worker) {
        let mut inner = self.inner.borrow_mut();
        inner
            .state
            .finish(worker, CloseCode::GOING_AWAY, "the relay is shutting down");
        inner.wake();
    }

    /// Returns how many bytes have been sent since the handshake.
    pub(crate) fn bytes_sent(&self) -> u64 {
        self.inner.borrow().bytes_sent
    }

    /// Frees what the worker holds for the connection, however it ended.
    pub(crate) fn abandon(&self, worker: &Worker) {
        let state = &mut self.inner.borrow_mut().state;
        state.break_off(worker);
        state.take_leave(worker);
    }
}

impl Inner {
    fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }

    fn turn(&mut self, worker: &Rc<Worker>, cx: &mut Context<'_>) -> Poll<()> {
        if !self
            .waker
            .as_ref()
            .is_some_and(|waker| waker.will_wake(cx.waker()))
        {
            self.waker = Some(cx.waker().clone());
        }
        let wanted_input = self.state.wants_input(worker);
        let mut again = wanted_input && self.read(worker, cx);
        self.state.decide(worker, cx);
        self.state.publish(worker, cx);
        again |= self.state.answer(worker, cx);
        self.state.settle(worker);
        let had_room = Answering::has_room(&self.state.outbox);
        again |= self.write(worker, cx);
        if self.is_over(cx).is_ready() {
            return Poll::Ready(());
        }
        // What stood still for want of room goes on if the write has made some.
        again |= !wanted_input && self.state.wants_input(worker);
        again |=
            !had_room && self.state.answering.len() > 0 && Answering::has_room(&self.state.outbox);
        if again {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Reads once, and takes everything that came. Tells whether there may be more.
    fn read(&mut self, worker: &Worker, cx: &mut Context<'_>) -> bool {
        let mut scratch = worker.input.borrow_mut();
        let mut buffer = ReadBuf::new(&mut scratch);
        match Pin::new(&mut self.stream).poll_read(cx, &mut buffer) {
            Poll::Pending => return false,
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(_)) => {
                self.state.break_off(worker);
                return false;
            }
        }
        let received = buffer.filled_mut();
        if received.is_empty() {
            self.state.peer_done = true;
            self.state.finish(worker, CloseCode::GOING_AWAY, "");
            return false;
        }
        self.state.note_activity(worker.now());
        self.state.receive(worker, received);
        self.state.wants_input(worker)
    }

    /// Writes as much as the socket takes. Tells whether it would take more.
    fn write(&mut self, worker: &Worker, cx: &mut Context<'_>) -> bool {
        let mut written = 0;
        let mut gathered = worker.output.borrow_mut();
        while !self.state.outbox.is_empty() {
            if written >= WRITTEN_PER_TURN {
                return true;
            }
            self.state.outbox.gather(&mut gathered);
            let stream = Pin::new(&mut self.stream);
            match gathered.with_slices(|slices| stream.poll_write_vectored(cx, slices)) {
                Poll::Pending => {
                    self.full = true;
                    return false;
                }
                Poll::Ready(Ok(length)) if length > 0 => {
                    self.state.outbox.advance(length);
                    // That the system takes bytes shows nothing. That it takes them again does: the
                    // client has read some.
                    if std::mem::take(&mut self.full) {
                        self.state.note_activity(worker.now());
                    }
                    worker.metrics.add(Count::BytesSent, length as u64);
                    worker.metrics.add(Count::Writes, 1);
                    self.bytes_sent += length as u64;
                    written += length;
                }
                Poll::Ready(_) => self.state.break_off(worker),
            }
        }
        // What is encrypted may lie between us and the system. It goes out before the last word does,
        // and wakes the connection's task until then.
        if let Poll::Ready(Err(_)) = Pin::new(&mut self.stream).poll_flush(cx) {
            self.state.break_off(worker);
        }
        false
    }

    /// Tells whether all has been said on both sides. We shut our side when we have said our last
    /// word, and read on till the client has said its own: closing on unread bytes would take back
    /// what is still on its way.
    fn is_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.state.phase != Phase::Closing || !self.state.outbox.is_empty() {
            return Poll::Pending;
        }
        if !self.shut && !self.state.broken {
            // A failure shows that the client is gone already.
            let _ = ready!(Pin::new(&mut self.stream).poll_shutdown(cx));
            self.shut = true;
        }
        if self.state.peer_done {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}
