//! Source of calibration's reads: a block device, or files. Direct I/O into aligned memory; nothing is ever written.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::linux::fs::MetadataExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use rustix::fs::OFlags;
use units::Nanos;
use units::limits::DIRECT_ALIGN;

use super::DiskIdentity;

/// Most files that are read, and most entries that are looked at to find them.
const FILES_MAX: usize = 64;
const ENTRIES_MAX: usize = 20_000;
const DEPTH_MAX: usize = 6;
/// Least size of a file to read: times of a smaller one say little about its disk.
const FILE_BYTES_MIN: u64 = 8 << 20;
/// Text of the error for too few bytes to measure, or none.
pub(crate) const TOO_LITTLE: &str =
    "measuring takes a disk of 64 MiB or more, or files of 8 MiB or more each and 64 MiB together";
/// The largest single read.
const BUFFER_BYTES: u64 = 1 << 20;
/// Size of a read that no drive's limits cut.
const SMALL_BYTES: u64 = 4096;
/// Bytes of others' large reads that count as one request: those that a drive reads in the time of a short seek.
const OTHERS_RUN_BYTES: u64 = 512 << 10;

/// A disk that can be read and timed: a real one, or a model in tests.
pub trait Readable {
    /// Bytes that can be read from; positions go from 0 up to it.
    fn capacity(&self) -> u64;
    /// Reads `bytes` (both aligned) at `position` and gives the time it took.
    ///
    /// # Errors
    /// A place cannot be read.
    fn read(&mut self, position: u64, bytes: u64) -> io::Result<Nanos>;
    /// Reads `bytes` at each of `positions`, `depth` of them at a time, and gives the time all took.
    ///
    /// # Errors
    /// A place cannot be read.
    fn read_many(&mut self, positions: &[u64], bytes: u64, depth: usize) -> io::Result<Nanos>;
    /// Reads `bytes` at each of `positions` in turn, with `depth` reads in flight at a time, and gives the time at which
    /// each was there. Of the reads behind the first `least` none begins after `until`.
    ///
    /// # Errors
    /// A place cannot be read.
    fn read_run(&mut self, positions: &[u64], run: InTurn) -> io::Result<Vec<Nanos>>;
    /// Time since some fixed point.
    fn now(&self) -> Nanos;
    /// Requests that others made since the last call, about: large ones of theirs count as several. 0 where the kernel has no count.
    fn others(&mut self) -> u64 {
        0
    }
}

/// Parameters of [`Readable::read_run`].
#[derive(Debug, Clone, Copy)]
pub struct InTurn {
    /// Bytes of each read.
    pub bytes: u64,
    /// Reads in flight at a time.
    pub depth: usize,
    /// Number of reads that are made without regard to `until`.
    pub least: usize,
    /// Time to stop, by [`Readable::now`].
    pub until: Nanos,
}

/// All of a block device that is one disk.
#[derive(Debug)]
pub(crate) struct WholeDevice {
    file: File,
    /// Position of its first byte on the device.
    start: u64,
    capacity: u64,
    buffer: Buffer,
    opened: Instant,
    /// The kernel's count at the last look; `None` where it keeps none, as of an actuator's part of a drive.
    counted: Option<Count>,
    /// Requests made here since then.
    own: Count,
}

impl WholeDevice {
    pub(crate) fn open(path: &Path, disk: &DiskIdentity) -> io::Result<Self> {
        let (file, buffer) = (open_direct(path)?, Buffer::new(BUFFER_BYTES)?);
        let counted = if disk.range.is_none() { Count::of(&file) } else { None };
        let (start, capacity) = (disk.range.as_ref().map_or(0, |range| range.start), disk.capacity.0);
        Ok(Self { file, start, capacity, buffer, opened: Instant::now(), counted, own: Count::default() })
    }
}

/// Requests to a disk.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    reads: u64,
    read_bytes: u64,
    writes: u64,
}

impl Count {
    /// All since the machine started, as the kernel counts them for the whole disk (Documentation/block/stat.rst).
    fn of(device: &File) -> Option<Self> {
        let number = rustix::fs::fstat(device).ok()?.st_rdev;
        let text = fs::read_to_string(crate::sysfs::folder_of(number)?.join("stat")).ok()?;
        let fields: Vec<u64> = text.split_whitespace().map_while(|field| field.parse().ok()).collect();
        let (reads, read_bytes) = (*fields.first()?, fields.get(2)?.saturating_mul(512));
        Some(Self { reads, read_bytes, writes: *fields.get(4)? })
    }

    fn add_reads(&mut self, reads: usize, bytes: u64) {
        let reads = u64::try_from(reads).unwrap_or(u64::MAX);
        self.reads += reads;
        self.read_bytes += reads * bytes;
    }
}

/// Counts the requests between `before` and `after` that are not `own`. The kernel cuts large requests, so where some
/// were made here only the bytes serve: their number in runs of [`OTHERS_RUN_BYTES`].
fn others_between(before: Count, after: Count, own: Count) -> u64 {
    let read_bytes = (after.read_bytes - before.read_bytes).saturating_sub(own.read_bytes);
    let all_small = own.read_bytes <= own.reads * SMALL_BYTES;
    let reads = if all_small { (after.reads - before.reads).saturating_sub(own.reads) } else { 0 };
    after.writes - before.writes + reads.max(read_bytes / OTHERS_RUN_BYTES)
}

