//! `isocast volume status` and `isocast volume ls`.

use std::io::Write;
use std::time::{Duration, UNIX_EPOCH};

use clap::Args;
use serde_json::json;
use units::ByteCount;
use volume::{ListedName, MemberId, MemberState, Volume};

use super::DiskNames;
use super::disks::{Purpose, VolumeDisks};

/// Show what a volume is, its disks, and what is free. Exit code 1 if a disk is missing or was taken out.
#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Print it as JSON.
    #[arg(long)]
    json: bool,
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
                "unit_bytes": superblock.unit_bytes,
                "contents": volume.len(),
                "free_bytes": volume.free_bytes(),
                "sound": sound,
                "disks": rows,
            });
            writeln!(out, "{status:#}")?;
        } else {
            writeln!(out, "volume    {} ({})", superblock.name, superblock.placement.name())?;
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
        if !sound {
            out.flush()?;
            anyhow::bail!(
                "a disk of the volume is missing or was taken out: name all its disks, or `isocast volume replace` it"
            );
        }
        Ok(())
    }
}

impl Ls {
    pub(crate) fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let (_, volume) = VolumeDisks::open(&self.names.disks.0, Purpose::Read)?;
        let folder = self.folder.trim_matches('/');
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

fn modified(nanos: u64) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_nanos(nanos))
}
