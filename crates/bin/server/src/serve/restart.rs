//! Changes of disks while the server runs: a disk that can be measured now, was measured anew, came to a volume, or was mounted at a
//! served folder.
//!
//! Promise: a measured profile is given to the data plane, which takes it up as soon as nothing uses the disk; streams, connections and
//! webhooks notice nothing. A disk that is mounted over a folder belongs to another layout of the store: for that the server starts again
//! in place, once nothing is streamed or uploaded; the process stays the same for its supervisor. Not here: noticing mounts (`folder`),
//! measuring (`device::calibrate`).

use std::collections::HashSet;
use std::convert::Infallible;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use automation::MeasuredDisks;
use service::MediaService;
use service::access::Permit;
use store::{RootAway, StoreEvent};
use units::DiskId;

use super::disks::{self, KnownDisk};

/// How often it is looked whether anything runs, and whether there is something to do.
const PERIOD: Duration = Duration::from_secs(5);
/// Between two tries to measure a disk, at most: each that fails doubles the time, for a disk that hangs costs a thread each.
const PAUSE_MAX: Duration = Duration::from_secs(3600);

/// A disk by a folder on it.
#[derive(Debug, Clone)]
struct DiskAt {
    id: DiskId,
    name: String,
    root: PathBuf,
}

/// Disks that are not known yet, or are known better by now.
#[derive(Debug, Default)]
pub(super) struct Unknown {
    /// All that can be measured.
    measurable: Vec<DiskAt>,
    /// Those of them with an assumed profile.
    assumed: Vec<DiskAt>,
    /// Folders with another disk than at the start.
    mounted_over: Mutex<Vec<PathBuf>>,
    /// Disks that the job that measures has measured.
    pub(super) measured: Arc<MeasuredDisks>,
}

impl Unknown {
    /// After the start.
    pub(super) fn of(disks: &[KnownDisk]) -> Self {
        let at = |disk: &KnownDisk, root: &Option<PathBuf>| {
            Some(DiskAt { id: disk.id, name: disk.name.clone(), root: root.clone()? })
        };
        let assumed = disks.iter().filter_map(|disk| at(disk, &disk.assumed_at)).collect();
        let measurable = disks.iter().filter_map(|disk| at(disk, &disk.measurable_at)).collect();
        Self { assumed, measurable, ..Self::default() }
    }

    /// Something happened to a folder.
    pub(super) fn note(&self, event: &StoreEvent) {
        let mut mounted_over = lock(&self.mounted_over);
        match event {
            StoreEvent::RootAway { root, why } => {
                mounted_over.retain(|known| known != root);
                if *why == RootAway::OtherDisk {
                    mounted_over.push(root.clone());
                }
            }
            StoreEvent::RootBack { root } => mounted_over.retain(|known| known != root),
            _ => {}
        }
    }

    /// Gives `take_up` each disk with a better profile from now on; a disk not taken comes again. Ends when a folder has another
    /// disk and nothing runs, if the server may start again. Measurements are kept in `state`, if no other program used the disk meanwhile.
    pub(super) async fn watch(
        self: Arc<Self>,
        (service, state): (Arc<MediaService>, PathBuf),
        is_busy: impl Fn() -> bool,
        take_up: impl Fn(&KnownDisk) -> bool,
        may_start_again: bool,
    ) {
        let (mut pause, mut next) = (PERIOD, Instant::now());
        let (mut assumed, mut better) = (self.assumed.clone(), Vec::<KnownDisk>::new());
        let mut in_volumes = VolumePlaces::of(&service);
        loop {
            tokio::time::sleep(PERIOD).await;
            let measured = self.measured.take();
            let again = self.measurable.iter().filter(|disk| measured.contains(&disk.root)).cloned().collect();
            better.extend(look(again, &state).await);
            let arrived = in_volumes.arrived(&service);
            if !arrived.is_empty() {
                (pause, next) = (PERIOD, Instant::now());
                assumed.retain(|at| !arrived.iter().any(|new| new.id == at.id));
                assumed.extend(arrived);
            }
            // Measuring takes the disk for itself, so that waits for a lull.
            if !assumed.is_empty() && Instant::now() >= next && !is_busy() {
                better.extend(look(assumed.clone(), &state).await);
                pause = (2 * pause).min(PAUSE_MAX);
                next = Instant::now() + pause;
            }
            assumed.retain(|at| !better.iter().any(|known| known.id == at.id));
            better.retain(|disk| !take_up(disk));
            let mounted_over = lock(&self.mounted_over).clone();
            if may_start_again && !mounted_over.is_empty() && !is_busy() {
                // A disk that was mounted is served whether it can be measured or not; its place in the layout is not known yet.
                let at = |root| DiskAt { id: DiskId(0), name: String::new(), root };
                let _ = look(mounted_over.into_iter().map(at).collect(), &state).await;
                if !is_busy() {
                    return;
                }
            }
        }
    }
}

/// The disks in the places of volumes.
struct VolumePlaces(HashSet<(DiskId, PathBuf)>);

impl VolumePlaces {
    /// As they are now.
    fn of(service: &MediaService) -> Self {
        let volumes = service::figures::volumes(service, &Permit::of_server());
        let there = volumes.into_iter().flat_map(|volume| volume.disks);
        Self(there.filter_map(|disk| Some((DiskId(disk.disk?), PathBuf::from(disk.path?)))).collect())
    }

    /// Disks that came since the last look: they have the figures of the slowest disk of their volume, or of the disk that they replace.
    fn arrived(&mut self, service: &MediaService) -> Vec<DiskAt> {
        let now = Self::of(service);
        let new: Vec<_> = now.0.difference(&self.0).cloned().collect();
        *self = now;
        let noted = |(id, root): (DiskId, PathBuf)| {
            service.doubt(id, "another disk's, until this one is measured when nothing runs".to_owned());
            DiskAt { id, name: root.display().to_string(), root }
        };
        new.into_iter().map(noted).collect()
    }
}

/// Those of the disks that can be measured, with their figures.
async fn look(at: Vec<DiskAt>, state: &Path) -> Vec<KnownDisk> {
    let state = state.to_owned();
    let measure = move || {
        let known = |disk: DiskAt| disks::measured_now(disk.id, &disk.name, &disk.root, &state);
        at.into_iter().filter_map(known).collect()
    };
    tokio::task::spawn_blocking(measure).await.unwrap_or_default()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Becomes the same program with the same arguments.
///
/// # Errors
/// It cannot be started any more.
pub(super) fn start_again() -> anyhow::Result<Infallible> {
    let program = std::env::current_exe().context("finding this program")?;
    let error = Command::new(&program).args(std::env::args_os().skip(1)).exec();
    Err(error).with_context(|| format!("starting {} again", program.display()))
}
