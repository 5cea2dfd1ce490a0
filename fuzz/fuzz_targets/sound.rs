//! libFuzzer's program for `fuzz_targets::media_files::sound`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::media_files::sound(bytes));
