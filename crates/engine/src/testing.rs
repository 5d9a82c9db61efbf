//! Bodies of fuzz targets: they take any bytes and must not panic. And workouts: what parts cost.

pub use crate::log::testing::fuzz_log_reader;
pub use crate::segment::testing::{fuzz_segment_reader, measure_segments};
