//! `isocast volume import` and `isocast volume export`: files into a volume, and out of it.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use client::Remote;
use copy::{self, Endpoint};
use folder::LocalWalk;
use serde_json::json;
use store::{Walked, WalkedKind};
use volume::{BLOCK_BYTES, Draft, StoredContent, UnitPlace, Volume};

use super::DiskNames;
use super::disks::{Purpose, VolumeDisks};
use super::progress::ProgressLine;
use super::served::VolumeServer;

/// Bytes read at once.
const PIECE_BYTES: usize = 1 << 20;
/// Bytes between two commits: a crash may lose as many of an import that has not ended.
const COMMIT_BYTES: u64 = 1 << 30;

/// Copy files, or folders with all files in them, into a volume. Contents of the same names are replaced.
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The folder of the volume they go to.
    #[arg(long, default_value = "")]
    to: String,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: VolumeServer,
    #[command(flatten)]
    names: DiskNames,
    /// Files and folders.
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

/// Copy contents out of a volume, each byte verified.
#[derive(Debug, Args)]
pub(crate) struct Export {
    /// The folder they go to; it must exist.
    #[arg(long)]
    to: PathBuf,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: VolumeServer,
    #[command(flatten)]
    names: DiskNames,
    /// Contents and folders of the volume; everything if none is named.
    contents: Vec<String>,
}

impl Import {
    pub(crate) fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        if let Some(served) = self.server.serving(&self.names.disks.0)? {
            return self.put(out, &served.media()?);
        }
        let mut files = Vec::new();
        for path in &self.files {
            collect(path, &self.name_of(path)?, &mut files)?;
        }
        let total: u64 = files.iter().map(|(_, _, length)| length).sum();
        let (mut disks, mut volume) = VolumeDisks::open(&self.names.disks.0, Purpose::Write)?;
        refuse_missing(&volume)?;
        disks.commit(&mut volume)?;
        let mut progress = ProgressLine::new("import");
        let (mut copied, mut uncommitted) = (0, 0);
        for (path, name, length) in &files {
            let copy = import(path, name, *length, &mut volume, &mut disks, &mut |bytes| {
                copied += bytes;
                progress.show(copied, total);
            });
            copy.with_context(|| format!("cannot import {} as `{name}`", path.display()))?;
            uncommitted += length;
            if uncommitted >= COMMIT_BYTES {
                disks.commit(&mut volume)?;
                uncommitted = 0;
            }
        }
        disks.commit(&mut volume)?;
        drop(progress);
        report(out, self.json, files.len(), copied)
    }
}

