//! Members, and whom they invite (NIP-43).
//!
//! Who is a member is what the relay has said by its own events in the store: added (kind 8000) and
//! removed (kind 8001). So it outlives the process, and all nodes of a store agree on it.

mod invitation;
mod members;
mod roll;

pub(crate) use members::{Answer, JOIN, LEAVE, Membership};
