//! What a client hears of an update.

use std::sync::{Arc, atomic::AtomicBool};

use hikyaku_tables::{Outcome, TableError};

use super::{meta::MetaReply, words::write_number};
use crate::{exchange::Exchange, metrics::Count};

/// How an update is answered, kept until its outcome is there.
#[derive(Debug)]
pub(super) enum Reply {
    /// A command of the classic protocol.
    Classic(Asked, bool),
    /// A meta command.
    Meta(Box<MetaReply>),
    /// What a task has made is the answer.
    Made,
    /// So it is to `mg`; the task notes whether there was a record.
    MetaGet(Arc<AtomicBool>),
    /// `flush_all`, unless it is quiet.
    Flushed(bool),
}

/// What was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    Store,
    Cas,
    Delete,
    Increment,
    Decrement,
    Touch,
}

/// Writes a line.
pub(super) fn line(text: &str, output: &mut Vec<u8>) {
    output.extend_from_slice(text.as_bytes());
    output.extend_from_slice(b"\r\n");
}

/// Returns the line that tells a client of an error.
pub(super) fn error_line(error: &TableError) -> String {
    match error {
        TableError::KeyTooLong { .. } => "CLIENT_ERROR bad command line format".to_owned(),
        TableError::ValueTooLong { limit } => {
            format!("SERVER_ERROR object too large for cache: at most {limit} bytes")
        }
        TableError::NotANumber => {
            "CLIENT_ERROR cannot increment or decrement non-numeric value".to_owned()
        }
        TableError::Full => "SERVER_ERROR out of memory storing object".to_owned(),
        TableError::KeyNotANumber
        | TableError::KeyTooLarge { .. }
        | TableError::NoAttributes
        | TableError::OutOfRange
        | TableError::Entry
        | TableError::Unsupported { .. }
        | TableError::Syntax(_) => format!("CLIENT_ERROR {error}"),
        TableError::Io(_)
        | TableError::Corrupt(_)
        | TableError::Newer(_)
        | TableError::Stopped(_)
        | TableError::NotInLog { .. }
        | TableError::NotOpened(_)
        | TableError::InUse(_) => format!("SERVER_ERROR {error}"),
    }
}

/// Answers a command of the classic protocol.
pub(super) fn answer(
    asked: Asked,
    is_quiet: bool,
    result: &Result<Outcome, TableError>,
    exchange: &mut Exchange<'_>,
) {
    let result = match result {
        Ok(outcome) => outcome,
        Err(error) => {
            if matches!(error, TableError::Io(_) | TableError::Corrupt(_)) {
                tracing::warn!(%error, "an update has failed");
            }
            exchange.count(Count::Refused, 1);
            if !is_quiet {
                line(&error_line(error), exchange.output);
            }
            return;
        }
    };
    count(asked, result, exchange);
    if is_quiet {
        return;
    }
    let text: &[u8] = match (asked, *result) {
        (_, Outcome::NotStored) => b"NOT_STORED\r\n",
        (_, Outcome::Differs) => b"EXISTS\r\n",
        (_, Outcome::NotFound) => b"NOT_FOUND\r\n",
        (_, Outcome::Removed) => b"DELETED\r\n",
        (Asked::Touch, _) => b"TOUCHED\r\n",
        (_, Outcome::Stored { .. }) => b"STORED\r\n",
        (_, Outcome::Number { value, .. }) => {
            write_number(value, exchange.output);
            b"\r\n"
        }
        (_, Outcome::Integer(_) | Outcome::Double(_)) => b"OK\r\n",
    };
    exchange.output.extend_from_slice(text);
}

/// Counts what came of an update.
pub(super) fn count(asked: Asked, outcome: &Outcome, exchange: &Exchange<'_>) {
    let count = match (asked, outcome) {
        (Asked::Store, _) => return,
        (Asked::Cas, Outcome::NotFound) => Count::CasMisses,
        (Asked::Cas, Outcome::Differs) => Count::CasDiffers,
        (Asked::Cas, _) => Count::CasHits,
        (Asked::Delete, Outcome::Removed) => Count::DeleteHits,
        (Asked::Delete, _) => Count::DeleteMisses,
        (Asked::Increment, Outcome::Number { .. }) => Count::IncrementHits,
        (Asked::Increment, _) => Count::IncrementMisses,
        (Asked::Decrement, Outcome::Number { .. }) => Count::DecrementHits,
        (Asked::Decrement, _) => Count::DecrementMisses,
        (Asked::Touch, Outcome::NotFound) => Count::TouchMisses,
        (Asked::Touch, _) => Count::TouchHits,
    };
    exchange.count(count, 1);
}
