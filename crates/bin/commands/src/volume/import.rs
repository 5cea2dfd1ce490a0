//! `isocast volume import`: files into a volume.
//!
//! Promise: after a file that cannot be imported the next one follows; imported files stay, whatever fails later.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use clap::Args;
use client::SourceFile;
use copy::{self, Endpoint, Failures, PASSED_OVER};
use serde_json::json;
use store::buffers::index;
use units::limits::CHUNK_BYTES;
use units::{ByteCount, counted};
use volume::{BLOCK_BYTES, Draft, Volume, part_count};
use volumes::{VolumeDiskError, VolumeDisks};

use super::disks::{self, Purpose, refuse_missing};
use super::progress::ProgressLine;
use super::served::{ServedDisks, VolumeOfServer};

/// Bytes read at once.
const PIECE_BYTES: usize = 1 << 20;
/// Time between two commits: a crash loses the files of as long, and the file that is being imported.
const COMMIT_PERIOD: Duration = Duration::from_secs(1);

/// Copy files, or folders with all files in them, into a volume. Contents of the same names are replaced.
///
/// A folder keeps its name. A file that cannot be imported is named at the end (exit code 1); the others are imported.
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The folder of the volume they go to.
    #[arg(long, default_value = "")]
    to: String,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    disks: ServedDisks,
    /// Files and folders.
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

/// Files to import, each with the name of its content, and the failures so far.
#[derive(Default)]
struct ImportList {
    files: Vec<(PathBuf, String, u64)>,
    /// Folders of the volume: an empty one stays.
    folders: Vec<String>,
    /// Number of pipes, sockets, devices and links to a folder.
    passed_over: u64,
    failures: Failures,
}

/// The reason that a file was not imported.
enum Obstacle {
    /// The file's, or the volume's refusal of it: others may be imported.
    File(anyhow::Error),
    /// A disk's: each further file would fail as well.
    Disk(anyhow::Error),
}

