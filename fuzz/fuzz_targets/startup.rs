//! The start of a session.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pgdyno_wire::fuzz_tests::startup(data));
