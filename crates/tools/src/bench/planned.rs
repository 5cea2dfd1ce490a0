//! What `isocast plan` says to what a search found: counted from the disk profile that the server measured itself,
//! through the block device.
//!
//! Promise: knows nothing of an emulated disk's parameters. Not here: counting (`crate::plan`).

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use units::{BitRate, ByteCount};

use crate::plan::Rig;

/// Loopback, as the server takes it: no limit.
const NET: BitRate = BitRate(1_000_000_000_000);
/// `schedule.be_share` unless said otherwise.
const BE_SHARE: f64 = 0.1;

/// A plan's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Planned {
    /// Streams.
    pub streams: u32,
    /// What is short for one more.
    pub limited_by: String,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Share of disk time kept for uploads.
    pub be_share: f64,
    /// What uploads get with it at least, 10^6 bytes per second.
    pub upload_mb_per_s: f64,
}

/// The profile in the server's state folder, as JSON, and what a plan makes of it; `None` if there is not exactly one.
pub(crate) fn of(state: &Path, rate_bps: u64, memory: u64, serve_args: &[String]) -> Option<(String, Planned)> {
    let mut files = fs::read_dir(state.join("disks")).ok()?.flatten().map(|e| e.path());
    let file = files.find(|f| f.extension().is_some_and(|e| e == "json"))?;
    let text = fs::read_to_string(file).ok()?;
    let profile = device::calibrate::profile_from_json(text.as_bytes()).ok()?;
    let be_share = be_share(serve_args);
    let rig = Rig {
        disks: vec![profile],
        memory: ByteCount(memory),
        net: NET,
        uploads: BitRate::default(),
        be_share: Some(be_share),
    };
    let carried = rig.carries(&[BitRate(rate_bps)]);
    let planned = Planned {
        streams: carried.streams,
        limited_by: carried.limited_by.to_owned(),
        block_bytes: carried.blocks.first().copied().unwrap_or(0),
        be_share,
        upload_mb_per_s: rig.upload_floor() / 1e6,
    };
    Some((text, planned))
}

/// What the server was told to keep for uploads.
fn be_share(serve_args: &[String]) -> f64 {
    let told =
        serve_args.iter().rev().find_map(|a| a.strip_prefix("schedule.be_share=")?.strip_suffix('%')?.parse().ok());
    told.map_or(BE_SHARE, |percent: f64| percent / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_for_uploads_is_the_one_the_server_was_told() {
        let args = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert!((be_share(&args("--set schedule.be_share=25%")) - 0.25).abs() < 1e-9);
        assert!((be_share(&args("--set plane.memory=3GiB")) - BE_SHARE).abs() < 1e-9);
        assert_eq!(of(Path::new("/nowhere"), 1, 1, &[]), None);
    }
}
