//! The body of the fuzz target, which also runs as a property test.

use std::sync::Arc;

use hikyaku_tables::{MemoryOptions, MemoryTable, Table};

use super::Session;
use crate::{rehearsal::Rehearsal, slow::Slow};

/// Bytes of a value in these rehearsals: few, so that they are met.
const VALUE_BYTES_MAX: usize = 64;

/// A line that lists keys is the longest that is kept.
const KEPT_BYTES_MAX: usize = 1024 * 1024;

/// Says bytes to the server, as they are and in pieces, to a table that answers at once and to one
/// that waits: nothing panics, the answers are the same, and afterwards the server is in step.
pub fn fuzz_memcached(bytes: &[u8]) {
    let whole = answers(&[bytes], false);
    let pieces: Vec<&[u8]> = bytes.chunks(3).collect();
    assert_eq!(
        whole,
        answers(&pieces, false),
        "the pieces make a difference"
    );
    assert_eq!(
        whole,
        answers(&pieces, true),
        "the table makes a difference"
    );
}

fn answers(pieces: &[&[u8]], waits: bool) -> (Vec<u8>, bool) {
    let memory = MemoryTable::new(MemoryOptions::default(), None);
    let table: Arc<dyn Table> = if waits {
        Arc::new(Slow(memory))
    } else {
        Arc::new(memory)
    };
    let mut server = Rehearsal::new(Session::default(), vec![("t".to_owned(), table)]);
    server.config.value_bytes_max = VALUE_BYTES_MAX;
    let mut answers = Vec::new();
    for piece in pieces {
        answers.extend(server.say(piece));
        assert!(server.is_closed() || server.kept_bytes() < KEPT_BYTES_MAX);
    }
    if !server.is_closed() {
        // Whatever was begun (a line, a block of the longest value) ends here.
        if server.protocol.is_within_request() {
            return (answers, false);
        }
        answers.extend(server.say(&[b'\n'; VALUE_BYTES_MAX + 2]));
        if !server.protocol.is_within_request() {
            let after = server.say(b"\r\nmn\r\n");
            assert!(after.ends_with(b"MN\r\n"), "out of step");
        }
    }
    (answers, server.is_closed())
}
