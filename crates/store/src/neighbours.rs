//! What nodes that share a store tell each other beside its events.

use std::{pin::Pin, sync::Arc};

use futures_core::Stream;

/// What other nodes tell, from the moment the stream was made. Ends when the store closes.
pub type Tidings = Pin<Box<dyn Stream<Item = Arc<str>> + Send>>;

/// The other nodes on the same store. What they tell each other is kept nowhere: each node that hears
/// now hears it once, in the order it was told; one that is cut off misses it.
pub trait Neighbours: Send + Sync {
    /// Tells all other nodes, and never waits. A text with a zero byte, and what can't be told for
    /// longer than a write is tried, is dropped.
    fn tell(&self, text: String);
    /// Hears what others tell from now on.
    fn hear(&self) -> Tidings;
}
