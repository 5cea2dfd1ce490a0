//! `isocast volume add`, `remove` and `rebalance`: adds a disk, removes a disk after moving its contents to the others, and
//! makes all disks equally full.
//!
//! Promise: after an interruption at any moment the volume is whole, and the same command continues; a copy is written only
//! from bytes that were just verified. If a server has the volume, the command requests the work from it.

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use serde_json::json;
use units::{ByteCount, counted};
use volume::{MemberId, Placement, Volume};
use volumes::{OpenDisk, VolumeDiskError, VolumeWish, check_apart};

use super::disks::{self, Purpose, print_configuration, refuse_missing};
use super::existing_data::open_to_overwrite;
use super::served::{ServedDisks, VolumeOfServer};
use super::upkeep::look_after;
use super::{NewDisk, print};

/// Longest wait until the server releases a removed disk, and the period of the check.
const FREE_TIME_MAX: Duration = Duration::from_secs(10);
const FREE_PERIOD: Duration = Duration::from_millis(20);

/// Add a disk to a volume: new contents use it.
///
/// Where a server has the volume, it takes the disk in while it runs: one after each start.
#[derive(Debug, Args)]
pub(crate) struct AddDisk {
    #[command(flatten)]
    coming: NewDisk,
    #[command(flatten)]
    disks: ServedDisks,
}

impl AddDisk {
    pub(crate) fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let named = self.disks.names.without(&self.coming.new);
        if let Some(served) = self.disks.server.serving(&named)? {
            return self.ask(out, &served);
        }
        let all: Vec<PathBuf> = named.iter().chain([&self.coming.new]).cloned().collect();
        let (member, volume) = match disks::open(&all, Purpose::Write).ok().filter(|_| self.coming.yes) {
            // An interrupted `add` has entered the disk, perhaps not yet in the superblocks of all disks.
            Some((disks, mut volume)) => {
                disks.write_steps(&volume.members().superblock_writes())?;
                disks.commit(&mut volume)?;
                (disks.number_of(&self.coming.new)?, volume)
            }
            None => self.add(&named)?,
        };
        self.report(out, member.index(), volume.free_bytes())?;
        print_configuration(&all);
        Ok(())
    }

    fn report(&self, out: &mut dyn Write, number: usize, free: u64) -> anyhow::Result<()> {
        let new = &self.coming.new;
        let json = || json!({ "disk": number, "device": new, "free_bytes": free });
        let line = format_args!("{} is disk {number} of the volume: {} free", new.display(), ByteCount(free));
        Ok(print(out, self.coming.json.then(json), line)?)
    }

    /// Requests the work from the server. The new disk is cleared first: a server accepts only a blank disk.
    fn ask(&self, out: &mut dyn Write, served: &VolumeOfServer) -> anyhow::Result<()> {
        let new = &self.coming.new;
        let is_in = served.number_of(new).is_ok_and(|number| served.status.disks[number].state == "active");
        if !is_in {
            let device = self.coming.cleared(|| self.confirm())?;
            served.ask(&format!("disks/add?device={device}"), false, "add")?;
        }
        let volume = served.now()?;
        let number = volume.number_of(new)?;
        self.report(out, number, volume.status.free_bytes)?;
        print_configuration(&volume.disks());
        Ok(())
    }

    fn confirm(&self) -> anyhow::Result<()> {
        let new = self.coming.new.display();
        ensure!(self.coming.yes, "this loses all data on {new}: say --yes to do it");
        Ok(())
    }

    fn add(&self, named: &[PathBuf]) -> anyhow::Result<(MemberId, Volume)> {
        let new = open_to_overwrite(&self.coming.new, self.coming.force)?;
        let (mut disks, mut volume) = disks::open(named, Purpose::Write)?;
        refuse_missing(&volume)?;
        let devices: Vec<_> = disks.iter().chain([&new]).map(|disk| &disk.device).collect();
        check_apart(&devices, Placement::Span)?;
        let (member, steps) =
            volume.add_disk(new.size).with_context(|| format!("cannot add {}", self.coming.new.display()))?;
        self.confirm()?;
        new.preallocate().with_context(|| format!("cannot take the room of {}", self.coming.new.display()))?;
        disks.0.resize_with(volume.superblock().members.len(), || None);
        disks.0[member.index()] = Some(new);
        disks.write_steps(&steps)?;
        disks.commit(&mut volume)?;
        Ok((member, volume))
    }
}

