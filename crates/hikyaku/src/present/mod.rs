//! What a command shows: events on standard output, progress on standard error, and reports.

mod audience;
mod backfill;
mod bans;
mod figures;
mod members;
mod progress;
mod reports;
mod sessions;

pub(crate) use audience::{Terminal, Total};
pub(crate) use backfill::backfill;
pub(crate) use figures::{bytes, duration, grouped, short};
pub(crate) use reports::{configuration, report};
