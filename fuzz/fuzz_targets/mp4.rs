//! MP4 boxes and tables, plain and fragmented.

#![no_main]

use isocast_fuzz::probe_file;
use libfuzzer_sys::fuzz_target;

/// What a file of this kind begins with; the fuzzer writes the rest.
const BEGINNING: &[u8] = b"\0\0\0\x10ftypisom\0\0\0\0";

fuzz_target!(|data: &[u8]| probe_file(BEGINNING, data));
