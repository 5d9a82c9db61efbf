//! For tests and load generators: keys from a number, validly signed events, and the bodies of the
//! fuzz targets. Nothing here is fit for keys that matter.

mod author;
mod fuzz;

pub use author::{Author, EventBuilder};
pub use fuzz::{fuzz_event, fuzz_filter, fuzz_message};