impl Readable for WholeDevice {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn read(&mut self, position: u64, bytes: u64) -> io::Result<Nanos> {
        self.own.add_reads(1, bytes);
        timed_read(&self.file, &mut self.buffer, self.start + position, bytes)
    }

    fn read_many(&mut self, positions: &[u64], bytes: u64, depth: usize) -> io::Result<Nanos> {
        self.own.add_reads(positions.len(), bytes);
        on_threads(positions, depth, |at, buffer| self.file.read_exact_at(buffer.aligned(bytes)?, self.start + at))
    }

    fn read_run(&mut self, positions: &[u64], run: InTurn) -> io::Result<Vec<Nanos>> {
        let read = |at, buffer: &mut Buffer| self.file.read_exact_at(buffer.aligned(run.bytes)?, self.start + at);
        let there = in_turn(positions, run, self.opened, read)?;
        self.own.add_reads(there.len(), run.bytes);
        Ok(there)
    }

    fn now(&self) -> Nanos {
        since(self.opened)
    }

    fn others(&mut self) -> u64 {
        let (own, before) = (std::mem::take(&mut self.own), self.counted);
        self.counted = before.and_then(|_| Count::of(&self.file));
        before.zip(self.counted).map_or(0, |(before, after)| others_between(before, after, own))
    }
}

/// The largest files of a folder, one after the other as if they were one disk.
#[derive(Debug)]
pub(crate) struct LargestFiles {
    /// Each with the position of its first byte.
    files: Vec<(u64, File)>,
    capacity: u64,
    buffer: Buffer,
    opened: Instant,
}

impl LargestFiles {
    /// Opens the largest files in `target` (or `target` itself, if it is a file).
    ///
    /// # Errors
    /// The reason in words: none is large enough, or direct I/O does not work there.
    pub(crate) fn open(target: &Path) -> Result<Self, String> {
        let mut refused = None;
        let mut files = Vec::new();
        let mut capacity = 0;
        for (bytes, path) in largest_files(target) {
            match open_direct(&path) {
                Ok(file) => {
                    files.push((capacity, file));
                    // Whole mebibytes, so that an aligned position in one file is aligned in all.
                    capacity += bytes >> 20 << 20;
                }
                Err(error) => refused = Some(error),
            }
        }
        let buffer = Buffer::new(BUFFER_BYTES).map_err(|error| error.to_string())?;
        match (files.is_empty(), refused) {
            (false, _) => Ok(Self { files, capacity, buffer, opened: Instant::now() }),
            (true, Some(error)) => Err(format!("its files cannot be read with direct I/O: {error}")),
            (true, None) => Err(TOO_LITTLE.to_owned()),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.files.len()
    }
}

/// Finds the file that holds `position` and the offset in it, moved back so that `bytes` of it follow.
fn locate(files: &[(u64, File)], capacity: u64, position: u64, bytes: u64) -> (&File, u64) {
    let index = files.partition_point(|(start, _)| *start <= position).saturating_sub(1);
    let (start, file) = &files[index];
    let end = files.get(index + 1).map_or(capacity, |(next, _)| *next);
    (file, position.min(end.saturating_sub(bytes)).saturating_sub(*start))
}

impl Readable for LargestFiles {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn read(&mut self, position: u64, bytes: u64) -> io::Result<Nanos> {
        let (file, offset) = locate(&self.files, self.capacity, position, bytes);
        timed_read(file, &mut self.buffer, offset, bytes)
    }

    fn read_many(&mut self, positions: &[u64], bytes: u64, depth: usize) -> io::Result<Nanos> {
        let one = |position, buffer: &mut Buffer| {
            let (file, offset) = locate(&self.files, self.capacity, position, bytes);
            file.read_exact_at(buffer.aligned(bytes)?, offset)
        };
        on_threads(positions, depth, one)
    }

    fn read_run(&mut self, positions: &[u64], run: InTurn) -> io::Result<Vec<Nanos>> {
        let one = |position, buffer: &mut Buffer| {
            let (file, offset) = locate(&self.files, self.capacity, position, run.bytes);
            file.read_exact_at(buffer.aligned(run.bytes)?, offset)
        };
        in_turn(positions, run, self.opened, one)
    }

    fn now(&self) -> Nanos {
        since(self.opened)
    }
}

/// Memory with an aligned part of [`BUFFER_BYTES`].
#[derive(Debug)]
struct Buffer(Vec<u8>);

impl Buffer {
    /// Touches all of it: page faults are not the disk's time.
    fn new(bytes: u64) -> io::Result<Self> {
        let bytes = usize::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        Ok(Self(vec![1; bytes + align()]))
    }

