//! Bodies of fuzz targets: they take any bytes and must not panic.

pub use crate::tcf::testing::fuzz_tcf_reader;
