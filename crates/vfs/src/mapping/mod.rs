//! Mappings of files, read-only and shared by writers: the one place with unsafe code.

mod racing;
mod read_only;
mod shared;

pub(crate) use read_only::map_read_only;
pub(crate) use shared::{Backing, Memory};
pub use shared::{MappedFile, Window};
