//! `measure`: measures all disks anew.
//!
//! Promise: only while nothing is streamed or uploaded, for measuring wants a disk for itself: a stream or upload that begins meanwhile
//! ends it, and the old profile stays. The new one is in force as soon as nothing uses the disk.
//! Not here: measuring (`device::calibrate`).

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, ensure};
use device::calibrate::{self, CalibrationProgress, Options};
use tokio::sync::watch;

use super::Surroundings;

/// Folders on the disks that were measured anew, until their profiles are taken up.
#[derive(Debug, Default)]
pub struct MeasuredDisks(Mutex<Vec<PathBuf>>);

impl MeasuredDisks {
    /// Those since this was called last; their profiles are kept in the state folder.
    pub fn take(&self) -> Vec<PathBuf> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds a folder.
    pub fn add(&self, root: PathBuf) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(root);
    }
}

/// Measures one disk after the other.
///
/// # Errors
/// Something is streamed or uploaded, or a disk cannot be measured.
pub(super) async fn measure(around: &Surroundings, stop: watch::Receiver<bool>) -> anyhow::Result<()> {
    ensure!(!around.disks.is_empty(), "no served folder has a disk that could be measured");
    let (service, state) = (Arc::clone(&around.service), around.state.clone());
    let (disks, measured) = (around.disks.clone(), Arc::clone(&around.measured));
    let measuring = tokio::task::spawn_blocking(move || {
        for root in &disks {
            let mut watch = |_: CalibrationProgress| match service.is_busy() || *stop.borrow() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            };
            let name = root.display();
            ensure!(!service.is_busy(), "streams or uploads are under way: disks are measured while nothing runs");
            let calibration = calibrate::calibrate(root, Options::default(), &mut watch)
                .with_context(|| format!("the disk under {name} was not measured"))?;
            ensure!(!calibration.disturbed, "others used the disk under {name} while it was measured");
            calibrate::save(&state, &calibration).with_context(|| name.to_string())?;
            measured.add(root.clone());
        }
        Ok(())
    });
    measuring.await.context("measuring")?
}
