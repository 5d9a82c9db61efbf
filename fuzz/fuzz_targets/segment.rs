//! Fuzzes the reader of a segment file.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hikyaku_engine::testing::fuzz_segment_reader(data));
