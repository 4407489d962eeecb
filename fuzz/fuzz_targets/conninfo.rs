//! Connection strings, password files and service files.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pgdyno_connect::fuzz_tests::conninfo(data));
