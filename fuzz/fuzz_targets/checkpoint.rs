//! Fuzzes the reader of a set of tables' checkpoint.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hikyaku_tables::testing::fuzz_checkpoint(data));
