//! Speed of a disk relative to its profile, in levels.
//!
//! Promise: a disk whose speed varies around a level reaches it once. Not here: the measurement (`schedule::disk::cost`).

/// Slowdowns of a disk at which an event is logged: two or three of them on the way to half its speed. The first is beyond the
/// scatter of a sound disk's access times. Chosen.
const LEVELS: [f64; 4] = [1.2, 1.5, 2.0, 3.0];
/// A disk leaves a level when its slowdown is below the level by this factor, so that a speed that varies around a level causes
/// one event. Chosen.
const HYSTERESIS: f64 = 0.9;

/// Number of the [`LEVELS`] that a disk has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Speed(usize);

impl Speed {
    /// The level of the disk at this `slowdown`.
    pub(super) fn after(self, slowdown: f64) -> Self {
        let reached = |factor: f64| LEVELS.iter().filter(|&&level| slowdown >= level * factor).count();
        Self(self.0.clamp(reached(1.0), reached(HYSTERESIS)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_slows_down_step_by_step_passes_each_level_once() {
        let mut speed = Speed::default();
        let mut told = vec![];
        let slopes = (100..=250).chain((90..250).rev());
        for percent in slopes {
            let next = speed.after(f64::from(percent) / 100.0);
            if next != speed {
                told.push((percent, next.0));
            }
            speed = next;
        }
        assert_eq!(told, [(120, 1), (150, 2), (200, 3), (179, 2), (134, 1), (107, 0)]);
    }

    #[test]
    fn a_disk_at_a_level_is_reported_once() {
        let mut speed = Speed::default();
        let changes = (0..100).filter(|nth| {
            let next = speed.after(if nth % 2 == 0 { 1.51 } else { 1.49 });
            let changed = next != speed;
            speed = next;
            changed
        });
        assert_eq!(changes.count(), 1, "to the second level, and no further");
    }
}
