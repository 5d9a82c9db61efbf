//! Fuzzes the reader of a hash or ordered table's journal.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hikyaku_tables::testing::fuzz_keyed_journal(data));
