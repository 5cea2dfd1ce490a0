//! The disks of a plan: a named drive, measured in virtual time by the procedure that measures real ones, or a profile
//! that was measured, with a drive made up to fit it for the simulation.

use std::io;
use std::path::Path;

use anyhow::{Context, anyhow};
use device::calibrate::{self, InTurn, Options, Readable};
use schedule::profile::DiskProfile;
use sim::VirtualDisk;
use sim::drive::{Drive, DriveProfile, Parameters};
use units::Nanos;

/// One disk.
#[derive(Debug, Clone)]
pub(crate) struct PlannedDisk {
    /// The profile that measuring it gives.
    pub(crate) profile: DiskProfile,
    /// The drive that stands for it in the simulation.
    pub(crate) model: Parameters,
}

impl PlannedDisk {
    /// A drive model by its name, or a profile from a file.
    pub(crate) fn named_or_file(text: &str) -> anyhow::Result<Self> {
        if let Ok(named) = text.parse::<DriveProfile>() {
            let model = Parameters::of(named);
            let drive = Drive::new(model.clone(), 1).context("a named drive is consistent")?;
            let mut disk = VirtualDrive(VirtualDisk::new(drive));
            let profile = calibrate::profile_of(&mut disk, Options::default())
                .map_err(|reason| anyhow!("{text} cannot be measured: {reason}"))?;
            return Ok(Self { profile, model });
        }
        let path = Path::new(text);
        let names = DriveProfile::ALL.map(|p| p.name()).join(", ");
        let bytes = std::fs::read(path).with_context(|| {
            format!("`{text}` is no drive ({names}) and no file; `isocast disk calibrate DISK --json` writes one")
        })?;
        let profile = calibrate::profile_from_json(&bytes).with_context(|| format!("{text} is no disk profile"))?;
        let model = fitting(&profile);
        Ok(Self { profile, model })
    }
}

/// A drive with the figures of a profile.
fn fitting(profile: &DiskProfile) -> Parameters {
    let size = profile.capacity.0.max(1 << 30);
    if !profile.rotational {
        let rate = profile.rate_at(0);
        let model = Parameters { size, rate_read: rate, rate_write: rate, ..Parameters::of(DriveProfile::SsdSata) };
        return Parameters { latency_read: profile.access_time(0), ..model };
    }
    let mut model = Parameters::of(DriveProfile::Desktop);
    let turn = if profile.turn == Nanos::ZERO { model.turn() } else { profile.turn };
    let half = Nanos(turn.0 / 2).saturating_add(model.ovh);
    let seek = |distance: u64| profile.access_time(distance).saturating_sub(half);
    model.size = size;
    model.rpm = u32::try_from(60_000_000_000 / turn.0.max(1)).unwrap_or(7200).max(60);
    model.outer = profile.rate_at(0);
    model.inner = profile.rate_at(size).min(model.outer);
    model.avg = seek(size / 3).max(model.t2t);
    model.full = seek(size).max(model.avg);
    model
}

/// A drive in virtual time, as the calibration reads it.
struct VirtualDrive(VirtualDisk);

impl Readable for VirtualDrive {
    fn capacity(&self) -> u64 {
        self.0.capacity()
    }

    fn read(&mut self, position: u64, bytes: u64) -> io::Result<Nanos> {
        Ok(self.0.read(position, bytes))
    }

    fn read_many(&mut self, positions: &[u64], bytes: u64, depth: usize) -> io::Result<Nanos> {
        Ok(self.0.read_many(positions, bytes, depth))
    }

    fn read_run(&mut self, positions: &[u64], run: InTurn) -> io::Result<Vec<Nanos>> {
        Ok(self.0.read_run(positions, run.bytes, run.depth, |asked, now| asked < run.least || now < run.until))
    }

    fn now(&self) -> Nanos {
        self.0.now()
    }
}