impl Import {
    /// The content, or folder, that a path becomes.
    fn name_of(&self, path: &Path) -> anyhow::Result<String> {
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.with_context(|| format!("{} has no name that a content can have", path.display()))?;
        let folder = self.to.trim_matches('/');
        Ok(if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") })
    }

    /// Through the server that has the volume.
    fn put(&self, out: &mut dyn Write, media: &Remote) -> anyhow::Result<()> {
        let (mut contents, mut bytes) = (0, 0);
        for path in &self.files {
            let there = Endpoint::There(media.below(&self.name_of(path)?));
            let copied = copy::copy_shown(copy::here(path.clone()), there)
                .with_context(|| format!("cannot import {}", path.display()))?;
            (contents, bytes) = (contents + copied.files, bytes + copied.bytes);
        }
        report(out, self.json, usize::try_from(contents)?, bytes)
    }
}

fn report(out: &mut dyn Write, json: bool, contents: usize, bytes: u64) -> anyhow::Result<()> {
    if json {
        writeln!(out, "{:#}", json!({ "contents": contents, "bytes": bytes }))?;
    } else {
        writeln!(out, "{contents} contents, {bytes} bytes")?;
    }
    Ok(())
}

/// Commands that write need every disk: data on a missing one would be out of date when it comes back.
pub(super) fn refuse_missing(volume: &Volume) -> anyhow::Result<()> {
    let count = volume.superblock().members.len();
    let missing = (0..count).filter_map(|number| u8::try_from(number).ok()).map(volume::MemberId);
    let missing: Vec<u8> = missing
        .filter(|member| !volume.is_writable(*member) && !volume.has_left(*member))
        .map(|member| member.0)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    bail!("the disks {missing:?} of the volume are missing: name all of them; reading works without")
}

/// The file that `path` leads to, or all files below it, each with its new name.
fn collect(path: &Path, name: &str, files: &mut Vec<(PathBuf, String, u64)>) -> anyhow::Result<()> {
    let cannot_read = || format!("cannot read {}", path.display());
    let metadata = fs::metadata(path).with_context(cannot_read)?;
    if metadata.is_file() {
        files.push((path.to_owned(), name.to_owned(), metadata.len()));
    }
    if !metadata.is_dir() {
        return Ok(());
    }
    for met in LocalWalk::begin(path).with_context(cannot_read)? {
        let Walked { path: below, kind } = met.with_context(cannot_read)?;
        let whole = path.join(&below);
        let length = match kind {
            WalkedKind::File(file) => Some(file.bytes()),
            WalkedKind::Folder(_) => None,
            // A link to a file is taken as that file.
            WalkedKind::Other => fs::metadata(&whole).ok().filter(fs::Metadata::is_file).map(|what| what.len()),
        };
        let Some(length) = length else { continue };
        let Some(below) = below.to_str() else { bail!("{} has a name that is not UTF-8", whole.display()) };
        files.push((whole, format!("{name}/{below}"), length));
    }
    Ok(())
}

fn import(
    path: &Path,
    name: &str,
    length: u64,
    volume: &mut Volume,
    disks: &mut VolumeDisks,
    copied: &mut dyn FnMut(u64),
) -> anyhow::Result<()> {
    let mut file = File::open(path)?;
    let modified = fs::metadata(path)?.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    let modified = u64::try_from(modified.as_nanos()).unwrap_or(0);
    let mut draft = volume.begin(name, Some(length))?;
    let written = write_all(&mut file, length, modified, volume, &mut draft, disks, copied);
    if let Err(error) = written {
        volume.abandon(draft);
        return Err(error);
    }
    volume.publish(draft, modified)?;
    Ok(())
}

fn write_all(
    file: &mut File,
    length: u64,
    modified: u64,
    volume: &mut Volume,
    draft: &mut Draft,
    disks: &mut VolumeDisks,
    copied: &mut dyn FnMut(u64),
) -> anyhow::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut read = 0;
    while read < length {
        let count = room(volume, draft, disks)?.min(length - read);
        let count = usize::try_from(count).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        file.read_exact(&mut piece[..count])?;
        write_piece(&piece[..count], volume, draft, disks)?;
        read += u64::try_from(count)?;
        copied(u64::try_from(count)?);
    }
    let tail = volume.tail(draft);
    let mut rest = &tail[..];
    while !rest.is_empty() {
        let count = usize::try_from(room(volume, draft, disks)?).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        let (now, later) = rest.split_at(count.min(rest.len()));
        write_piece(now, volume, draft, disks)?;
        rest = later;
    }
    volume.end(draft, modified).iter().try_for_each(|header| disks.write(header))
}

/// Bytes of a content that fit before the next header.
fn room(volume: &mut Volume, draft: &mut Draft, disks: &mut VolumeDisks) -> anyhow::Result<u64> {
    let (headers, room) = volume.room(draft)?;
    headers.iter().try_for_each(|header| disks.write(header))?;
    Ok(room)
}

fn write_piece(bytes: &[u8], volume: &Volume, draft: &mut Draft, disks: &mut VolumeDisks) -> anyhow::Result<()> {
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len().next_multiple_of(usize::try_from(BLOCK_BYTES)?), 0);
    volume.add(draft, bytes).into_iter().try_for_each(|(member, at)| disks.write_payload(member, at, &padded))
}

