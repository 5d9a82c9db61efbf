//! Tests of the log as its callers see it.

mod basic;
mod damage;
mod fixture;
mod hostile;
mod released;
mod simulation;
