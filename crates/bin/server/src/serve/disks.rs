//! Profiles of the disks: kept from an earlier start, or measured at this one.
//!
//! Promise: nothing is served before every disk has a profile; all disks are measured at the same time; a hung disk delays the
//! start by [`SILENCE_MAX`] at most. Not here: measuring (`device::calibrate`).

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use device::calibrate::{
    CalibrateError, Calibration, CalibrationProgress, Options, ProfileSource, identify, load_or_calibrate,
};
use program::output::{Console, say};
use schedule::profile::DiskProfile;
use units::{ByteCount, DiskId};

use super::layout::{DiskPlace, StoreLayout};

/// Rate of a file system in memory, which the processor limits: no disk time is counted for it. One core of a slow machine
/// copies four gigabytes a second.
const MEMORY_BYTES_PER_SECOND: u64 = 4_000_000_000;

/// A disk that completes no read within this time counts as hung. A drive may retry a bad sector for half of it.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// A disk to serve from, with its profile.
#[derive(Debug)]
pub(super) struct KnownDisk {
    pub(super) id: DiskId,
    pub(super) name: String,
    pub(super) profile: DiskProfile,
    /// If the profile is not the disk's own, the reason.
    pub(super) doubt: Option<String>,
    /// A folder on the disk, if its profile is assumed.
    pub(super) assumed_at: Option<PathBuf>,
    /// A folder on the disk, if it has a device that can be measured.
    pub(super) measurable_at: Option<PathBuf>,
}

/// The profiles by which the plane schedules the places of `layout`, in its order. A place without a disk gets the profile of
/// the volume's slowest disk; a disk that is added later is measured then ([`super::restart`]).
pub(super) fn profiles(layout: &StoreLayout, disks: &[KnownDisk]) -> anyhow::Result<Vec<DiskProfile>> {
    let of_volume = |volume: Option<usize>| {
        let places = layout.places().filter(move |other| other.volume == volume);
        places.filter_map(|other| disks.iter().find(|disk| disk.id == other.id))
    };
    let profile = |place: DiskPlace| match disks.iter().find(|disk| disk.id == place.id) {
        Some(disk) => Some(disk.profile.clone()),
        None => {
            let slowest = of_volume(place.volume).min_by_key(|disk| disk.profile.rate_at(disk.profile.capacity.0));
            slowest.map(|disk| disk.profile.clone())
        }
    };
    layout.places().map(|place| profile(place).context("a volume without a disk")).collect()
}

/// The disks of `layout`, in its order, with their profiles. Measurements report their progress to `step`.
///
/// # Errors
/// A disk cannot be examined, or a thread not be started.
pub(super) fn known(
    layout: &StoreLayout,
    state: &Path,
    console: Console,
    step: &(dyn Fn(String) + Sync),
) -> anyhow::Result<Vec<KnownDisk>> {
    let steps = Steps { under_way: Mutex::default(), step };
    thread::scope(|scope| {
        let measured: Vec<_> = layout
            .places()
            .filter_map(|place| Some((place.id, place.disk?)))
            .map(|(id, (device, root))| {
                let (name, steps) = (&device.name, &steps);
                scope.spawn(move || {
                    let disk = known_disk(id, name, root, state, console, steps);
                    steps.done(name);
                    disk
                })
            })
            .collect();
        measured.into_iter().map(|disk| disk.join().map_err(|_| anyhow::anyhow!("measuring panicked"))?).collect()
    })
}

/// Progress of the disks that are being measured.
struct Steps<'a> {
    under_way: Mutex<BTreeMap<String, String>>,
    step: &'a (dyn Fn(String) + Sync),
}

impl Steps<'_> {
    fn tell(&self, disk: &str, progress: CalibrationProgress) {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if under_way.is_empty() {
            say(format_args!("measuring disks that are not known yet: about ten seconds"));
        }
        under_way.insert(disk.to_owned(), format!("{disk} {} %", progress.permille / 10));
        self.publish(&under_way);
    }

    fn done(&self, disk: &str) {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = under_way.get_mut(disk) {
            *text = format!("{disk} done");
            self.publish(&under_way);
        }
    }

    fn publish(&self, under_way: &BTreeMap<String, String>) {
        let all: Vec<&str> = under_way.values().map(String::as_str).collect();
        (self.step)(format!("measuring disks ({})", all.join(", ")));
    }
}

