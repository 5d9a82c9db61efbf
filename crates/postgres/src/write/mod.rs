//! Writing: one transaction at a time for everything that waits, decided by the rules of `store` over
//! what the database says while nobody else can write.

mod apply;
mod copy;
mod load;
mod picture;
mod remove;
mod seen;
pub(crate) mod tags;
mod timeline;
mod transaction;
mod writer;

pub(crate) use load::event as event_of;
pub(crate) use writer::{Request, Writer};
