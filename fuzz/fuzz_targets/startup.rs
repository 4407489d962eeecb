//! The start of a session.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pgdyno_wire::fuzz::startup(data));
