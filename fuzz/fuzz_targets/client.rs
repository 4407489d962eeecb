//! A client of the load against a server that says anything.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pgdyno_engine::fuzz_tests::client(data));
