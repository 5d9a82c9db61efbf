//! How long an HTTP/1.1 connection is borne: until nothing has moved for too long, or the server ends.
//!
//! The worker looks after all of them at each of its ticks. A timer and a watch for each would have to
//! be asked at every request.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    task::{Context, Waker},
};

use hashbrown::HashMap;

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
    /// When something moved last.
    pub(super) progress: Cell<Tick>,
    due: Cell<Due>,
    waker: RefCell<Option<Waker>>,
}

impl Borne {
    /// Tells what is to be done; whoever asks is woken when that changes.
    pub(super) fn due(&self, cx: &Context<'_>) -> Due {
        let mut waker = self.waker.borrow_mut();
        if !(waker.as_ref()).is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        self.due.get()
    }

    fn tell(&self, due: Due) {
        self.due.set(due);
        let waker = self.waker.borrow_mut().take();
        if let Some(waker) = waker {
            waker.wake();
        }
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
            progress: Cell::new(now),
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

    /// Ends those on which nothing has moved for so many ticks.
    pub(crate) fn end_silent(&self, now: Tick, ticks: u32) {
        for borne in self.all.borrow().values() {
            if now.since(borne.progress.get()) >= ticks {
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
