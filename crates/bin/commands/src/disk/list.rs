//! `isocast disk list` and `isocast disk profile`: the disks of this machine, and the known facts of each.
//!
//! Promise: only reads; nothing is measured. Health comes from `smartctl`, where it is installed and permitted.

use std::fs;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use capacity::streams_carried;
use clap::Args;
use dataplane::PlaneConfig;
use device::actuator_ranges;
use device::calibrate::{Calibration, identify, load};
use serde_json::{Value, json};
use units::limits::EXAMPLE_RATE;
use units::{ByteCount, counted};

/// Memory in such plenty that it does not limit the streams of one disk.
const MEMORY: ByteCount = ByteCount(16 << 30);

/// List the disks of this machine: model, health, rate by zone, and how many streams each carries.
#[derive(Debug, Args)]
pub(super) struct ListDisks {
    /// Print the list as JSON.
    #[arg(long)]
    json: bool,
    /// The state directory with the measured profiles, as `serve --state` has it.
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

/// Show the profile that was measured of a disk and is kept.
#[derive(Debug, Args)]
pub(super) struct ShowProfile {
    /// A block device, or a folder on the disk.
    target: PathBuf,
    /// Print the profile as JSON (the form that `isocast plan --disk FILE` reads).
    #[arg(long)]
    json: bool,
    /// The state directory with the measured profiles, as `serve --state` has it.
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

/// A disk as it is listed.
struct DiskRow {
    node: PathBuf,
    model: String,
    size: u64,
    kind: &'static str,
    shingled: Option<String>,
    /// The range that each of several actuators reaches.
    actuators: Vec<Range<u64>>,
    /// Or why it is not known.
    health: Result<Value, &'static str>,
    calibration: Option<Calibration>,
}

impl ListDisks {
    pub(super) fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let state = self.state.unwrap_or_else(program::default_state);
        let mut names: Vec<String> = fs::read_dir("/sys/block")
            .context("cannot list the disks: /sys/block is missing")?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        let rows: Vec<DiskRow> = names.iter().filter_map(|name| row(name, &state)).collect();
        if self.json {
            let rows: Vec<Value> = rows.iter().map(DiskRow::json).collect();
            writeln!(out, "{:#}", json!(rows))?;
            return Ok(());
        }
        for row in &rows {
            writeln!(out, "{}", row.text())?;
        }
        Ok(())
    }
}

impl ShowProfile {
    pub(super) fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let state = self.state.unwrap_or_else(program::default_state);
        let disk = identify(&self.target).with_context(|| format!("cannot examine {}", self.target.display()))?;
        let calibration = load(&state, &disk).with_context(|| {
            let target = self.target.display();
            format!("no profile of it is kept in {}: `isocast disk calibrate {target}` measures it", state.display())
        })?;
        let text = if self.json { calibration.to_json()? } else { super::table(&calibration) };
        writeln!(out, "{}", text.trim_end())?;
        Ok(())
    }
}

/// Management of the zones of a drive with overlapping tracks (SMR), by the files that `read` reads in its folder in `/sys/block`.
pub(crate) fn shingled(read: impl Fn(&str) -> String) -> Option<&'static str> {
    match read("queue/zoned").as_str() {
        "host-managed" => Some("host-managed: it cannot be written at any place"),
        "host-aware" => Some("host-aware"),
        // Other spinning drives know no TRIM. Virtual disks do in any case, and are not ATA.
        _ => {
            let takes_trim = !["", "0"].contains(&read("queue/discard_max_bytes").as_str());
            let is_it = takes_trim && read("queue/rotational") == "1" && read("device/vendor") == "ATA";
            is_it.then_some("drive-managed, it seems: it spins and takes TRIM")
        }
    }
}

/// The facts of a block device from `/sys` and the tools; `None` if it is not a disk.
fn row(name: &str, state: &Path) -> Option<DiskRow> {
    const NO_DISKS: [&str; 5] = ["ram", "zram", "sr", "fd", "nbd"];
    let folder = Path::new("/sys/block").join(name);
    let text =
        |file: &str| fs::read_to_string(folder.join(file)).map(|text| text.trim().to_owned()).unwrap_or_default();
    let number = |file: &str| text(file).parse::<u64>().unwrap_or(0);
    // /sys counts sectors of 512 bytes whatever the drive's are.
    let size = number("size") * 512;
    let letters = name.trim_end_matches(|c: char| c.is_ascii_digit());
    if size == 0 || NO_DISKS.contains(&letters) {
        return None;
    }
    let rotational = number("queue/rotational") == 1;
    let node = Path::new("/dev").join(name.replace('!', "/"));
    let calibration = identify(&node).ok().and_then(|disk| load(state, &disk).ok());
    Some(DiskRow {
        model: text("device/model"),
        size,
        kind: if rotational { "spinning" } else { "flash" },
        shingled: shingled(text).map(|who| format!("SMR, {who}; writes may stall it for seconds")),
        actuators: actuator_ranges(name),
        health: health(&node),
        calibration,
        node,
    })
}

