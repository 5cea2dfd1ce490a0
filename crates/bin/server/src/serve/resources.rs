//! Memory and processors that the machine lets this program use.
//!
//! Promise: the smallest of the machine's resources, the bounds of its control groups, and the process's own limits.
//! Not here: sharing it out.

use kernel::control_groups::ControlGroups;
use rustix::process::{Resource, getrlimit};
use units::ByteCount;

/// Bytes of memory.
pub(crate) fn memory() -> ByteCount {
    let facts = rustix::system::sysinfo();
    let machine = facts.totalram.saturating_mul(u64::from(facts.mem_unit.max(1)));
    let own = [Resource::As, Resource::Data].into_iter().filter_map(|resource| getrlimit(resource).current);
    let groups = ControlGroups::of_process().memory_limit();
    ByteCount(own.chain(groups).fold(machine, u64::min))
}

/// Processors' worth of time per second, where a control group bounds it.
pub(crate) fn cpu_quota() -> Option<f64> {
    ControlGroups::of_process().cpu_quota()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_some() {
        assert!(memory().0 > 1 << 20);
        assert!(cpu_quota().is_none_or(|quota| quota > 0.0));
    }
}