impl Import {
    pub(crate) fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        if let Some(served) = self.disks.serving()? {
            return self.put(out, &served);
        }
        let ImportList { files, folders, passed_over, mut failures } = self.wanted();
        let (disks, mut volume) = disks::open(self.disks.all(), Purpose::Write)?;
        refuse_missing(&volume)?;
        disks.commit(&mut volume)?;
        warn(&files, volume.unit_bytes(), volume.free_bytes());
        let total: u64 = files.iter().map(|(_, _, length)| length).sum();
        let mut progress = ProgressLine::new("import");
        let (mut read, mut contents, mut bytes) = (0, 0, 0);
        let mut committed = Instant::now();
        for (path, name, length) in &files {
            let outcome = import(path, name, *length, &mut volume, &disks, &mut |count| {
                read += count;
                progress.show(read, total);
            });
            let about = || format!("cannot import {} as `{name}`", path.display());
            match outcome {
                Ok(()) => (contents, bytes) = (contents + 1, bytes + length),
                Err(Obstacle::File(error)) => failures.add(format_args!("{:#}", error.context(about()))),
                Err(Obstacle::Disk(error)) => {
                    failures.add_first(format_args!("{:#}; no other was tried after it", error.context(about())));
                    break;
                }
            }
            if committed.elapsed() >= COMMIT_PERIOD {
                disks.commit(&mut volume)?;
                committed = Instant::now();
            }
        }
        for folder in &folders {
            if !volume.is_folder(folder)
                && let Err(error) = volume.make_folder(folder, nanoseconds(SystemTime::now()))
            {
                failures.add(format_args!("cannot make the folder `{folder}`: {error}"));
            }
        }
        disks.commit(&mut volume)?;
        drop(progress);
        self.end(out, (contents, bytes, passed_over), &failures)
    }

    fn wanted(&self) -> ImportList {
        let mut wanted = ImportList::default();
        for path in &self.files {
            let named = self.name_of(path).and_then(|name| Ok((name, copy::here(path.clone()).files()?)));
            let (name, tree) = match named {
                Ok(named) => named,
                Err(error) => {
                    wanted.failures.add(format_args!("cannot read {}: {error:#}", path.display()));
                    continue;
                }
            };
            tree.unreadable.iter().for_each(|entry| wanted.failures.add(entry));
            wanted.passed_over += tree.passed_over;
            let folders = tree.folders.iter().filter_map(|below| Some(format!("{name}/{}", below.to_str()?)));
            wanted.folders.extend(tree.is_folder.then(|| name.clone()).into_iter().chain(folders));
            for SourceFile { name: below, bytes } in tree.files {
                let whole = if tree.is_folder { path.join(&below) } else { path.clone() };
                match below.to_str() {
                    Some("") => wanted.files.push((whole, name.clone(), bytes)),
                    Some(below) => wanted.files.push((whole, format!("{name}/{below}"), bytes)),
                    None => wanted.failures.add(format_args!("{} has a name that is not UTF-8", whole.display())),
                }
            }
        }
        wanted
    }

    /// The content, or folder, that a path becomes.
    fn name_of(&self, path: &Path) -> anyhow::Result<String> {
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.with_context(|| format!("{} has no name that a content can have", path.display()))?;
        let folder = self.to.trim_matches('/');
        Ok(if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") })
    }

    /// Through the server that has the volume.
    fn put(&self, out: &mut dyn Write, served: &VolumeOfServer) -> anyhow::Result<()> {
        let media = served.media()?;
        let ImportList { files, passed_over, .. } = self.wanted();
        warn(&files, served.status.unit_bytes, served.status.free_bytes);
        let mut failures = Failures::default();
        let (mut contents, mut bytes) = (0, 0);
        for path in &self.files {
            let there = self.name_of(path).map(|name| Endpoint::There(media.below(&name)));
            match there.and_then(|there| copy::copy_shown(copy::here(path.clone()), there)) {
                Ok(copied) => {
                    (contents, bytes) = (contents + copied.files, bytes + copied.bytes);
                    failures.append(copied.failures);
                }
                Err(error) => failures.add(format_args!("cannot import {}: {error:#}", path.display())),
            }
        }
        self.end(out, (contents, bytes, passed_over), &failures)
    }

    fn end(
        &self,
        out: &mut dyn Write,
        (contents, bytes, passed_over): (u64, u64, u64),
        failures: &Failures,
    ) -> anyhow::Result<()> {
        if self.json {
            let done = json!({
                "contents": contents, "bytes": bytes, "passed_over": passed_over, "failed": failures.count(),
            });
            writeln!(out, "{done:#}")?;
        } else {
            writeln!(out, "{}, {bytes} bytes", counted(contents, "content"))?;
            if passed_over > 0 {
                writeln!(out, "{passed_over} {PASSED_OVER}")?;
            }
        }
        out.flush()?;
        failures.judge("not imported")
    }
}

/// Prints a warning about files for which the volume's units are too large.
fn warn(files: &[(PathBuf, String, u64)], unit_bytes: u64, free_bytes: u64) {
    let lengths: Vec<u64> = files.iter().map(|(_, _, length)| *length).collect();
    if let Some(warning) = units_warning(&lengths, unit_bytes, free_bytes) {
        // Ignore errors on stderr.
        let _ = writeln!(io::stderr(), "{warning}");
    }
}

/// The room that contents of these lengths take in units of `unit_bytes`, if it is not there, or if more than half of it stays empty and
/// that is a tenth of the free room; and the largest smaller unit by which it would not be so.
fn units_warning(lengths: &[u64], unit_bytes: u64, free_bytes: u64) -> Option<String> {
    let units = |unit| lengths.iter().map(|length| part_count(*length, unit)).sum::<u64>();
    let room = |unit| units(unit) * unit;
    let (bytes, taken) = (lengths.iter().sum::<u64>(), room(unit_bytes));
    let is_too_empty = |taken: u64| taken > 2 * bytes && (taken - bytes) * 10 > free_bytes;
    if taken <= free_bytes && !is_too_empty(taken) {
        return None;
    }
    let halves = || std::iter::successors(Some(unit_bytes / 2), |unit| Some(unit / 2));
    let smaller = || halves().take_while(|unit| *unit >= CHUNK_BYTES);
    let better = smaller().find(|unit| room(*unit) <= free_bytes && !is_too_empty(room(*unit))).or(smaller().last());
    let advice = better.map(|unit| {
        let (unit, taken) = (ByteCount(unit), ByteCount(room(unit)));
        format!("; in a volume with units of {unit} (`isocast volume create --unit`) they would take {taken}")
    });
    let (bytes, unit, free, count) =
        (ByteCount(bytes), ByteCount(unit_bytes), ByteCount(free_bytes), units(unit_bytes));
    Some(format!(
        "{} of {bytes} in all take {} of {unit}, {}, and {free} are free{}",
        counted(lengths.len(), "content"),
        counted(count, "unit"),
        ByteCount(taken),
        advice.unwrap_or_default()
    ))
}

