//! Fuzzes the opening of a hash or ordered table's file.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hikyaku_tables::testing::fuzz_keyed_table(data));
