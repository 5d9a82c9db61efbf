//! What tests of stores and of their users need: a naive store, the suite that every store must
//! pass, a comparison of two stores over random histories, and ways to ask without a runtime.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    reason = "test code: a broken assumption shall panic, and a claim owns its store"
)]

mod block_on;
mod blocking;
mod compare;
mod dice;
mod draft;
mod history;
mod naive;
pub mod suite;

pub use block_on::block_on;
pub use blocking::{Answer, Blocking, feed_until, read_to_end};
pub use compare::{chosen_seeds, compare, compare_answers, for_each_seed};
pub use dice::Dice;
pub use draft::{Draft, draft, key};
pub use history::{History, LONG_NAME};
pub use naive::NaiveStore;
