//! `isocast volume status` and `isocast volume ls`.

use std::io::Write;
use std::time::{Duration, UNIX_EPOCH};

use clap::Args;
use serde_json::json;
use units::ByteCount;
use volume::{ListedName, MemberId, MemberState, Volume};

use super::DiskNames;
use super::disks::{Purpose, VolumeDisks};
use super::folder_layout::folders;
use super::served::VolumeServer;
use api::{EntryKind, ListingEntry, VolumeDiskStatus, VolumeStatus};

/// Show what a volume is, its disks, and what is free. Exit code 1 if a disk is missing or was taken out.
#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Print it as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: VolumeServer,
    #[command(flatten)]
    names: DiskNames,
}

/// List what a folder of a volume holds.
#[derive(Debug, Args)]
pub(crate) struct Ls {
    /// Print it as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: VolumeServer,
    #[command(flatten)]
    names: DiskNames,
    /// The folder.
    #[arg(default_value = "")]
    folder: String,
}

fn state_name(volume: &Volume, member: MemberId) -> &'static str {
    match volume.superblock().members[member.index()].state {
        state if state == MemberState::Out || volume.is_writable(member) => state.name(),
        _ => "missing",
    }
}

impl Status {
    pub(crate) fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        if let Some(served) = self.server.serving(&self.names.disks.0)? {
            return self.show_served(out, &served.status);
        }
        let (disks, volume) = VolumeDisks::open(&self.names.disks.0, Purpose::Read)?;
        let superblock = volume.superblock();
        let free = volume.free_counts();
        let rows: Vec<serde_json::Value> = (0u8..)
            .map(MemberId)
            .zip(&superblock.members)
            .map(|(member, record)| {
                let path = disks.0[member.index()].as_ref().map(|disk| disk.path.clone());
                json!({
                    "number": member.0,
                    "device": path,
                    "state": state_name(&volume, member),
                    "size_bytes": record.size,
                    "units": volume.unit_count(member),
                    "free_units": free[member.index()],
                })
            })
            .collect();
        let sound = rows.iter().all(|row| row["state"] == "active");
        if self.json {
            let status = json!({
                "name": superblock.name,
                "layout": superblock.placement.name(),
                "folder_layouts": folders(&volume),
                "unit_bytes": superblock.unit_bytes,
                "contents": volume.len(),
                "free_bytes": volume.free_bytes(),
                "sound": sound,
                "disks": rows,
            });
            writeln!(out, "{status:#}")?;
        } else {
            writeln!(out, "volume    {} ({})", superblock.name, superblock.placement.name())?;
            for (folder, placement) in &superblock.folders {
                writeln!(out, "folder    {folder} ({})", placement.name())?;
            }
            writeln!(out, "contents  {}", volume.len())?;
            writeln!(
                out,
                "free      {} in units of {}",
                ByteCount(volume.free_bytes()),
                ByteCount(superblock.unit_bytes)
            )?;
            for row in &rows {
                let (device, state) = (row["device"].as_str().unwrap_or("-"), row["state"].as_str().unwrap_or(""));
                let free = row["free_units"].as_u64().map_or_else(|| "-".to_owned(), |free| free.to_string());
                writeln!(out, "disk {:<4} {state:8} {} units, {free} free  {device}", row["number"], row["units"])?;
            }
        }
        judge(out, sound)
    }

    /// As the server that has the volume says it; a disk that left it is none of it any more.
    fn show_served(&self, out: &mut dyn Write, status: &VolumeStatus) -> anyhow::Result<()> {
        let sound = status.disks.iter().all(|disk| disk.state == "active");
        if self.json {
            let row = |(number, disk): (usize, &VolumeDiskStatus)| json!({ "number": number, "device": disk.path, "state": disk.state });
            let rows: Vec<_> = status.disks.iter().enumerate().map(row).collect();
            let (name, layout) = (&status.name, &status.layout);
            let shown = json!({
                "name": name, "layout": layout, "contents": status.contents, "free_bytes": status.free_bytes, "sound": sound,
                "upkeep": status.upkeep, "disks": rows,
            });
            writeln!(out, "{shown:#}")?;
        } else {
            writeln!(out, "volume    {} ({}), served", status.name, status.layout)?;
            writeln!(out, "contents  {}", status.contents)?;
            writeln!(out, "free      {}", ByteCount(status.free_bytes))?;
            for (number, disk) in status.disks.iter().enumerate() {
                writeln!(out, "disk {number:<4} {:8} {}", disk.state, disk.path.as_deref().unwrap_or("-"))?;
            }
            if let Some(upkeep) = &status.upkeep {
                let (seen, total) = (ByteCount(upkeep.seen_bytes), ByteCount(upkeep.total_bytes));
                writeln!(out, "{}     {seen} of {total}", upkeep.kind)?;
            }
        }
        judge(out, sound)
    }
}

fn judge(out: &mut dyn Write, sound: bool) -> anyhow::Result<()> {
    if sound {
        return Ok(());
    }
    out.flush()?;
    anyhow::bail!(
        "a disk of the volume is missing or was taken out: name all its disks, or `isocast volume replace` it"
    )
}

impl Ls {
    pub(crate) fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let folder = self.folder.trim_matches('/');
        if let Some(served) = self.server.serving(&self.names.disks.0)? {
            return self.list_served(out, served.media()?.entries(folder)?);
        }
        let (_, volume) = VolumeDisks::open(&self.names.disks.0, Purpose::Read)?;
        if !volume.is_folder(folder) {
            anyhow::bail!("the volume has no folder `{folder}`");
        }
        let listed = volume.list(folder);
        if self.json {
            let row = |one: &ListedName| match one {
                ListedName::Folder(name) => json!({ "name": name, "type": "folder" }),
                ListedName::Content(name, content) => json!({
                    "name": name, "type": "content", "bytes": content.length, "units": content.parts.len(),
                    "runs": content.runs(), "modified": modified(content.modified),
                }),
            };
            let rows: Vec<_> = listed.iter().map(row).collect();
            writeln!(out, "{:#}", json!(rows))?;
            return Ok(());
        }
        for one in listed {
            match one {
                ListedName::Folder(name) => writeln!(out, "{:>16}  {:29}  {name}/", "-", "-")?,
                ListedName::Content(name, content) => {
                    writeln!(out, "{:>16}  {:29}  {name}", content.length, modified(content.modified))?;
                }
            }
        }
        Ok(())
    }
}

impl Ls {
    fn list_served(&self, out: &mut dyn Write, listed: Vec<ListingEntry>) -> anyhow::Result<()> {
        if self.json {
            let row = |entry: &ListingEntry| match entry.kind {
                EntryKind::Directory => json!({ "name": entry.name, "type": "folder" }),
                EntryKind::File => json!({
                    "name": entry.name, "type": "content", "bytes": entry.size, "modified": entry.modified,
                }),
            };
            let rows: Vec<_> = listed.iter().map(row).collect();
            writeln!(out, "{:#}", json!(rows))?;
            return Ok(());
        }
        for entry in listed {
            match entry.kind {
                EntryKind::Directory => writeln!(out, "{:>16}  {:29}  {}/", "-", "-", entry.name)?,
                EntryKind::File => writeln!(out, "{:>16}  {:29}  {}", entry.size, entry.modified, entry.name)?,
            }
        }
        Ok(())
    }
}

fn modified(nanos: u64) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_nanos(nanos))
}
