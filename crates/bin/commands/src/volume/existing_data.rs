//! File systems, partition tables and volumes that a disk holds already: a slip of the hand overwrites none of them.
//!
//! Promise: asks `blkid -p` where it is installed, which knows hundreds of formats, and looks for the most common marks itself.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};
use volumes::OpenDisk;

use super::disks::Purpose;

/// Name, position and bytes of a mark.
const MARKS: [(&str, u64, &[u8]); 17] = [
    ("an ext2, ext3 or ext4 file system", 0x438, &[0x53, 0xef]),
    ("an XFS file system", 0, b"XFSB"),
    ("a Btrfs file system", 0x1_0040, b"_BHRfS_M"),
    ("an F2FS file system", 1024, &[0x10, 0x20, 0xf5, 0xf2]),
    ("an NTFS file system", 3, b"NTFS    "),
    ("an exFAT file system", 3, b"EXFAT   "),
    ("a FAT file system", 54, b"FAT1"),
    ("a FAT file system", 82, b"FAT32"),
    ("an ISO 9660 file system", 0x8001, b"CD001"),
    ("swap space", 4086, b"SWAPSPACE2"),
    ("encrypted data (LUKS)", 0, b"LUKS\xba\xbe"),
    ("an LVM physical volume", 512, b"LABELONE"),
    ("a member of a RAID array", 4096, &[0xfc, 0x4e, 0x2b, 0xa9]),
    ("a member of a RAID array", 0, &[0xfc, 0x4e, 0x2b, 0xa9]),
    ("a partition table (GPT)", 512, b"EFI PART"),
    ("a partition table (MBR)", 510, &[0x55, 0xaa]),
    ("an Isocast volume", 0, b"ISOCAVOL"),
];

/// Opens a disk to be overwritten.
///
/// # Errors
/// It cannot be opened or read; it holds something and `force` does not say that this may be lost.
pub(super) fn open_to_overwrite(path: &Path, force: bool) -> anyhow::Result<OpenDisk> {
    let disk = OpenDisk::open(path, Purpose::Write)?;
    let held = occupant(&disk).with_context(|| format!("cannot read {}", path.display()))?;
    if let Some(held) = held.filter(|_| !force) {
        bail!("{} holds {held}: choose another disk, or say --force to lose it", path.display());
    }
    Ok(disk)
}

/// Description of the data on `disk`; `None` if it holds nothing that is known.
fn occupant(disk: &OpenDisk) -> std::io::Result<Option<String>> {
    let mut start = vec![0; 128 << 10];
    let there = usize::try_from(disk.size).unwrap_or(usize::MAX).min(start.len()) / 4096 * 4096;
    disk.read_at(0, &mut start[..there])?;
    let found = MARKS.iter().find(|(_, position, mark)| {
        let rest = usize::try_from(*position).ok().and_then(|position| start.get(position..));
        rest.is_some_and(|rest| rest.starts_with(mark))
    });
    Ok(found.map(|(name, _, _)| (*name).to_owned()).or_else(|| ask_blkid(disk)))
}

/// The type that `blkid` tells, if it is installed and knows one.
fn ask_blkid(disk: &OpenDisk) -> Option<String> {
    let output = Command::new("blkid").args(["-p", "-o", "export"]).arg(&disk.path).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key).map(str::to_owned));
    let table = value("PTTYPE=").map(|kind| format!("a partition table ({kind})"));
    value("TYPE=").map(|kind| format!("data of type {kind}")).or(table)
}
