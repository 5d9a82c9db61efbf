//! Segments: immutable inverted indexes over the documents (events) of a part of the log.
//!
//! A segment is bytes, in memory or mapped from a file, and read by the same code: the memtable is
//! a handful of small segments in memory, rebuilt by commits and merged into files. Documents are
//! numbered newest first ([`DocId`]), so every posting list is in the order of an answer. The format
//! is described byte by byte in `docs/format/segment.md`.
//!
//! Owned here: terms, building, merging, reading, verifying. Which segments there are, which of
//! their documents are tombstoned, and how queries combine them is the rest of the crate's concern.

mod build;
mod document;
mod error;
mod id_index;
mod layout;
mod merge;
mod read;
mod search;
mod term;
mod verify;
mod write;

#[cfg(any(test, feature = "testing"))]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
#[cfg(any(test, feature = "testing"))]
mod workout;

pub(crate) use build::build;
pub(crate) use document::{DocId, Document, Flags};
pub(crate) use error::SegmentError;
pub(crate) use merge::{MergeInput, MergeMap, merge};
pub(crate) use read::Segment;
pub(crate) use search::PostingList;
pub(crate) use term::{Families, Term, TermHasher};
pub(crate) use write::FileSink;
