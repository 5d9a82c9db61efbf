//! Bodies of fuzz targets: they take any bytes and must not panic.

pub use crate::{
    fixed::testing::fuzz_fixed_table,
    keyed::testing::{fuzz_keyed_journal, fuzz_keyed_table},
    log::testing::fuzz_update_log,
    set::testing::fuzz_checkpoint,
    spec::testing::fuzz_table_text,
    tcf::testing::fuzz_tcf_reader,
};
