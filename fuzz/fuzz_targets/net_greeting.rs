//! libFuzzer's program for `fuzz_targets::greeting::target`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::greeting::target(bytes));
