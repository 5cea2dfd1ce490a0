//! Calibration: measures a disk by reading from it and returns the [`DiskProfile`] by which admission counts.
//!
//! Promise: never writes; takes about ten seconds for a spinning disk and less for a flash drive; the same seed reads the same
//! positions. Without a block device, or without the permission to read it, the files of the folder are read; without files, a
//! conservative default is assumed. [`ProfileSource`] names the choice and its reason, to be shown to the user. Properties that
//! reading cannot measure are assumed, with a sentence in [`Calibration::notes`]: the time of a flush (it needs a dirty cache),
//! the write rate, and that the blocks of a flash drive were written before (unwritten blocks read too fast). Not here:
//! learning from observed service times (the schedule does that), predicting (`schedule::profile`).
//!
//! A hung disk blocks this call: run it on a thread that may be abandoned.

mod disk;
mod identity;
mod measure;
mod profile_file;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use schedule::profile::DiskProfile;
use serde::{Deserialize, Serialize};
use units::{ByteCount, Nanos};

pub use identity::{DiskIdentity, identify};
pub use profile_file::{KeepError, load, profile_from_json, profile_path, save};

use disk::WholeDevice;
pub use disk::{InTurn, Readable};
use measure::{MeasuredProfile, Measurement};

/// Options of a measurement.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Seed of the positions that are read.
    pub seed: u64,
    /// Time after which sampling stops. The least number of samples is taken even if that takes longer, on a slow disk.
    pub time_max: Nanos,
}

impl Default for Options {
    fn default() -> Self {
        Self { seed: 1, time_max: Nanos::from_secs(10) }
    }
}

/// Progress of the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CalibrationProgress {
    /// The figure that is being measured, as text for the user.
    pub step: &'static str,
    /// Progress in thousandths of the whole; never decreases.
    pub permille: u32,
}

/// Receives the progress of the measurement; `Break` ends it with [`CalibrateError::Cancelled`].
pub type Watcher<'a> = &'a mut dyn FnMut(CalibrationProgress) -> ControlFlow<()>;

/// A disk, and its profile with its source.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// The disk.
    pub disk: DiskIdentity,
    /// Source of the profile.
    pub source: ProfileSource,
    /// Profile of the disk.
    pub profile: DiskProfile,
    /// Notes for a user about these figures, one sentence each.
    pub notes: Vec<String>,
    /// True if another program used the disk during the measurement, so that the disk is faster than the profile.
    pub disturbed: bool,
}

/// Source of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "from")]
pub enum ProfileSource {
    /// Measured through the block device.
    BlockDevice {
        /// The device.
        device: PathBuf,
    },
    /// Measured by reading files of the folder, because the block device could not be read. Zones and distances are unknown, so
    /// the profile has the slowest rate and a mean access time for the whole disk.
    Files {
        /// Number of files that were read.
        files: usize,
        /// Reason why the block device was not read, and the remedy.
        reason: String,
    },
    /// A conservative default, without a measurement.
    Assumed {
        /// Reason why the disk was not measured, and the remedy.
        reason: String,
    },
}

impl std::fmt::Display for ProfileSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::BlockDevice { device } => write!(f, "measured through {}", device.display()),
            Self::Files { files, reason } => write!(f, "measured by reading {files} files ({reason})"),
            Self::Assumed { reason } => write!(f, "assumed, not measured ({reason})"),
        }
    }
}

/// Reason why there is no calibration.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// The path cannot be examined.
    #[error("cannot examine {}; give a block device or an existing folder", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// The watcher cancelled the calibration.
    #[error("calibration was cancelled")]
    Cancelled,
}

/// Measures the disk under `target`, a block device or anything in a file system on it.
///
/// # Errors
/// The path cannot be examined, or `watch` ended it. A disk that cannot be measured is no error: see [`ProfileSource`].
pub fn calibrate(target: &Path, options: Options, watch: Watcher<'_>) -> Result<Calibration, CalibrateError> {
    let disk = identity::identify(target).map_err(|source| CalibrateError::Path { path: target.into(), source })?;
    let refused = match disk.device.as_deref().ok_or_else(|| "no block device is behind it".to_owned()) {
        Ok(path) => match whole_device(path, &disk, options, watch)? {
            Ok(measured) => {
                let notes = all_notes(&measured, &disk);
                let source = ProfileSource::BlockDevice { device: path.into() };
                return Ok(Calibration {
                    disk,
                    source,
                    profile: measured.profile,
                    notes,
                    disturbed: measured.disturbed,
                });
            }
            Err(reason) => reason,
        },
        Err(reason) => reason,
    };
    from_files(target, disk, &refused, options, watch)
}

/// The profile of anything that can be read and timed as a whole disk: a drive model in virtual time for `plan`.
///
/// # Errors
/// The reason that it cannot be measured, in words.
pub fn profile_of<R: Readable>(disk: &mut R, options: Options) -> Result<DiskProfile, String> {
    match Measurement::new(disk, options, &mut |_| ControlFlow::Continue(())).device(None) {
        Ok(measured) => Ok(measured.profile),
        Err(measure::NoProfile::Cancelled) => unreachable!("the watcher never breaks"),
        Err(measure::NoProfile::Unusable(reason)) => Err(reason),
    }
}

