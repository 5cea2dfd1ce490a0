//! `fill`: writes many files of zeros, each contiguous, spread over the whole disk. Zeros take no memory of the emulator.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use kernel::aligned::AlignedBlock;
use kernel::fiemap::extents;
use rustix::fs::FallocateFlags;

use super::control;
use super::state::Places;
use super::sys;

/// Fill the mounted disk with files of zeros; the emulated disk takes no time for that.
#[derive(Debug, Args)]
pub(crate) struct Fill {
    /// Name of the disk.
    #[arg(default_value = "disk0")]
    name: String,
    /// Number of files.
    #[arg(long)]
    files: u32,
    /// Size of each file, for example 256M.
    #[arg(long, value_parser = |text: &str| units::parse_size(text))]
    size: units::ByteCount,
    /// Spread the files evenly over the whole disk, with free space between; their numbers begin at the outer edge.
    #[arg(long)]
    spread: bool,
    /// Prefix of the files' names: PREFIX-0000.bin and so on.
    #[arg(long, default_value = "film")]
    prefix: String,
    /// Directory under the mount point, made if missing.
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

const PIECE: usize = 1 << 20;

impl Fill {
    pub(crate) fn run(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let places = Places::of(&self.name)?;
        let state = places.load().filter(|s| s.ready);
        let mount = state.and_then(|s| s.mount).with_context(|| {
            format!("disk `{0}` is not up with a file system; `isocast lab disk up {0}` first", self.name)
        })?;
        let below = self.directory.clone().unwrap_or_default();
        let directory = mount.join(&below);
        if below.is_absolute() || below.components().any(|c| c.as_os_str() == "..") {
            bail!(crate::wrong_usage("--directory is a path below the mount point"));
        }
        fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let timing = control::ask(&places, "stat")?;
        let was_on = timing.contains("\"timing\":\"model\"");
        control::ask(&places, "timing off")?;
        let result = self.fill(&mount, &directory);
        // Write dirty metadata to the disk before its timing is switched on again.
        let synced = File::open(&mount).and_then(|m| Ok(rustix::fs::syncfs(m)?)).context("cannot sync the disk");
        if was_on {
            control::ask(&places, "timing on; drop; reset")?;
        }
        let positions = result?;
        synced?;
        self.report(&positions, out)
    }

    fn fill(&self, mount: &Path, directory: &Path) -> anyhow::Result<Vec<(u64, usize)>> {
        let space = rustix::fs::statvfs(mount).context("statvfs")?;
        let free = space.f_bavail * space.f_frsize;
        let wanted = self.size.0.saturating_mul(u64::from(self.files));
        // A hundredth of the space stays free for the file system.
        let usable = free / 100 * 99;
        if wanted > usable {
            bail!("{} files of {} need {wanted} bytes; {usable} are free", self.files, self.size);
        }
        let room = if self.spread { usable / u64::from(self.files.max(1)) } else { self.size.0 };
        let unsorted = directory.join(".unsorted");
        fs::create_dir_all(&unsorted).context("cannot make the directory of files not yet in order")?;
        let made = self.make_files(directory, &unsorted, room);
        fs::remove_dir_all(&unsorted).context("cannot remove the directory of files not yet in order")?;
        made
    }

    /// Files first allocate the whole disk, and are truncated to their size when it is full: if files and gaps are allocated in
    /// turn, a file system sometimes leaves out a quarter of the disk, the slowest. The files are then named in their order on
    /// the disk.
    fn make_files(&self, directory: &Path, unsorted: &Path, room: u64) -> anyhow::Result<Vec<(u64, usize)>> {
        let mut files = Vec::new();
        let mut zeros = AlignedBlock::zeroed(PIECE);
        for index in 0..self.files {
            let path = unsorted.join(index.to_string());
            File::create(&path).with_context(|| format!("cannot make {}", path.display()))?;
            let file = sys::open_direct(&path, true).with_context(|| format!("cannot open {}", path.display()))?;
            self.write(&file, room, zeros.bytes_mut()).with_context(|| format!("cannot write {}", path.display()))?;
            let first = extents(file.as_fd())?.first().map_or(0, |extent| extent.physical);
            files.push((first, path, file));
        }
        files.sort_unstable_by_key(|(position, ..)| *position);
        let mut positions = Vec::new();
        for (index, (position, path, file)) in files.into_iter().enumerate() {
            file.set_len(self.size.0)?;
            file.sync_all()?;
            positions.push((position, extents(file.as_fd())?.len()));
            let name = directory.join(format!("{}-{index:04}.bin", self.prefix));
            fs::rename(&path, &name).with_context(|| format!("cannot name {}", name.display()))?;
        }
        Ok(positions)
    }

    /// Allocates `room` and writes zeros up to the file's size.
    fn write(&self, file: &File, room: u64, zeros: &mut [u8]) -> anyhow::Result<()> {
        rustix::fs::fallocate(file, FallocateFlags::empty(), 0, room)?;
        let mut at = 0;
        while at < self.size.0 {
            let length = usize::try_from(self.size.0 - at).unwrap_or(PIECE).min(PIECE);
            // Direct I/O writes whole blocks: the last piece may exceed the file's size, and is truncated with the room.
            let length = length.div_ceil(4096) * 4096;
            file.write_all_at(&zeros[..length], at)?;
            at += u64::try_from(length).unwrap_or(u64::MAX);
        }
        Ok(())
    }

    #[allow(clippy::cast_precision_loss, reason = "figures for people")]
    fn report(&self, positions: &[(u64, usize)], out: &mut dyn Write) -> anyhow::Result<()> {
        let starts: Vec<u64> = positions.iter().map(|p| p.0).collect();
        let (first, last) = (starts.first().copied().unwrap_or(0), starts.last().copied().unwrap_or(0));
        let widest_gap = starts.windows(2).map(|w| w[1] - w[0]).max().unwrap_or(0);
        let extents_max = positions.iter().map(|p| p.1).max().unwrap_or(0);
        if self.json {
            let filled = serde_json::json!({
                "files": self.files, "file_bytes": self.size.0, "first_position_bytes": first,
                "last_position_bytes": last, "widest_gap_bytes": widest_gap, "extents_max": extents_max,
            });
            return Ok(writeln!(out, "{filled:#}")?);
        }
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        Ok(writeln!(
            out,
            "{} files of {}, from {:.1} to {:.1} GiB, widest gap {:.1} GiB, at most {extents_max} extents each",
            self.files,
            self.size,
            gib(first),
            gib(last),
            gib(widest_gap),
        )?)
    }
}
