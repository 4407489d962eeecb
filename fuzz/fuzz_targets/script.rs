//! Scripts: parsed, compiled and walked.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pgdyno_script::fuzz_tests::script(data));
