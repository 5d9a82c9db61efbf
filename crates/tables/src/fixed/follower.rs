//! Who has to know of every change while the whole table is being read: a copy, or a change of width.

use super::records::Records;

/// Follows the changes of a table. Both calls are made under the lock of the record's stripe.
pub(super) trait Follower: Send + Sync {
    /// A record of this block is about to change.
    fn before(&self, records: &Records, block: u64);
    /// A record is now this (`None`: it is gone).
    fn after(&self, index: u64, new: Option<&[u8]>);
}
