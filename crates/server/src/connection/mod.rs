//! One WebSocket connection: its session, what it waits for, and what waits for it.

mod answering;
mod deciding;
mod made;
mod outbox;
mod publishing;
mod state;
mod turn;

pub(crate) use outbox::Gathered;
pub(crate) use turn::Connection;
