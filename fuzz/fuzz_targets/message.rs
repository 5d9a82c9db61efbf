//! Fuzzes the JSON of a message.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hikyaku_event::testing::fuzz_message(data));
