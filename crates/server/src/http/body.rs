//! What an answer carries: bytes that are there, or a stream of them.

use std::{
    fmt,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;

use crate::plugin::{Caller, HandlerId};

/// Why a body breaks off.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// The body of an answer.
pub struct Body(Kind);

enum Kind {
    /// What has not been sent yet.
    Whole(Bytes),
    Stream(Pin<Box<dyn http_body::Body<Data = Bytes, Error = BodyError>>>),
}

impl Body {
    /// Makes a body of another one, a stream say; it need not be `Send`.
    pub fn new<B>(body: B) -> Self
    where
        B: http_body::Body<Data = Bytes> + 'static,
        B::Error: Into<BodyError>,
    {
        Self(Kind::Stream(Box::pin(body.map_err(Into::into))))
    }
}

/// What a handler streams is a part of its call: watched, named and counted as that is.
struct Watched {
    body: Pin<Box<dyn http_body::Body<Data = Bytes, Error = BodyError>>>,
    caller: Rc<Caller>,
    handler: HandlerId,
    failed: bool,
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        if this.failed {
            return Poll::Ready(None);
        }
        let body = &mut this.body;
        let polled = (this.caller).run_part(this.handler, || body.as_mut().poll_frame(cx));
        polled.unwrap_or_else(|_| {
            this.failed = true;
            Poll::Ready(Some(Err("the handler's stream has panicked".into())))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.failed || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Body {
    /// Returns all its bytes, if they are there.
    pub(super) fn whole(&self) -> Option<&Bytes> {
        match &self.0 {
            Kind::Whole(bytes) => Some(bytes),
            Kind::Stream(_) => None,
        }
    }

    /// Has a stream polled as a part of the call that it comes from.
    pub(super) fn watched(self, caller: &Rc<Caller>, handler: HandlerId) -> Self {
        match self.0 {
            Kind::Stream(body) => Self(Kind::Stream(Box::pin(Watched {
                body,
                caller: Rc::clone(caller),
                handler,
                failed: false,
            }))),
            Kind::Whole(bytes) => Self(Kind::Whole(bytes)),
        }
    }

    /// Takes all its bytes, if they are there and no more than these.
    pub(super) fn take_whole(&mut self, bytes_max: usize) -> Option<Bytes> {
        match &mut self.0 {
            Kind::Whole(bytes) if bytes.len() <= bytes_max => Some(std::mem::take(bytes)),
            _ => None,
        }
    }
}

impl Default for Body {
    fn default() -> Self {
        Self(Kind::Whole(Bytes::new()))
    }
}

impl<T: Into<Bytes>> From<T> for Body {
    fn from(bytes: T) -> Self {
        Self(Kind::Whole(bytes.into()))
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Body")
            .field(&http_body::Body::size_hint(self))
            .finish()
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.0 {
            Kind::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Kind::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Kind::Stream(body) => body.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Whole(bytes) => bytes.is_empty(),
            Kind::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Stream(body) => body.size_hint(),
        }
    }
}
