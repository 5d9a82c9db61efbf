//! Listening and connected sockets, TCP and Unix alike.

use std::{
    fs, io,
    net::SocketAddr,
    os::unix::{fs::PermissionsExt, net::UnixStream as StdUnixStream},
    path::Path,
    pin::Pin,
    task::{Context, Poll},
};

use hikyaku_vfs::{RealDisk, Vfs};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream},
};

/// Connections that wait to be accepted, for each listener.
const BACKLOG: i32 = 1024;

/// Binds `count` listeners to one address, among which the system spreads the connections. Where it
/// is to choose the port, the first listener's is everybody's.
pub(crate) fn listen(
    address: SocketAddr,
    count: usize,
) -> io::Result<(SocketAddr, Vec<std::net::TcpListener>)> {
    let mut bound = address;
    let mut listeners = Vec::with_capacity(count);
    for _ in 0..count {
        let socket = Socket::new(
            Domain::for_address(address),
            Type::STREAM,
            Some(Protocol::TCP),
        )?;
        socket.set_reuse_address(true)?;
        // Listeners that share a port would share it with another server of the same user too, so
        // the first does not until it has the port.
        socket.set_reuse_port(!listeners.is_empty())?;
        socket.bind(&bound.into())?;
        socket.set_reuse_port(true)?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        let listener = std::net::TcpListener::from(socket);
        bound = listener.local_addr()?;
        listeners.push(listener);
    }
    Ok((bound, listeners))
}

/// Binds a Unix socket that only its owner may connect to. A socket that nobody listens on any more
/// is replaced; any other file is left alone, and an error.
pub(crate) fn listen_unix(path: &Path) -> io::Result<std::os::unix::net::UnixListener> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    let address = SockAddr::unix(path)?;
    match socket.bind(&address) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            if !is_abandoned(path) {
                return Err(error);
            }
            RealDisk.remove(path)?;
            socket.bind(&address)?;
        }
        bound => bound?,
    }
    // Before it listens, nobody can connect.
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Tells whether a file is a socket that refuses connections.
fn is_abandoned(path: &Path) -> bool {
    StdUnixStream::connect(path)
        .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// A connection.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A connection on its way to another thread.
#[derive(Debug)]
pub(crate) enum Parcel {
    Tcp(std::net::TcpStream),
    Unix(StdUnixStream),
}

impl Stream {
    /// Takes the connection off this thread's loop.
    pub(crate) fn pack(self) -> io::Result<Parcel> {
        Ok(match self {
            Self::Tcp(stream) => Parcel::Tcp(stream.into_std()?),
            Self::Unix(stream) => Parcel::Unix(stream.into_std()?),
        })
    }

    /// Puts a connection on this thread's loop.
    pub(crate) fn unpack(parcel: Parcel) -> io::Result<Self> {
        Ok(match parcel {
            Parcel::Tcp(stream) => Self::Tcp(TcpStream::from_std(stream)?),
            Parcel::Unix(stream) => Self::Unix(UnixStream::from_std(stream)?),
        })
    }

    /// Tells whether who is there had to have the right to open a file of ours.
    pub(crate) fn is_unix(&self) -> bool {
        matches!(self, Self::Unix(_))
    }

    /// Sends without waiting, if the socket takes it.
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Unix(stream) => stream.try_write(bytes),
        }
    }

    /// Reads into a buffer; 0 bytes are the end.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        let polled = match self {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, &mut buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, &mut buffer),
        };
        polled.map_ok(|()| buffer.filled().len())
    }

    /// Writes a part of the bytes.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    /// Says that nothing more will be written.
    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
