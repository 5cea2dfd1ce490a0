//! Control of an emulated disk through the commands of `isocast lab disk`.
//!
//! Promise: a disk made here is removed at any end of the benchmark; after a SIGKILL the emulator removes it. Not here: the emulator.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::disk::{ModelLateness, Places, Statistics, control};
use crate::say;

use units::real;

/// Figures of an emulated disk in a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LabFigures {
    /// Time in which the head was busy, percent.
    pub busy_percent: f64,
    /// Time in which the head was busy with writes, percent; 0 in results older than this figure.
    #[serde(default)]
    pub write_percent: f64,
    /// Answers sent more than 10 ms later than the model says: the machine disturbed the run.
    pub over_10ms: u64,
    /// Answers sent more than 1 ms late.
    pub over_1ms: u64,
    /// Seeks.
    pub seeks: u64,
    /// Flushes of the cache.
    pub flushes: u64,
}

/// The head's work in a span of time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct HeadShare {
    /// The share of the span in which the head did not read, 0 to 1.
    pub left_by_reads: f64,
    /// Bytes written to the disk, 10^6 per second of the span.
    pub written_mb_per_s: f64,
}

/// The head's work between two [`statistics`], with no [`reset`] between; `None` if no time has passed.
pub(crate) fn head_share(earlier: &Statistics, later: &Statistics) -> Option<HeadShare> {
    let seconds = later.seconds - earlier.seconds;
    let reading = |s: &Statistics| s.seconds * (s.busy_percent - s.write_percent) / 100.0;
    let written = later.written_bytes.checked_sub(earlier.written_bytes)?;
    (seconds > 0.0).then(|| HeadShare {
        left_by_reads: (1.0 - (reading(later) - reading(earlier)) / seconds).clamp(0.0, 1.0),
        written_mb_per_s: real(written) / seconds / 1e6,
    })
}

impl LabFigures {
    /// The part of the statistics that results keep.
    pub(crate) fn of(found: &Statistics) -> Self {
        let Statistics { busy_percent, write_percent, seeks, flushes, .. } = *found;
        let ModelLateness { over_1ms, over_10ms, .. } = found.lateness_us;
        Self { busy_percent, write_percent, over_10ms, over_1ms, seeks, flushes }
    }
}

#[derive(Deserialize)]
struct ListedDisk {
    device: PathBuf,
    mount: Option<PathBuf>,
}

/// Service time of an emulated disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiskTiming {
    /// The service time of its drive.
    Drive,
    /// None, for work that is not measured.
    None,
}

/// Resets the disk's counters and drops the content of its buffer.
///
/// # Errors
/// There is no such disk.
pub(crate) fn reset(name: &str) -> anyhow::Result<()> {
    order(name, "drop; reset").map(drop)
}

/// Sets whether the disk takes the time of its drive or answers at once.
///
/// # Errors
/// There is no such disk.
pub(crate) fn set_timing(name: &str, timing: DiskTiming) -> anyhow::Result<()> {
    let state = match timing {
        DiskTiming::Drive => "timing on",
        DiskTiming::None => "timing off",
    };
    order(name, state).map(drop)
}

/// Multiplies the disk's service times by `factor`.
///
/// # Errors
/// There is no such disk, or the emulator refuses the factor.
pub(crate) fn slow(name: &str, factor: f64) -> anyhow::Result<()> {
    order(name, &format!("slow {factor}")).map(drop)
}

/// Statistics of the disk since [`reset`].
///
/// # Errors
/// There is no such disk.
pub(crate) fn statistics(name: &str) -> anyhow::Result<Statistics> {
    serde_json::from_str(&order(name, "stat")?).context("reading the statistics of an emulated disk")
}

fn order(name: &str, commands: &str) -> anyhow::Result<String> {
    control::ask(&Places::of(name)?, commands)
}

/// An emulated disk; dropping this removes the disk.
#[derive(Debug)]
pub(crate) struct LabDisk {
    /// Its name.
    pub name: String,
    /// The block device.
    pub device: PathBuf,
    /// Mount point, if it is mounted.
    mount: Option<PathBuf>,
}

impl LabDisk {
    /// Makes a disk; `arguments` are further ones of `lab disk up`.
    ///
    /// # Errors
    /// No root, no FUSE, no loop device: the emulator's message names the remedy.
    pub(crate) fn up(name: &str, arguments: &[&str]) -> anyhow::Result<Self> {
        // Removes a disk of this name that a killed benchmark may have left.
        let _left = command(&["down", name]);
        // If this process is killed, the emulator removes the disk.
        let owner = std::process::id().to_string();
        let text = command(&[&["up", name, "--owner", &owner, "--json"], arguments].concat())?;
        // From here on, dropping the value removes the disk.
        let mut disk = Self { name: name.to_owned(), device: PathBuf::new(), mount: None };
        let state: ListedDisk = serde_json::from_str(&text).context("reading the output of `lab disk up`")?;
        (disk.device, disk.mount) = (state.device, state.mount);
        Ok(disk)
    }

    /// Makes a disk of `profile` with ext4, and fills it with `files` files of `size` spread over all of it.
    ///
    /// # Errors
    /// As [`LabDisk::up`].
    pub(crate) fn with_films(name: &str, profile: &str, files: usize, size: &str) -> anyhow::Result<Self> {
        let disk = Self::up(name, &["--profile", profile])?;
        disk.mount()?;
        command(&["fill", name, "--files", &files.to_string(), "--size", size, "--spread", "--directory", "films"])?;
        Ok(disk)
    }

    /// Mount point of its file system.
    ///
    /// # Errors
    /// It was made without one.
    pub(crate) fn mount(&self) -> anyhow::Result<&Path> {
        self.mount.as_deref().context("the emulated disk is not mounted")
    }

    /// The folder of contents.
    ///
    /// # Errors
    /// It was made without a file system.
    pub(crate) fn contents(&self) -> anyhow::Result<PathBuf> {
        Ok(self.mount()?.join("films"))
    }
}

impl Drop for LabDisk {
    fn drop(&mut self) {
        if let Err(e) = command(&["down", &self.name]) {
            say(format_args!(
                "isocast bench: taking the emulated disk down: {e:#}; try `isocast lab disk down {}`",
                self.name
            ));
        }
    }
}

/// Runs `isocast lab disk ARGUMENTS` in this process and returns its output.
fn command(arguments: &[&str]) -> anyhow::Result<String> {
    crate::printed(&[&["disk"], arguments].concat())
        .with_context(|| format!("`isocast lab disk {}`", arguments.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_the_head_lies_between_two_statistics() {
        // Ten seconds with 4 s of reading; then ten with 8 s of it and 20 MB written.
        let found = Statistics {
            seconds: 10.0,
            busy_percent: 50.0,
            write_percent: 10.0,
            written_bytes: 5_000_000,
            ..Statistics::default()
        };
        let later = Statistics { seconds: 20.0, busy_percent: 70.0, written_bytes: 25_000_000, ..found.clone() };
        let share = head_share(&found, &later).unwrap();
        assert!((share.left_by_reads - 0.2).abs() < 1e-9 && (share.written_mb_per_s - 2.0).abs() < 1e-9, "{share:?}");
        assert_eq!(head_share(&found, &found), None);
    }

    #[test]
    fn a_refusal_of_the_emulator_names_its_command() {
        let error = format!("{:#}", command(&["stat", "no/name"]).unwrap_err());
        assert!(error.contains("`isocast lab disk stat no/name`") && error.contains("cannot name a disk"), "{error}");
    }
}