impl Export {
    pub(crate) fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        if !self.to.is_dir() {
            bail!("{} is no folder: make it first", self.to.display());
        }
        if let Some(served) = self.server.serving(&self.names.disks.0)? {
            return self.get(out, &served.media()?);
        }
        let (mut disks, volume) = VolumeDisks::open(&self.names.disks.0, Purpose::Read)?;
        let wanted = |name: &str| {
            let below = |folder: &String| {
                let folder = folder.trim_matches('/');
                name == folder
                    || name.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
                    || folder.is_empty()
            };
            self.contents.is_empty() || self.contents.iter().any(below)
        };
        let contents: Vec<_> = volume.contents().filter(|(name, _)| wanted(name)).collect();
        if contents.is_empty() && !self.contents.is_empty() {
            bail!("the volume has no content of this name: `isocast volume ls` lists them");
        }
        let total: u64 = contents.iter().map(|(_, content)| content.length).sum();
        let mut progress = ProgressLine::new("export");
        let (mut copied, mut damaged) = (0, 0);
        for (name, content) in &contents {
            let path = self.to.join(name);
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
            }
            let mut file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
            let lost = read_content(&volume, content, &mut disks, &mut |bytes| {
                copied += u64::try_from(bytes.len())?;
                progress.show(copied, total);
                file.write_all(bytes).with_context(|| format!("cannot write {}", path.display()))
            })?;
            if let Some(part) = lost {
                damaged += 1;
                let whole = u64::from(part) * volume.unit_bytes();
                writeln!(
                    io::stderr(),
                    "`{name}`: part {part} is damaged in every copy: the {whole} bytes before it were exported"
                )?;
            }
        }
        drop(progress);
        report(out, self.json, contents.len() - damaged, copied)?;
        out.flush()?;
        ensure!(damaged == 0, "{damaged} contents are damaged: the others were exported");
        Ok(())
    }
}

impl Export {
    /// Through the server that has the volume.
    fn get(&self, out: &mut dyn Write, media: &Remote) -> anyhow::Result<()> {
        let everything = [String::new()];
        let (mut contents, mut bytes) = (0, 0);
        for name in if self.contents.is_empty() { &everything[..] } else { &self.contents[..] } {
            let name = name.trim_matches('/');
            let to = self.to.join(name);
            if let Some(folder) = to.parent() {
                fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
            }
            let copied = copy::copy_shown(Endpoint::There(media.below(name)), copy::here(to))
                .with_context(|| format!("cannot export `{name}`"))?;
            (contents, bytes) = (contents + copied.files, bytes + copied.bytes);
        }
        report(out, self.json, usize::try_from(contents)?, bytes)
    }
}

/// Gives all bytes of a content without its tail, verified; of a part with a wrong first copy, those of the other one. Ends at a part that
/// is damaged in every copy, and names it.
fn read_content(
    volume: &Volume,
    content: &StoredContent,
    disks: &mut VolumeDisks,
    take: &mut dyn FnMut(&[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<Option<u32>> {
    let mut left = content.length;
    for (number, part) in (0u32..).zip(&content.parts) {
        let places: Vec<UnitPlace> = part.places().collect();
        let bytes = places.into_iter().find_map(|place| read_unit(volume, content, number, place, disks));
        let Some(bytes) = bytes else { return Ok(Some(number)) };
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        take(&bytes[..count])?;
        left -= u64::try_from(count)?;
    }
    Ok(None)
}

/// The payload of a unit, if it agrees with the catalogue.
fn read_unit(
    volume: &Volume,
    content: &StoredContent,
    part: u32,
    place: UnitPlace,
    disks: &mut VolumeDisks,
) -> Option<Vec<u8>> {
    let table = volume.checksums(content, part, place, disks).ok()?;
    let mut bytes = Vec::new();
    let length = volume.part_bytes(content, part);
    volume.read_whole(place, length, &table, disks, |piece| bytes.extend_from_slice(piece)).ok()?;
    Some(bytes)
}
