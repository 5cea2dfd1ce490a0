//! `isocast volume status` and `isocast volume ls`.

use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use serde_json::{Value, json};
use units::{ByteCount, Nanos, counted};
use volume::{ListedName, MemberId, MemberRecord, Placement, Volume};

use super::disks::{self, Purpose};
use super::served::ServedDisks;
use api::{EntryKind, ListingEntry, VolumeDiskStatus, VolumeStatus};

/// Show a volume, its disks, and its free room. Exit code 1 if a disk is not in use, or contents are damaged.
#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Print it as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    disks: ServedDisks,
}

/// The holder of a volume that is shown.
enum VolumeHolder {
    /// A server.
    Server,
    /// This process; the recordings that a crash broke off.
    This { recordings_left: usize },
}

impl VolumeHolder {
    fn recordings_left(&self) -> usize {
        match self {
            Self::Server => 0,
            Self::This { recordings_left } => *recordings_left,
        }
    }
}

/// List a folder of a volume.
#[derive(Debug, Args)]
pub(crate) struct Ls {
    /// Print it as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    disks: ServedDisks,
    /// The folder.
    #[arg(default_value = "")]
    folder: String,
}

fn state_name(volume: &Volume, member: MemberId) -> &'static str {
    match volume.superblock().members[member.index()].state {
        state if !state.takes_part() || volume.is_writable(member) => state.name(),
        _ => "missing",
    }
}

impl Status {
    pub(crate) fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        if let Some(served) = self.disks.serving()? {
            return self.show(out, &served.status, &VolumeHolder::Server);
        }
        let (disks, volume) = disks::open(self.disks.all(), Purpose::Read)?;
        let superblock = volume.superblock();
        let members = (0u8..).map(MemberId).zip(&superblock.members).zip(volume.free_counts());
        let disk = |((member, record), free_units): ((MemberId, &MemberRecord), Option<u64>)| VolumeDiskStatus {
            disk: None,
            path: disks.0[member.index()].as_ref().map(|disk| disk.path.display().to_string()),
            state: state_name(&volume, member).to_owned(),
            size_bytes: record.size,
            units: u64::from(volume.members().unit_count(member)),
            free_units,
            error: None,
            wrong_copies: 0,
        };
        let folder = |(folder, layout): &(String, Placement)| (folder.clone(), layout.name().to_owned());
        let disks: Vec<_> = members.map(disk).collect();
        let status = VolumeStatus {
            name: superblock.name.clone(),
            layout: superblock.placement.name().to_owned(),
            folder_layouts: superblock.folders.iter().map(folder).collect(),
            unit_bytes: superblock.unit_bytes,
            contents: u64::try_from(volume.len())?,
            free_bytes: volume.free_bytes(),
            missing_contents: u64::try_from(volume.unreadable_count())?,
            damaged_contents: 0,
            degraded: disks.iter().any(|disk| !matches!(disk.state.as_str(), "active" | "left")),
            disks,
            last_scrub: None,
            moved_copies: 0,
            upkeep: None,
            last_upkeep: None,
        };
        self.show(out, &status, &VolumeHolder::This { recordings_left: volume.recordings().count() })
    }

    /// The same of a served volume and of any other; a disk that left a served volume is no part of it any more.
    fn show(&self, out: &mut dyn Write, status: &VolumeStatus, holder: &VolumeHolder) -> anyhow::Result<()> {
        let problem = problem(status);
        match self.json {
            true => print_json(out, status, holder, problem.is_none())?,
            false => print_text(out, status, holder)?,
        }
        judge(out, problem)
    }
}

fn print_json(out: &mut dyn Write, status: &VolumeStatus, holder: &VolumeHolder, sound: bool) -> anyhow::Result<()> {
    let row = |(number, disk): (usize, &VolumeDiskStatus)| {
        json!({
            "number": number, "device": disk.path, "state": disk.state, "size_bytes": disk.size_bytes,
            "units": disk.units, "free_units": disk.free_units, "error": disk.error, "wrong_copies": disk.wrong_copies,
        })
    };
    let rows: Vec<_> = status.disks.iter().enumerate().map(row).collect();
    let shown = json!({
        "name": status.name, "layout": status.layout, "folder_layouts": status.folder_layouts, "unit_bytes": status.unit_bytes,
        "contents": status.contents, "recordings_left": holder.recordings_left(), "free_bytes": status.free_bytes, "sound": sound,
        "upkeep": status.upkeep, "disks": rows, "missing_contents": status.missing_contents,
        "damaged_contents": status.damaged_contents, "last_scrub": status.last_scrub,
    });
    Ok(writeln!(out, "{shown:#}")?)
}

