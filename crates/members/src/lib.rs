//! Who the members are: numbered densely as they appear, last seen, how many events of which kind
//! they wrote, and who looked at whose page. And a small fact about anybody: how fast a client has
//! been.
//!
//! Everything is in tables of `hikyaku-tables`: a fact about a member is a slot in an array, at the
//! member's number. No clock: the time is an argument.

mod counts;
mod error;
mod footprints;
mod members;
mod number;
mod rates;
mod registry;
mod sightings;

pub use error::MembersError;
pub use footprints::{FootprintLimits, Visit};
pub use members::{Member, MemberTables, Members};
pub use number::MemberNumber;
pub use rates::{Rate, RateLimits};
pub use sightings::{AddressFamily, Sighting};
