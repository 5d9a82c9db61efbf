//! Answering filters from a snapshot: by posting lists, newest first, under a budget.
//!
//! Inside one part a [`part_cursor::PartCursor`] drives by the cheapest field and checks the rest;
//! [`stream::FilterStream`] merges the parts of a snapshot, opening one only when its newest event
//! could be next; [`cursor`] merges the filters of a query and keeps their limits; [`count`] and
//! [`keys`] are the same walk without payloads.

pub(crate) mod count;
pub(crate) mod cursor;
pub(crate) mod keys;
mod part_cursor;
mod plan;
mod stream;
mod union;

pub(crate) use count::Count;
pub(crate) use cursor::Cursor;
pub(crate) use plan::Plan;
