//! What nodes that share a store tell each other beside its events.

use std::{pin::Pin, sync::Arc};

use futures_core::Stream;

use crate::StoreError;

/// What other nodes tell, from the moment the stream was made. Ends when the store closes.
pub type Tidings = Pin<Box<dyn Stream<Item = Arc<str>> + Send>>;

/// A lease that this node has: resolves when it is lost, and is given back when it is dropped.
pub type Lease = Pin<Box<dyn Future<Output = ()> + Send>>;
/// Waits for a lease.
pub type LeaseFuture = Pin<Box<dyn Future<Output = Result<Lease, StoreError>> + Send>>;

/// The other nodes on the same store. What they tell each other is kept nowhere: each node that hears
/// now hears it once, in the order it was told; one that is cut off misses it.
pub trait Neighbours: Send + Sync {
    /// Tells all other nodes, and never waits. A text with a zero byte, and what can't be told for
    /// longer than a write is tried, is dropped.
    fn tell(&self, text: String);
    /// Hears what others tell from now on.
    fn hear(&self) -> Tidings;
    /// Waits until no other node has the lease of this name, and takes it. A node that ends, however
    /// it ends, loses its leases.
    fn lease(&self, name: &str) -> LeaseFuture;
}
