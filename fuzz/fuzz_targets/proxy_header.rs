//! libFuzzer's program for `fuzz_targets::proxy_header::target`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::proxy_header::target(bytes));
