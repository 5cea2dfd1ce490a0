//! `isocast volume check` and `isocast volume scrub`: whether all contents are as they were written.

use std::fmt;
use std::io::Write;

use anyhow::Context as _;
use clap::Args;
use program::output::counted;
use serde_json::json;
use volume::{Damage, DamagedCopy, Depth, Volume};
use volumes::{OwnVolume, VolumeDisks};

use super::DiskNames;
use super::disks::{self, Purpose, refuse_missing, stays_held};
use super::progress::ProgressLine;
use super::served::{VolumeOfServer, VolumeServer};

/// What this program exits with when it does not know whether a volume is damaged.
pub const NOT_LOOKED_AT: u8 = 3;

/// Context of the error that kept the command from examining the volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotLookedAt;

impl fmt::Display for NotLookedAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("whether the volume is damaged is not known")
    }
}

/// Check the catalogue against the units' headers: finds lost, torn and misplaced writes. Exit code 1 if damage was found, 3 if that is not
/// known.
#[derive(Debug, Args)]
pub(crate) struct VolumeCheck {
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    names: DiskNames,
}

/// Read and verify every byte; damaged copies are written anew from another one. Exit code 1 if damage was found, 3 if that is not known.
#[derive(Debug, Args)]
pub(crate) struct Scrub {
    /// Only report damage, and write nothing.
    #[arg(long)]
    no_repair: bool,
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: VolumeServer,
    #[command(flatten)]
    names: DiskNames,
}

/// A damaged copy of a part, and its state after the run.
struct DamagedPart {
    finding: DamagedCopy,
    /// Another copy of the part is right: nothing is lost.
    elsewhere: bool,
    repaired: bool,
}

impl DamagedPart {
    /// The content, and its part.
    fn part(&self) -> (String, u32) {
        (self.finding.name.clone(), self.finding.part)
    }
}

impl VolumeCheck {
    pub(crate) fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let (volume, found) = self.examine().context(NotLookedAt)?;
        report(out, self.json, &volume, &found)
    }

    fn examine(&self) -> anyhow::Result<(Volume, Vec<DamagedPart>)> {
        if let Some(held) = self.names.disks.0.iter().find(|disk| stays_held(disk)) {
            anyhow::bail!(
                "{} is in use: a server that has the volume looks at every byte of it (`isocast volume scrub`)",
                held.display()
            );
        }
        let (mut disks, volume) = disks::open(&self.names.disks.0, Purpose::Read)?;
        let found = examine(&volume, &mut disks, Depth::Headers);
        Ok((volume, found))
    }
}

impl Scrub {
    pub(crate) fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        if let Some(served) = self.server.serving(&self.names.disks.0).context(NotLookedAt)? {
            return self.ask(out, &served);
        }
        let (volume, found) = self.examine().context(NotLookedAt)?;
        report(out, self.json, &volume, &found)
    }

    fn examine(&self) -> anyhow::Result<(Volume, Vec<DamagedPart>)> {
        let purpose = if self.no_repair { Purpose::Read } else { Purpose::Write };
        let (mut disks, volume) = disks::open(&self.names.disks.0, purpose)?;
        if !self.no_repair {
            refuse_missing(&volume)?;
        }
        let mut found = examine(&volume, &mut disks, Depth::Payload);
        let can_be = |one: &&DamagedPart| one.elsewhere && !self.no_repair;
        let parts: Vec<_> = found.iter().filter(can_be).map(DamagedPart::part).collect();
        if !parts.is_empty() {
            drop(disks);
            let mended = OwnVolume::open(&self.names.disks.0)?.mend(&parts);
            found.iter_mut().for_each(|one| one.repaired = mended.contains(&one.part()));
        }
        Ok((volume, found))
    }

    fn ask(&self, out: &mut dyn Write, served: &VolumeOfServer) -> anyhow::Result<()> {
        if self.no_repair {
            let why = "a server that has the volume mends the damage it finds: leave --no-repair out";
            return Err(anyhow::anyhow!(why).context(NotLookedAt));
        }
        let done = served.ask("scrub", true, "scrub").context(NotLookedAt)?.context("it was waited for")?;
        let (contents, repaired, lost) = (served.status.contents, done.copies_written, done.copies_lost);
        if self.json {
            let found = json!({ "contents": contents, "sound": repaired + lost == 0, "repaired": repaired, "lost_copies": lost });
            writeln!(out, "{found:#}")?;
        } else {
            writeln!(
                out,
                "{}, copies repaired from the other one: {repaired}, without a right one: {lost}",
                counted(contents, "content")
            )?;
        }
        out.flush()?;
        match (repaired, lost) {
            (0, 0) => Ok(()),
            (_, 0) => anyhow::bail!("damage was found; nothing is lost"),
            (_, lost) => anyhow::bail!(
                "{} damaged, and no other one is right: the server's events name the contents",
                counted(lost, "copy")
            ),
        }
    }
}

