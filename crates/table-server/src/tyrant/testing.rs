//! The body of the fuzz target, which also runs as a property test.

use std::sync::Arc;

use hikyaku_tables::{MemoryOptions, MemoryTable, Table};

use super::Session;
use crate::rehearsal::Rehearsal;

/// Bytes of a value in these rehearsals: few, so that lists and answers meet their limits.
const VALUE_BYTES_MAX: usize = 256;

/// A name, a value and numbers.
const KEPT_BYTES_MAX: usize = 64 * 1024 * 2 + VALUE_BYTES_MAX + 32;

/// Says bytes to the server, once as they are and once in pieces: nothing panics, the answers are the
/// same, and no more is kept than a request may have.
pub fn fuzz_tyrant(bytes: &[u8]) {
    let whole = answers(&[bytes]);
    let pieces: Vec<&[u8]> = bytes.chunks(3).collect();
    assert_eq!(whole, answers(&pieces), "the answers depend on the pieces");
}

fn answers(pieces: &[&[u8]]) -> (Vec<u8>, bool) {
    let table: Arc<dyn Table> = Arc::new(MemoryTable::new(MemoryOptions::default(), None));
    let mut server = Rehearsal::new(Session::default(), vec![("t".to_owned(), table)]);
    server.config.value_bytes_max = VALUE_BYTES_MAX;
    let mut answers = Vec::new();
    for piece in pieces {
        answers.extend(server.say(piece));
        assert!(server.is_closed() || server.kept_bytes() < KEPT_BYTES_MAX);
    }
    (answers, server.is_closed())
}
