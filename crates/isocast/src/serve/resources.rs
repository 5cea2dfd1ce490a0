//! What the machine lets this program use: memory and processors.
//!
//! Promise: the smallest of what the machine has, what its control groups allow (version 1 and 2, the group itself and those
//! above it), and what the process's own limits leave. Not here: sharing it out.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};
use units::ByteCount;

const CGROUPS: &str = "/sys/fs/cgroup";

/// Bytes of memory.
pub(crate) fn memory() -> ByteCount {
    let facts = rustix::system::sysinfo();
    let machine = facts.totalram.saturating_mul(u64::from(facts.mem_unit.max(1)));
    let own = [Resource::As, Resource::Data].into_iter().filter_map(|resource| getrlimit(resource).current);
    let groups = Groups::of_process().memory_limits();
    ByteCount(groups.into_iter().chain(own).fold(machine, u64::min))
}

/// Processors' worth of time per second, where a control group bounds it.
pub(crate) fn cpu_quota() -> Option<f64> {
    Groups::of_process().cpu_quotas().into_iter().reduce(f64::min)
}

/// The folders of this process's control groups, each with those above it.
struct Groups {
    /// Of version 2.
    unified: Vec<PathBuf>,
    /// Of version 1, with the controller's name.
    by_controller: Vec<(String, Vec<PathBuf>)>,
}

impl Groups {
    fn of_process() -> Self {
        Self::parse(&fs::read_to_string("/proc/self/cgroup").unwrap_or_default(), Path::new(CGROUPS))
    }

    /// From `/proc/self/cgroup` (cgroups(7)): lines of `number:controllers:path`, number 0 for version 2.
    fn parse(text: &str, mount: &Path) -> Self {
        let mut groups = Self { unified: Vec::new(), by_controller: Vec::new() };
        for line in text.lines() {
            let mut parts = line.splitn(3, ':');
            let (Some(number), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
                continue;
            };
            if number == "0" {
                // Beside version 1, version 2 is mounted one level lower.
                groups.unified = upwards(mount, path);
                groups.unified.extend(upwards(&mount.join("unified"), path));
            }
            for controller in controllers.split(',').filter(|name| !name.is_empty()) {
                groups.by_controller.push((controller.to_owned(), upwards(&mount.join(controller), path)));
            }
        }
        groups
    }

    fn memory_limits(&self) -> Vec<u64> {
        let unified = self.unified.iter().flat_map(|folder| [folder.join("memory.max"), folder.join("memory.high")]);
        let first = self.folders("memory").map(|folder| folder.join("memory.limit_in_bytes"));
        // "max" is no number, and version 1 says "no limit" by one beyond any machine.
        unified.chain(first).filter_map(|file| number(&file)).filter(|limit| *limit > 0).collect()
    }

    fn cpu_quotas(&self) -> Vec<f64> {
        let unified = self.unified.iter().filter_map(|folder| {
            let text = fs::read_to_string(folder.join("cpu.max")).ok()?;
            let (quota, period) = text.trim().split_once(' ')?;
            ratio(quota.parse().ok()?, period.parse().ok()?)
        });
        let first = self.folders("cpu").filter_map(|folder| {
            ratio(number(&folder.join("cpu.cfs_quota_us"))?, number(&folder.join("cpu.cfs_period_us"))?)
        });
        unified.chain(first).collect()
    }

    fn folders<'a>(&'a self, controller: &'a str) -> impl Iterator<Item = &'a PathBuf> {
        self.by_controller.iter().filter(move |(name, _)| name == controller).flat_map(|(_, folders)| folders)
    }
}

/// The folder of group `path` below `mount`, and those above it up to the mount. In a container the path may be the host's
/// while only its own part is mounted: the mount itself is that part.
fn upwards(mount: &Path, path: &str) -> Vec<PathBuf> {
    let group = mount.join(path.trim_start_matches('/'));
    group.ancestors().take_while(|folder| folder.starts_with(mount)).map(Path::to_owned).collect()
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[allow(clippy::cast_precision_loss, reason = "microseconds of a scheduling period")]
fn ratio(quota: u64, period: u64) -> Option<f64> {
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, file: &str, text: &str) {
        fs::create_dir_all(folder).expect("a folder");
        fs::write(folder.join(file), text).expect("a file");
    }

    #[test]
    fn the_smallest_limit_of_version_2_and_of_the_groups_above_counts() {
        let mount = tempfile::tempdir().expect("a folder");
        let slice = mount.path().join("system.slice");
        write(&slice, "memory.max", "1000000\n");
        write(&slice.join("isocast.service"), "memory.max", "max\n");
        write(&slice.join("isocast.service"), "memory.high", "900000\n");
        write(&slice.join("isocast.service"), "cpu.max", "150000 100000\n");
        write(&slice, "cpu.max", "max 100000\n");
        let groups = Groups::parse("0::/system.slice/isocast.service\n", mount.path());
        assert_eq!(groups.memory_limits().into_iter().min(), Some(900_000));
        assert_eq!(groups.cpu_quotas(), [1.5]);
    }

    #[test]
    fn version_1_has_a_folder_for_each_controller() {
        let mount = tempfile::tempdir().expect("a folder");
        write(&mount.path().join("memory/box"), "memory.limit_in_bytes", "268435456\n");
        write(&mount.path().join("memory"), "memory.limit_in_bytes", "9223372036854771712\n");
        write(&mount.path().join("cpu/box"), "cpu.cfs_quota_us", "-1\n");
        write(&mount.path().join("cpu/box"), "cpu.cfs_period_us", "100000\n");
        let groups = Groups::parse("7:memory:/box\n4:cpu,cpuacct:/box\n0::/\n", mount.path());
        assert_eq!(groups.memory_limits().into_iter().min(), Some(268_435_456));
        assert!(groups.cpu_quotas().is_empty(), "-1 is no limit");
    }

    #[test]
    fn in_a_container_the_mounted_part_is_looked_at() {
        let mount = tempfile::tempdir().expect("a folder");
        write(&mount.path().join("memory"), "memory.limit_in_bytes", "1048576\n");
        let groups = Groups::parse("3:memory:/docker/0123\n", mount.path());
        assert_eq!(groups.memory_limits(), [1_048_576]);
    }

    #[test]
    fn this_machine_has_some() {
        assert!(memory().0 > 1 << 20);
        assert!(cpu_quota().is_none_or(|quota| quota > 0.0));
    }
}