    fn aligned(&mut self, bytes: u64) -> io::Result<&mut [u8]> {
        let skip = self.0.as_ptr().align_offset(align());
        let bytes = usize::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        self.0.get_mut(skip..skip + bytes).ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }
}

fn align() -> usize {
    usize::try_from(DIRECT_ALIGN).unwrap_or(4096)
}

fn open_direct(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(OFlags::DIRECT.bits().cast_signed()).open(path)
}

fn since(start: Instant) -> Nanos {
    Nanos::from(start.elapsed())
}

fn timed_read(file: &File, buffer: &mut Buffer, position: u64, bytes: u64) -> io::Result<Nanos> {
    let memory = buffer.aligned(bytes)?;
    let start = Instant::now();
    file.read_exact_at(memory, position)?;
    Ok(since(start))
}

/// `read` for each of `positions`, by `depth` threads; the time from the first start to the last end.
fn on_threads<F>(positions: &[u64], depth: usize, read: F) -> io::Result<Nanos>
where
    F: Fn(u64, &mut Buffer) -> io::Result<()> + Sync,
{
    let next = AtomicUsize::new(0);
    let buffers = (0..depth).map(|_| Buffer::new(BUFFER_BYTES)).collect::<io::Result<Vec<_>>>()?;
    let start = Instant::now();
    let work = |mut buffer: Buffer| -> io::Result<()> {
        while let Some(&position) = positions.get(next.fetch_add(1, Ordering::Relaxed)) {
            read(position, &mut buffer)?;
        }
        Ok(())
    };
    let work = &work;
    std::thread::scope(|scope| {
        let threads = buffers
            .into_iter()
            .map(|buffer| {
                std::thread::Builder::new().name("calibrate".into()).spawn_scoped(scope, move || work(buffer))
            })
            .collect::<io::Result<Vec<_>>>()?;
        threads.into_iter().try_for_each(|t| t.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into())))
    })?;
    Ok(since(start))
}

/// Reads as [`Readable::read_run`], with times since `opened`.
fn in_turn<F>(positions: &[u64], run: InTurn, opened: Instant, read: F) -> io::Result<Vec<Nanos>>
where
    F: Fn(u64, &mut Buffer) -> io::Result<()> + Sync,
{
    let asked = AtomicUsize::new(0);
    let there = Mutex::new(Vec::with_capacity(positions.len()));
    let timed = |position: u64, buffer: &mut Buffer| -> io::Result<()> {
        if asked.fetch_add(1, Ordering::Relaxed) >= run.least && since(opened) >= run.until {
            return Ok(());
        }
        read(position, buffer)?;
        there.lock().unwrap_or_else(PoisonError::into_inner).push(since(opened));
        Ok(())
    };
    on_threads(positions, run.depth, timed)?;
    let mut there = there.into_inner().unwrap_or_else(PoisonError::into_inner);
    there.sort_unstable();
    Ok(there)
}

/// The largest files under `target` on its own file system, at most [`FILES_MAX`], largest first. Sparse ones are left
/// out (holes are not read from the disk), links are not followed.
fn largest_files(target: &Path) -> Vec<(u64, PathBuf)> {
    let Ok(top) = fs::metadata(target) else { return Vec::new() };
    if top.is_file() {
        return if top.len() >= FILE_BYTES_MIN { vec![(top.len(), target.to_path_buf())] } else { Vec::new() };
    }
    let mut found = Vec::new();
    let mut entries = 0;
    let mut folders = vec![(target.to_path_buf(), 0)];
    while let Some((folder, depth)) = folders.pop().filter(|_| entries < ENTRIES_MAX) {
        let Ok(listing) = fs::read_dir(&folder) else { continue };
        for entry in listing.flatten() {
            entries += 1;
            if entries > ENTRIES_MAX {
                break;
            }
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_dir() && meta.st_dev() == top.st_dev() && depth < DEPTH_MAX {
                folders.push((entry.path(), depth + 1));
            } else if meta.is_file() && meta.len() >= FILE_BYTES_MIN && meta.st_blocks() * 512 >= meta.len() {
                found.push((meta.len(), entry.path()));
            }
        }
    }
    found.sort_unstable_by(|a, b| b.cmp(a));
    found.truncate(FILES_MAX);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn requests_beyond_our_own_count_as_others() {
        let before = Count { reads: 1000, read_bytes: 70 * MIB, writes: 50 };
        let others = |own: Count, reads: u64, read_bytes: u64, writes: u64| {
            let after = Count {
                reads: before.reads + reads,
                read_bytes: before.read_bytes + read_bytes,
                writes: before.writes + writes,
            };
            others_between(before, after, own)
        };
        let (mut small, mut large) = (Count::default(), Count::default());
        small.add_reads(8, SMALL_BYTES);
        large.add_reads(18, MIB);
        assert_eq!(others(Count::default(), 0, 0, 0), 0);
        assert_eq!(others(small, 8, 8 * SMALL_BYTES, 0), 0);
        assert_eq!(others(small, 11, 11 * SMALL_BYTES, 2), 5);
        assert_eq!(others(large, 18, 18 * MIB, 0), 0);
        assert_eq!(others(large, 144, 18 * MIB, 0), 0, "the kernel cut them");
        assert_eq!(others(large, 144, 22 * MIB, 1), 9);
        assert_eq!(others(small, 3, 0, 0), 0, "some of ours are not counted yet");
    }
}
