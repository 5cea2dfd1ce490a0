//! The yardstick for uploads: one plain writer with the disk to itself, which writes files one after the other, past
//! the page cache, each durable before the next begins. Results state the rate of uploads during streams as a share of its rate.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context;
use kernel::aligned::AlignedBlock;
use serde::{Deserialize, Serialize};
use units::limits::DIRECT_ALIGN;
use units::{Nanos, real};

use super::quantiles::Quantiles;
use super::{Stop, clock, lab_disk, scratch};

/// Time of measuring the yardstick.
pub(super) const YARDSTICK: Nanos = Nanos::from_secs(15);

const PIECE_BYTES: usize = 1024 * 1024;
/// Names used in turn, as the uploads do.
const NAMES: u64 = 8;

/// Figures of the writer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Yardstick {
    /// Bytes of one file.
    pub file_bytes: u64,
    /// Files made durable.
    pub files: u64,
    /// Bytes per second, 10^6.
    pub mb_per_s: f64,
    /// From opening a file to its being durable, ms.
    pub latency_ms: Quantiles,
    /// The head's work of the emulated disk meanwhile, if it is one.
    pub disk: Option<lab_disk::HeadShare>,
}

/// Writes files of `file_bytes` into `root`, on the emulated disk `lab` if there is one, for `span`, and removes them.
///
/// # Errors
/// The folder cannot be written, is full, or the benchmark was interrupted.
pub(crate) fn measure(
    root: &Path,
    lab: Option<&str>,
    file_bytes: u64,
    span: Nanos,
    stop: &Stop,
) -> anyhow::Result<Yardstick> {
    let folder =
        scratch::among_contents(root).context("a writer alone, as a yardstick (--no-yardstick: without it)")?;
    let memory = piece();
    let piece = memory.bytes();
    let before = lab.map(lab_disk::statistics).transpose()?;
    let start = clock::now();
    let mut took = Vec::new();
    for name in (0..NAMES).cycle() {
        stop.check()?;
        let begin = clock::now();
        if begin >= start + span {
            break;
        }
        let path = folder.path().join(format!("{name}.bin"));
        write_durably(&path, piece, file_bytes).with_context(|| format!("writing {}", path.display()))?;
        took.push(clock::now().saturating_sub(begin).as_millis_f64());
    }
    let (files, elapsed) = (u64::try_from(took.len())?, clock::now().saturating_sub(start));
    let disk = match (lab, before) {
        (Some(name), Some(before)) => lab_disk::head_share(&before, &lab_disk::statistics(name)?),
        _ => None,
    };
    Ok(Yardstick {
        file_bytes,
        files,
        mb_per_s: real(files * file_bytes) / elapsed.as_secs_f64().max(f64::MIN_POSITIVE) / 1e6,
        latency_ms: Quantiles::of(&mut took),
        disk,
    })
}

/// The bytes of one write.
fn piece() -> AlignedBlock {
    let mut memory = AlignedBlock::zeroed(PIECE_BYTES);
    memory.bytes_mut().fill(0x5a);
    memory
}

/// Writes a file of `file_bytes`, `piece` again and again, past the page cache, and makes it durable.
///
/// # Errors
/// It cannot be written.
pub(super) fn write_durably(path: &Path, piece: &[u8], file_bytes: u64) -> std::io::Result<()> {
    let direct = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).unwrap_or(0);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    // Where a file system has no direct I/O (tmpfs before 6.5), its users write through the page cache.
    let mut file = options.clone().custom_flags(direct).open(path).or_else(|_| options.open(path))?;
    let mut left = file_bytes;
    while left > 0 {
        let wanted = left.min(PIECE_BYTES as u64);
        // A direct write is a whole number of blocks; the surplus is cut off below.
        let bytes = usize::try_from(wanted.next_multiple_of(DIRECT_ALIGN)).unwrap_or(PIECE_BYTES).min(piece.len());
        file.write_all(&piece[..bytes])?;
        left -= wanted;
    }
    file.set_len(file_bytes)?;
    file.sync_all()?;
    debug_assert_eq!(fs::metadata(path)?.len(), file_bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_files_have_their_length_and_are_removed() {
        let root = tempfile::tempdir_in(".").unwrap();
        let memory = piece();
        let path = root.path().join("x");
        for bytes in [1, 4096, 10_000_000] {
            write_durably(&path, memory.bytes(), bytes).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().len(), bytes);
        }
        fs::remove_file(&path).unwrap();
        let found = measure(root.path(), None, 100_000, Nanos::from_millis(50), &Stop::default()).unwrap();
        assert!(found.files > 0 && found.mb_per_s > 0.0);
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_named() {
        let error = measure(Path::new("/proc/nowhere"), None, 1, Nanos::ZERO, &Stop::default()).unwrap_err();
        assert!(format!("{error:#}").contains("/proc/nowhere"));
    }
}