fn print_text(out: &mut dyn Write, status: &VolumeStatus, holder: &VolumeHolder) -> anyhow::Result<()> {
    // The disks of a served volume are looked at by its server only.
    let (served, missing_hint, damaged_hint) = match holder {
        VolumeHolder::Server => (
            ", served",
            "put the disk back, and start again",
            "the events `copy_lost` of `isocast volume scrub` name them",
        ),
        VolumeHolder::This { .. } => {
            ("", "`isocast volume check` names them", "`isocast volume scrub --no-repair` names them")
        }
    };
    let VolumeStatus { name, layout, folder_layouts, unit_bytes, contents, free_bytes, disks, upkeep, .. } = status;
    let left = holder.recordings_left();
    writeln!(out, "volume    {name} ({layout}){served}")?;
    for (folder, layout) in folder_layouts {
        writeln!(out, "folder    {folder} ({layout})")?;
    }
    writeln!(out, "contents  {contents}")?;
    if left > 0 {
        writeln!(
            out,
            "left      {} that a crash broke off: the next server of the volume makes contents of them",
            counted(left, "recording")
        )?;
    }
    writeln!(out, "free      {} in units of {}", ByteCount(*free_bytes), ByteCount(*unit_bytes))?;
    for (number, disk) in disks.iter().enumerate() {
        let (device, units) = (disk.path.as_deref().unwrap_or("-"), disk.units);
        let free = disk.free_units.map_or_else(|| "-".to_owned(), |free| free.to_string());
        let wrong = match disk.wrong_copies {
            0 => String::new(),
            count => format!(", {}", counted(count, "wrong copy")),
        };
        writeln!(out, "disk {number:<4} {:8} {units} units, {free} free{wrong}  {device}", disk.state)?;
        if let Some(error) = &disk.error {
            writeln!(out, "          {error}")?;
        }
    }
    let (missing, damaged) = (status.missing_contents, status.damaged_contents);
    for (count, state, hint) in [(missing, "missing", missing_hint), (damaged, "damaged", damaged_hint)] {
        if count > 0 {
            writeln!(out, "{state}   {}, in part or whole: {hint}", counted(count, "content"))?;
        }
    }
    if let Some(scrub) = &status.last_scrub {
        let (written, lost) = (scrub.copies_written, scrub.copies_lost);
        let ended = UNIX_EPOCH + Duration::from_secs_f64(scrub.ended.max(0.0));
        let ago = SystemTime::now().duration_since(ended).unwrap_or_default().as_secs();
        let unknown = match scrub.contents_unknown {
            0 => String::new(),
            count => format!(", a disk was away for {}", counted(count, "content")),
        };
        let ago = Nanos::from_secs(ago.max(1));
        writeln!(out, "scrubbed  {ago} ago: {} mended, {lost} lost{unknown}", counted(written, "copy"))?;
    }
    if let Some(upkeep) = upkeep {
        let (seen, total) = (ByteCount(upkeep.seen_bytes), ByteCount(upkeep.total_bytes));
        writeln!(out, "{}     {seen} of {total}", upkeep.kind)?;
    }
    Ok(())
}

/// The gravest thing that is wrong, with the next step.
fn problem(status: &VolumeStatus) -> Option<&'static str> {
    let is = |state: &str| status.disks.iter().any(|disk| disk.state == state);
    let lost = status.last_scrub.as_ref().is_some_and(|scrub| scrub.copies_lost > 0);
    match () {
        () if is("failed") => {
            Some("a disk failed, and the volume takes no changes: start the server again when the disk answers")
        }
        () if is("missing") => {
            Some("a disk of the volume is missing: name all its disks, put it back, or `isocast volume replace` it")
        }
        () if is("out") => Some("a disk is out: the server fills it when it answers, or `isocast volume replace` it"),
        () if is("read only") => {
            Some("a disk takes no writes: `isocast volume remove` moves its contents to the others")
        }
        () if status.damaged_contents > 0 || lost => {
            Some("contents are damaged: `isocast volume scrub` names them; store them anew, and scrub again")
        }
        () if status.degraded => Some("a disk is being filled: until then there are fewer copies"),
        () => None,
    }
}

fn judge(out: &mut dyn Write, problem: Option<&'static str>) -> anyhow::Result<()> {
    out.flush()?;
    problem.map_or(Ok(()), |problem| Err(anyhow::anyhow!(problem)))
}

