//! Fuzzes the reader of Tokyo Cabinet's fixed-length files.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hikyaku_tables::testing::fuzz_tcf_reader(data));