/// The damaged copies of all contents.
fn examine(volume: &Volume, disks: &mut VolumeDisks, depth: Depth) -> Vec<DamagedPart> {
    let what = if depth == Depth::Headers { "check" } else { "scrub" };
    let mut progress = ProgressLine::new(what);
    let total = volume.contents().map(|(_, content)| content.length).sum();
    let (mut done, mut found) = (0, Vec::new());
    for (name, content) in volume.contents() {
        for (number, part) in (0u32..).zip(&content.parts) {
            progress.show(done, total);
            done += volume.members().part_bytes(content, number);
            let findings = volume.members().examine(name, content, number, depth, disks);
            let elsewhere = findings.len() < part.places().count();
            found.extend(findings.into_iter().map(|finding| DamagedPart { finding, elsewhere, repaired: false }));
        }
    }
    found
}

fn words(damage: Damage) -> String {
    match damage {
        Damage::DiskMissing => "its disk is missing".to_owned(),
        Damage::Unreadable => "the disk cannot read it".to_owned(),
        Damage::NoHeader => "its header is torn or was never written".to_owned(),
        Damage::WrongUnit => "another unit lies there: a write was lost, or went elsewhere".to_owned(),
        Damage::Payload(offset) => format!("its bytes from {offset} on differ from those written"),
    }
}

fn report(out: &mut dyn Write, json: bool, volume: &Volume, found: &[DamagedPart]) -> anyhow::Result<()> {
    let unbalanced = volume.unbalanced();
    let lost: std::collections::BTreeSet<&str> =
        found.iter().filter(|one| !one.elsewhere).map(|one| one.finding.name.as_str()).collect();
    if json {
        let row = |one: &DamagedPart| {
            json!({
                "content": one.finding.name, "part": one.finding.part, "disk": one.finding.place.member.0,
                "unit": one.finding.place.unit, "damage": words(one.finding.damage),
                "lost": !one.elsewhere, "repaired": one.repaired,
            })
        };
        let rows: Vec<_> = found.iter().map(row).collect();
        let sound = found.is_empty() && unbalanced.is_empty();
        writeln!(out, "{:#}", json!({ "contents": volume.len(), "sound": sound, "lost": lost, "damage": rows }))?;
    } else {
        for one in found {
            let outcome = match (one.repaired, one.elsewhere) {
                (true, _) => "repaired from the other copy",
                (false, true) => "nothing is lost: another copy is right",
                (false, false) => "LOST: no copy is right",
            };
            let DamagedCopy { name, part, place, damage } = &one.finding;
            let (disk, unit) = (place.member.0, place.unit);
            writeln!(out, "`{name}` part {part} (disk {disk}, unit {unit}): {}; {outcome}", words(*damage))?;
        }
        writeln!(
            out,
            "{}, damaged copies: {}, contents with lost parts: {}",
            counted(volume.len(), "content"),
            found.len(),
            lost.len()
        )?;
    }
    if found.is_empty() && unbalanced.is_empty() {
        return Ok(());
    }
    out.flush()?;
    match lost.is_empty() {
        true => anyhow::bail!("damage was found; nothing is lost"),
        false => anyhow::bail!("{} with lost parts: put them in anew, or remove them", counted(lost.len(), "content")),
    }
}
