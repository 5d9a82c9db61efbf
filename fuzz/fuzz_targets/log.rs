//! Fuzzes the reader of a log file.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hikyaku_engine::testing::fuzz_log_reader(data));
