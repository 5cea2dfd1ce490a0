//! `isocast volume import`: files into a volume.
//!
//! Promise: after a file that cannot be imported the next one follows, unless a disk failed that holds the only copy; imported files stay,
//! whatever fails later. Not here: writing to the disks, which is that of a server (crate `volumes`), by its API or in this process.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use client::SourceFile;
use copy::{self, Endpoint, Failures, PASSED_OVER};
use serde_json::json;
use store::{
    ContentPath, NameKind, NameTaken, OnBreak, Precondition, Published, Store, StoreError, Upload, UploadClass,
    UploadRequest,
};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use units::limits::CHUNK_BYTES;
use units::{ByteCount, counted};
use volume::part_count;
use volumes::OwnVolume;

use super::disks::{self, Purpose, refuse_missing};
use super::progress::ProgressLine;
use super::served::{ServedDisks, VolumeOfServer};

/// Bytes read at once.
const PIECE_BYTES: usize = 1 << 20;

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

/// Files on their way into a volume that this process alone has, as uploads to a server are.
struct Importing<'a> {
    store: &'a Store,
    files: &'a [(PathBuf, String, u64)],
    /// Uploads that are durable soon, by the numbers of their files.
    ending: JoinSet<(usize, Result<Published, StoreError>)>,
    progress: ProgressLine,
    read: u64,
    contents: u64,
    bytes: u64,
    failures: Failures,
    /// Each further file would fail as well.
    is_over: bool,
}

impl Import {
    pub(crate) fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        if let Some(served) = self.disks.serving()? {
            return self.put(out, &served);
        }
        let ImportList { files, folders, passed_over, failures } = self.wanted();
        let volume = disks::open(self.disks.all(), Purpose::Write)?.1;
        refuse_missing(&volume)?;
        warn(&files, volume.unit_bytes(), volume.free_bytes());
        drop(volume);
        let volume = OwnVolume::open(self.disks.all())?;
        let mut importing = Importing {
            store: volume.store(),
            files: &files,
            ending: JoinSet::new(),
            progress: ProgressLine::new("import"),
            read: 0,
            contents: 0,
            bytes: 0,
            failures,
            is_over: false,
        };
        Builder::new_current_thread().enable_time().build()?.block_on(importing.import(&folders));
        let Importing { progress, contents, bytes, failures, .. } = importing;
        drop(progress);
        let ended = self.end(out, (contents, bytes, passed_over), &failures);
        let disks = volume.served().info().disks.into_iter();
        let lost: Vec<_> =
            disks.filter_map(|disk| Some(format!("{} ({})", disk.path?.display(), disk.failure?))).collect();
        if lost.is_empty() {
            return ended;
        }
        let failed = ended.err().map(|error| format!("{error:#}; ")).unwrap_or_default();
        bail!("{failed}the volume is without {} now: replace it by `isocast volume replace`", lost.join(", "))
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

impl Importing<'_> {
    async fn import(&mut self, folders: &[String]) {
        let files = self.files;
        let total = files.iter().map(|(_, _, length)| length).sum();
        let mut names = HashSet::new();
        for (number, (_, name, _)) in files.iter().enumerate() {
            // Of two files with one name the later one becomes the content.
            if !names.insert(name) {
                self.await_ends(0).await;
            }
            let mut sent = self.send(number, total).await;
            if sent.as_ref().is_err_and(is_full) && !self.ending.is_empty() {
                // The units of a replaced content are free once the new one is durable.
                self.await_ends(0).await;
                sent = self.send(number, total).await;
            }
            match sent {
                Ok(upload) => drop(self.ending.spawn(async move { (number, upload.finish().await) })),
                Err(error) => self.failed(number, error),
            }
            // One commit makes many small contents durable. The memory of an upload that broke off is free a little later.
            self.await_ends(OwnVolume::UPLOADS_MAX / 2).await;
            if self.is_over {
                break;
            }
        }
        self.await_ends(0).await;
        for folder in folders.iter().filter(|_| !self.is_over) {
            if let Err(error) = self.make_folders(folder).await {
                self.failures.add(format_args!("cannot make the folder `{folder}`: {error:#}"));
            }
        }
    }

    /// Gives the bytes of a file to its upload.
    async fn send(&mut self, number: usize, total: u64) -> anyhow::Result<Upload> {
        let (path, name, length) = &self.files[number];
        let mut file = File::open(path)?;
        let request = UploadRequest {
            path: ContentPath::parse(name)?,
            length: Some(*length),
            precondition: Precondition::None,
            class: UploadClass::BestEffort,
            on_break: OnBreak::Discard,
            name_taken: NameTaken::Replace,
            durable: None,
            modified: Some(file.metadata()?.modified()?),
            memory: None,
        };
        let mut upload = self.store.begin_upload(request).await?;
        let (mut piece, mut left) = (vec![0; PIECE_BYTES], *length);
        while left > 0 {
            let count = usize::try_from(left).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
            file.read_exact(&mut piece[..count])?;
            upload.append(&piece[..count]).await?;
            left -= count as u64;
            self.read += count as u64;
            self.progress.show(self.read, total);
        }
        Ok(upload)
    }

    /// Waits until no more than `most` uploads are ending.
    async fn await_ends(&mut self, most: usize) {
        while self.ending.len() > most {
            match self.ending.join_next().await {
                Some(Ok((number, Ok(published)))) => {
                    debug_assert!(published.size == self.files[number].2, "all of it was sent");
                    (self.contents, self.bytes) = (self.contents + 1, self.bytes + published.size);
                }
                Some(Ok((number, Err(error)))) => self.failed(number, error.into()),
                Some(Err(panicked)) => self.failures.add(panicked),
                None => {}
            }
        }
    }

    fn failed(&mut self, number: usize, error: anyhow::Error) {
        let (path, name, _) = &self.files[number];
        let (is_of_disk, error) = match error.downcast_ref() {
            Some(StoreError::VolumeReadOnly(away)) => (true, anyhow!("{away}: the volume takes no changes without it")),
            Some(refused) => (refused.is_silence(), error),
            None => (false, error),
        };
        let error = error.context(format!("cannot import {} as `{name}`", path.display()));
        if is_of_disk && !std::mem::replace(&mut self.is_over, true) {
            self.failures.add_first(format_args!("{error:#}; no other was tried after it"));
        } else {
            self.failures.add(format_args!("{error:#}"));
        }
    }

    /// Makes a folder, and those it lies in.
    async fn make_folders(&self, folder: &str) -> anyhow::Result<()> {
        let mut path = ContentPath::root();
        for name in folder.split('/') {
            path = path.child(name)?;
            let is_there = self.store.lookup(&path).await.is_ok_and(|entry| entry.kind == NameKind::Directory);
            if !is_there {
                self.store.make_folder(&path).await?;
            }
        }
        Ok(())
    }
}

fn is_full(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(StoreError::is_full)
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
