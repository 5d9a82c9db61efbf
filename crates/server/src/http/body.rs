//! What an answer carries: bytes that are there, or a stream of them.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt, Full};

/// Why a body breaks off.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// The body of an answer.
pub struct Body(Kind);

enum Kind {
    Full(Full<Bytes>),
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

impl Default for Body {
    fn default() -> Self {
        Self(Kind::Full(Full::default()))
    }
}

impl<T: Into<Bytes>> From<T> for Body {
    fn from(bytes: T) -> Self {
        Self(Kind::Full(Full::new(bytes.into())))
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
            Kind::Full(body) => Pin::new(body).poll_frame(cx).map_err(Into::into),
            Kind::Stream(body) => body.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Full(body) => body.is_end_stream(),
            Kind::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Full(body) => body.size_hint(),
            Kind::Stream(body) => body.size_hint(),
        }
    }
}
