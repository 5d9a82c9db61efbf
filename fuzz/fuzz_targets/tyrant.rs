//! Fuzzes Tokyo Tyrant's binary protocol.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hikyaku_table_server::testing::fuzz_tyrant(data));
