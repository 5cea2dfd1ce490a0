//! `isocast volume rebuild-catalogue`.

use std::io::Write;

use anyhow::{bail, ensure};
use clap::Args;
use serde_json::json;
use units::counted;
use volumes::FoundDisks;

use super::DiskNames;
use super::disks::{self, Purpose};
use super::progress::ProgressLine;

/// Make a lost or damaged catalogue anew from the units' headers.
///
/// Contents have the names they had when they were written. Contents that were removed come back where their units were not
/// used again; empty contents are lost.
#[derive(Debug, Args)]
pub(crate) struct RebuildCatalogue {
    /// Do it: without this the new catalogue is only described, and nothing is written.
    #[arg(long)]
    yes: bool,
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    names: DiskNames,
}

impl RebuildCatalogue {
    pub(crate) fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let purpose = if self.yes { Purpose::Write } else { Purpose::Read };
        let FoundDisks { mut given, identified, .. } = disks::find(self.names.all(), purpose)?;
        let missing = identified.missing();
        if self.yes && !missing.is_empty() {
            let numbers: Vec<u8> = missing.iter().map(|member| member.0).collect();
            bail!("the disks {numbers:?} of the volume are missing: name all of them");
        }
        let mut progress = ProgressLine::new("rebuild");
        let rebuilt = volume::rebuild(&identified, &mut given, |done, of| progress.show(done, of));
        drop(progress);
        let mut volume = rebuilt.volume;
        if self.yes {
            given.in_order(&identified).commit(&mut volume)?;
        }
        if self.json {
            let names: Vec<&str> = volume.contents().map(|(name, _)| name).collect();
            let incomplete: Vec<&String> = rebuilt.incomplete.iter().map(|(name, _)| name).collect();
            let found = json!({
                "contents": names, "incomplete": incomplete, "unreadable_units": rebuilt.unreadable, "written": self.yes,
            });
            writeln!(out, "{found:#}")?;
        } else {
            for (name, parts) in &rebuilt.incomplete {
                writeln!(out, "`{name}` is not whole: found: {parts} of its parts")?;
            }
            if rebuilt.unreadable > 0 {
                writeln!(out, "{} unreadable", counted(rebuilt.unreadable, "unit"))?;
            }
            writeln!(out, "found {}", counted(volume.len(), "content"))?;
        }
        ensure!(self.yes, "this replaces the catalogue by one of these contents: say --yes to do it");
        Ok(())
    }
}
