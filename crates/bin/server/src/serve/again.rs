//! Starting again in place, where a start would find more than this one did: a disk that could not be measured then and can
//! now, one that was measured anew, or one that was mounted at a served folder since.
//!
//! Promise: nothing that runs is ended by it: it waits until nothing is streamed or uploaded; the process stays the same for its
//! supervisor. Not here: noticing mounts (`folder`), measuring (`device::calibrate`).

use std::convert::Infallible;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use automation::MeasureState;
use store::{RootAway, StoreEvent};

use super::disks::{self, KnownDisk};

/// How often it is looked whether anything runs, and whether there is a reason.
const PERIOD: Duration = Duration::from_secs(5);
/// Between two tries to measure a disk, at most: each that fails doubles the time, for a disk that hangs costs a thread each.
const PAUSE_MAX: Duration = Duration::from_secs(3600);

/// Folders on disks that a new start would know better.
#[derive(Debug, Default)]
pub(super) struct Unknown {
    /// On disks with an assumed profile.
    assumed: Vec<PathBuf>,
    /// With another disk than at the start.
    mounted_over: Mutex<Vec<PathBuf>>,
    /// State that the job that measures sets.
    pub(super) measured: Arc<MeasureState>,
}

impl Unknown {
    /// After the start.
    pub(super) fn of(disks: &[KnownDisk]) -> Self {
        let assumed = disks.iter().filter_map(|disk| disk.assumed_at.clone()).collect();
        Self { assumed, ..Self::default() }
    }

    /// Something happened to a folder.
    pub(super) fn note(&self, event: &StoreEvent) {
        let mut mounted_over = self.mounted_over();
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

    /// Ends when there is a reason to start again and nothing runs. The measurements for it are kept in `state`, if no
    /// other program used the disk meanwhile; else the start measures again.
    pub(super) async fn known_better(self: Arc<Self>, state: PathBuf, is_busy: impl Fn() -> bool) {
        let (mut pause, mut next) = (PERIOD, Instant::now());
        loop {
            tokio::time::sleep(PERIOD).await;
            // Measuring takes the disk for itself, so that waits for a lull, too.
            let is_due = self.measured.is_newer() || !self.mounted_over().is_empty() || Instant::now() >= next;
            if !is_due || is_busy() {
                continue;
            }
            if self.measured.is_newer() {
                return;
            }
            let (unknown, state) = (Arc::clone(&self), state.clone());
            let better = tokio::task::spawn_blocking(move || unknown.find_out(&state)).await;
            if better.unwrap_or(false) && !is_busy() {
                return;
            }
            pause = (2 * pause).min(PAUSE_MAX);
            next = Instant::now() + pause;
        }
    }

    fn mounted_over(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        self.mounted_over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find_out(&self, state: &Path) -> bool {
        let measured = |root: &PathBuf| disks::is_measured(root, state);
        let mounted_over = self.mounted_over().clone();
        // A disk that was mounted is served whether it can be measured or not.
        let assumed_no_more = self.assumed.iter().any(measured);
        for root in &mounted_over {
            let _ = measured(root);
        }
        assumed_no_more || !mounted_over.is_empty()
    }
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
