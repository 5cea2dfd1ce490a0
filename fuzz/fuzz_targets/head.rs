//! libFuzzer's program for `fuzz_targets::head::target`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::head::target(bytes));
