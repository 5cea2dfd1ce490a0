//! Checks of folders: file system, mount options, fill, fragments of the contents.

use std::path::{Path, PathBuf};

use api::AlarmSeverity;

use super::FindingList;
use super::host::Examined;

/// Number of the largest contents whose fragments are counted.
const CONTENTS_MAX: usize = 64;
/// Most files that are searched for the largest contents.
const FILES_MAX: usize = 2_000;
/// Least mean length of fragments. Seeks between shorter ones add more than a tenth to the time of reading: a seek takes as
/// long as reading 1–2 MiB.
const FRAGMENT_BYTES_MIN: u64 = 16 << 20;
/// Least transfer size of NFS; each transfer costs a round trip.
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

/// Finds the file system in `/proc/self/mountinfo` (proc(5)): of the mounts at the longest path above the folder, the last.
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

pub(super) fn examine(list: &mut FindingList, host: &Examined, root: &Path) {
    let name = root.display().to_string();
    if let Some(mount) = mount_of(host, root) {
        mounted(list, &mount, &name);
        network_file_system(list, &mount, &name);
    }
    full(list, host, &name);
    fragmented(list, host, root, &name);
}

fn mounted(list: &mut FindingList, mount: &Mount, name: &str) {
    let remount = |options: &str| format!("mount -o remount,{options} {name}   (and in /etc/fstab)");
    if ["overlay", "btrfs", "zfs", "cifs", "9p", "vfat", "exfat"].contains(&mount.kind.as_str())
        || mount.kind.starts_with("fuse")
    {
        list.advice("file-system", name, format!("it is on {}", mount.kind))
            .why("positions on the disk are not known there, or reads go through a cache: each is taken for a seek of 12 ms, and the \
                  disk is promised to half as many streams")
            .mend(format!("isocast cp --alone {name} FOLDER   (on ext4 or XFS, and serve that instead)"));
    }
    if mount.has("ro") {
        list.advice("read-only", name, "it is mounted read-only")
            .why("every upload is refused (507); ext4 does so by itself after an error of the disk")
            .mend(format!("dmesg | grep -i 'remounting'; fsck, then {}", remount("rw")));
    }
    if mount.has("sync") || mount.has("strictatime") {
        let option = if mount.has("sync") { "sync" } else { "strictatime" };
        list.advice("mount-options", name, format!("it is mounted with `{option}`"))
            .why("each read and write causes a write to the journal, with a seek of 12 ms")
            .mend(remount("async,relatime"));
    }
    if mount.value("data") == Some("journal") {
        list.serious("mount-options", name, "it is mounted with `data=journal`")
            .why("ext4 then has no direct I/O: all bytes pass the page cache, which writes them at times of its own, and twice")
            .mend(format!("tune2fs -o journal_data_ordered {}   (and mount it anew)", mount.source));
    }
    if mount.has("nobarrier") || mount.value("barrier") == Some("0") {
        list.serious("mount-options", name, "it is mounted without barriers")
            .why("a power cut loses acknowledged uploads: those in the drive's cache (up to 256 MiB)")
            .mend(remount("barrier"));
    }
}

fn network_file_system(list: &mut FindingList, mount: &Mount, name: &str) {
    if !mount.kind.starts_with("nfs") {
        return;
    }
    list.advice("nfs", name, format!("it is on {} ({})", mount.kind, mount.source))
        .why("the server cannot schedule the disk behind it, so it cannot guarantee a rate")
        .mend(format!("isocast serve --root FOLDER   (on the machine that has the disk: {})", mount.source));
    for option in ["rsize", "wsize"] {
        let bytes = mount.value(option).and_then(|bytes| bytes.parse::<u64>().ok());
        if let Some(bytes) = bytes.filter(|bytes| *bytes < NFS_BYTES_MIN) {
            let (per_second, mend) =
                (bytes * 2000, format!("mount -o remount,{option}=1048576 {name}   (server and client must allow it)"));
            list.serious("nfs", name, format!("`{option}` is {bytes} bytes"))
                .why(format!(
                    "with a round trip of 0.5 ms, transfers one after the other carry {} MB/s",
                    per_second / 1_000_000
                ))
                .mend(mend);
        }
    }
    if mount.value("proto") == Some("udp") || mount.value("vers").is_some_and(|version| version.starts_with('2')) {
        list.serious("nfs", name, "it is an old NFS, or one over UDP")
            .why("a transfer of 32 KiB has 22 packets: if one is lost, the whole transfer is repeated after a second")
            .mend(format!("umount {name}; mount -o vers=4.2,proto=tcp {} {name}", mount.source));
    }
    if mount.has("soft") {
        list.advice("nfs", name, "it is mounted `soft`")
            .why("if the NFS server is slow for a minute, reads fail and streams end")
            .mend(format!("umount {name}; mount -o hard {} {name}", mount.source));
    }
}

fn full(list: &mut FindingList, host: &Examined, name: &str) {
    let Some((percent, free)) = used(host, name) else { return };
    let severity = match percent {
        98.. => AlarmSeverity::Serious,
        90..98 => AlarmSeverity::Advice,
        _ => return,
    };
    list.add(severity, "nearly-full", name, format!("it is {percent} % full, {} free", units::ByteCount(free)))
        .why("contents written into the last tenth of the space are fragmented, with a seek of 12 ms for each fragment; uploads beyond it are refused with 507")
        .mend(format!("du -a {name} | sort -n | tail   (shows the largest: delete or move contents)"));
}

/// The percentage of a folder's file system that is in use, and the bytes that are free, by `df`.
fn used(host: &Examined, name: &str) -> Option<(u64, u64)> {
    let text = host.prints("df", &["-B1", "--output=size,avail", name])?;
    let numbers: Vec<u64> = text.lines().nth(1)?.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    let (size, free) = (*numbers.first()?, *numbers.get(1)?);
    Some((size.saturating_sub(free).saturating_mul(100).checked_div(size)?, free))
}

/// Checks the number of fragments of the largest contents, by `filefrag` of e2fsprogs.
fn fragmented(list: &mut FindingList, host: &Examined, root: &Path, name: &str) {
    let mut files: Vec<(u64, PathBuf)> =
        host.files(root, FILES_MAX).into_iter().filter_map(|path| Some((host.bytes(&path)?, path))).collect();
    files.retain(|(length, _)| *length > FRAGMENT_BYTES_MIN);
    files.sort_by(|a, b| b.cmp(a));
    files.truncate(CONTENTS_MAX);
    if !files.is_empty() && !host.has("filefrag") {
        list.not_looked_at(name, "`filefrag` is not installed", "apt-get install e2fsprogs");
        return;
    }
    let (mut bytes, mut pieces) = (0, 0);
    for (length, path) in &files {
        let text = host.prints("filefrag", &[&path.display().to_string()]).unwrap_or_default();
        let extents = text.rsplit_once(": ").and_then(|(_, said)| said.split(' ').next()?.parse::<u64>().ok());
        let Some(count) = extents else { continue };
        bytes += length;
        pieces += count.max(1);
    }
    // A file system splits long files into extents of 128 MiB anyway.
    if let Some(mean) = bytes.checked_div(pieces).filter(|mean| *mean < FRAGMENT_BYTES_MIN) {
        list.advice(
            "fragments",
            name,
            format!("its largest contents lie in pieces of {} on average", units::ByteCount(mean)),
        )
        .why("each piece costs a seek, which takes as long as reading 1–2 MiB: the disk carries fewer streams")
        .mend(format!(
            "e4defrag {name}   (XFS: xfs_fsr {name}; or copy them anew: isocast cp reserves their room at once)"
        ));
    }
}