fn known_disk(
    id: DiskId,
    name: &str,
    root: &Path,
    state: &Path,
    console: Console,
    steps: &Steps<'_>,
) -> anyhow::Result<KnownDisk> {
    let name_owned = name.to_owned();
    if identify(root).is_ok_and(|disk| disk.in_memory) {
        console.detail(format_args!("{name}: a file system in memory, no disk time is counted"));
        let profile = memory_profile();
        return Ok(KnownDisk { id, name: name_owned, profile, doubt: None, assumed_at: None, measurable_at: None });
    }
    let mut tell = |progress| steps.tell(name, progress);
    let Some(calibration) = measured(root, state, &mut tell)? else {
        let disk = identify(root).with_context(|| format!("cannot examine {}", root.display()))?;
        let profile = DiskProfile::spindle_default().scaled_to(ByteCount(disk.capacity.0.max(1)));
        let doubt = format!("assumed: no answer for {} s; measured when it answers", SILENCE_MAX.as_secs());
        let at = Some(root.to_owned());
        return Ok(KnownDisk {
            id,
            name: name_owned,
            profile,
            doubt: Some(doubt),
            assumed_at: at.clone(),
            measurable_at: at,
        });
    };
    console.detail(format_args!("{name}: {}", describe(&calibration.profile)));
    console.detail(format_args!("{name}: {}", calibration.source));
    for note in &calibration.notes {
        console.detail(format_args!("{name}: {note}"));
    }
    Ok(KnownDisk::measured(id, name_owned, root, calibration))
}

impl KnownDisk {
    fn measured(id: DiskId, name: String, root: &Path, calibration: Calibration) -> Self {
        let assumed = match &calibration.source {
            ProfileSource::Assumed { reason } => Some(format!("assumed, measured as soon as it can be: {reason}")),
            _ => None,
        };
        let assumed_at = assumed.is_some().then(|| root.to_owned());
        let doubt =
            assumed.or_else(|| calibration.disturbed.then(|| "others used it while it was measured".to_owned()));
        let measurable_at = calibration.disk.device.is_some().then(|| root.to_owned());
        Self { id, name, profile: calibration.profile, doubt, assumed_at, measurable_at }
    }
}

/// The disk with its own profile, if the disk can be measured now or a profile is kept. A new profile is kept in `state`, as at the start.
pub(super) fn measured_now(id: DiskId, name: &str, root: &Path, state: &Path) -> Option<KnownDisk> {
    let calibration = measured(root, state, &mut drop).ok()??;
    let known = KnownDisk::measured(id, name.to_owned(), root, calibration);
    known.assumed_at.is_none().then_some(known)
}

/// The disk's calibration; `None` if the disk does not answer for [`SILENCE_MAX`]. The measuring thread is then abandoned,
/// since no call ends its wait in the kernel.
fn measured(
    root: &Path,
    state: &Path,
    tell: &mut dyn FnMut(CalibrationProgress),
) -> anyhow::Result<Option<Calibration>> {
    let (watcher, told) = mpsc::channel();
    let (folder, state) = (root.to_owned(), state.to_owned());
    let measure = move || {
        let mut watch = |progress: CalibrationProgress| match watcher.send(MeasureStep::Progress(progress)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        };
        let calibration = load_or_calibrate(&state, &folder, Options::default(), &mut watch);
        let _abandoned = watcher.send(MeasureStep::End(calibration.map(Box::new)));
    };
    thread::Builder::new().name("calibrate".to_owned()).spawn(measure)?;
    while let Ok(step) = told.recv_timeout(SILENCE_MAX) {
        match step {
            MeasureStep::Progress(progress) => tell(progress),
            MeasureStep::End(calibration) => {
                let calibration =
                    calibration.with_context(|| format!("cannot measure the disk under {}", root.display()))?;
                return Ok(Some(*calibration));
            }
        }
    }
    Ok(None)
}

enum MeasureStep {
    Progress(CalibrationProgress),
    End(Result<Box<Calibration>, CalibrateError>),
}

fn describe(profile: &DiskProfile) -> String {
    let mega = |bytes: u64| bytes / 1_000_000;
    let (first, last) = (profile.rate_at(0), profile.rate_at(profile.capacity.0));
    let access = profile.access_time(profile.capacity.0 / 3);
    let kind = if profile.rotational { "spinning" } else { "flash" };
    format!("{kind}, {} to {} MB/s, {access} to a random place", mega(first), mega(last))
}

fn memory_profile() -> DiskProfile {
    let mut profile = DiskProfile::flash_default().scaled_to(ByteCount(1 << 40));
    profile.zones.truncate(1);
    profile.zones[0].bytes_per_second = MEMORY_BYTES_PER_SECOND;
    profile.seeks.truncate(1);
    profile.seeks[0].time = units::Nanos::from_micros(50);
    profile.flush = units::Nanos::from_micros(10);
    profile
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assumed_profile_says_why_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let calibration = Calibration {
            disk: identify(folder.path()).expect("it is there"),
            source: ProfileSource::Assumed { reason: "it has few files".to_owned() },
            profile: DiskProfile::spindle_default(),
            notes: Vec::new(),
            disturbed: false,
        };
        let known = KnownDisk::measured(DiskId(0), "sda".to_owned(), folder.path(), calibration);
        assert_eq!(known.doubt.as_deref(), Some("assumed, measured as soon as it can be: it has few files"));
        assert!(known.assumed_at.is_some());
    }
}
