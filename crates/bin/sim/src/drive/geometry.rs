//! Geometry of the platters and the head's way: zones, tracks, angles, the seek curve.
//!
//! Promise: pure arithmetic on integers of nanoseconds; consecutive tracks lie one revolution plus the skew apart, so a
//! stream never loses a revolution and a zone's sustained rate is exactly that of the parameters.
//! Not here: queues, caches, the state of the head (`rotating`).

use units::Nanos;

use super::parameters::{Parameters, float_of, whole_of};

/// A place under the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeadPosition {
    /// Cylinder, `0..Geometry::cylinders`.
    pub(crate) cylinder: u64,
    /// Nanoseconds since the start of the first track at which a head that streams from byte 0 would pass here.
    /// Its remainder by the time of a revolution is the angle.
    pub(crate) phase: u64,
}

/// Tracks of equal length.
#[derive(Debug, Clone, Copy)]
struct Band {
    start: u64,
    first_track: u64,
    bytes_per_track: u64,
}

/// The layout of one disk.
#[derive(Debug, Clone)]
pub(crate) struct Geometry {
    bands: Vec<Band>,
    heads: u64,
    cylinders: u64,
    turn: u64,
    pitch: u64,
    curve: Curve,
}

/// Seek time by distance: `a + b·√x` up to a third of the stroke, then linear to the full stroke.
#[derive(Debug, Clone, Copy)]
struct Curve {
    a: f64,
    b: f64,
    knee: f64,
    full: f64,
    per_cylinder: f64,
}

impl Curve {
    /// Solves `b` so that random pairs of cylinders average `average` (density of the distance: `2(1 - x)`).
    fn solve(track_to_track: f64, average: f64, full: f64, cylinders: u64) -> Self {
        let c = (1.0f64 / 3.0).sqrt();
        // ∫₀^⅓ √x·2(1-x) dx
        let root = 2.0 * (2.0 / 3.0 * (1.0f64 / 3.0).powf(1.5) - 2.0 / 5.0 * (1.0f64 / 3.0).powf(2.5));
        let b = (average - full * 4.0 / 27.0 - track_to_track * (5.0 / 9.0 + 8.0 / 27.0)) / (root + c * 8.0 / 27.0);
        Self {
            a: track_to_track,
            b,
            knee: track_to_track + b * c,
            full,
            per_cylinder: 1.0 / float_of(cylinders.max(1)),
        }
    }

    fn time(&self, cylinders: u64) -> u64 {
        if cylinders == 0 {
            return 0;
        }
        let x = float_of(cylinders) * self.per_cylinder;
        let time = if x <= 1.0 / 3.0 {
            self.a + self.b * x.sqrt()
        } else {
            self.knee + (self.full - self.knee) * (x - 1.0 / 3.0) * 1.5
        };
        whole_of(time)
    }
}

impl Geometry {
    /// Lays out a disk. The parameters have been checked.
    pub(crate) fn new(parameters: &Parameters) -> Self {
        let turn = parameters.turn().0;
        let pitch = turn + parameters.skew.0;
        let zones = u64::from(parameters.zones);
        let track_bytes = |zone: u64| {
            let (outer, inner) = (u128::from(parameters.outer), u128::from(parameters.inner));
            let steps = u128::from(zones.max(2) - 1);
            let rate = outer - (outer - inner) * u128::from(zone) / steps;
            // Whole sectors: 512 of a million bytes is an error of 0.05 % at most.
            let bytes = rate * u128::from(pitch) / 1_000_000_000 / 512 * 512;
            u64::try_from(bytes.max(512)).unwrap_or(u64::MAX)
        };
        let per_turn_of_zones: u64 = (0..zones).map(track_bytes).sum();
        let tracks_per_zone = parameters.size.div_ceil(per_turn_of_zones).max(1);
        let mut bands = Vec::new();
        let mut start = 0;
        for zone in 0..zones {
            let bytes_per_track = track_bytes(zone);
            bands.push(Band { start, first_track: zone * tracks_per_zone, bytes_per_track });
            start += bytes_per_track * tracks_per_zone;
        }
        let heads = u64::from(parameters.heads);
        let cylinders = (tracks_per_zone * zones).div_ceil(heads);
        let curve = Curve::solve(
            float_of(parameters.t2t.0),
            float_of(parameters.avg.0),
            float_of(parameters.full.0),
            cylinders,
        );
        Self { bands, heads, cylinders, turn, pitch, curve }
    }

    /// One revolution, in nanoseconds.
    pub(crate) fn turn(&self) -> u64 {
        self.turn
    }

    /// How many cylinders the disk has.
    #[cfg(test)]
    pub(crate) fn cylinders(&self) -> u64 {
        self.cylinders
    }

    /// Seek time over a number of cylinders, in nanoseconds.
    pub(crate) fn seek(&self, cylinders: u64) -> u64 {
        self.curve.time(cylinders.min(self.cylinders))
    }

    fn band(&self, offset: u64) -> &Band {
        let next = self.bands.partition_point(|band| band.start <= offset);
        &self.bands[next.saturating_sub(1)]
    }

