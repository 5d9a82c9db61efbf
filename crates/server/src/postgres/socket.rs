//! The socket to the database, which reads answers in company.
//!
//! The database sends each statement's answer by itself. Who reads each as it comes is woken for every
//! one, and wakes the database's side as often. While many are in flight nobody waits for the single one,
//! so after a read that brought little the next one rests for a moment, in which more answers come.

use std::{
    cell::Cell,
    io,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream},
    time::{Sleep, sleep, timeout},
};
use tokio_postgres::{Config, config::Host};

/// Statements in flight from which on answers are gathered. One handler has fewer, or waits for all.
const MANY: usize = 24;
/// How long a read rests: the runtime's timers are no finer.
const REST: Duration = Duration::from_millis(1);
/// A read that brings more than this has found enough.
const ENOUGH_BYTES: usize = 4 * 1024;
/// PostgreSQL's port.
const PORT: u16 = 5432;

/// The two sorts of sockets.
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A socket, and how many statements are in flight on it.
pub(super) struct Socket {
    stream: Stream,
    in_flight: Rc<Cell<usize>>,
    rest: Option<Pin<Box<Sleep>>>,
}

impl Socket {
    /// Connects to the first of the configuration's hosts that can be reached.
    pub(super) async fn connect(config: &Config, in_flight: Rc<Cell<usize>>) -> io::Result<Self> {
        let mut result = Err(io::Error::other("the address names no host"));
        for (index, host) in config.get_hosts().iter().enumerate() {
            let ports = config.get_ports();
            let port = ports.get(index).or(ports.first()).copied().unwrap_or(PORT);
            result = match config.get_connect_timeout() {
                Some(time) => timeout(*time, Stream::connect(host, port, config))
                    .await
                    .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
                None => Stream::connect(host, port, config).await,
            };
            if result.is_ok() {
                break;
            }
        }
        Ok(Self {
            stream: result?,
            in_flight,
            rest: None,
        })
    }
}

impl Stream {
    async fn connect(host: &Host, port: u16, config: &Config) -> io::Result<Self> {
        match host {
            Host::Tcp(name) => {
                let stream = TcpStream::connect((name.as_str(), port)).await?;
                stream.set_nodelay(true)?;
                let socket = socket2::SockRef::from(&stream);
                socket.set_keepalive(config.get_keepalives())?;
                socket.set_tcp_user_timeout(config.get_tcp_user_timeout().copied())?;
                Ok(Self::Tcp(stream))
            }
            Host::Unix(folder) => {
                let path = folder.join(format!(".s.PGSQL.{port}"));
                Ok(Self::Unix(UnixStream::connect(path).await?))
            }
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(rest) = &mut self.rest {
            ready!(rest.as_mut().poll(cx));
            self.rest = None;
        }
        let before = buffer.filled().len();
        ready!(match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
        })?;
        let bytes = buffer.filled().len() - before;
        if self.in_flight.get() >= MANY && (1..ENOUGH_BYTES).contains(&bytes) {
            self.rest = Some(Box::pin(sleep(REST)));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
