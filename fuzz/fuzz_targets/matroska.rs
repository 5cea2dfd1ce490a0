//! EBML elements, cues and clusters.

#![no_main]

use isocast_fuzz::probe_file;
use libfuzzer_sys::fuzz_target;

/// What a file of this kind begins with; the fuzzer writes the rest.
const BEGINNING: &[u8] = b"\x1a\x45\xdf\xa3\x80\x18\x53\x80\x67\x01\xff\xff\xff\xff\xff\xff\xff";

fuzz_target!(|data: &[u8]| probe_file(BEGINNING, data));
