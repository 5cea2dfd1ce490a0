//! `isocast volume`: makes, fills, checks and repairs volumes. While a server has the disks, most commands call that server.
//!
//! Promise: a disk that holds data is overwritten only with `--force`; nothing is changed before all checks have passed; exit
//! code 1 means damage, 3 that the state is unknown. Not here: the format on the disks (the crate `volume`).

mod check;
mod create;
mod disks;
mod existing_data;
mod export;
mod folder_layout;
mod grow;
mod import;
mod mount;
mod progress;
mod rebuild;
mod replace;
mod served;
mod show;
mod upkeep;

use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

pub use check::{NOT_LOOKED_AT, NotLookedAt};

/// Make, fill, check and mend volumes: contents in large units over one or more disks.
#[derive(Debug, Args)]
pub struct VolumeCommand {
    #[command(subcommand)]
    command: VolumeSubcommand,
}

#[derive(Debug, Subcommand)]
enum VolumeSubcommand {
    Create(create::Create),
    Layout(folder_layout::FolderLayouts),
    Add(grow::AddDisk),
    Remove(grow::RemoveDisk),
    Rebalance(grow::Rebalance),
    Status(show::Status),
    Ls(show::Ls),
    Import(import::Import),
    Export(export::Export),
    Check(check::VolumeCheck),
    Scrub(check::Scrub),
    RebuildCatalogue(rebuild::RebuildCatalogue),
    Replace(replace::Replace),
    Mount(mount::MountFolder),
}

/// The disks of a volume, as every command but `create` names them.
#[derive(Debug, Args)]
pub struct DiskNames {
    /// The disks of the volume, in any order: devices, partitions or files.
    #[arg(value_name = "DEV[,DEV…]", value_parser = parse_disks)]
    disks: DiskList,
}

impl DiskNames {
    fn all(&self) -> &[PathBuf] {
        &self.disks.0
    }

    /// The disks except `path`.
    fn without(&self, path: &Path) -> Vec<PathBuf> {
        self.all().iter().filter(|disk| !volumes::is_same_disk(disk, path)).cloned().collect()
    }
}

/// A disk to add to a volume.
#[derive(Debug, Args)]
struct NewDisk {
    /// The disk that comes: all data on it is lost.
    #[arg(long, value_name = "DEV")]
    new: PathBuf,
    /// Do it: without this nothing is written.
    #[arg(long)]
    yes: bool,
    /// Overwrite a file system, partition table or another volume on the new disk.
    #[arg(long)]
    force: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

impl NewDisk {
    /// Blanks the disk for a server, which accepts only blank disks, after `confirmed` succeeds. Returns the disk's path,
    /// encoded for a URL.
    fn cleared(&self, confirmed: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<String> {
        let new = existing_data::open_to_overwrite(&self.new, self.force)?;
        confirmed()?;
        new.preallocate().with_context(|| format!("cannot take the room of {}", self.new.display()))?;
        new.clear().with_context(|| format!("cannot write to {}", self.new.display()))?;
        let device = self.new.canonicalize()?;
        let device = device.to_str().context("the new disk's path is not UTF-8")?;
        Ok(utf8_percent_encode(device, NON_ALPHANUMERIC).to_string())
    }
}

/// Disks separated by commas: one argument, so that other arguments can follow.
#[derive(Debug, Clone)]
struct DiskList(Vec<PathBuf>);

fn parse_disks(text: &str) -> Result<DiskList, String> {
    let disks: Vec<PathBuf> =
        text.split(',').map(str::trim).filter(|disk| !disk.is_empty()).map(PathBuf::from).collect();
    if disks.is_empty() { Err("name the disks of the volume".to_owned()) } else { Ok(DiskList(disks)) }
}

/// Prints the result of a command as JSON, or else as a line.
fn print(out: &mut dyn Write, json: Option<Value>, line: impl Display) -> std::io::Result<()> {
    match json {
        Some(json) => writeln!(out, "{json:#}"),
        None => writeln!(out, "{line}"),
    }
}

impl VolumeCommand {
    /// Runs the subcommand, which prints to `out`.
    ///
    /// # Errors
    /// The fault of the disks or their contents, and its remedy.
    pub fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        match self.command {
            VolumeSubcommand::Create(create) => create.run(out),
            VolumeSubcommand::Layout(layout) => layout.run(out),
            VolumeSubcommand::Add(add) => add.run(out),
            VolumeSubcommand::Remove(remove) => remove.run(out),
            VolumeSubcommand::Rebalance(rebalance) => rebalance.run(out),
            VolumeSubcommand::Status(status) => status.run(out),
            VolumeSubcommand::Ls(ls) => ls.run(out),
            VolumeSubcommand::Import(import) => import.run(out),
            VolumeSubcommand::Export(export) => export.run(out),
            VolumeSubcommand::Check(check) => check.run(out),
            VolumeSubcommand::Scrub(scrub) => scrub.run(out),
            VolumeSubcommand::RebuildCatalogue(rebuild) => rebuild.run(out),
            VolumeSubcommand::Replace(replace) => replace.run(out),
            VolumeSubcommand::Mount(mount) => mount.run(),
        }
    }
}
