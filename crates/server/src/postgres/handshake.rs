//! Being let in. The driver knows how (passwords, SCRAM, what a server may answer); what it has been
//! let in on is taken from it then, before it has read a byte of what is not the handshake's.

use std::{
    cell::RefCell,
    error::Error,
    future::{Ready, ready},
    io,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::{
    Config,
    config::{SslMode, SslNegotiation},
    tls::{ChannelBinding, TlsConnect, TlsStream},
};

use super::wire::Wire;

/// A message's tag and length.
const HEADER_BYTES: usize = 5;

/// Logs in; returns the same wire, on which the database waits for statements.
pub(super) async fn let_in(config: &Config, wire: Wire) -> Result<Wire, Box<dyn Error>> {
    let mut config = config.clone();
    // For the driver it is TLS in any case, made already: so it asks what binds the log-in to it.
    config
        .ssl_mode(SslMode::Require)
        .ssl_negotiation(SslNegotiation::Direct);
    let lent = Rc::new(RefCell::new(Lent {
        wire,
        header: [0; HEADER_BYTES],
        headed: 0,
        left: 0,
    }));
    let borrower = Borrower(Rc::clone(&lent));
    // Neither is ever polled: nothing is sent that says goodbye.
    drop(config.connect_raw(tokio::io::empty(), borrower).await?);
    let lent = Rc::into_inner(lent).ok_or("the driver keeps the connection")?;
    Ok(lent.into_inner().wire)
}

/// A wire that is read message by message.
struct Lent {
    wire: Wire,
    header: [u8; HEADER_BYTES],
    /// How much of a header has been read.
    headed: usize,
    /// How much is left of the message after it.
    left: usize,
}

impl Lent {
    fn room(&self) -> usize {
        if self.left > 0 {
            self.left
        } else {
            HEADER_BYTES - self.headed
        }
    }

    fn read(&mut self, bytes: &[u8]) {
        if self.left > 0 {
            self.left -= bytes.len().min(self.left);
            return;
        }
        for (place, byte) in self.header.iter_mut().skip(self.headed).zip(bytes) {
            *place = *byte;
        }
        self.headed += bytes.len();
        if self.headed >= HEADER_BYTES {
            let [_, a, b, c, d] = self.header;
            self.left = (u32::from_be_bytes([a, b, c, d]) as usize).saturating_sub(4);
            self.headed = 0;
        }
    }
}

/// What the driver has of a wire.
struct Borrower(Rc<RefCell<Lent>>);

impl<S> TlsConnect<S> for Borrower {
    type Stream = Self;
    type Error = io::Error;
    type Future = Ready<io::Result<Self>>;

    fn connect(self, _: S) -> Self::Future {
        ready(Ok(self))
    }
}

impl TlsStream for Borrower {
    fn channel_binding(&self) -> ChannelBinding {
        self.0.borrow().wire.channel_binding()
    }
}

impl AsyncRead for Borrower {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut lent = self.0.borrow_mut();
        let room = lent.room().min(buffer.remaining());
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(room));
        let read = Pin::new(&mut lent.wire).poll_read(cx, &mut part);
        lent.read(part.filled());
        let bytes = part.filled().len();
        buffer.advance(bytes);
        read
    }
}

impl AsyncWrite for Borrower {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0.borrow_mut().wire).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.borrow_mut().wire).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.borrow_mut().wire).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::UnixStream,
    };

    use super::*;
    use crate::postgres::socket::{Socket, Stream};

    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        [&[tag], &length[..], body].concat()
    }

    #[tokio::test]
    async fn no_byte_after_the_handshake_is_lost_and_none_is_sent() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let wire = Wire::Plain(Socket::new(Stream::Unix(near), Arc::default()));
        let config = "host=h user=u".parse::<Config>().unwrap();
        let greeting = [
            message(b'R', &[0, 0, 0, 0]),
            message(b'S', b"TimeZone\0UTC\0"),
            message(b'K', &[0; 8]),
            message(b'Z', b"I"),
            // It has more to say at once, and not yet all of it.
            message(b'S', b"TimeZone\0Asia/Tokyo\0"),
            vec![b'N', 0, 0],
        ];
        far.write_all(&greeting.concat()).await.unwrap();
        let mut wire = let_in(&config, wire).await.unwrap();

        let mut length = [0; 4];
        far.read_exact(&mut length).await.unwrap();
        let mut startup = vec![0; u32::from_be_bytes(length) as usize - 4];
        far.read_exact(&mut startup).await.unwrap();
        assert!(startup.windows(6).any(|part| part == b"user\0u"));
        wire.write_all(b"next").await.unwrap();
        let mut next = [0; 4];
        far.read_exact(&mut next).await.unwrap();
        assert_eq!(&next, b"next");

        let mut rest = vec![0; greeting[4].len() + greeting[5].len()];
        wire.read_exact(&mut rest).await.unwrap();
        assert_eq!(rest, greeting[4..].concat());
    }
}
