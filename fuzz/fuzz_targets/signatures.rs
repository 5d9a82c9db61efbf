//! Fuzzes a batch of signatures by what is done to them.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hikyaku_schnorr::testing::fuzz_batch(data));
