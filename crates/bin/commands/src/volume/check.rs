//! `isocast volume check` and `isocast volume scrub`: compare the contents with their headers and checksums.

use std::collections::BTreeSet;
use std::fmt;
use std::io::Write;

use anyhow::Context as _;
use clap::Args;
use serde_json::json;
use units::counted;
use volume::{Damage, DamagedCopy, Depth, Volume};
use volumes::{OwnVolume, VolumeDisks};

use super::disks::{self, Purpose, refuse_missing, stays_held};
use super::progress::ProgressLine;
use super::served::{ServedDisks, VolumeOfServer};
use super::{DiskNames, print};

/// Exit code if the state of a volume is unknown.
pub const NOT_LOOKED_AT: u8 = 3;

/// Context of the error that kept the command from examining the volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotLookedAt;

impl fmt::Display for NotLookedAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("whether the volume is damaged is not known")
    }
}

/// Check the catalogue against the units' headers: finds lost, torn and misplaced writes. Exit code 1 means damage, 3 that the
/// state is unknown.
#[derive(Debug, Args)]
pub(crate) struct VolumeCheck {
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    names: DiskNames,
}

/// Read and verify every byte, and rewrite damaged copies from another copy. Exit code 1 means damage, 3 that the state is unknown.
#[derive(Debug, Args)]
pub(crate) struct Scrub {
    /// Report damage only; write nothing.
    #[arg(long)]
    no_repair: bool,
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    disks: ServedDisks,
}

/// A damaged copy of a part, and the outcome of its repair.
struct DamagedPart {
    finding: DamagedCopy,
    other: OtherCopy,
    repaired: bool,
}

/// State of the other copy of a damaged part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OtherCopy {
    /// The other copy is right: nothing is lost.
    Right,
    /// The disk of the other copy is missing: its state is unknown.
    Missing,
    /// There is no other copy, or it is damaged as well.
    None,
}

/// The result of examining all copies.
#[derive(Default)]
struct Findings {
    damaged: Vec<DamagedPart>,
    /// Contents with a copy on a missing disk (`unknown`), and of these the contents with a part that has no right copy
    /// elsewhere (`missing`).
    unknown: BTreeSet<String>,
    missing: BTreeSet<String>,
    /// The numbers of the missing disks.
    away: BTreeSet<u8>,
}

impl DamagedPart {
    /// The name of the content, and the number of the part.
    fn part(&self) -> (String, u32) {
        (self.finding.name.clone(), self.finding.part)
    }
}

impl VolumeCheck {
    pub(crate) fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let (volume, found) = self.examine().context(NotLookedAt)?;
        report(out, self.json, &volume, &found)
    }

    fn examine(&self) -> anyhow::Result<(Volume, Findings)> {
        if let Some(held) = self.names.all().iter().find(|disk| stays_held(disk)) {
            anyhow::bail!(
                "{} is in use: a server that has the volume looks at every byte of it (`isocast volume scrub`)",
                held.display()
            );
        }
        let (mut disks, volume) = disks::open(self.names.all(), Purpose::Read)?;
        let found = examine(&volume, &mut disks, Depth::Headers);
        Ok((volume, found))
    }
}

impl Scrub {
    pub(crate) fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        if let Some(served) = self.disks.serving().context(NotLookedAt)? {
            return self.ask(out, &served);
        }
        let (volume, found) = self.examine().context(NotLookedAt)?;
        report(out, self.json, &volume, &found)
    }

    fn examine(&self) -> anyhow::Result<(Volume, Findings)> {
        let purpose = if self.no_repair { Purpose::Read } else { Purpose::Write };
        let (mut disks, volume) = disks::open(self.disks.all(), purpose)?;
        if !self.no_repair {
            refuse_missing(&volume)?;
        }
        let mut found = examine(&volume, &mut disks, Depth::Payload);
        let can_be = |one: &&DamagedPart| one.other == OtherCopy::Right && !self.no_repair;
        let parts: Vec<_> = found.damaged.iter().filter(can_be).map(DamagedPart::part).collect();
        if !parts.is_empty() {
            drop(disks);
            let mended = OwnVolume::open(self.disks.all())?.mend(&parts);
            found.damaged.iter_mut().for_each(|one| one.repaired = mended.contains(&one.part()));
        }
        Ok((volume, found))
    }

    fn ask(&self, out: &mut dyn Write, served: &VolumeOfServer) -> anyhow::Result<()> {
        if self.no_repair {
            let why = "a server that has the volume repairs the damage it finds: omit --no-repair";
            return Err(anyhow::anyhow!(why).context(NotLookedAt));
        }
        let done = served.ask("scrub", true, "scrub").context(NotLookedAt)?.context("it was waited for")?;
        let (contents, repaired, lost) = (served.status.contents, done.copies_written, done.copies_lost);
        let unknown = done.contents_unknown;
        let json = || {
            json!({
                "contents": contents, "sound": repaired + lost + unknown == 0, "repaired": repaired, "lost_copies": lost,
                "contents_unknown": unknown, "disks_away": done.disks_away,
            })
        };
        let all = counted(contents, "content");
        let line = format_args!("{all}, copies repaired from the other one: {repaired}, not made right: {lost}");
        print(out, self.json.then(json), line)?;
        out.flush()?;
        let damage = match (repaired, lost) {
            (0, 0) => None,
            (_, 0) => Some("damage was found; nothing is lost".to_owned()),
            (_, lost) => Some(format!(
                "{} could not be made right: the server's events `copy_lost` and `copy_unwritten` name the contents",
                counted(lost, "copy")
            )),
        };
        judge(damage, unknown, &done.disks_away)
    }
}