/// The calibration of the disk under `target`: a measured one that is kept in `state`, else a new one, which is kept there. An
/// assumed calibration, or one that other programs disturbed, is not kept: a later one may be better.
///
/// # Errors
/// As [`calibrate`]. That the result could not be kept is a note, not an error.
pub fn load_or_calibrate(
    state: &Path,
    target: &Path,
    options: Options,
    watch: Watcher<'_>,
) -> Result<Calibration, CalibrateError> {
    let disk = identity::identify(target).map_err(|source| CalibrateError::Path { path: target.into(), source })?;
    let unusable = match load(state, &disk) {
        // A profile measured through files is rough. If the device can be read now, it is measured again.
        Ok(kept) if !matches!(kept.source, ProfileSource::BlockDevice { .. }) && is_readable(&disk) => None,
        Ok(kept) => return Ok(kept),
        Err(KeepError::Absent) => None,
        Err(error) => Some(format!("the kept profile was not used: {}", error_text(&error))),
    };
    let mut fresh = calibrate(target, options, watch)?;
    fresh.notes.extend(unusable);
    if fresh.disturbed {
        let (state, target) = (state.display(), target.display());
        fresh.notes.push(format!(
            "it is measured again at the next start; if the disk is never quiet then, measure it when it is, and its profile is kept: `isocast disk calibrate --state {state} {target}`"
        ));
    } else {
        match save(state, &fresh) {
            Ok(()) | Err(KeepError::Assumed(_)) => {}
            Err(error) => {
                fresh
                    .notes
                    .push(format!("the profile could not be kept and will be measured again: {}", error_text(&error)));
            }
        }
    }
    Ok(fresh)
}

fn is_readable(disk: &DiskIdentity) -> bool {
    disk.device.as_deref().is_some_and(|path| WholeDevice::open(path, disk).is_ok())
}

/// Measures the block device; the inner `Err` is the reason why it could not be measured.
fn whole_device(
    path: &Path,
    disk: &DiskIdentity,
    options: Options,
    watch: Watcher<'_>,
) -> Result<Result<MeasuredProfile, String>, CalibrateError> {
    let mut device = match WholeDevice::open(path, disk) {
        Ok(device) => device,
        Err(error) => {
            return Ok(Err(format!(
                "{} cannot be read: {error}; give the server the right to read it (root, or the group of the device)",
                path.display()
            )));
        }
    };
    match Measurement::new(&mut device, options, watch).device(disk.kernel_rotational) {
        Ok(measured) => Ok(Ok(measured)),
        Err(measure::NoProfile::Cancelled) => Err(CalibrateError::Cancelled),
        Err(measure::NoProfile::Unusable(reason)) => Ok(Err(format!("{}: {reason}", path.display()))),
    }
}

/// Measures by reading files of the folder, or assumes the default.
fn from_files(
    target: &Path,
    disk: DiskIdentity,
    refused: &str,
    options: Options,
    watch: Watcher<'_>,
) -> Result<Calibration, CalibrateError> {
    let outcome = match disk::LargestFiles::open(target) {
        Ok(mut files) => {
            let count = files.count();
            let measured = Measurement::new(&mut files, options, watch).files(disk.kernel_rotational, disk.capacity);
            measured.map(|m| (m, count))
        }
        Err(reason) => Err(measure::NoProfile::Unusable(reason)),
    };
    match outcome {
        Ok((measured, files)) => {
            let notes = all_notes(&measured, &disk);
            let source = ProfileSource::Files { files, reason: refused.to_owned() };
            Ok(Calibration { disk, source, profile: measured.profile, notes, disturbed: measured.disturbed })
        }
        Err(measure::NoProfile::Cancelled) => Err(CalibrateError::Cancelled),
        Err(measure::NoProfile::Unusable(reason)) => {
            let spindle = disk.kernel_rotational.unwrap_or(!disk.in_memory);
            let profile = if spindle { DiskProfile::spindle_default() } else { DiskProfile::flash_default() };
            let capacity = ByteCount(disk.capacity.0.max(1));
            let source = ProfileSource::Assumed { reason: format!("{refused}; and {reason}") };
            Ok(Calibration { disk, source, profile: profile.scaled_to(capacity), notes: Vec::new(), disturbed: false })
        }
    }
}

/// Text of the error and its cause.
fn error_text(error: &KeepError) -> String {
    let cause = std::error::Error::source(error).map_or_else(String::new, |cause| format!(": {cause}"));
    format!("{error}{cause}")
}

fn all_notes(measured: &MeasuredProfile, disk: &DiskIdentity) -> Vec<String> {
    let mut notes = measured.notes.clone();
    notes.extend(disk.caution.clone());
    notes
}

#[cfg(test)]
mod tests;
