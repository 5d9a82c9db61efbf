//! What nodes tell each other beside the events: on a channel of its own, in notifications of at most
//! 8,000 bytes, each piece with its sender and its number, so that what is sent again is heard once.

mod heard;
mod lease;
mod piece;
mod speaker;

pub(crate) use heard::Heard;
pub(crate) use lease::lease;
pub(crate) use speaker::Speaker;

use crate::schema::SchemaName;

/// Returns the channel on which a schema's nodes tell each other what is in no table.
pub(crate) fn channel(schema: &SchemaName) -> String {
    format!("hikyaku_{}_nodes", schema.as_str())
}
