//! Fuzzes what a client sends over WebSocket.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hikyaku_server::testing::fuzz_websocket(data));
