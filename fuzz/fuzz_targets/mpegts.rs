//! Transport stream packets and clocks.

#![no_main]

use isocast_fuzz::probe_file;
use libfuzzer_sys::fuzz_target;

// Packets need no beginning.
fuzz_target!(|data: &[u8]| probe_file(&[], data));
