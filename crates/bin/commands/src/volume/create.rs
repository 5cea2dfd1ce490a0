//! `isocast volume create`.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::Args;
use program::output::say;
use rustix::rand::GetRandomFlags;
use serde_json::json;
use units::limits::CHUNK_BYTES;
use units::{ByteCount, counted};
use volume::{NewVolume, Placement, Volume};
use volumes::{VolumeDisks, check_apart};

use super::existing_data::open_to_overwrite;
use super::folder_layout::{FolderLayout, LayoutName, parse_folder_layout};
use super::print;

const EXAMPLES: &str = "\
Examples:
  isocast volume create --name films --layout mirror --yes /dev/sdb /dev/sdc
  isocast volume create --name clips --layout span --unit 1MiB --yes /srv/disk.img";

/// Make a volume of disks, partitions or preallocated files. All data on them is lost.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Create {
    /// The volume's name: 1 to 64 bytes, no `/` or control character.
    #[arg(long, value_parser = parse_name)]
    name: String,
    /// How contents are laid over the disks.
    #[arg(long, value_enum)]
    layout: LayoutName,
    /// How contents below a folder are laid instead (repeatable); `isocast volume layout` changes it later.
    #[arg(long = "folder", value_name = "FOLDER=LAYOUT", value_parser = parse_folder_layout)]
    folders: Vec<FolderLayout>,
    /// Size of the units in which room is given: a power of two from 64 KiB to 32 MiB; a server needs 1 MiB.
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = units::parse_size)]
    unit: ByteCount,
    /// Do it: without this nothing is written.
    #[arg(long)]
    yes: bool,
    /// Overwrite file systems, partition tables and other volumes.
    #[arg(long)]
    force: bool,
    /// Print the new volume as JSON.
    #[arg(long)]
    json: bool,
    /// The disks, with blanks or commas between them.
    #[arg(value_name = "DEV", required = true, value_delimiter = ',')]
    disks: Vec<PathBuf>,
}

/// Commands print names next to paths.
fn parse_name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.chars().any(|c| c == '/' || c.is_control()) {
        return Err("a volume's name has at least one character, and no `/` or control character".to_owned());
    }
    Ok(text.to_owned())
}

impl Create {
    pub(crate) fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let mut opened = Vec::new();
        for (number, path) in self.disks.iter().enumerate() {
            let whole = path.canonicalize().with_context(|| format!("cannot find the disk {}", path.display()))?;
            if self.disks[..number].iter().any(|other| other.canonicalize().is_ok_and(|other| other == whole)) {
                bail!("{} is named twice: a volume needs each disk once", path.display());
            }
            opened.push(open_to_overwrite(path, self.force)?);
        }
        check_apart(&opened.iter().map(|disk| &disk.device).collect::<Vec<_>>(), self.layout.into())?;
        let mut identity = [0; 16];
        rustix::rand::getrandom(&mut identity, GetRandomFlags::empty()).context("the name of a volume is random")?;
        let mut volume = Volume::create(NewVolume {
            volume: identity,
            name: self.name.clone(),
            placement: self.layout.into(),
            unit_bytes: self.unit.0,
            sizes: opened.iter().map(|disk| disk.size).collect(),
        })?;
        if !self.yes {
            bail!("this makes everything on {} unreadable: say --yes to do it", counted(opened.len(), "disk"));
        }
        for disk in &opened {
            disk.preallocate().with_context(|| format!("cannot take the room of {}", disk.path.display()))?;
        }
        let disks = VolumeDisks::given(opened);
        disks.tell_drives(&mut volume);
        for FolderLayout(folder, layout) in self.folders {
            volume.set_folder_layout(&folder, layout).with_context(|| format!("the folder `{folder}`"))?;
        }
        disks.commit(&mut volume)?;
        disks.write_steps(&volume.members().superblock_writes())?;
        let (name, free) = (&self.name, volume.free_bytes());
        let json =
            || json!({ "name": name, "free_bytes": free, "unit_bytes": volume.unit_bytes(), "disks": self.disks });
        print(out, self.json.then(json), format_args!("made the volume `{name}`: {} free", ByteCount(free)))?;
        if volume.unit_bytes() < CHUNK_BYTES {
            say(format_args!("no server serves it: that needs units of {}", ByteCount(CHUNK_BYTES)));
        }
        let unused = unused_bytes(&volume, self.layout.into());
        if unused > volume.unit_bytes() {
            say(format_args!("{} of the disks stay unused, as their sizes differ", ByteCount(unused)));
        }
        Ok(())
    }
}

/// Bytes of the disks that a new volume cannot fill.
fn unused_bytes(volume: &Volume, layout: Placement) -> u64 {
    let units: u64 = volume.free_counts().into_iter().flatten().sum();
    (units * volume.unit_bytes()).saturating_sub(volume.free_bytes() * layout.copies())
}

#[cfg(test)]
mod tests {
    use super::parse_name;

    #[test]
    fn names_that_look_like_paths_or_lists_are_refused() {
        assert_eq!(parse_name("films-2"), Ok("films-2".to_owned()));
        for name in ["", "a/b", "a\tb"] {
            assert!(parse_name(name).is_err_and(|why| why.contains("no `/`")), "{name}");
        }
    }
}
