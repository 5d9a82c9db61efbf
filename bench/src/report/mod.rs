//! What a run says: a table for the terminal, JSON for whoever compares, a page for a browser.

mod chart;
mod comparison;
mod json;
mod machine;
mod model;
mod page;
mod progress;
mod score;
mod table;
mod terminal;

pub(crate) use model::{Output, Record, Report, Target};
pub(crate) use progress::Progress;
pub(crate) use score::Score;
pub(crate) use table::{Cell, Table};
pub(crate) use terminal::verdict;
