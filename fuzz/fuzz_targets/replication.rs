//! Fuzzes what a replica reads from its source.

#![no_main]

libfuzzer_sys::fuzz_target!(
    |data: &[u8]| hikyaku_table_server::testing::fuzz_replication_frames(data)
);