impl Ls {
    pub(crate) fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let folder = self.folder.trim_matches('/');
        let rows: Vec<Value> = match self.disks.serving()? {
            Some(served) => served.media()?.entries(folder)?.iter().map(served_row).collect(),
            None => {
                let (_, volume) = disks::open(self.disks.all(), Purpose::Read)?;
                if !volume.is_folder(folder) {
                    let is_disk = std::path::Path::new(&self.folder).exists();
                    let hint = if is_disk { "; if it is a disk, put a comma between it and the others" } else { "" };
                    anyhow::bail!("the volume has no folder `{folder}`{hint}");
                }
                volume.list(folder).iter().map(row).collect()
            }
        };
        if self.json {
            writeln!(out, "{:#}", json!(rows))?;
            return Ok(());
        }
        for row in rows {
            let text = |key: &str| row[key].as_str().unwrap_or("-").to_owned();
            let bytes = row["bytes"].as_u64().map_or_else(|| "-".to_owned(), |bytes| bytes.to_string());
            let end = if row["type"] == "folder" { "/" } else { "" };
            writeln!(out, "{bytes:>16}  {:29}  {}{end}", text("modified"), text("name"))?;
        }
        Ok(())
    }
}

fn row(listed: &ListedName) -> Value {
    match listed {
        ListedName::Folder(name) => json!({ "name": name, "type": "folder" }),
        ListedName::Content(name, content) => json!({
            "name": name, "type": "content", "bytes": content.length, "units": content.parts.len(),
            "runs": content.runs(), "modified": modified(content.modified),
        }),
    }
}

/// A server does not tell where contents lie.
fn served_row(entry: &ListingEntry) -> Value {
    match entry.kind {
        EntryKind::Directory => json!({ "name": entry.name, "type": "folder" }),
        EntryKind::File => {
            json!({ "name": entry.name, "type": "content", "bytes": entry.size, "modified": entry.modified })
        }
    }
}

fn modified(nanos: u64) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use api::VOLUME_DISK_STATES;

    use super::*;

    fn status(state: &str) -> VolumeStatus {
        let disk = json!({
            "disk": null, "path": "/dev/sdx", "state": state, "error": null, "wrong_copies": 0, "size_bytes": 1, "units": 1, "free_units": 1,
        });
        serde_json::from_value(json!({
            "name": "films", "layout": "mirror", "folder_layouts": {}, "unit_bytes": 1, "contents": 1,
            "degraded": !["active", "left"].contains(&state), "missing_contents": 0, "damaged_contents": 0, "free_bytes": 0,
            "disks": [disk], "moved_copies": 0, "upkeep": null, "last_upkeep": null, "last_scrub": null,
        }))
        .expect("a status")
    }

    #[test]
    fn each_state_of_a_disk_has_its_words() {
        let words = [
            ("active", None),
            ("filling", Some("a disk is being filled")),
            ("out", Some("is out: the server fills it when it answers, or `isocast volume replace` it")),
            ("left", None),
            ("missing", Some("is missing: name all its disks, put it back, or `isocast volume replace` it")),
            ("read only", Some("a disk takes no writes: `isocast volume remove`")),
            ("failed", Some("a disk failed, and the volume takes no changes: start the server again")),
        ];
        assert_eq!(words.map(|(state, _)| state), VOLUME_DISK_STATES);
        for (state, said) in words {
            let found = problem(&status(state));
            assert_eq!(found.is_some(), said.is_some(), "{state}: {found:?}");
            assert!(said.is_none_or(|said| found.is_some_and(|found| found.contains(said))), "{state}: {found:?}");
        }
    }

    #[test]
    fn a_served_volume_is_sent_to_commands_that_it_takes() {
        let hurt = VolumeStatus { missing_contents: 2, damaged_contents: 1, ..status("active") };
        let shown = |holder: &VolumeHolder| {
            let mut out = Vec::new();
            print_text(&mut out, &hurt, holder).expect("it is printed");
            String::from_utf8(out).expect("text")
        };
        let (served, own) = (shown(&VolumeHolder::Server), shown(&VolumeHolder::This { recordings_left: 0 }));
        assert!(own.contains("2 contents, in part or whole: `isocast volume check` names them"), "{own}");
        assert!(own.contains("`isocast volume scrub --no-repair` names them"), "{own}");
        assert!(
            served.contains("put the disk back") && served.contains("`isocast volume scrub` name them"),
            "{served}"
        );
        assert!(!served.contains("volume check") && !served.contains("--no-repair"), "{served}");
    }

    #[test]
    fn damaged_contents_weigh_more_than_a_disk_that_is_filled() {
        let damaged = VolumeStatus { damaged_contents: 1, ..status("filling") };
        assert!(problem(&damaged).is_some_and(|said| said.starts_with("contents are damaged")));
        let both = VolumeStatus { damaged_contents: 1, ..status("out") };
        assert!(problem(&both).is_some_and(|said| said.contains("is out")));
    }
}
