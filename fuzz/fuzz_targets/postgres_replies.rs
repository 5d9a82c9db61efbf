//! Fuzzes what a database answers to plugins' statements.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hikyaku_server::testing::fuzz_postgres_replies(data));
