//! Profiles on file: one JSON document per disk in the state directory, and the same form for `plan --disk FILE`.
//!
//! Promise: written whole or not at all; read back only if it is of this version, of this disk and makes sense.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use schedule::profile::{DiskProfile, SeekPoint, Zone};
use serde::{Deserialize, Serialize};
use units::{ByteCount, Nanos};

use super::{Calibration, DiskIdentity, ProfileSource};
use crate::state_file;

/// Of the document's form and of the way of measuring: a profile of another version is measured again.
const VERSION: u32 = 2;
/// No profile is longer.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Reason that there is no kept profile, or that one could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// The file is missing.
    #[error("there is no kept profile")]
    Absent,
    /// The file cannot be read or written.
    #[error("{} cannot be read or written", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// It is not a profile.
    #[error("not a disk profile")]
    Form(#[from] serde_json::Error),
    /// Another version wrote it.
    #[error("the profile is of version {0}, this program knows version {VERSION}")]
    Version(u32),
    /// It is of another disk.
    #[error("the profile is of another disk, `{0}`")]
    OtherDisk(String),
    /// Its figures contradict each other.
    #[error("the profile makes no sense: {0}")]
    Nonsense(&'static str),
    /// Nothing was measured that could be kept.
    #[error("the disk was not measured: {0}")]
    Assumed(String),
    /// It is too long to be one.
    #[error("a disk profile is not longer than 1 MiB")]
    TooLong,
}

/// Path of the profile of `disk` in the state directory.
#[must_use]
pub fn profile_path(state: &Path, disk: &DiskIdentity) -> PathBuf {
    let plain: String = disk.key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(60).collect();
    // FNV-1a: two disks with equal plain names keep two files.
    let hash =
        disk.key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    state.join("disks").join(format!("{plain}-{hash:016x}.json"))
}

/// The kept calibration of `disk`.
///
/// # Errors
/// There is no profile, or none that can be used.
pub fn load(state: &Path, disk: &DiskIdentity) -> Result<Calibration, KeepError> {
    let document = read(&profile_path(state, disk))?;
    if document.disk.as_ref() != Some(&disk.key) {
        return Err(KeepError::OtherDisk(document.disk.unwrap_or_default()));
    }
    let profile = document.profile()?;
    let source =
        document.source.unwrap_or_else(|| ProfileSource::Assumed { reason: "the file does not say".to_owned() });
    Ok(Calibration { disk: disk.clone(), source, profile, notes: document.notes, disturbed: false })
}

/// Keeps `calibration`.
///
/// # Errors
/// The file cannot be written; or the calibration was only assumed: the reason may go away.
pub fn save(state: &Path, calibration: &Calibration) -> Result<(), KeepError> {
    if let ProfileSource::Assumed { reason } = &calibration.source {
        return Err(KeepError::Assumed(reason.clone()));
    }
    let path = profile_path(state, &calibration.disk);
    let json = serde_json::to_vec_pretty(&Document::from(calibration))?;
    let write = || -> io::Result<()> {
        fs::create_dir_all(path.parent().unwrap_or(state))?;
        state_file::replace(&path, |writer| writer.write_all(&json))
    };
    write().map_err(|source| KeepError::File { path: path.clone(), source })
}

/// The profile in a JSON document, as [`save`] and `isocast disk calibrate --json` write it, of any disk.
///
/// # Errors
/// It is no profile.
pub fn profile_from_json(text: &[u8]) -> Result<DiskProfile, KeepError> {
    parse(text)?.profile()
}

impl Calibration {
    /// The calibration as a JSON document.
    ///
    /// # Errors
    /// Never for a calibration made here; a path that is no Unicode.
    pub fn to_json(&self) -> Result<String, KeepError> {
        Ok(serde_json::to_string_pretty(&Document::from(self))?)
    }
}

fn read(path: &Path) -> Result<Document, KeepError> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => KeepError::Absent,
        _ => KeepError::File { path: path.into(), source },
    };
    let mut text = Vec::new();
    fs::File::open(path).map_err(failed)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut text).map_err(failed)?;
    parse(&text)
}

fn parse(text: &[u8]) -> Result<Document, KeepError> {
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > FILE_BYTES_MAX {
        return Err(KeepError::TooLong);
    }
    let document: Document = serde_json::from_slice(text)?;
    if document.version == VERSION { Ok(document) } else { Err(KeepError::Version(document.version)) }
}

#[derive(Debug, Serialize, Deserialize)]
struct Document {
    version: u32,
    #[serde(default)]
    disk: Option<String>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    source: Option<ProfileSource>,
    #[serde(default)]
    notes: Vec<String>,
    rotational: bool,
    capacity_bytes: u64,
    zones: Vec<ZoneText>,
    seeks: Vec<SeekText>,
    turn_ns: u64,
    flush_ns: u64,
    write_ratio: f64,
    queue_depth: u32,
}

#[derive(Debug, Serialize, Deserialize)]
struct ZoneText {
    start_bytes: u64,
    bytes_per_second: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct SeekText {
    distance_bytes: u64,
    time_ns: u64,
}

impl Document {
    fn profile(&self) -> Result<DiskProfile, KeepError> {
        let zone = |z: &ZoneText| Zone { start: ByteCount(z.start_bytes), bytes_per_second: z.bytes_per_second };
        let seek = |s: &SeekText| SeekPoint { distance: ByteCount(s.distance_bytes), time: Nanos(s.time_ns) };
        let profile = DiskProfile {
            rotational: self.rotational,
            capacity: ByteCount(self.capacity_bytes),
            zones: self.zones.iter().map(zone).collect(),
            seeks: self.seeks.iter().map(seek).collect(),
            turn: Nanos(self.turn_ns),
            flush: Nanos(self.flush_ns),
            write_ratio: self.write_ratio,
            queue_depth: self.queue_depth,
        };
        profile.check().map_err(KeepError::Nonsense)?;
        Ok(profile)
    }
}

impl From<&Calibration> for Document {
    fn from(calibration: &Calibration) -> Self {
        let profile = &calibration.profile;
        let zone = |z: &Zone| ZoneText { start_bytes: z.start.0, bytes_per_second: z.bytes_per_second };
        let seek = |s: &SeekPoint| SeekText { distance_bytes: s.distance.0, time_ns: s.time.0 };
        Self {
            version: VERSION,
            disk: Some(calibration.disk.key.clone()),
            model: calibration.disk.model.clone(),
            source: Some(calibration.source.clone()),
            notes: calibration.notes.clone(),
            rotational: profile.rotational,
            capacity_bytes: profile.capacity.0,
            zones: profile.zones.iter().map(zone).collect(),
            seeks: profile.seeks.iter().map(seek).collect(),
            turn_ns: profile.turn.0,
            flush_ns: profile.flush.0,
            write_ratio: profile.write_ratio,
            queue_depth: profile.queue_depth,
        }
    }
}
