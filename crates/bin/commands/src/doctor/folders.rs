//! Folders: their file systems, how they are mounted, how full they are, how contents lie in them.

use std::path::{Path, PathBuf};

use super::host::Examined;
use super::{Finding, Severity, advice, finding, not_looked_at, serious};

/// Largest contents that are looked at for fragments.
const CONTENTS_MAX: usize = 64;
/// Files that are looked through for them.
const FILES_MAX: usize = 2_000;
/// Fragments shorter than this on average cost more than a tenth of reading them: a seek takes as long as 1–2 MiB.
const FRAGMENT_BYTES_MIN: u64 = 16 << 20;
/// Transfer sizes of NFS below this cost a round trip each.
const NFS_BYTES_MIN: u64 = 256 * 1024;

/// The file system that a folder lies on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mount {
    /// Major and minor number, with a colon.
    pub(super) device: String,
    pub(super) source: String,
    kind: String,
    options: Vec<String>,
}

/// Finds it in `/proc/self/mountinfo` (proc(5)): the last one mounted at the longest path above the folder.
pub(super) fn mount_of(host: &Examined, root: &Path) -> Option<Mount> {
    let text = host.read("/proc/self/mountinfo")?;
    let mounts = text.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let (before, after): (Vec<&str>, Vec<&str>) = (before.split(' ').collect(), after.split(' ').collect());
        // Blanks in paths are written as \040.
        let point = PathBuf::from(before.get(4)?.replace("\\040", " "));
        let options = before.get(5)?.split(',').chain(after.get(2)?.split(',')).map(str::to_owned).collect();
        let (kind, source) = ((*after.first()?).to_owned(), (*after.get(1)?).to_owned());
        Some((point, Mount { device: (*before.get(2)?).to_owned(), source, kind, options }))
    });
    let above = mounts.filter(|(point, _)| root.starts_with(point));
    above.max_by_key(|(point, _)| point.components().count()).map(|(_, mount)| mount)
}

impl Mount {
    fn has(&self, option: &str) -> bool {
        self.options.iter().any(|one| one == option)
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.options.iter().find_map(|one| one.strip_prefix(name)?.strip_prefix('='))
    }
}

pub(super) fn examine(host: &Examined, root: &Path) -> Vec<Finding> {
    let name = root.display().to_string();
    let mut found = Vec::new();
    if let Some(mount) = mount_of(host, root) {
        found.extend(mounted(&mount, &name));
        found.extend(network_file_system(&mount, &name));
    }
    found.extend(full(host, &name));
    found.extend(fragmented(host, root, &name));
    found
}

fn mounted(mount: &Mount, name: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let remount = |options: &str| format!("mount -o remount,{options} {name}   (and in /etc/fstab)");
    if ["overlay", "btrfs", "zfs", "cifs", "9p", "vfat", "exfat"].contains(&mount.kind.as_str())
        || mount.kind.starts_with("fuse")
    {
        found.push(advice(("file-system", name), [
            format!("it is on {}", mount.kind),
            "positions on the disk are not known there, or reads go through a cache: each is taken for a seek of 12 ms, and the \
             disk is promised to half as many streams".to_owned(),
            format!("isocast cp --alone {name} FOLDER   (on ext4 or XFS, and serve that instead)"),
        ]));
    }
    if mount.has("ro") {
        found.push(advice(
            ("read-only", name),
            [
                "it is mounted read-only".to_owned(),
                "every upload is refused (507); ext4 does so by itself after an error of the disk".to_owned(),
                format!("dmesg | grep -i 'remounting'; fsck, then {}", remount("rw")),
            ],
        ));
    }
    if mount.has("sync") || mount.has("strictatime") {
        let option = if mount.has("sync") { "sync" } else { "strictatime" };
        found.push(advice(
            ("mount-options", name),
            [
                format!("it is mounted with `{option}`"),
                "reads and writes cost a write to the journal each, which is a seek of 12 ms".to_owned(),
                remount("async,relatime"),
            ],
        ));
    }
    if mount.value("data") == Some("journal") {
        found.push(serious(("mount-options", name), [
            "it is mounted with `data=journal`".to_owned(),
            "ext4 then knows no direct I/O: all goes through the page cache, which writes when it likes, and everything twice".to_owned(),
            format!("tune2fs -o journal_data_ordered {}   (and mount it anew)", mount.source),
        ]));
    }
    if mount.has("nobarrier") || mount.value("barrier") == Some("0") {
        found.push(serious(
            ("mount-options", name),
            [
                "it is mounted without barriers".to_owned(),
                "a power cut loses acknowledged uploads: those in the drive's cache (up to 256 MiB)".to_owned(),
                remount("barrier"),
            ],
        ));
    }
    found
}

