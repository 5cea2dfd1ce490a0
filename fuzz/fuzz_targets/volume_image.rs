//! A volume whose superblocks, journal and headers say anything, with checksums that agree: errors, never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| isocast_fuzz::volumes::forged(data));
