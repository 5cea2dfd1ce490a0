//! `isocast volume add` and `isocast volume remove`: a disk more, and a disk less whose contents move to the others.
//!
//! Promise: broken off at any moment, the volume is whole, and the same command goes on; a copy moves only with bytes that were
//! just verified. Not here: doing so beside streams; the server must be stopped.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::Args;
use serde_json::json;
use units::ByteCount;
use volume::{MemberId, MovedCopy, StoredContent, Volume};

use super::disks::{Purpose, VolumeDisks};
use super::occupied::open_to_overwrite;
use super::progress::ProgressLine;
use super::transfer::{read_unit, refuse_missing, write_copy};
use super::{DiskNames, NewDisk};

/// Add a disk to a volume: new contents use it.
///
/// The server of the volume must be stopped.
#[derive(Debug, Args)]
pub(crate) struct AddDisk {
    #[command(flatten)]
    coming: NewDisk,
    #[command(flatten)]
    names: DiskNames,
}

impl AddDisk {
    pub(crate) fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let named: Vec<PathBuf> = self.names.disks.0.iter().filter(|disk| **disk != self.coming.new).cloned().collect();
        let all: Vec<PathBuf> = named.iter().chain([&self.coming.new]).cloned().collect();
        let (member, volume) = match VolumeDisks::open(&all, Purpose::Write).ok().filter(|_| self.coming.yes) {
            // Broken off before: it is in already, and perhaps not all disks know.
            Some((mut disks, mut volume)) => {
                disks.write_steps(&volume.superblock_writes())?;
                disks.commit(&mut volume)?;
                let is_new = |disk: &Option<_>| {
                    disk.as_ref().is_some_and(|disk: &super::disks::DiskFile| disk.path == self.coming.new)
                };
                (disks.0.iter().position(is_new).context("the new disk is not of this volume")?, volume)
            }
            None => self.add(&named)?,
        };
        if self.coming.json {
            let done = json!({ "disk": member, "device": self.coming.new, "free_bytes": volume.free_bytes() });
            writeln!(out, "{done:#}")?;
        } else {
            let free = ByteCount(volume.free_bytes());
            writeln!(out, "{} is disk {member} of the volume: {free} free", self.coming.new.display())?;
        }
        Ok(())
    }

    fn add(&self, named: &[PathBuf]) -> anyhow::Result<(usize, Volume)> {
        let new = open_to_overwrite(&self.coming.new, self.coming.force)?;
        let (mut disks, mut volume) = VolumeDisks::open(named, Purpose::Write)?;
        refuse_missing(&volume)?;
        let (member, steps) =
            volume.add_disk(new.size).with_context(|| format!("cannot add {}", self.coming.new.display()))?;
        if !self.coming.yes {
            bail!("this loses what is on {}: say --yes to do it", self.coming.new.display());
        }
        new.preallocate().with_context(|| format!("cannot take the room of {}", self.coming.new.display()))?;
        disks.0.resize_with(volume.superblock().members.len(), || None);
        disks.0[member.index()] = Some(new);
        disks.write_steps(&steps)?;
        disks.commit(&mut volume)?;
        Ok((member.index(), volume))
    }
}

/// Take a disk out of a volume: what is on it moves to the other disks first.
///
/// The server of the volume must be stopped. Broken off, the same command goes on where it was.
#[derive(Debug, Args)]
pub(crate) struct RemoveDisk {
    /// The disk that goes. One that cannot be read any more is replaced (`isocast volume replace`).
    #[arg(long, value_name = "DEV")]
    old: PathBuf,
    /// Do it: without this nothing is written.
    #[arg(long)]
    yes: bool,
    /// Print what was done as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    names: DiskNames,
}

impl RemoveDisk {
    pub(crate) fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let named = &self.names.disks.0;
        let all: Vec<PathBuf> = named.iter().filter(|disk| **disk != self.old).chain([&self.old]).cloned().collect();
        let (mut disks, mut volume) = VolumeDisks::open(&all, Purpose::Write)?;
        refuse_missing(&volume)?;
        let is_old = |disk: &Option<super::disks::DiskFile>| disk.as_ref().is_some_and(|disk| disk.path == self.old);
        let number = disks.0.iter().position(is_old).context("the disk is not of this volume")?;
        let member = MemberId(u8::try_from(number)?);
        if !volume.may_leave(member) {
            bail!("without {} too few disks are left for this layout: add one first", self.old.display());
        }
        if !self.yes {
            bail!("this moves everything on {} to the other disks: say --yes to do it", self.old.display());
        }
        let moved = drain(&mut volume, &mut disks, member)?;
        let steps = volume.leave(member)?;
        disks.write_steps(&steps)?;
        disks.commit(&mut volume)?;
        if self.json {
            let done = json!({
                "disk": number, "device": self.old, "moved_parts": moved.0, "moved_bytes": moved.1,
                "free_bytes": volume.free_bytes(),
            });
            writeln!(out, "{done:#}")?;
        } else {
            let (free, bytes) = (ByteCount(volume.free_bytes()), ByteCount(moved.1));
            writeln!(out, "{} is out of the volume: {bytes} moved, {free} free", self.old.display())?;
        }
        Ok(())
    }
}

/// Moves every copy on a disk to the others, content by content; gives how many parts and bytes that were.
fn drain(volume: &mut Volume, disks: &mut VolumeDisks, member: MemberId) -> anyhow::Result<(u64, u64)> {
    let on_it =
        |content: &StoredContent| content.parts.iter().any(|part| part.places().any(|place| place.member == member));
    let contents: Vec<(String, Arc<StoredContent>)> = volume
        .contents()
        .filter(|(_, content)| on_it(content))
        .map(|(name, content)| (name.to_owned(), Arc::clone(content)))
        .collect();
    let total = contents.iter().map(|(_, content)| content.length).sum();
    let (mut progress, mut done, mut moved) = (ProgressLine::new("remove"), 0, (0, 0));
    for (name, content) in contents {
        progress.show(done, total);
        done += content.length;
        let mut copies = Vec::new();
        for (number, part) in (0u32..).zip(&content.parts) {
            let Some(from) = part.places().find(|place| place.member == member) else { continue };
            let mut places = part.places();
            let Some(bytes) = places.find_map(|place| read_unit(volume, &content, number, place, disks)) else {
                bail!("part {number} of `{name}` is damaged in every copy: put it in anew or remove it, then repeat");
            };
            let Some(to) = volume.take_unit_instead(part, member) else {
                bail!(
                    "the other disks have no room for part {number} of `{name}`: what moved so far is there; make room, or add a disk, then repeat"
                );
            };
            moved = (moved.0 + 1, moved.1 + volume.part_bytes(&content, number));
            write_copy(volume, disks, (&name, &content, number), to, bytes)?;
            copies.push(MovedCopy { part: number, from, to });
        }
        drop(content);
        volume.move_copies(&name, &copies)?;
        disks.commit(volume)?;
    }
    Ok(moved)
}
