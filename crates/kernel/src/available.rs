//! How much memory the system has to give, asked before more is taken.
//!
//! Promise: a guess that errs on the safe side: whoever takes more than a control group allows is killed, not refused.
//! Not here: how much memory the server is configured to take.

use std::fs;
use std::path::{Path, PathBuf};

/// What is always left to others.
const RESERVE_BYTES: u64 = 32 << 20;

/// Bytes that can be taken now without pushing anybody out: the least of what the machine and each control group above
/// this process (version 1 and 2) have left.
pub(crate) fn available_bytes() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| field(&text, "MemAvailable:"));
    let machine = machine.map_or(u64::MAX, |kibibytes| kibibytes * 1024);
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    left_in_groups(&groups, Path::new("/sys/fs/cgroup")).fold(machine, u64::min).saturating_sub(RESERVE_BYTES)
}

/// What is left in each group named in the text of `/proc/self/cgroup` and in those above it.
fn left_in_groups(text: &str, mount: &Path) -> impl Iterator<Item = u64> {
    let folders: Vec<PathBuf> = text
        .lines()
        .filter_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            let own = if number == "0" {
                mount.to_owned()
            } else if controllers.split(',').any(|name| name == "memory") {
                mount.join("memory")
            } else {
                return None;
            };
            let group = own.join(path.trim_start_matches('/'));
            Some(
                group.ancestors().take_while(|folder| folder.starts_with(&own)).map(Path::to_owned).collect::<Vec<_>>(),
            )
        })
        .flatten()
        .collect();
    folders.into_iter().filter_map(|folder| left_in(&folder))
}

/// None where the group has no limit.
fn left_in(folder: &Path) -> Option<u64> {
    let number = |name: &str| fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
    let limit = number("memory.max").or_else(|| number("memory.limit_in_bytes"))?;
    let used = number("memory.current").or_else(|| number("memory.usage_in_bytes"))?;
    // Cached files are given up before anybody is refused.
    let stat = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let cached = field(&stat, "inactive_file").unwrap_or(0) + field(&stat, "active_file").unwrap_or(0);
    Some(limit.saturating_sub(used.saturating_sub(cached)))
}

/// The number behind `name` in lines of names and numbers.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name).filter(|rest| rest.starts_with(' ')))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(folder: &Path, files: &[(&str, &str)]) {
        fs::create_dir_all(folder).unwrap();
        files.iter().for_each(|(name, text)| fs::write(folder.join(name), text).unwrap());
    }

    #[test]
    fn the_tightest_group_counts_without_its_cached_files() {
        let mount = tempfile::tempdir().unwrap();
        let slice = mount.path().join("a.slice");
        let stat = "anon 5\ninactive_file 300\nactive_file 100\nactive_file_x 9\n";
        group(&slice, &[("memory.max", "1000\n"), ("memory.current", "900\n"), ("memory.stat", stat)]);
        group(&slice.join("b"), &[("memory.max", "max\n"), ("memory.current", "800\n")]);
        let left: Vec<u64> = left_in_groups("0::/a.slice/b\n", mount.path()).collect();
        assert_eq!(left, [500]);
        group(&mount.path().join("memory/c"), &[("memory.limit_in_bytes", "70"), ("memory.usage_in_bytes", "80")]);
        let left: Vec<u64> = left_in_groups("4:cpu,memory:/c\n3:pids:/c\n0::/\n", mount.path()).collect();
        assert_eq!(left, [0], "used up");
    }

    #[test]
    fn this_machine_has_some() {
        assert!(available_bytes() > 0);
    }
}
