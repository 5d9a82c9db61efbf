//! The bodies of the fuzz targets; they run on stable as property tests.

use crate::websocket::{Decoder, Incoming, ProtocolError};

const MESSAGE_BYTES_MAX: usize = 1_000;

/// Decodes arbitrary bytes whole and in pieces: nothing panics, both give the same messages, and no
/// text is longer than it may be. The first byte says how long the pieces are.
pub fn fuzz_websocket(data: &[u8]) {
    let Some((length, stream)) = data.split_first() else {
        return;
    };
    let whole = decode(std::iter::once(stream));
    let pieces = decode(stream.chunks(usize::from(*length).max(1)));
    assert_eq!(whole, pieces, "the split makes a difference");
}

/// Takes arbitrary bytes for what PostgreSQL answers, whole and in two parts: nothing panics, and both
/// come to the same. The first byte says where they are parted.
#[cfg(feature = "postgres")]
pub fn fuzz_postgres_replies(data: &[u8]) {
    crate::postgres::fuzz_replies(data);
}

/// Returns what a stream holds, in words, and its first error.
fn decode<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<String>, Option<ProtocolError>) {
    let mut decoder = Decoder::new(MESSAGE_BYTES_MAX);
    let mut messages = Vec::new();
    for piece in pieces {
        let mut piece = piece.to_vec();
        let mut input = piece.as_mut_slice();
        loop {
            match decoder.next(&mut input) {
                Ok(None) => break,
                Ok(Some(message)) => {
                    if let Incoming::Text(text) = message {
                        assert!(
                            text.len() <= MESSAGE_BYTES_MAX,
                            "a message beyond the limit"
                        );
                    }
                    messages.push(format!("{message:?}"));
                }
                Err(error) => return (messages, Some(error)),
            }
        }
    }
    (messages, None)
}