fn network_file_system(mount: &Mount, name: &str) -> Vec<Finding> {
    if !mount.kind.starts_with("nfs") {
        return Vec::new();
    }
    let mut found = vec![advice(
        ("nfs", name),
        [
            format!("it is on {} ({})", mount.kind, mount.source),
            "the disk behind is not ours to schedule: no rate can be guaranteed by counting its seeks".to_owned(),
            format!("isocast serve --root FOLDER   (on the machine that has the disk: {})", mount.source),
        ],
    )];
    for option in ["rsize", "wsize"] {
        let bytes = mount.value(option).and_then(|bytes| bytes.parse::<u64>().ok());
        if let Some(bytes) = bytes.filter(|bytes| *bytes < NFS_BYTES_MIN) {
            let (per_second, mend) =
                (bytes * 2000, format!("mount -o remount,{option}=1048576 {name}   (server and client must allow it)"));
            found.push(serious(
                ("nfs", name),
                [
                    format!("`{option}` is {bytes} bytes"),
                    format!("at 0.5 ms a round trip, one after the other carries {} MB/s", per_second / 1_000_000),
                    mend,
                ],
            ));
        }
    }
    if mount.value("proto") == Some("udp") || mount.value("vers").is_some_and(|version| version.starts_with('2')) {
        found.push(serious(("nfs", name), [
            "it is an old NFS, or one over UDP".to_owned(),
            "one lost packet of the 22 in a transfer of 32 KiB loses all of it, and a second passes before it is asked for again".to_owned(),
            format!("umount {name}; mount -o vers=4.2,proto=tcp {} {name}", mount.source),
        ]));
    }
    if mount.has("soft") {
        found.push(advice(
            ("nfs", name),
            [
                "it is mounted `soft`".to_owned(),
                "a server that is slow for a minute becomes an error of reading, and its streams end".to_owned(),
                format!("umount {name}; mount -o hard {} {name}", mount.source),
            ],
        ));
    }
    found
}

fn full(host: &Examined, name: &str) -> Option<Finding> {
    let text = host.prints("df", &["-B1", "--output=size,avail", name])?;
    let numbers: Vec<u64> = text.lines().nth(1)?.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    let (size, free) = (*numbers.first()?, *numbers.get(1)?);
    let percent = (size.saturating_sub(free)).saturating_mul(100).checked_div(size)?;
    let severity = match percent {
        98.. => Severity::Serious,
        90..98 => Severity::Advice,
        _ => return None,
    };
    Some(finding(severity, ("nearly-full", name), [
        format!("it is {percent} % full, {} free", units::ByteCount(free)),
        "contents written into the last tenth lie in many fragments, each a seek of 12 ms; the rest is refused with 507".to_owned(),
        format!("du -a {name} | sort -n | tail   (shows the largest: delete or move contents)"),
    ]))
}

/// Number of pieces of the largest contents, by `filefrag` of e2fsprogs.
fn fragmented(host: &Examined, root: &Path, name: &str) -> Option<Finding> {
    let mut files: Vec<(u64, PathBuf)> =
        host.files(root, FILES_MAX).into_iter().filter_map(|path| Some((host.bytes(&path)?, path))).collect();
    files.retain(|(length, _)| *length > FRAGMENT_BYTES_MIN);
    files.sort_by(|a, b| b.cmp(a));
    files.truncate(CONTENTS_MAX);
    if !files.is_empty() && !host.has("filefrag") {
        return Some(not_looked_at(name, "`filefrag` is not installed", "apt-get install e2fsprogs"));
    }
    let (mut bytes, mut pieces) = (0, 0);
    for (length, path) in &files {
        let text = host.prints("filefrag", &[&path.display().to_string()]).unwrap_or_default();
        let extents = text.rsplit_once(": ").and_then(|(_, said)| said.split(' ').next()?.parse::<u64>().ok());
        let Some(count) = extents else { continue };
        bytes += length;
        pieces += count.max(1);
    }
    let mean = bytes.checked_div(pieces)?;
    // A file system cuts long files into extents of 128 MiB by itself.
    (mean < FRAGMENT_BYTES_MIN).then(|| {
        advice(
            ("fragments", name),
            [
                format!("its largest contents lie in pieces of {} on average", units::ByteCount(mean)),
                "each piece costs a seek, as long as reading 1–2 MiB: the disk is promised to fewer streams".to_owned(),
                format!(
                    "e4defrag {name}   (XFS: xfs_fsr {name}; or copy them anew: isocast cp reserves their room at once)"
                ),
            ],
        )
    })
}
