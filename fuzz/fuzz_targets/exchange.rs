//! Replies after start-up.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pgdyno_wire::fuzz_tests::exchange(data));
