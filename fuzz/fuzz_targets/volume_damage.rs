//! A volume whose disks lost, misplaced and damaged blocks: errors, never a panic, never wrong bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| isocast_fuzz::volumes::damaged(data));
