//! Fuzzes the JSON of an event.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hikyaku_event::testing::fuzz_event(data));
