//! `isocast volume replace`: puts a new disk in the place of a failed one and fills it from the other copies.
//!
//! Promise: after an interruption at any moment the same command continues; right copies on the new disk are not written again;
//! a copy is written only from bytes that were just verified. If a server has the volume, the command requests the work from
//! it.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use serde_json::json;
use store::UpkeepReport;
use units::counted;
use volume::{MemberId, MemberState, Placement};
use volumes::{UpkeepOutcome, check_apart, is_same_disk};

use super::disks::{self, Purpose, print_configuration};
use super::existing_data::open_to_overwrite;
use super::served::{ServedDisks, VolumeOfServer};
use super::upkeep::look_after;
use super::{NewDisk, print};

/// Put a new disk into a mirror in the place of one that failed, and fill it from the other copies.
///
/// If a server has the volume, it does the work while streams run. After an interruption the same command continues.
#[derive(Debug, Args)]
pub(crate) struct Replace {
    /// The disk to replace: it is taken out of the volume, and may be broken or missing.
    #[arg(long, value_name = "DEV")]
    old: PathBuf,
    /// Only enter the new disk: the server fills it while streams run, when it serves the volume.
    #[arg(long)]
    fill_later: bool,
    #[command(flatten)]
    coming: NewDisk,
    #[command(flatten)]
    disks: ServedDisks,
}

