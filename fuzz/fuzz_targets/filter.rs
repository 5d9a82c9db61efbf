//! Fuzzes the JSON of a filter.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hikyaku_event::testing::fuzz_filter(data));
