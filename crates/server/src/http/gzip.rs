//! Bodies that are compressed on their way.
//!
//! Small ones at once. Others piece by piece, as the client takes them: between two pieces the worker
//! does what else there is to do.

use std::{
    io::{self, Write},
    mem,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Buf, Bytes};
use flate2::{Compression, write::GzEncoder};
use http_body::Frame;

use super::{Body, BodyError};

/// Bytes compressed in one go: half a millisecond's work.
const PIECE_BYTES: usize = 32 * 1024;

/// How hard it is tried. Each step above costs twice the time and saves a few percent.
const LEVEL: Compression = Compression::new(3);

/// Compresses a body.
pub(super) fn gzipped(mut body: Body) -> Result<Body, io::Error> {
    let encoder = GzEncoder::new(Vec::new(), LEVEL);
    match body.take_whole(PIECE_BYTES) {
        Some(bytes) => {
            let mut encoder = encoder;
            encoder.write_all(&bytes)?;
            Ok(Body::from(encoder.finish()?))
        }
        None => Ok(Body::new(Gzip {
            body,
            encoder,
            rest: Bytes::new(),
            unflushed: false,
            ended: false,
            compressed: 0,
        })),
    }
}

struct Gzip {
    body: Body,
    encoder: GzEncoder<Vec<u8>>,
    /// What has come and is not compressed yet.
    rest: Bytes,
    /// What was compressed last may still lie in the encoder.
    unflushed: bool,
    ended: bool,
    /// Bytes compressed since others had their turn.
    compressed: usize,
}

impl Gzip {
    /// Returns what has been compressed by now, if anything has.
    fn take(&mut self) -> Option<Frame<Bytes>> {
        let compressed = mem::take(self.encoder.get_mut());
        (!compressed.is_empty()).then(|| Frame::data(compressed.into()))
    }

    fn compress_a_piece(&mut self) -> io::Result<()> {
        let piece = self.rest.split_to(self.rest.len().min(PIECE_BYTES));
        self.unflushed = true;
        self.compressed += piece.len();
        self.encoder.write_all(&piece)
    }
}

impl http_body::Body for Gzip {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        loop {
            if this.ended {
                return Poll::Ready(None);
            }
            if this.rest.has_remaining() {
                if this.compressed >= PIECE_BYTES {
                    this.compressed = 0;
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                this.compress_a_piece()?;
                match this.take() {
                    Some(frame) => return Poll::Ready(Some(Ok(frame))),
                    None => continue,
                }
            }
            match Pin::new(&mut this.body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    // Trailers are not for a body of another form.
                    if let Ok(data) = frame.into_data() {
                        this.rest = data;
                    }
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => {
                    this.ended = true;
                    this.encoder.try_finish()?;
                    return Poll::Ready(this.take().map(Ok));
                }
                // Who streams wants to be heard: what there is goes out before the wait.
                Poll::Pending if mem::take(&mut this.unflushed) => {
                    this.encoder.flush()?;
                    match this.take() {
                        Some(frame) => return Poll::Ready(Some(Ok(frame))),
                        None => return Poll::Pending,
                    }
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;
    use http_body_util::{BodyExt, StreamBody};

    use super::*;

    async fn unpacked(body: Body) -> Vec<u8> {
        let packed = body.collect().await.unwrap().to_bytes();
        let mut whole = Vec::new();
        GzDecoder::new(&packed[..]).read_to_end(&mut whole).unwrap();
        whole
    }

    #[tokio::test]
    async fn what_was_packed_is_unpacked_again() {
        for length in [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 5 * PIECE_BYTES] {
            let text: Vec<u8> = (0..length).map(|n| (n * n % 251) as u8).collect();
            assert_eq!(
                unpacked(gzipped(Body::from(text.clone())).unwrap()).await,
                text
            );
            let pieces = text
                .chunks(1000)
                .map(|piece| Ok::<_, io::Error>(Frame::data(Bytes::copy_from_slice(piece))));
            let stream = StreamBody::new(futures_util::stream::iter(pieces.collect::<Vec<_>>()));
            assert_eq!(unpacked(gzipped(Body::new(stream)).unwrap()).await, text);
        }
    }

    #[tokio::test]
    async fn what_a_stream_has_said_goes_out_before_it_waits() {
        let (sender, receiver) = futures_channel();
        let body = StreamBody::new(receiver);
        let mut packed = gzipped(Body::new(body)).unwrap();
        sender
            .send(Ok::<_, io::Error>(Frame::data(Bytes::from_static(
                b"hello",
            ))))
            .unwrap();
        let mut decoder = flate2::write::GzDecoder::new(Vec::new());
        while decoder.get_ref() != b"hello" {
            let frame = packed.frame().await.unwrap().unwrap();
            decoder.write_all(&frame.into_data().unwrap()).unwrap();
            decoder.flush().unwrap();
        }
        drop(sender);
        while let Some(frame) = packed.frame().await {
            decoder
                .write_all(&frame.unwrap().into_data().unwrap())
                .unwrap();
        }
        assert_eq!(decoder.finish().unwrap(), b"hello");
    }

    fn futures_channel<T>() -> (
        tokio::sync::mpsc::UnboundedSender<T>,
        impl futures_core::Stream<Item = T>,
    ) {
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        let stream = futures_util::stream::poll_fn(move |cx| receiver.poll_recv(cx));
        (sender, stream)
    }
}
