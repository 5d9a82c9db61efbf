//! A socket that notes when its client last took or sent anything.

use std::{
    cell::Cell,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

use bytes::BufMut;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::{
    stream::Stream,
    worker::{Tick, Worker},
};

/// How a client's socket goes on.
#[derive(Debug)]
pub(super) struct Pace {
    /// When something moved last.
    pub(super) moved: Cell<Tick>,
    /// When the client last took something.
    pub(super) taken: Cell<Tick>,
    /// The client takes nothing of what is there for it.
    pub(super) stuck: Cell<bool>,
}

impl Pace {
    /// Begins with something that moves now.
    pub(super) fn new(now: Tick) -> Self {
        Self {
            moved: Cell::new(now),
            taken: Cell::new(now),
            stuck: Cell::new(false),
        }
    }
}

/// Bytes of a head and a body that are put together rather than written from two places: for the system,
/// many places are dearer than copying so little.
const TOGETHER_BYTES_MAX: usize = 512;

/// A client's socket while it speaks HTTP.
pub(super) struct Paced<'a> {
    stream: Stream,
    worker: &'a Worker,
    pace: &'a Pace,
}

impl<'a> Paced<'a> {
    pub(super) fn new(stream: Stream, worker: &'a Worker, pace: &'a Pace) -> Self {
        Self {
            stream,
            worker,
            pace,
        }
    }

    pub(super) fn into_inner(self) -> Stream {
        self.stream
    }

    fn note_taken<T>(&self, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        self.pace.stuck.set(result.is_pending());
        if matches!(result, Poll::Ready(Ok(_))) {
            let now = self.worker.now();
            self.pace.moved.set(now);
            self.pace.taken.set(now);
        }
        result
    }
}

impl AsyncRead for Paced<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if matches!(result, Poll::Ready(Ok(()))) {
            self.pace.moved.set(self.worker.now());
        }
        result
    }
}

impl AsyncWrite for Paced<'_> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.note_taken(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length = slices.iter().map(|slice| slice.len()).sum();
        let mut together = [0; TOGETHER_BYTES_MAX];
        let stream = Pin::new(&mut self.stream);
        let result = match together.get_mut(..length) {
            Some(together) if slices.len() > 1 => {
                let mut free = &mut *together;
                for slice in slices {
                    free.put_slice(slice);
                }
                stream.poll_write(cx, together)
            }
            _ => stream.poll_write_vectored(cx, slices),
        };
        self.note_taken(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // What is encrypted already waits here.
        let result = Pin::new(&mut self.stream).poll_flush(cx);
        if result.is_pending() || self.pace.stuck.get() {
            return self.note_taken(result);
        }
        result
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
