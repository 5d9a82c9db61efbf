//! What carries bytes to the database and back: a socket, or TLS on it.

use std::{
    error::Error,
    io,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::BytesMut;
use postgres_protocol::message::frontend;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio_postgres::{
    Config,
    config::{SslMode, SslNegotiation},
    tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream},
};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::socket::Socket;

type Encrypted = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;

/// A socket, or TLS on it.
pub(super) enum Wire {
    Plain(Socket),
    Encrypted(Box<Encrypted>),
}

impl Wire {
    /// Speaks TLS if the server does, and does not go on without where it must.
    pub(super) async fn encrypted(
        mut socket: Socket,
        config: &Config,
        mut tls: MakeRustlsConnect,
        host: &str,
    ) -> Result<Self, Box<dyn Error>> {
        if config.get_ssl_negotiation() == SslNegotiation::Postgres {
            let mut request = BytesMut::new();
            frontend::ssl_request(&mut request);
            socket.write_all(&request).await?;
            // This byte and none after it: nobody is to put words before what is encrypted.
            if socket.read_u8().await? != b'S' {
                if config.get_ssl_mode() == SslMode::Require {
                    return Err("the server does not support TLS".into());
                }
                return Ok(Self::Plain(socket));
            }
        }
        let connecting = MakeTlsConnect::<Socket>::make_tls_connect(&mut tls, host)?;
        Ok(Self::Encrypted(Box::new(connecting.connect(socket).await?)))
    }

    /// Returns what ties a log-in to the server's certificate.
    pub(super) fn channel_binding(&self) -> ChannelBinding {
        match self {
            Self::Plain(_) => ChannelBinding::none(),
            Self::Encrypted(stream) => stream.channel_binding(),
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_read(cx, buffer),
            Self::Encrypted(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_write(cx, bytes),
            Self::Encrypted(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Self::Encrypted(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Self::Encrypted(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
