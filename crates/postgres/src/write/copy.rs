//! Many rows at once, by COPY: the server takes them as they come, without making arrays of them first.

use std::pin::Pin;

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::SinkExt;
use tokio_postgres::CopyInSink;

use crate::{
    PostgresError,
    columns::{Tie, Word},
    connection::Session,
};

/// From so many rows on, COPY costs less than a statement with arrays.
pub(super) const ROWS_MIN: usize = 256;

/// Sent at once. The driver's own writer sends 4 KiB, and each time wakes what sends them.
const PIECE_BYTES: usize = 64 * 1024;

/// The format's signature, no flags, and no more in the header.
const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
const END: i16 = -1;
const NULL: i32 = -1;

/// Rows on their way into a table, in the
/// [binary format](https://www.postgresql.org/docs/current/sql-copy.html).
pub(super) struct Copy {
    sink: Pin<Box<CopyInSink<Bytes>>>,
    piece: BytesMut,
}

impl Copy {
    /// Begins a `COPY ... FROM STDIN (FORMAT binary)`.
    ///
    /// What is sent meanwhile on the same connection comes behind it: the driver keeps the order in which
    /// statements were begun.
    pub(super) async fn begin(session: &Session, sql: &str) -> Result<Self, PostgresError> {
        let statement = session.prepared(sql).await?;
        Ok(Self {
            sink: Box::pin(session.client.copy_in(&statement).await?),
            piece: BytesMut::from(HEADER),
        })
    }

    /// Adds a row, whose columns `write` puts down.
    pub(super) async fn row(
        &mut self,
        columns: i16,
        write: impl FnOnce(&mut Columns<'_>),
    ) -> Result<(), PostgresError> {
        self.piece.put_i16(columns);
        write(&mut Columns(&mut self.piece));
        if self.piece.len() >= PIECE_BYTES {
            let piece = std::mem::replace(&mut self.piece, BytesMut::with_capacity(PIECE_BYTES));
            self.sink.send(piece.freeze()).await?;
        }
        Ok(())
    }

    /// Ends it; returns how many rows there are.
    pub(super) async fn end(mut self) -> Result<u64, PostgresError> {
        self.piece.put_i16(END);
        self.sink.send(self.piece.freeze()).await?;
        Ok(self.sink.as_mut().finish().await?)
    }
}

/// The columns of a row, in their order.
pub(super) struct Columns<'a>(&'a mut BytesMut);

impl Columns<'_> {
    pub(super) fn bytes(&mut self, value: &[u8]) {
        // No message of the server's or to it is longer.
        self.0.put_i32(i32::try_from(value.len()).unwrap_or(NULL));
        self.0.put_slice(value);
    }

    pub(super) fn bigint(&mut self, value: i64) {
        self.bytes(&value.to_be_bytes());
    }

    pub(super) fn integer(&mut self, value: i32) {
        self.bytes(&value.to_be_bytes());
    }

    pub(super) fn boolean(&mut self, value: bool) {
        self.bytes(&[value.into()]);
    }

    pub(super) fn tie(&mut self, Tie(value): Tie) {
        self.bytes(&value.to_be_bytes());
    }

    pub(super) fn word(&mut self, Word(value): Word) {
        self.bytes(&value);
    }

    /// Puts down a value, if there is one.
    pub(super) fn nullable<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        match value {
            Some(value) => write(self, value),
            None => self.0.put_i32(NULL),
        }
    }
}