/// Take a disk out of a volume: its contents move to the other disks first.
///
/// If a server has the volume, it does the work while streams run. After an interruption the same command continues.
#[derive(Debug, Args)]
pub(crate) struct RemoveDisk {
    /// The disk to remove. An unreadable disk can be removed from a mirror that a server has, or be replaced (`isocast volume replace`).
    #[arg(long, value_name = "DEV")]
    old: PathBuf,
    /// Do it: without this nothing is written.
    #[arg(long)]
    yes: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    disks: ServedDisks,
}

impl RemoveDisk {
    pub(crate) fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        if let Some(served) = self.disks.serving()? {
            return self.ask(out, &served);
        }
        let all: Vec<PathBuf> = self.disks.names.without(&self.old).into_iter().chain([self.old.clone()]).collect();
        let (disks, volume) = disks::open(&all, Purpose::Write)?;
        refuse_missing(&volume)?;
        let member = disks.number_of(&self.old)?;
        if !volume.members().may_leave(member) {
            bail!("without {} too few disks are left for this layout: add one first", self.old.display());
        }
        self.confirm()?;
        drop((disks, volume));
        let (done, free) = look_after(&all, Some(&VolumeWish::Remove(member.0)), "remove")?;
        let (moved, bytes) = (done.report.written, done.report.written_bytes);
        let json = || {
            json!({
                "disk": member.0, "device": self.old, "moved_parts": moved, "moved_bytes": bytes.0, "free_bytes": free,
            })
        };
        let line = format_args!("{} is out of the volume: {bytes} moved, {} free", self.old.display(), ByteCount(free));
        print(out, self.json.then(json), line)?;
        print_configuration(&self.disks.names.without(&self.old));
        Ok(())
    }

    fn confirm(&self) -> anyhow::Result<()> {
        let old = self.old.display();
        ensure!(self.yes, "this moves everything on {old} to the other disks: say --yes to do it");
        Ok(())
    }

    fn ask(&self, out: &mut dyn Write, served: &VolumeOfServer) -> anyhow::Result<()> {
        let number = served.number_of(&self.old)?;
        self.confirm()?;
        let moved = served.ask(&format!("disks/{number}/remove"), true, "remove")?.context("it was waited for")?;
        self.wait_until_free();
        print_configuration(&served.now()?.disks());
        let parts = moved.copies_written;
        let json = || json!({ "disk": number, "device": self.old, "moved_parts": parts });
        let line = format_args!("{} is out of the volume: {} moved", self.old.display(), counted(parts, "part"));
        Ok(print(out, self.json.then(json), line)?)
    }

    /// Waits until the server releases the disk, so that the next command can use it. The server does so when the disk's thread
    /// has noted the removal and the last reader has ended. If the wait times out, the next command reports the disk as in use.
    fn wait_until_free(&self) {
        let is_held = || matches!(OpenDisk::open(&self.old, Purpose::Read), Err(VolumeDiskError::InUse(_)));
        let began = Instant::now();
        while is_held() && began.elapsed() < FREE_TIME_MAX {
            std::thread::sleep(FREE_PERIOD);
        }
    }
}

/// Move contents from disks that are fuller than others to these, so that all are equally full.
///
/// New contents go to the emptiest disks anyway; this command moves contents written before a disk was added. If a server has
/// the volume, it does the work while streams run. After an interruption the same command continues.
#[derive(Debug, Args)]
pub(crate) struct Rebalance {
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    disks: ServedDisks,
}

impl Rebalance {
    pub(crate) fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let (moved, lost) = match self.disks.serving()? {
            Some(served) => {
                let done = served.ask("rebalance", true, "rebalance")?.context("it was waited for")?;
                (done.copies_written, done.copies_lost)
            }
            None => {
                refuse_missing(&disks::open(self.disks.all(), Purpose::Write)?.1)?;
                let (done, _) = look_after(self.disks.all(), Some(&VolumeWish::Rebalance), "rebalance")?;
                (done.report.written, done.report.lost)
            }
        };
        let json = || json!({ "moved_parts": moved, "lost_parts": lost });
        print(out, self.json.then(json), format_args!("{} moved", counted(moved, "part")))?;
        out.flush()?;
        ensure!(lost == 0, "{} without a right copy: `isocast volume scrub` names the contents", counted(lost, "part"));
        Ok(())
    }
}
