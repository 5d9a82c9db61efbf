//! The rules and limits as claims, and the suite and the comparison over the naive store.

mod compare;
mod limits;
mod rules;
mod suite;
