//! The number of streams that `isocast plan` predicts, to compare with the result of a search. The plan uses the disk profile
//! that the server itself measured through the block device.
//!
//! Promise: uses no parameter of the emulated disk. Not here: the plan itself (`plan`).

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

/// Default of `schedule.be_share`.
const BE_SHARE: &str = "10%";

/// A plan's result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Planned {
    /// Streams.
    pub streams: u32,
    /// The resource short for one more.
    pub limited_by: String,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Share of disk time kept for uploads.
    pub be_share: f64,
    /// Rate that uploads always have with that share, 10^6 bytes per second.
    pub upload_mb_per_s: f64,
}

/// A line of `isocast plan --json`.
#[derive(Debug, Deserialize)]
struct PlannedRow {
    streams: u32,
    limited_by: String,
    blocks_bytes: Vec<u64>,
    be_share: f64,
    upload_bytes_per_second_min: f64,
}

/// The profile in the server's state folder, as JSON, and the plan made from it; `None` if there is no profile.
///
/// # Errors
/// `isocast plan` fails.
pub(crate) fn of(
    state: &Path,
    rate_bps: u64,
    memory: u64,
    serve_args: &[String],
) -> anyhow::Result<Option<(String, Planned)>> {
    let mut files = fs::read_dir(state.join("disks")).into_iter().flatten().flatten().map(|e| e.path());
    let Some(file) = files.find(|f| f.extension().is_some_and(|e| e == "json")) else { return Ok(None) };
    let disk = file.to_str().context("the state folder's path is no text")?;
    let planned = count(rate_bps, memory, &["--be-share", be_share(serve_args), "--disk", disk])?;
    Ok(Some((fs::read_to_string(&file)?, planned)))
}

/// The result of `isocast plan`; `more` are its arguments other than rate and memory.
///
/// # Errors
/// `isocast plan` fails.
pub(crate) fn count(rate_bps: u64, memory: u64, more: &[&str]) -> anyhow::Result<Planned> {
    let (rate, memory) = (format!("{rate_bps}bit/s"), format!("{memory}B"));
    // The streams go over loopback, which the server counts as a link without a limit.
    let words = ["plan", "--json", "--simulate", "0", "--net", "1000G", "--rate", &rate, "--memory", &memory];
    let printed = crate::printed(&[&words, more].concat())?;
    let rows: Vec<PlannedRow> = serde_json::from_str(&printed).context("reading the output of `isocast plan`")?;
    let row = rows.into_iter().next().context("`isocast plan` printed nothing")?;
    Ok(Planned {
        streams: row.streams,
        limited_by: row.limited_by,
        block_bytes: row.blocks_bytes.first().copied().unwrap_or(0),
        be_share: row.be_share,
        upload_mb_per_s: row.upload_bytes_per_second_min / 1e6,
    })
}

/// The server's setting of the share kept for uploads.
fn be_share(serve_args: &[String]) -> &str {
    serve_args.iter().rev().find_map(|argument| argument.strip_prefix("schedule.be_share=")).unwrap_or(BE_SHARE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_for_uploads_is_read_from_server_arguments() {
        let args = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(be_share(&args("--set schedule.be_share=25%")), "25%");
        assert_eq!(be_share(&args("--set plane.memory=3GiB")), BE_SHARE);
        assert_eq!(of(Path::new("/nowhere"), 1, 1, &[]).unwrap(), None);
    }

    #[test]
    fn the_lines_of_a_plan_are_understood() {
        let line = r#"[{"rates_bps":[8800000],"streams":97,"limited_by":"disk time","blocks_bytes":[4194304],
            "disk_share":[0.9],"be_share":0.1,"upload_bytes_per_second_min":5e6,"simulated":null}]"#;
        let rows: Vec<PlannedRow> = serde_json::from_str(line).unwrap();
        assert_eq!((rows[0].streams, rows[0].limited_by.as_str()), (97, "disk time"));
    }
}
