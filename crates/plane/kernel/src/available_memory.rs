//! Memory that the process can still take from the system.
//!
//! Promise: a conservative estimate, since the kernel kills a process that exceeds its control group's limit, and does not
//! refuse the memory. Reads files, so the data plane's thread must not call it. Not here: the configured memory of the server.

use std::fs;

use crate::control_groups::{ControlGroups, field};

/// Bytes that are left to other processes.
const RESERVE_BYTES: u64 = 32 << 20;

/// Returns the bytes that can be taken now without swapping out other processes: the least of the memory available in the
/// machine and in each control group of this process.
pub(crate) fn available_bytes() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| field(&text, "MemAvailable:"));
    let machine = machine.map_or(u64::MAX, |kibibytes| kibibytes * 1024);
    let groups = ControlGroups::of_process().memory_left().unwrap_or(u64::MAX);
    machine.min(groups).saturating_sub(RESERVE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_some() {
        assert!(available_bytes() > 0);
    }
}
