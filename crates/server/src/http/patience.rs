//! How long an HTTP/1.1 connection is borne: until nothing has moved for too long, a request's head takes
//! too long, or the server ends.
//!
//! The worker looks after all of them at each of its ticks. A timer and a watch for each would have to
//! be asked at every request.

use std::{
    cell::{Cell, RefCell},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use hashbrown::HashMap;
use http_body::{Frame, SizeHint};

use super::{Body, BodyError, Response, paced::Pace};
use crate::worker::Tick;

/// What a connection is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    /// To answer what is under way, and end.
    Drain,
    /// To end.
    End,
}

/// One connection, as its worker sees it.
#[derive(Debug)]
pub(super) struct Borne {
    pub(super) pace: Pace,
    /// A request is awaited; none is being answered.
    awaiting: Cell<bool>,
    due: Cell<Due>,
    waker: RefCell<Option<Waker>>,
}

impl Borne {
    /// Names whom to wake when something is to be done.
    pub(super) fn is_served_by(&self, cx: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        if !(waker.as_ref()).is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }

    /// Has a part of serving it done in its name: whoever serves it is woken to go on.
    pub(super) fn during(&self, part: impl FnOnce(&mut Context<'_>)) {
        let waker = self.waker.borrow_mut().take();
        if let Some(waker) = &waker {
            part(&mut Context::from_waker(waker));
        }
        *self.waker.borrow_mut() = waker;
    }

    /// Tells what is to be done.
    pub(super) fn due(&self) -> Due {
        self.due.get()
    }

    /// Notes that a request has come.
    pub(super) fn has_request(&self) {
        self.awaiting.set(false);
    }

    /// Notes that the next request may come when this answer has been taken.
    pub(super) fn hand_over(self: Rc<Self>, response: &mut Response) {
        if response.body().whole().is_some() {
            self.awaiting.set(true);
        } else {
            let body = std::mem::take(response.body_mut());
            *response.body_mut() = Body::new(HandedOver { body, borne: self });
        }
    }

    /// Tells whether the next request's head has not come for so many ticks.
    fn dawdles(&self, now: Tick, ticks: u32) -> bool {
        let Pace { taken, stuck, .. } = &self.pace;
        self.awaiting.get() && !stuck.get() && now.since(taken.get()) >= ticks
    }

    fn tell(&self, due: Due) {
        self.due.set(due);
        let waker = self.waker.borrow_mut().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// A body that is still made while it is sent: until it ends, no other request is awaited.
struct HandedOver {
    body: Body,
    borne: Rc<Borne>,
}

impl Drop for HandedOver {
    fn drop(&mut self) {
        self.borne.awaiting.set(true);
    }
}

impl http_body::Body for HandedOver {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A worker's connections that speak HTTP/1.1.
#[derive(Debug, Default)]
pub(crate) struct BorneConnections {
    all: RefCell<HashMap<u64, Rc<Borne>, foldhash::fast::FixedState>>,
    next: Cell<u64>,
    draining: Cell<bool>,
}

/// A connection among them, until this is dropped.
pub(super) struct Bearing<'a> {
    connections: &'a BorneConnections,
    id: u64,
    pub(super) borne: Rc<Borne>,
}

impl Drop for Bearing<'_> {
    fn drop(&mut self) {
        self.connections.all.borrow_mut().remove(&self.id);
    }
}

impl BorneConnections {
    /// Bears one more, which has moved now.
    pub(super) fn bear(&self, now: Tick) -> Bearing<'_> {
        let id = self.next.get();
        self.next.set(id + 1);
        let due = if self.draining.get() {
            Due::Drain
        } else {
            Due::Nothing
        };
        let borne = Rc::new(Borne {
            pace: Pace::new(now),
            awaiting: Cell::new(true),
            due: Cell::new(due),
            waker: RefCell::default(),
        });
        self.all.borrow_mut().insert(id, Rc::clone(&borne));
        Bearing {
            connections: self,
            id,
            borne,
        }
    }

    /// Ends those on which nothing has moved, or whose next request has not come, for so many ticks.
    pub(crate) fn end_silent(&self, now: Tick, silence: u32, head: u32) {
        for borne in self.all.borrow().values() {
            if now.since(borne.pace.moved.get()) >= silence || borne.dawdles(now, head) {
                borne.tell(Due::End);
            }
        }
    }

    /// Has all of them end in order, also those that come yet.
    pub(crate) fn drain(&self) {
        self.draining.set(true);
        for borne in self.all.borrow().values() {
            borne.tell(Due::Drain);
        }
    }
}
