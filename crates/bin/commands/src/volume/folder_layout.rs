//! Layouts by their names, and `isocast volume layout`: folders with contents laid in another way than the volume's.

use std::io::Write;

use anyhow::{Context as _, ensure};
use clap::{Args, ValueEnum};
use serde_json::json;
use volume::{Placement, Volume};

use super::DiskNames;
use super::disks::{self, Purpose, refuse_missing};

/// Show or change how contents below a folder are laid over the disks, where that is not as the volume's.
///
/// A layout holds for contents written from then on; those already there stay as they are. A content in one copy on a mirror is lost when
/// its disk dies, and until such a disk is back, or its contents are replaced, the volume takes no changes. A server must be stopped first.
#[derive(Debug, Args)]
pub(crate) struct FolderLayouts {
    /// Print the layouts as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    names: DiskNames,
    /// Folders, each with `span`, `stripe` or `mirror`, or with `volume` for the layout of the volume.
    #[arg(value_name = "FOLDER=LAYOUT", value_parser = parse_folder_layout)]
    changes: Vec<FolderLayout>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum LayoutName {
    /// Each content on one disk: a disk that dies takes its own contents only.
    Span,
    /// Each content over all disks in turn: one content at the speed of all; a disk that dies takes a part of each.
    Stripe,
    /// As stripe, with a second copy on the next disk: any one disk may die.
    Mirror,
}

impl From<LayoutName> for Placement {
    fn from(name: LayoutName) -> Self {
        match name {
            LayoutName::Span => Self::Span,
            LayoutName::Stripe => Self::Stripe,
            LayoutName::Mirror => Self::Mirror,
        }
    }
}

/// A folder and its layout; none for the volume's.
#[derive(Debug, Clone)]
pub(super) struct FolderLayout(pub(super) String, pub(super) Option<Placement>);

pub(super) fn parse_folder_layout(text: &str) -> Result<FolderLayout, String> {
    let (folder, layout) = text.rsplit_once('=').ok_or("say it as FOLDER=LAYOUT")?;
    let placement = match layout {
        "volume" => None,
        name => Some(LayoutName::from_str(name, false)?.into()),
    };
    Ok(FolderLayout(folder.trim_matches('/').to_owned(), placement))
}

impl FolderLayouts {
    pub(crate) fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let purpose = if self.changes.is_empty() { Purpose::Read } else { Purpose::Write };
        let (disks, mut volume) = disks::open(self.names.all(), purpose)?;
        if !self.changes.is_empty() {
            refuse_missing(&volume)?;
            ensure!(!volume.is_read_only(), "the volume takes no changes");
        }
        for FolderLayout(folder, placement) in self.changes {
            let steps = volume.set_folder_layout(&folder, placement);
            disks.write_steps(&steps.with_context(|| format!("the folder `{folder}`"))?)?;
        }
        let superblock = volume.superblock();
        if self.json {
            let layouts = json!({ "layout": superblock.placement.name(), "folders": folders(&volume) });
            writeln!(out, "{layouts:#}")?;
            return Ok(());
        }
        writeln!(out, "{:8} {}", superblock.placement.name(), superblock.name)?;
        let mut rows = superblock.folders.iter();
        rows.try_for_each(|(folder, placement)| writeln!(out, "{:8} {}/{folder}", placement.name(), superblock.name))?;
        Ok(())
    }
}

/// The layouts of folders, as JSON.
fn folders(volume: &Volume) -> serde_json::Value {
    let folders = volume.superblock().folders.iter();
    folders
        .map(|(folder, placement)| (folder.clone(), json!(placement.name())))
        .collect::<serde_json::Map<_, _>>()
        .into()
}
