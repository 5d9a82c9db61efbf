//! Bodies of fuzz targets: they take any bytes and must not panic.

pub use crate::memcached::testing::fuzz_memcached;
pub use crate::replication::testing::fuzz_replication_frames;
pub use crate::tyrant::testing::fuzz_tyrant;
