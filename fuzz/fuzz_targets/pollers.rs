//! Both pollers between a load and peers that write, read and end as they like.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pgdyno_engine::poller::fuzz_tests::pollers(data));
