//! The socket to the database, which reads answers in company.
//!
//! The database sends each statement's answer by itself. Who reads each as it comes is woken for every
//! one, and the database pays for waking it. While many are in flight nobody waits for the single one:
//! so after a read the socket rests for a moment, in which more answers come. While it rests nobody is
//! to be woken: it is not among what the runtime watches.

use std::{
    io::{self, Read as _, Write as _},
    net,
    os::unix,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream},
    time::{Instant, Sleep, sleep},
};

/// Statements in flight from which on answers are gathered. One handler has fewer, or waits for all.
const MANY: usize = 24;
/// How long a read rests: the runtime's timers are no finer.
const REST: Duration = Duration::from_millis(1);

/// A socket, and how many statements are in flight on it.
pub(super) struct Socket {
    stream: Stream,
    in_flight: Arc<AtomicUsize>,
    /// Until when it rests; made once.
    rest: Option<Pin<Box<Sleep>>>,
    /// The last read has had less than there was room for.
    was_short: bool,
}

/// A socket that the runtime watches, or one that rests until the clock says so. None blocks.
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    TcpResting(net::TcpStream),
    UnixResting(unix::net::UnixStream),
    /// It could not be changed from one into the other.
    Lost,
}

impl Stream {
    fn rested(self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(stream) => Self::TcpResting(stream.into_std()?),
            Self::Unix(stream) => Self::UnixResting(stream.into_std()?),
            other => other,
        })
    }

    fn watched(self) -> io::Result<Self> {
        Ok(match self {
            Self::TcpResting(stream) => Self::Tcp(TcpStream::from_std(stream)?),
            Self::UnixResting(stream) => Self::Unix(UnixStream::from_std(stream)?),
            other => other,
        })
    }
}

/// Turns what a socket that rests says into what one that is watched says.
fn unless_blocked<T>(result: io::Result<T>) -> Poll<io::Result<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
        result => Poll::Ready(result),
    }
}

impl Socket {
    pub(super) fn new(stream: Stream, in_flight: Arc<AtomicUsize>) -> Self {
        Self {
            stream,
            in_flight,
            rest: None,
            was_short: false,
        }
    }

    /// Begins to rest.
    fn lie_down(&mut self) -> io::Result<()> {
        self.stream = std::mem::replace(&mut self.stream, Stream::Lost).rested()?;
        match &mut self.rest {
            Some(rest) => rest.as_mut().reset(Instant::now() + REST),
            None => self.rest = Some(Box::pin(sleep(REST))),
        }
        Ok(())
    }

    /// Has itself watched again.
    fn get_up(&mut self) -> io::Result<()> {
        self.stream = std::mem::replace(&mut self.stream, Stream::Lost).watched()?;
        Ok(())
    }

    fn is_resting(&self) -> bool {
        matches!(self.stream, Stream::TcpResting(_) | Stream::UnixResting(_))
    }

    /// Reads what is there. Pending for one that rests is: nothing, and nobody will say so.
    fn read(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = match &mut self.stream {
            Stream::Tcp(stream) => return Pin::new(stream).poll_read(cx, buffer),
            Stream::Unix(stream) => return Pin::new(stream).poll_read(cx, buffer),
            Stream::TcpResting(stream) => stream.read(buffer.initialize_unfilled()),
            Stream::UnixResting(stream) => stream.read(buffer.initialize_unfilled()),
            Stream::Lost => Err(io::ErrorKind::NotConnected.into()),
        };
        buffer.advance(ready!(unless_blocked(read))?);
        Poll::Ready(Ok(()))
    }

    /// Writes what there is room for; as for `read`.
    fn write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        unless_blocked(match &mut self.stream {
            Stream::Tcp(stream) => return Pin::new(stream).poll_write(cx, bytes),
            Stream::Unix(stream) => return Pin::new(stream).poll_write(cx, bytes),
            Stream::TcpResting(stream) => stream.write(bytes),
            Stream::UnixResting(stream) => stream.write(bytes),
            Stream::Lost => Err(io::ErrorKind::NotConnected.into()),
        })
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // The last read had all there was. What it has answered is no longer in flight by now.
        let was_short = std::mem::take(&mut self.was_short);
        if was_short && !self.is_resting() && self.in_flight.load(Relaxed) >= MANY {
            self.lie_down()?;
        }
        if self.is_resting()
            && let Some(rest) = &mut self.rest
        {
            ready!(rest.as_mut().poll(cx));
        }
        let room = buffer.remaining();
        let mut read = self.read(cx, buffer);
        if read.is_pending() && self.is_resting() {
            // Whoever is in flight takes longer.
            self.get_up()?;
            read = self.read(cx, buffer);
        }
        ready!(read)?;
        // Less than there was room for is all there was.
        let bytes = room - buffer.remaining();
        self.was_short = (1..room).contains(&bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.write(cx, bytes);
        if written.is_pending() && self.is_resting() {
            self.get_up()?;
            return self.write(cx, bytes);
        }
        written
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_up()?;
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            _ => Poll::Ready(Ok(())),
        }
    }
}
