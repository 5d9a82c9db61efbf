//! Sessions of browsers: who has logged in, for how long, and who is not believed any more.
//!
//! A session is a text that the browser keeps and that only a server with the secret can have made. It
//! is good until it ends, unless it was revoked: what was revoked is in memory, and kept where it
//! outlasts the server: in a table ([`Sessions::in_table`]) or wherever a [`SessionKeeper`] puts it.
//! What requests have to do with sessions is in [`crate::http`].

mod keeper;
mod records;
mod table;
mod token;

pub use keeper::{SessionError, SessionKeeper, SessionOptions, Sessions, WhoseSessions};
pub(crate) use token::Token;
