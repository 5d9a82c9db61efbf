//! Whom some keys trust: those they follow (NIP-02), those whom these follow, and so on.

mod graph;
mod keys;
mod web;

pub(crate) use graph::DEPTH_MAX;
pub(crate) use web::TrustWeb;
