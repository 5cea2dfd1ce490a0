//! libFuzzer's program for `fuzz_targets::webdav::body`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::webdav::body(bytes));
