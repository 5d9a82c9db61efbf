//! Answers: which index proposes, what the others say, how streams are merged and filters made one
//! answer.

mod condition;
mod count;
mod cursor;
mod driver;
mod indexed;
mod keys;
mod merge;
mod place;
mod search;
mod statement;

pub(crate) use count::PostgresCount;
pub(crate) use cursor::PostgresCursor;
pub(crate) use keys::PostgresKeys;
