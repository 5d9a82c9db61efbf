//! Fuzzes the reader of a fixed table's file, and what changes it.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hikyaku_tables::testing::fuzz_fixed_table(data));
