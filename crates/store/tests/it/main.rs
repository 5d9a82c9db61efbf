//! The rules as claims, and the suite over the naive store.

mod compare;
mod suite;
