//! What requests cost, by their shape.
//!
//! A worker has a [`Ledger`] that only its thread writes: a request is named by its [`Shape`] (which
//! fields, how many values in rounded classes, which class of limit; never the values), and its
//! [`Cost`] is added to that shape's cells by plain stores. Whoever wants to know reads all ledgers
//! from any thread ([`Observations::snapshot`]). Shapes are few by construction and bounded in any
//! case: those that cost least give way, into one named "other".
//!
//! While a request is worked on, whoever makes a statement for it says so ([`statement`]), and what
//! waits for a connection too ([`connection_taken`]): the record is the thread's, put in place around
//! each poll ([`Statements::within`], [`observed`]), so a database's code needs to know nothing of
//! requests. The same statement from the same line again and again in one request is found that way.
//!
//! There is no clock here: times are arguments.

mod cells;
mod fingerprint;
mod histogram;
mod ledger;
mod shape;
mod since;
mod snapshot;
mod statements;

pub use histogram::Histogram;
pub use ledger::{Cost, Ending, Ledger, Observations, Phase, ShapeId};
pub use shape::{FilterShape, FilterShapes, Shape};
pub use snapshot::{
    NestedFigures, PhaseTimes, RepeatFigures, ShapeFigures, Snapshot, StatementFigures,
};
pub use statements::{
    REPEATS_MIN, Statements, connection_given_back, connection_taken, decoding, observed,
    statement, waited,
};
