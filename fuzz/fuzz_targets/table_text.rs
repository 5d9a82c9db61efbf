//! Fuzzes the text that names a table, and that of an interval.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hikyaku_tables::testing::fuzz_table_text(data));