/// What `smartctl` says: whether the drive counts itself as sound, its temperature, its hours.
fn health(node: &Path) -> Result<Value, &'static str> {
    let output = Command::new("smartctl").args(["--json", "-H", "-A", "-i"]).arg(node).output();
    let output = output.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "smartctl is not installed",
        _ => "smartctl cannot be run",
    })?;
    smart_health(&output.stdout)
}

fn smart_health(printed: &[u8]) -> Result<Value, &'static str> {
    let told: Value = serde_json::from_slice(printed).map_err(|_| "smartctl prints no JSON: version 7 does")?;
    let passed = told["smart_status"]["passed"].as_bool();
    let passed = passed.ok_or("the drive does not tell, or smartctl may not open it: root may")?;
    Ok(json!({
        "passed": passed,
        "temperature_celsius": told["temperature"]["current"],
        "power_on_hours": told["power_on_time"]["hours"],
    }))
}

impl DiskRow {
    fn streams(&self) -> Option<u32> {
        let profile = &self.calibration.as_ref()?.profile;
        Some(streams_carried(profile, MEMORY, PlaneConfig::default().be_share, EXAMPLE_RATE).streams)
    }

    fn json(&self) -> Value {
        let zones = self.calibration.as_ref().map(|calibration| {
            let zone = |zone: &schedule::profile::Zone| {
                json!({ "position_bytes": zone.start.0, "bytes_per_second": zone.bytes_per_second })
            };
            calibration.profile.zones.iter().map(zone).collect::<Vec<_>>()
        });
        json!({
            "device": self.node, "model": self.model, "size_bytes": self.size, "kind": self.kind, "smr": self.shingled,
            "actuators": self.actuators.iter().map(|range| json!([range.start, range.end])).collect::<Vec<_>>(),
            "health": self.health.as_ref().ok(), "zones": zones, "streams": self.streams(), "stream_rate_bps": EXAMPLE_RATE.0,
        })
    }

    fn text(&self) -> String {
        let model = if self.model.is_empty() { "unknown model" } else { &self.model };
        let mut text = format!("{}  {model}, {}, {}", self.node.display(), ByteCount(self.size), self.kind);
        let health = match &self.health {
            Ok(health) if health["passed"] == true => "sound".to_owned(),
            Ok(_) => "FAILING, says the drive: replace it".to_owned(),
            Err(why) => format!("unknown ({why})"),
        };
        text += &format!("\n  health   {health}");
        match (&self.calibration, self.streams()) {
            (Some(calibration), Some(streams)) => {
                let rate = |zone: &schedule::profile::Zone| format!("{}", zone.bytes_per_second / 1_000_000);
                let rates: Vec<String> = calibration.profile.zones.iter().map(rate).collect();
                text += &format!("\n  rates    {} MB/s from the outer to the inner zones", rates.join(", "));
                text += &format!("\n  carries  {} of {EXAMPLE_RATE}", counted(streams, "stream"));
            }
            _ => text += "\n  rates    not measured: `isocast disk calibrate` does it",
        }
        if let Some(shingled) = &self.shingled {
            text += &format!("\n  note     {shingled}");
        }
        if !self.actuators.is_empty() {
            let sectors =
                |range: &Range<u64>| format!("{} to {}", range.start / 512, (range.end / 512).saturating_sub(1));
            let ranges: Vec<String> = self.actuators.iter().map(sectors).collect();
            text += &format!(
                "\n  note     {} actuators, of the sectors {}: a partition in each of these ranges is scheduled as a disk of its own",
                ranges.len(),
                ranges.join(", ")
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::smart_health;

    #[test]
    fn disk_health_is_reported_or_the_reason_is() {
        assert_eq!(smart_health(br#"{"smart_status":{"passed":true}}"#).expect("told")["passed"], true);
        let denied =
            smart_health(br#"{"smartctl":{"messages":[{"string":"Permission denied"}]}}"#).expect_err("nothing");
        assert!(denied.contains("may not open it") && !denied.contains("not installed"), "{denied}");
    }
}
