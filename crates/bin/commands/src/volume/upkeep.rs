//! Filling a disk and emptying one, while no server has the volume.
//!
//! Promise: a copy is made only of bytes that were just verified, and right copies that are there already are not written again; broken
//! off, all of it can be done again.

use std::sync::Arc;

use anyhow::bail;
use volume::{CopyTask, NewCopy, StoredContent, Upkeep, Volume, VolumeError};

use super::disks::VolumeDisks;
use super::progress::ProgressLine;
use super::transfer::{read_unit, write_copy};

/// Result of an upkeep.
#[derive(Debug, Default)]
pub(super) struct UpkeepDone {
    /// Bytes that were written.
    pub(super) bytes: u64,
    /// Parts that were there already.
    pub(super) found: u64,
    /// Parts that were written.
    pub(super) written: u64,
    /// Of these, parts that lie in a unit they were not in before.
    pub(super) moved: u64,
    /// Contents of which a part has no right copy left.
    pub(super) lost: Vec<String>,
}

/// Looks after every content, and makes the changes durable.
pub(super) fn look_after(
    volume: &mut Volume,
    disks: &mut VolumeDisks,
    upkeep: Upkeep,
    progress: &'static str,
) -> anyhow::Result<UpkeepDone> {
    let contents: Vec<(String, Arc<StoredContent>)> =
        volume.contents().map(|(name, content)| (name.to_owned(), Arc::clone(content))).collect();
    let total = contents.iter().map(|(_, content)| content.length).sum();
    let (mut line, mut seen, mut done) = (ProgressLine::new(progress), 0, UpkeepDone::default());
    for (name, content) in contents {
        let mut copies = Vec::new();
        for (part, _) in (0u32..).zip(&content.parts) {
            line.show(seen, total);
            seen += volume.part_bytes(&content, part);
            let tasks = match volume.copies_to_look_after(upkeep, &name, &content, part) {
                Err(VolumeError::Full) => bail!(
                    "there is no room for a copy of part {part} of `{name}`: the copies made so far stay; make room, or add a \
                     disk, then repeat"
                ),
                tasks => tasks?,
            };
            for task in tasks {
                if !copy(volume, disks, (&name, &content), &task, &mut done)? {
                    done.lost.push(name.clone());
                    task.new_copy.iter().for_each(|copy| volume.give_back(copy.to));
                    continue;
                }
                copies.extend(task.new_copy);
            }
        }
        done.moved += u64::try_from(copies.len())?;
        take(volume, disks, (&name, content), &copies)?;
    }
    done.lost.dedup();
    Ok(done)
}

/// Makes the target of a task right. False if no source is.
fn copy(
    volume: &Volume,
    disks: &mut VolumeDisks,
    (name, content): (&str, &StoredContent),
    task: &CopyTask,
    done: &mut UpkeepDone,
) -> anyhow::Result<bool> {
    let others = task.sources.iter().filter(|source| **source != task.target);
    if others.clone().count() < task.sources.len() && volume.holds(content, task.part, task.target, disks) {
        done.found += 1;
        return Ok(true);
    }
    let mut others = others.copied();
    let Some(bytes) = others.find_map(|place| read_unit(volume, content, task.part, place, disks)) else {
        return Ok(false);
    };
    write_copy(volume, disks, (name, content, task.part), task.target, bytes)?;
    done.bytes += volume.part_bytes(content, task.part);
    done.written += 1;
    Ok(true)
}

fn take(
    volume: &mut Volume,
    disks: &mut VolumeDisks,
    (name, content): (&str, Arc<StoredContent>),
    copies: &[NewCopy],
) -> anyhow::Result<()> {
    volume.take_copies(name, &content, copies)?;
    // No reader holds its old places, so that the units it left are free with the commit.
    drop(content);
    disks.commit(volume)
}
