//! `measure`: measures all disks anew.
//!
//! Promise: only while nothing is streamed or uploaded, for measuring wants a disk for itself: a stream or upload that begins meanwhile
//! ends it, and the old profile stays. The new one is in force after the server has started again in place, which it does in the next lull.
//! Not here: measuring (`device::calibrate`).

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, ensure};
use device::calibrate::{self, CalibrationProgress, Options};
use tokio::sync::watch;

use super::Surroundings;

/// True once disks were measured anew, and the profiles in force are older.
#[derive(Debug, Default)]
pub struct MeasureState(AtomicBool);

impl MeasureState {
    /// True once a start would find other profiles.
    pub fn is_newer(&self) -> bool {
        self.0.load(Ordering::Acquire)
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
            measured.0.store(true, Ordering::Release);
        }
        Ok(())
    });
    measuring.await.context("measuring")?
}
