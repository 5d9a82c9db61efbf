//! Answers in HTTP/2 that are there and that their client does not take.
//!
//! A connection of HTTP/2 is never silent as long as its client asks whether the server is there. What
//! tells one that takes its answers from one that has them kept for it is that their bodies go on.

use std::{
    cell::Cell,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

use bytes::{Buf, Bytes};
use http_body::{Frame, SizeHint};

use super::{Body, BodyError, Response};
use crate::worker::{Tick, Worker};

/// Bytes of a body that are handed over at once: what a stream has waiting for its client, at least.
const PIECE_BYTES: usize = 16 * 1024;

/// The answers that one connection owes its client.
pub(super) struct Owed {
    worker: Rc<Worker>,
    /// Bodies that would go on if the client took more.
    bodies: Cell<usize>,
    /// When one of them last went on.
    pub(super) moved: Cell<Tick>,
}

impl Owed {
    pub(super) fn new(worker: &Rc<Worker>) -> Rc<Self> {
        Rc::new(Self {
            worker: Rc::clone(worker),
            bodies: Cell::new(0),
            moved: Cell::new(worker.now()),
        })
    }

    /// Tells whether nothing is owed; what is owed later is measured from now on.
    pub(super) fn is_settled(&self) -> bool {
        let settled = self.bodies.get() == 0;
        if settled {
            self.moved.set(self.worker.now());
        }
        settled
    }

    /// Takes care of an answer.
    pub(super) fn watch(self: &Rc<Self>, response: Response) -> Response {
        response.map(|body| {
            let mut body = OwedBody {
                body,
                rest: Bytes::new(),
                owed: Rc::clone(self),
                owes: false,
            };
            body.owe(true);
            Body::new(body)
        })
    }
}

struct OwedBody {
    body: Body,
    /// What has come of it and is not handed over yet.
    rest: Bytes,
    owed: Rc<Owed>,
    /// It waits for the client, and not for whoever makes it.
    owes: bool,
}

impl OwedBody {
    fn owe(&mut self, owes: bool) {
        let bodies = &self.owed.bodies;
        match (std::mem::replace(&mut self.owes, owes), owes) {
            (false, true) => {
                self.owed.is_settled();
                bodies.set(bodies.get() + 1);
            }
            (true, false) => bodies.set(bodies.get() - 1),
            _ => {}
        }
    }
}

impl Drop for OwedBody {
    fn drop(&mut self) {
        self.owe(false);
    }
}

impl http_body::Body for OwedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        this.owed.moved.set(this.owed.worker.now());
        if !this.rest.has_remaining() {
            let polled = Pin::new(&mut this.body).poll_frame(cx);
            this.owe(matches!(polled, Poll::Ready(Some(Ok(_)))));
            match polled {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => this.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                other => return other,
            }
        }
        let piece = this.rest.split_to(this.rest.len().min(PIECE_BYTES));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        !self.rest.has_remaining() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        let of_body = self.body.size_hint();
        let mut hint = SizeHint::new();
        if let Some(upper) = of_body.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(of_body.lower() + rest);
        hint
    }
}
