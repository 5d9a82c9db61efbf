//! Tests of the log by itself.

mod basic;
mod damage;
mod disk;
mod files;
mod fixture;
mod released;
mod simulation;
mod threads;
mod through;
