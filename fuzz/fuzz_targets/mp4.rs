//! MP4 boxes and tables, plain and fragmented.

#![no_main]

use libfuzzer_sys::fuzz_target;
use store::probe::{Budget, probe};

/// What a file of this kind begins with; the fuzzer writes the rest.
const BEGINNING: &[u8] = b"\0\0\0\x10ftypisom\0\0\0\0";

fuzz_target!(|data: &[u8]| {
    let file = [BEGINNING, data].concat();
    let mut input = file.as_slice();
    if let Ok(media) = probe(&mut input, Budget::default()) {
        assert!(media.rate.0 > 0 && media.duration.0 > 0);
        assert!(media.preroll_bytes <= u64::try_from(file.len()).unwrap_or(u64::MAX));
    }
    // As it comes, so that real files serve as seeds.
    let mut input = data;
    let _ = probe(&mut input, Budget { bytes: 1 << 20, reads: 16 });
});