impl Replace {
    pub(crate) fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let mut others = self.disks.names.without(&self.old);
        others.retain(|disk| !is_same_disk(disk, &self.coming.new));
        if others.is_empty() {
            bail!("name the disks of the volume that stay behind the options: they hold the copies");
        }
        if let Some(served) = self.disks.server.serving(&others)? {
            return self.ask(out, &served);
        }
        let all: Vec<PathBuf> = others.iter().chain([&self.coming.new]).cloned().collect();
        let member = match self.resumed_member(&all) {
            Some(resumed) => resumed,
            None => self.put_in(&others)?,
        };
        print_configuration(&all);
        if self.fill_later {
            return self.report_put_in(out, member);
        }
        // Opening the volume begins to fill a disk that was entered and is not filled.
        let (filled, _) = look_after(&all, None, "replace")?;
        self.report(out, member, &filled)
    }

    /// Asks for confirmation before the first write.
    fn confirm(&self) -> anyhow::Result<()> {
        let (old, coming) = (self.old.display(), self.coming.new.display());
        ensure!(
            self.coming.yes,
            "this takes {old} out of the volume and loses all data on {coming}: say --yes to do it"
        );
        Ok(())
    }

    /// Requests the work from the server. The new disk is cleared first: a server accepts only a blank disk.
    fn ask(&self, out: &mut dyn Write, served: &VolumeOfServer) -> anyhow::Result<()> {
        let number = served.number_of(&self.old)?;
        let device = self.coming.cleared(|| self.confirm())?;
        let filled = served.ask(&format!("disks/{number}/replace?device={device}"), !self.fill_later, "replace")?;
        print_configuration(&served.now()?.disks());
        let Some(filled) = filled else { return self.report_put_in(out, MemberId(u8::try_from(number)?)) };
        let (device, written, lost) = (&self.coming.new, filled.copies_written, filled.copies_lost);
        let json = || json!({ "disk": number, "device": device, "written_parts": written, "lost_parts": lost });
        let (device, parts) = (device.display(), counted(written, "part"));
        let line = format_args!("{device} is disk {number} of the volume: {parts} written");
        print(out, self.coming.json.then(json), line)?;
        match lost {
            0 => Ok(()),
            lost => bail!("{} without a right copy: `isocast volume scrub` names the contents", counted(lost, "part")),
        }
    }

    /// The number of the new disk, if an interrupted command has entered it and it is still being filled.
    fn resumed_member(&self, all: &[PathBuf]) -> Option<MemberId> {
        if !self.coming.yes {
            return None;
        }
        let identified = disks::find(all, Purpose::Write).ok()?.identified;
        let member = identified.disks.iter().position(|disk| *disk == Some(all.len() - 1))?;
        let filling = identified.superblock.members[member].state == MemberState::Filling;
        u8::try_from(member).ok().map(MemberId).filter(|_| filling)
    }

    /// Takes the old disk out, unless it is out already, and enters the new one.
    fn put_in(&self, others: &[PathBuf]) -> anyhow::Result<MemberId> {
        let new = open_to_overwrite(&self.coming.new, self.coming.force)?;
        let (mut disks, mut volume) = disks::open(others, Purpose::Write)?;
        if volume.members().placement() != Placement::Mirror {
            bail!(
                "the volume has one copy of each content, so that a disk cannot be filled from the others: while the old disk \
                 can be read, copy it to the new one as a whole (`dd`), or export the contents"
            );
        }
        let count = u8::try_from(volume.superblock().members.len())?;
        let gone: Vec<MemberId> = (0..count)
            .map(MemberId)
            .filter(|member| !volume.is_readable(*member) && !volume.has_left(*member))
            .collect();
        let [member] = gone[..] else {
            let gone: Vec<u8> = gone.iter().map(|member| member.0).collect();
            bail!(
                "without {} the disks {gone:?} of the volume are missing: exactly one is replaced at a time; name all that stay",
                self.old.display()
            );
        };
        let (size, needed) = (new.size, volume.members().areas(member).size);
        if size < needed {
            bail!(
                "{} has {size} bytes, and the disk it stands in for has {needed}: choose a larger one",
                self.coming.new.display()
            );
        }
        let devices: Vec<_> = disks.iter().chain([&new]).map(|disk| &disk.device).collect();
        check_apart(&devices, volume.members().placement())?;
        self.confirm()?;
        new.preallocate().with_context(|| format!("cannot take the room of {}", self.coming.new.display()))?;
        if volume.superblock().members[member.index()].state.takes_part() {
            let steps = volume.take_out(member)?;
            disks.write_steps(&steps)?;
            disks.commit(&mut volume)?;
        }
        let steps = volume.put_in(member, size)?;
        disks.0[member.index()] = Some(new);
        disks.tell_drives(&mut volume);
        disks.write_steps(&steps)?;
        disks.commit(&mut volume)?;
        Ok(member)
    }

    fn report_put_in(&self, out: &mut dyn Write, member: MemberId) -> anyhow::Result<()> {
        let (device, number) = (self.coming.new.display(), member.0);
        let json = || json!({ "disk": number, "device": self.coming.new, "filled": false });
        let line = format_args!("{device} is disk {number} of the volume: the server that has the volume fills it");
        Ok(print(out, self.coming.json.then(json), line)?)
    }

    fn report(&self, out: &mut dyn Write, member: MemberId, filled: &UpkeepOutcome) -> anyhow::Result<()> {
        let UpkeepOutcome { report, lost, .. } = filled;
        let UpkeepReport { written_bytes: bytes, right: found, written, moved: doubled, .. } = report;
        if self.coming.json {
            let done = json!({
                "disk": member.0, "device": self.coming.new, "written_bytes": bytes.0, "written_parts": written,
                "found_parts": found, "doubled_parts": doubled, "lost": lost,
            });
            writeln!(out, "{done:#}")?;
        } else {
            let (device, number) = (self.coming.new.display(), member.0);
            writeln!(
                out,
                "{device} is disk {number} of the volume: {} written, {found} there already",
                counted(*written, "part")
            )?;
            lost.iter().try_for_each(|name| writeln!(out, "`{name}` has a part without a right copy: LOST"))?;
        }
        out.flush()?;
        match lost.len() {
            0 => Ok(()),
            lost => bail!("{} with lost parts: put them in anew, or remove them", counted(lost, "content")),
        }
    }
}
