//! Bodies of fuzz targets: they take any bytes and must not panic.

pub use crate::{log::testing::fuzz_update_log, tcf::testing::fuzz_tcf_reader};
