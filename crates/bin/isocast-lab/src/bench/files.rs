//! Files that benchmarks read: written durably, in memory or not.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;

use anyhow::Context;
use rustix::fs::{Advice, fadvise};

use super::Stop;

const PIECE_BYTES: usize = 1 << 20;

/// Writes a file of so many bytes, all of them `byte`.
///
/// # Errors
/// There is no room, or interrupted.
pub(super) fn write(path: &Path, bytes: u64, byte: u8, stop: &Stop) -> anyhow::Result<()> {
    let written = || format!("writing {}", path.display());
    let mut file = File::create(path).with_context(written)?;
    let piece = vec![byte; PIECE_BYTES];
    let mut left = bytes;
    while left > 0 {
        stop.check()?;
        let now = usize::try_from(left).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        file.write_all(&piece[..now]).with_context(written)?;
        left -= now as u64;
    }
    file.sync_all().with_context(written)
}

/// Writes a file of so many bytes that is not in memory any more.
///
/// # Errors
/// As [`write`].
pub(super) fn write_cold(path: &Path, bytes: u64, stop: &Stop) -> anyhow::Result<()> {
    write(path, bytes, 1, stop)?;
    set_cached(path, false)
}

/// Puts the file into memory, or takes it out.
///
/// # Errors
/// It cannot be read.
pub(super) fn set_cached(path: &Path, is_cached: bool) -> anyhow::Result<()> {
    if is_cached { Ok(fs::read(path).map(drop)?) } else { Ok(fadvise(File::open(path)?, 0, None, Advice::DontNeed)?) }
}

/// Opens the file and reads it to its end through `buffer`.
///
/// # Errors
/// It cannot be read.
pub(super) fn read_through(path: &Path, buffer: &mut [u8]) -> anyhow::Result<()> {
    let mut file = File::open(path)?;
    while file.read(buffer)? > 0 {}
    Ok(())
}
