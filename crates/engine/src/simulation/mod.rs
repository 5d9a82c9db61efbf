//! The whole store on a simulated disk, without threads: every interleaving of commits, background
//! work, failures and crashes can be played, and follows from a seed.
//!
//! `HIKYAKU_SEEDS=N` plays more seeds; a failing one is printed, and `HIKYAKU_SEED=S` replays it.

mod crashes;
mod faults;
mod flips;
mod ledger;
mod life;
mod machine;
mod purges;
mod regressions;