fn import(
    path: &Path,
    name: &str,
    length: u64,
    volume: &mut Volume,
    disks: &VolumeDisks,
    read: &mut dyn FnMut(u64),
) -> Result<(), Obstacle> {
    let opened = File::open(path).and_then(|file| Ok((file.metadata()?.modified()?, file)));
    let (modified, mut file) = opened.map_err(file_obstacle)?;
    let modified = nanoseconds(modified);
    let mut draft = volume.begin(name, Some(length)).map_err(file_obstacle)?;
    let written = write_all(&mut file, length, modified, volume, &mut draft, disks, read);
    if let Err(error) = written {
        volume.abandon(draft);
        return Err(error);
    }
    volume.publish(draft, modified).map(drop).map_err(file_obstacle)
}

fn file_obstacle(error: impl Into<anyhow::Error>) -> Obstacle {
    Obstacle::File(error.into())
}

fn disk_obstacle(error: VolumeDiskError) -> Obstacle {
    Obstacle::Disk(error.into())
}

fn nanoseconds(time: SystemTime) -> u64 {
    u64::try_from(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()).unwrap_or(0)
}

fn write_all(
    file: &mut File,
    length: u64,
    modified: u64,
    volume: &mut Volume,
    draft: &mut Draft,
    disks: &VolumeDisks,
    read: &mut dyn FnMut(u64),
) -> Result<(), Obstacle> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut left = length;
    while left > 0 {
        let count = room(volume, draft, disks)?.min(left);
        let count = usize::try_from(count).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        file.read_exact(&mut piece[..count]).map_err(file_obstacle)?;
        write_piece(&piece[..count], volume, draft, disks)?;
        left -= count as u64;
        read(count as u64);
    }
    let tail = draft.tail();
    let mut rest = &tail[..];
    while !rest.is_empty() {
        let count = usize::try_from(room(volume, draft, disks)?).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        let (now, later) = rest.split_at(count.min(rest.len()));
        write_piece(now, volume, draft, disks)?;
        rest = later;
    }
    draft.end(volume.members(), modified).iter().try_for_each(|header| disks.write(header)).map_err(disk_obstacle)
}

/// Bytes of a content that fit before the next header.
fn room(volume: &mut Volume, draft: &mut Draft, disks: &VolumeDisks) -> Result<u64, Obstacle> {
    let (headers, room) = volume.room(draft).map_err(file_obstacle)?;
    headers.iter().try_for_each(|header| disks.write(header)).map_err(disk_obstacle)?;
    Ok(room)
}

fn write_piece(bytes: &[u8], volume: &Volume, draft: &mut Draft, disks: &VolumeDisks) -> Result<(), Obstacle> {
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len().next_multiple_of(index(BLOCK_BYTES)), 0);
    let mut places = draft.add(volume.members(), bytes).into_iter();
    places.try_for_each(|(member, at)| disks.write_at(member, at, &padded)).map_err(disk_obstacle)
}

#[cfg(test)]
mod tests {
    use super::units_warning;

    #[test]
    fn a_warning_names_the_unit_by_which_small_contents_would_fit() {
        const MIB: u64 = 1 << 20;
        let small = [5_000; 1000];
        let full = units_warning(&small, 8 * MIB, 288 * MIB).expect("8,000 MiB do not fit");
        assert!(full.contains("1000 contents") && full.contains("1000 units of 8.0 MiB"), "{full}");
        assert!(full.contains("units of 1.0 MiB") && full.contains("take 1000.0 MiB"), "{full}");
        // They fit, and leave a tenth of the room empty.
        assert!(units_warning(&small, 64 << 10, 288 * MIB).is_some_and(|warning| !warning.contains("--unit")));
        // One small content in much room, and contents of many units, are no matter.
        assert_eq!(units_warning(&[5_000], 8 * MIB, 288 * MIB), None);
        assert_eq!(units_warning(&[100 * MIB], 8 * MIB, 288 * MIB), None);
        let large = units_warning(&[400 * MIB], 8 * MIB, 288 * MIB).expect("there is no room");
        assert!(large.contains("take 51 units"), "{large}");
    }
}
