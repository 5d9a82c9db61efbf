//! Filling the index of tags with the names that were switched on later, while every node serves.
//!
//! A name is switched on under the writer's lock: from then on every writer indexes it. What was stored
//! before is indexed newest first, a batch at a time. A batch's events are read without any lock; then,
//! in one transaction under the writer's lock, the rows of those that are still there are written
//! together with the place where to go on. So whoever is killed, at whatever point, a batch is done
//! whole or not at all; and no event can go, or be hidden, between the look and the row.
//!
//! Any node does it, one at a time ([`work`]); an operator says what and how fast ([`Backfill`]).

mod operator;
mod status;
mod step;
mod work;

pub use operator::Backfill;
pub(crate) use operator::index_configured;
pub use status::{BackfillState, BackfillStatus, Pace};
pub(crate) use work::{WAKE, work};
