//! Memory that the system has to give, read before more is taken.
//!
//! Promise: a guess that errs on the safe side: a process that takes more than its control group allows is killed, not
//! refused. Reads files: not for the data plane's thread. Not here: how much memory the server is configured to take.

use std::fs;

use crate::control_groups::{ControlGroups, field};

/// Bytes that are always left to other processes.
const RESERVE_BYTES: u64 = 32 << 20;

/// Returns the bytes that can be taken now without pushing other processes out: the least of the memory left in the
/// machine and in each control group above this process.
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
