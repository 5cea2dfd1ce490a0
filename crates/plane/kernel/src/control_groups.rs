//! The control groups this process is in, with those above it (versions 1 and 2): their limits, and the rest of them.
//!
//! Promise: reads the kernel's files and guesses nothing; a group without a limit bounds nothing. Reads files: not for the
//! data plane's thread. Not here: the memory and processors of the machine itself.

use std::fs;
use std::path::{Path, PathBuf};

const MOUNT: &str = "/sys/fs/cgroup";

/// The folders of a process's control groups, each with those above it.
#[derive(Debug)]
pub struct ControlGroups {
    /// Of version 2.
    unified: Vec<PathBuf>,
    /// Of version 1, with the controller's name.
    by_controller: Vec<(String, Vec<PathBuf>)>,
}

impl ControlGroups {
    /// Returns the groups of this process; none where the kernel shows none.
    #[must_use]
    pub fn of_process() -> Self {
        Self::parse(&fs::read_to_string("/proc/self/cgroup").unwrap_or_default(), Path::new(MOUNT))
    }

    /// Parses `/proc/self/cgroup` (cgroups(7)): lines of `number:controllers:path`, number 0 for version 2.
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

    /// Returns the bytes of memory that the tightest of them allows.
    #[must_use]
    pub fn memory_limit(&self) -> Option<u64> {
        self.memory_folders().filter_map(|folder| memory_limit(folder)).min()
    }

    /// Returns the bytes of memory left in the group with the least. Cached files count as left: the kernel drops them
    /// before it refuses memory.
    #[must_use]
    pub fn memory_left(&self) -> Option<u64> {
        let left = |folder: &PathBuf| {
            let limit = memory_limit(folder)?;
            let used =
                number(&folder.join("memory.current")).or_else(|| number(&folder.join("memory.usage_in_bytes")))?;
            let stat = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
            let cached = field(&stat, "inactive_file").unwrap_or(0) + field(&stat, "active_file").unwrap_or(0);
            Some(limit.saturating_sub(used.saturating_sub(cached)))
        };
        self.memory_folders().filter_map(left).min()
    }

    /// Returns the processors' worth of time per second that the tightest of them allows.
    #[must_use]
    pub fn cpu_quota(&self) -> Option<f64> {
        let unified = self.unified.iter().filter_map(|folder| {
            let text = fs::read_to_string(folder.join("cpu.max")).ok()?;
            let (quota, period) = text.trim().split_once(' ')?;
            ratio(quota.parse().ok()?, period.parse().ok()?)
        });
        let first = self.folders("cpu").filter_map(|folder| {
            ratio(number(&folder.join("cpu.cfs_quota_us"))?, number(&folder.join("cpu.cfs_period_us"))?)
        });
        unified.chain(first).reduce(f64::min)
    }

    fn memory_folders(&self) -> impl Iterator<Item = &PathBuf> {
        self.unified.iter().chain(self.folders("memory"))
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

fn memory_limit(folder: &Path) -> Option<u64> {
    // "max" is no number, and "no limit" of version 1 is one beyond any machine.
    let files = ["memory.max", "memory.high", "memory.limit_in_bytes"];
    files.into_iter().filter_map(|file| number(&folder.join(file))).filter(|limit| *limit > 0).min()
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// The number behind `name` in lines of names and numbers.
pub(crate) fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name).filter(|rest| rest.starts_with(' ')))?;
    line.split_whitespace().next()?.parse().ok()
}

#[allow(clippy::cast_precision_loss, reason = "microseconds of a scheduling period")]
fn ratio(quota: u64, period: u64) -> Option<f64> {
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(folder: &Path, files: &[(&str, &str)]) {
        fs::create_dir_all(folder).expect("a folder");
        files.iter().for_each(|(name, text)| fs::write(folder.join(name), text).expect("a file"));
    }

    #[test]
    fn the_smallest_limit_of_version_2_and_of_the_groups_above_counts() {
        let mount = tempfile::tempdir().expect("a folder");
        let slice = mount.path().join("system.slice");
        group(&slice, &[("memory.max", "1000000\n"), ("cpu.max", "max 100000\n")]);
        let service = [("memory.max", "max\n"), ("memory.high", "900000\n"), ("cpu.max", "150000 100000\n")];
        group(&slice.join("isocast.service"), &service);
        let groups = ControlGroups::parse("0::/system.slice/isocast.service\n", mount.path());
        assert_eq!(groups.memory_limit(), Some(900_000));
        assert_eq!(groups.cpu_quota(), Some(1.5));
    }

    #[test]
    fn version_1_has_a_folder_for_each_controller() {
        let mount = tempfile::tempdir().expect("a folder");
        group(&mount.path().join("memory/box"), &[("memory.limit_in_bytes", "268435456\n")]);
        group(&mount.path().join("memory"), &[("memory.limit_in_bytes", "9223372036854771712\n")]);
        group(&mount.path().join("cpu/box"), &[("cpu.cfs_quota_us", "-1\n"), ("cpu.cfs_period_us", "100000\n")]);
        let groups = ControlGroups::parse("7:memory:/box\n4:cpu,cpuacct:/box\n0::/\n", mount.path());
        assert_eq!(groups.memory_limit(), Some(268_435_456));
        assert_eq!(groups.cpu_quota(), None, "-1 is no limit");
    }

    #[test]
    fn in_a_container_the_mounted_part_is_looked_at() {
        let mount = tempfile::tempdir().expect("a folder");
        group(&mount.path().join("memory"), &[("memory.limit_in_bytes", "1048576\n")]);
        let groups = ControlGroups::parse("3:memory:/docker/0123\n", mount.path());
        assert_eq!(groups.memory_limit(), Some(1_048_576));
    }

    #[test]
    fn memory_left_leaves_out_cached_files() {
        let mount = tempfile::tempdir().expect("a folder");
        let slice = mount.path().join("a.slice");
        let stat = "anon 5\ninactive_file 300\nactive_file 100\nactive_file_x 9\n";
        group(&slice, &[("memory.max", "1000\n"), ("memory.current", "900\n"), ("memory.stat", stat)]);
        group(&slice.join("b"), &[("memory.max", "max\n"), ("memory.current", "800\n")]);
        assert_eq!(ControlGroups::parse("0::/a.slice/b\n", mount.path()).memory_left(), Some(500));
        group(&mount.path().join("memory/c"), &[("memory.limit_in_bytes", "70"), ("memory.usage_in_bytes", "80")]);
        let groups = ControlGroups::parse("4:cpu,memory:/c\n3:pids:/c\n0::/\n", mount.path());
        assert_eq!(groups.memory_left(), Some(0), "used up");
    }
}
