//! How long an HTTP/1.1 connection is borne: until nothing has moved for too long, a request's head takes
//! too long, or the server ends.
//!
//! The worker looks after all of them at each of its ticks. A timer and a watch for each would have to
//! be asked at every request.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    task::{Context, Waker},
};

use hashbrown::HashMap;
use http_body_util::BodyExt;

use super::{Body, Response, paced::Pace};
use crate::worker::{Patience, Tick};

/// One connection, as its worker sees it.
#[derive(Debug)]
pub(super) struct Borne {
    pub(super) pace: Pace,
    /// A request is awaited; none is being answered.
    awaiting: Cell<bool>,
    draining: Cell<bool>,
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

    /// Tells whether it is to answer what is under way, and end.
    pub(super) fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// Tells whether it is to end: nothing has moved, or the next request's head has not come, for too
    /// long. To be asked when all that has come is read.
    pub(super) fn is_overdue(&self, now: Tick, patience: &Patience) -> bool {
        let Pace {
            moved,
            taken,
            stuck,
        } = &self.pace;
        let awaits_a_head = self.awaiting.get() && !stuck.get();
        now.since(moved.get()) >= patience.silence
            || awaits_a_head && now.since(taken.get()) >= patience.head
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
            let under_way = UnderWay(self);
            let body = std::mem::take(response.body_mut());
            *response.body_mut() = Body::new(body.inspect_frame(move |_| {
                // It goes with the body.
                let _ = &under_way;
            }));
        }
    }

    fn wake(&self) {
        let waker = self.waker.borrow_mut().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// An answer that is still made while it is sent: until it ends, no other request is awaited.
struct UnderWay(Rc<Borne>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.awaiting.set(true);
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
        let borne = Rc::new(Borne {
            pace: Pace::new(now),
            awaiting: Cell::new(true),
            draining: Cell::new(self.draining.get()),
            waker: RefCell::default(),
        });
        self.all.borrow_mut().insert(id, Rc::clone(&borne));
        Bearing {
            connections: self,
            id,
            borne,
        }
    }

    /// Has those look that are overdue: what has come of their clients meanwhile is still answered.
    pub(crate) fn wake_overdue(&self, now: Tick, patience: &Patience) {
        for borne in self.all.borrow().values() {
            if borne.is_overdue(now, patience) {
                borne.wake();
            }
        }
    }

    /// Has all of them end in order, also those that come yet.
    pub(crate) fn drain(&self) {
        self.draining.set(true);
        for borne in self.all.borrow().values() {
            borne.draining.set(true);
            borne.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ServerConfig;

    #[test]
    fn what_comes_before_an_overdue_connection_looks_is_answered() {
        let config = ServerConfig::new(([127, 0, 0, 1], 0).into());
        let patience = Patience::new(&config);
        for (ticks, awaits_a_head) in [(patience.silence, false), (patience.head, true)] {
            let (start, now) = (Tick(0), Tick(ticks));
            let connections = BorneConnections::default();
            let bearing = connections.bear(start);
            let borne = &bearing.borne;
            if !awaits_a_head {
                borne.has_request();
            }
            borne.is_served_by(&Context::from_waker(Waker::noop()));
            connections.wake_overdue(Tick(ticks - 1), &patience);
            assert!(borne.waker.borrow().is_some());
            connections.wake_overdue(now, &patience);
            assert!(borne.waker.borrow().is_none(), "it is woken");
            assert!(borne.is_overdue(now, &patience));

            // Now it reads what has come: a part of a head does not help who owes all of it.
            borne.pace.moved.set(now);
            assert_eq!(borne.is_overdue(now, &patience), awaits_a_head);
            borne.has_request();
            assert!(!borne.is_overdue(now, &patience));
            // And answers it at once.
            Rc::clone(borne).hand_over(&mut Response::new("answer".into()));
            borne.pace.taken.set(now);
            assert!(!borne.is_overdue(now, &patience));
        }
    }
}
