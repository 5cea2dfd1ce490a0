//! libFuzzer's program for `fuzz_targets::volumes::forged`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::volumes::forged(bytes));
