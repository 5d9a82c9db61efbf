//! Fuzzes what a client says in memcached's text protocol.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hikyaku_table_server::testing::fuzz_memcached(data));
