//! Meta commands: `mg`, `ms`, `md`, `ma`, `me`; and the modes of `ms` that rotate.

mod arithmetic;
mod commands;
mod flags;
mod get;
mod set;

use flags::LONG_OPAQUE;

pub(super) use commands::{count_get, count_meta};
pub(super) use flags::{Command, Meta};

use hikyaku_tables::{Outcome, TableError};

use super::reply::{error_line, line};

/// How a meta command is answered, kept until its outcome is there.
#[derive(Debug)]
pub(super) struct MetaReply {
    pub(super) command: Command,
    pub(super) meta: Meta<'static>,
}

/// What an answer's flags tell of a record.
#[derive(Debug, Clone, Copy, Default)]
struct Facts {
    flags: u32,
    size: usize,
    expires_at: u64,
    unique: u64,
    now: u64,
}

/// Writes the answer to a change.
pub(super) fn answer(
    command: Command,
    meta: &Meta<'_>,
    result: &Result<Outcome, TableError>,
    output: &mut Vec<u8>,
) {
    let outcome = match result {
        Ok(outcome) => *outcome,
        Err(error) => return line(&error_line(error), output),
    };
    let mut facts = Facts::default();
    let code: &[u8] = match outcome {
        Outcome::NotStored => b"NS",
        Outcome::Differs => b"EX",
        Outcome::NotFound => b"NF",
        Outcome::Number {
            value,
            unique,
            is_new,
        } => {
            facts.unique = unique;
            return changed_number(meta, (value, is_new), &facts, output);
        }
        Outcome::Stored { unique } => {
            facts.unique = unique;
            b"HD"
        }
        Outcome::Removed | Outcome::Integer(_) | Outcome::Double(_) => b"HD",
    };
    if code == b"HD" && meta.options.is_quiet {
        return;
    }
    output.extend_from_slice(code);
    let told = match command {
        Command::Set => command.told(),
        _ => b"kO",
    };
    meta.write_flags(told, &facts, output);
    output.extend_from_slice(b"\r\n");
}

/// Writes the answer to `ma` that has changed a number. That a record is new is told whoever is quiet.
fn changed_number(
    meta: &Meta<'_>,
    (value, is_new): (u64, bool),
    facts: &Facts,
    output: &mut Vec<u8>,
) {
    if meta.options.is_quiet && !is_new {
        return;
    }
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(value).as_bytes();
    if meta.options.wants_value {
        output.extend_from_slice(b"VA ");
        super::words::write_number(digits.len(), output);
    } else {
        output.extend_from_slice(b"HD");
    }
    meta.write_flags(Command::Arithmetic.told(), facts, output);
    output.extend_from_slice(b"\r\n");
    if meta.options.wants_value {
        output.extend_from_slice(digits);
        output.extend_from_slice(b"\r\n");
    }
}
