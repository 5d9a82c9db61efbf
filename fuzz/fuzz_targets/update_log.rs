//! Fuzzes the reader of an update log's file.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hikyaku_tables::testing::fuzz_update_log(data));