/// `Err` if there is damage, or if copies were not read.
fn judge(damage: Option<String>, unknown: u64, away: &[u8]) -> anyhow::Result<()> {
    let unread = (unknown > 0).then(|| {
        let disks: Vec<String> = away.iter().map(ToString::to_string).collect();
        format!(
            "{} with copies that could not be read, for disk {} is away or not filled yet: put it back (`isocast volume replace` puts \
             another in the place of one of a mirror), and scrub then",
            counted(unknown, "content"),
            disks.join(" and disk ")
        )
    });
    match (damage, unread) {
        (None, None) => Ok(()),
        (None, Some(unread)) => Err(anyhow::anyhow!(unread).context(NotLookedAt)),
        (Some(damage), None) => anyhow::bail!(damage),
        (Some(damage), Some(unread)) => anyhow::bail!("{damage}; {unread}"),
    }
}

/// Examines the copies of all contents.
fn examine(volume: &Volume, disks: &mut VolumeDisks, depth: Depth) -> Findings {
    let what = if depth == Depth::Headers { "check" } else { "scrub" };
    let mut progress = ProgressLine::new(what);
    let total = volume.contents().map(|(_, content)| content.length).sum();
    let (mut done, mut found) = (0, Findings::default());
    for (name, content) in volume.contents() {
        for (number, part) in (0u32..).zip(&content.parts) {
            progress.show(done, total);
            done += volume.members().part_bytes(content, number);
            let findings = volume.members().examine(name, content, number, depth, disks);
            let is_right_elsewhere = findings.len() < part.places().count();
            let is_away = |finding: &DamagedCopy| finding.damage == Damage::DiskMissing;
            let (away, damaged): (Vec<_>, Vec<_>) = findings.into_iter().partition(is_away);
            if !away.is_empty() {
                found.unknown.insert(name.to_owned());
                found.missing.extend((!is_right_elsewhere).then(|| name.to_owned()));
            }
            let other = match away.is_empty() {
                _ if is_right_elsewhere => OtherCopy::Right,
                true => OtherCopy::None,
                false => OtherCopy::Missing,
            };
            found.away.extend(away.iter().map(|finding| finding.place.member.0));
            let damaged = damaged.into_iter().map(|finding| DamagedPart { finding, other, repaired: false });
            found.damaged.extend(damaged);
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

fn report(out: &mut dyn Write, json: bool, volume: &Volume, found: &Findings) -> anyhow::Result<()> {
    let unbalanced = volume.unbalanced();
    let Findings { damaged, unknown, missing, away } = found;
    let is_lost = |one: &&DamagedPart| one.other == OtherCopy::None;
    let lost: BTreeSet<&str> = damaged.iter().filter(is_lost).map(|one| one.finding.name.as_str()).collect();
    let is_sound = damaged.is_empty() && unbalanced.is_empty();
    if json {
        let row = |one: &DamagedPart| {
            json!({
                "content": one.finding.name, "part": one.finding.part, "disk": one.finding.place.member.0,
                "unit": one.finding.place.unit, "damage": words(one.finding.damage),
                "lost": is_lost(&one), "repaired": one.repaired,
            })
        };
        let rows: Vec<_> = damaged.iter().map(row).collect();
        let found = json!({
            "contents": volume.len(), "sound": is_sound && unknown.is_empty(), "lost": lost, "damage": rows,
            "missing": missing, "contents_unknown": unknown.len(), "disks_away": away,
        });
        writeln!(out, "{found:#}")?;
    } else {
        for one in damaged {
            let outcome = match (one.repaired, one.other) {
                (true, _) => "repaired from the other copy",
                (false, OtherCopy::Right) => "nothing is lost: another copy is right",
                (false, OtherCopy::Missing) => {
                    "not known whether it is lost: the other copy is on a disk that is missing"
                }
                (false, OtherCopy::None) => "LOST: no copy is right",
            };
            let DamagedCopy { name, part, place, damage } = &one.finding;
            let (disk, unit) = (place.member.0, place.unit);
            writeln!(out, "`{name}` part {part} (disk {disk}, unit {unit}): {}; {outcome}", words(*damage))?;
        }
        for name in missing {
            writeln!(out, "`{name}`: in part or whole on a disk that is missing: not known whether it is damaged")?;
        }
        writeln!(
            out,
            "{}, damaged copies: {}, contents with lost parts: {}",
            counted(volume.len(), "content"),
            damaged.len(),
            lost.len()
        )?;
    }
    out.flush()?;
    let damage = match lost.is_empty() {
        _ if is_sound => None,
        true => Some("damage was found; nothing is lost".to_owned()),
        false => Some(format!("{} with lost parts: put them in anew, or remove them", counted(lost.len(), "content"))),
    };
    let away: Vec<u8> = away.iter().copied().collect();
    judge(damage, unknown.len() as u64, &away)
}