    /// The place of a byte.
    pub(crate) fn place(&self, offset: u64) -> HeadPosition {
        let band = self.band(offset);
        let within = offset - band.start;
        let track = band.first_track + within / band.bytes_per_track;
        let angle = within % band.bytes_per_track * self.turn / band.bytes_per_track;
        HeadPosition { cylinder: track / self.heads, phase: track * self.pitch + angle }
    }

    /// Phase just after the last byte before `offset`: a transfer that ends with its track does not cross the skew.
    pub(crate) fn phase_after(&self, offset: u64) -> u64 {
        let Some(last) = offset.checked_sub(1) else { return 0 };
        let band = self.band(last);
        let within = last - band.start;
        let track = band.first_track + within / band.bytes_per_track;
        let angle = (within % band.bytes_per_track + 1) * self.turn / band.bytes_per_track;
        track * self.pitch + angle
    }

    /// How far a head that streams has read at `phase`: the first byte not yet passed.
    pub(crate) fn offset_at(&self, phase: u64) -> u64 {
        let track = phase / self.pitch;
        let angle = (phase % self.pitch).min(self.turn);
        let next = self.bands.partition_point(|band| band.first_track <= track);
        let band = &self.bands[next.saturating_sub(1)];
        band.start + (track - band.first_track) * band.bytes_per_track + angle * band.bytes_per_track / self.turn
    }

    /// Sustained rate where `offset` lies, bytes per second.
    pub(crate) fn rate(&self, offset: u64) -> u64 {
        let bytes = u128::from(self.band(offset).bytes_per_track) * 1_000_000_000 / u128::from(self.pitch);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Nanoseconds until the head, over the right track at time `at`, meets the angle of `phase`.
    pub(crate) fn rotation_wait(&self, phase: u64, at: Nanos) -> u64 {
        let target = phase % self.turn;
        let here = at.0 % self.turn;
        if target >= here { target - here } else { target + self.turn - here }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::DriveProfile;

    #[test]
    fn random_pairs_average_the_specified_seek() {
        for profile in [DriveProfile::T7k250, DriveProfile::Desktop, DriveProfile::Surveillance] {
            let parameters = Parameters::of(profile);
            let geometry = Geometry::new(&parameters);
            let n = geometry.cylinders();
            // A lattice of pairs instead of random ones: the mean is then exact to about its step.
            let steps = 400;
            let mut sum = 0;
            for i in 0..steps {
                for j in 0..steps {
                    sum += geometry.seek((i * n / steps).abs_diff(j * n / steps));
                }
            }
            let mean = sum / (steps * steps);
            let error = float_of(mean.abs_diff(parameters.avg.0)) / float_of(parameters.avg.0);
            assert!(error < 0.01, "{profile:?}: {mean} against {}", parameters.avg.0);
            assert_eq!(geometry.seek(0), 0);
            assert!(geometry.seek(n).abs_diff(parameters.full.0) < 1000);
        }
    }

    #[test]
    fn the_seek_curve_never_falls() {
        let geometry = Geometry::new(&Parameters::of(DriveProfile::Desktop));
        let n = geometry.cylinders();
        let times: Vec<u64> = (0..=1000).map(|i| geometry.seek(i * n / 1000)).collect();
        assert!(times.windows(2).all(|pair| pair[0] <= pair[1]));
    }

    #[test]
    fn zones_go_from_outer_to_inner_rate() {
        let parameters = Parameters::of(DriveProfile::Desktop);
        let geometry = Geometry::new(&parameters);
        assert!(geometry.rate(0).abs_diff(180_000_000) < 100_000);
        assert!(geometry.rate(parameters.size - 1).abs_diff(85_000_000) < 100_000);
        let rates: Vec<u64> = (0..100).map(|i| geometry.rate(parameters.size / 100 * i)).collect();
        assert!(rates.windows(2).all(|pair| pair[0] >= pair[1]));
    }

    #[test]
    fn phase_and_offset_are_inverse() {
        let parameters = Parameters::of(DriveProfile::T7k250);
        let geometry = Geometry::new(&parameters);
        for i in 0..10_000u64 {
            let offset = parameters.size / 10_001 * i / 512 * 512;
            let back = geometry.offset_at(geometry.place(offset).phase);
            assert!(back.abs_diff(offset) <= 1, "{offset} became {back}");
            assert!(geometry.phase_after(offset) <= geometry.place(offset).phase);
        }
    }

    #[test]
    fn a_track_is_one_turn_and_the_next_lies_the_skew_further() {
        let parameters = Parameters::of(DriveProfile::Desktop);
        let geometry = Geometry::new(&parameters);
        let track = geometry.bands[0].bytes_per_track;
        assert_eq!(geometry.phase_after(track), geometry.turn());
        assert_eq!(geometry.place(track).phase, geometry.turn() + parameters.skew.0);
        assert_eq!(geometry.rotation_wait(geometry.place(track).phase, Nanos(geometry.turn())), parameters.skew.0);
    }
}
