//! Profile of a disk, as measured through its block device: the only thing `serve` and `plan` know of a disk.
//!
//! Promise: a profile predicts the service time of one request from where the head is, where the request lies and how
//! long it is: `access_time(distance) + transfer_time(position, bytes)`. Between measured points rates go linearly and
//! seeks by the square root of the distance; the same profile gives the same prediction on every machine. Not here: measuring (the `device`
//! crate's calibration), learning from observed times (`disk::cost`).

use units::{ByteCount, Nanos};
/// Writes are never counted slower than by this, relative to reads. Chosen: a bound.
const WRITE_RATIO_MIN: f64 = 0.05;
/// Above this a measurement is wrong. Chosen.
const WRITE_RATIO_MAX: f64 = 4.0;
/// Weights of the ends and the middle in Simpson's rule, and their sum. Follow.
const SIMPSON: [f64; 3] = [1.0, 4.0, 1.0];
const SIMPSON_SUM: f64 = 6.0;

/// A measured disk. Positions are bytes from the start of the whole block device (not the partition).
#[derive(Debug, Clone, PartialEq)]
pub struct DiskProfile {
    /// Spinning (one head: seeks cost, requests in position order) or not.
    pub rotational: bool,
    /// Size of the device.
    pub capacity: ByteCount,
    /// Sustained sequential read rates by position, in ascending order of `start`; never empty, the first starts at 0.
    pub zones: Vec<Zone>,
    /// Mean time of a 4 KiB read at a distance from the last one (seek, rotation, overhead; no transfer to speak of),
    /// ascending in `distance`; never empty. For a disk without heads: one point, the latency.
    pub seeks: Vec<SeekPoint>,
    /// Time of one revolution; zero for a disk without heads.
    pub turn: Nanos,
    /// Time of a flush of the drive's cache with little in it (a high quantile).
    pub flush: Nanos,
    /// Sequential write rate relative to the read rate of the same zone (where not measured: 1.0 on a spindle, 0.5 on
    /// flash).
    pub write_ratio: f64,
    /// Requests worth keeping in flight: 2 on a spindle (one served, one to continue with), more on a flash drive.
    pub queue_depth: u32,
}

impl DiskProfile {
    /// The assumed profile of a spinning disk that could not be measured: a slow, old 5400 rpm drive of 1 TB, so that
    /// admission errs towards refusing. [`Self::scaled_to`] fits it to the real size.
    #[must_use]
    pub fn spindle_default() -> Self {
        let mega = ByteCount::from_megabytes;
        let zone = |start: ByteCount, rate: ByteCount| Zone { start, bytes_per_second: rate.0 };
        let seek = |distance: ByteCount, micros: u64| SeekPoint { distance, time: Nanos::from_micros(micros) };
        Self {
            rotational: true,
            capacity: mega(1_000_000),
            zones: vec![
                zone(mega(0), mega(90)),
                zone(mega(200_000), mega(84)),
                zone(mega(400_000), mega(75)),
                zone(mega(600_000), mega(64)),
                zone(mega(800_000), mega(50)),
            ],
            // Continuing where the last request ended waits for nothing: the zone's rate includes it.
            seeks: vec![
                seek(mega(0), 0),
                seek(mega(2), 8_500),
                seek(mega(1_000), 9_500),
                seek(mega(10_000), 11_500),
                seek(mega(330_000), 19_500),
                seek(mega(1_000_000), 28_000),
            ],
            turn: Nanos::from_micros(11_111),
            flush: Nanos::from_millis(60),
            write_ratio: 1.0,
            queue_depth: 2,
        }
    }

    /// The assumed profile of a flash drive that could not be measured: a modest SATA drive of 1 TB.
    #[must_use]
    pub fn flash_default() -> Self {
        Self {
            rotational: false,
            capacity: ByteCount::from_megabytes(1_000_000),
            zones: vec![Zone { start: ByteCount(0), bytes_per_second: 300_000_000 }],
            seeks: vec![SeekPoint { distance: ByteCount(0), time: Nanos::from_micros(250) }],
            turn: Nanos::ZERO,
            flush: Nanos::from_millis(20),
            write_ratio: 0.5,
            queue_depth: 8,
        }
    }

    /// The same drive with another capacity: zone starts and seek distances keep their share of the whole.
    #[must_use]
    pub fn scaled_to(mut self, capacity: ByteCount) -> Self {
        let (from, to) = (u128::from(self.capacity.0.max(1)), u128::from(capacity.0));
        let scale = |b: ByteCount| ByteCount(u64::try_from(u128::from(b.0) * to / from).unwrap_or(u64::MAX));
        self.zones.iter_mut().for_each(|z| z.start = scale(z.start));
        self.seeks.iter_mut().for_each(|s| s.distance = scale(s.distance));
        // A tiny capacity can make two points fall together; the first of them stands for both.
        self.zones.dedup_by_key(|z| z.start);
        self.seeks.dedup_by_key(|s| s.distance);
        self.capacity = capacity;
        self
    }

    /// Whether the promises of the fields hold (ascending, not empty, no zero rate, finite); the reason if not.
    /// Predictions of a profile that fails this are still defined, but mean nothing.
    ///
    /// # Errors
    /// The first promise that is broken.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.zones.first().is_none_or(|z| z.start.0 != 0) {
            return Err("the first zone must start at 0");
        }
        if self.zones.windows(2).any(|w| w[0].start >= w[1].start) {
            return Err("zones must be in ascending order of their start");
        }
        if self.zones.iter().any(|z| z.bytes_per_second == 0 || z.start.0 > self.capacity.0) {
            return Err("a zone must have a rate above zero and start inside the capacity");
        }
        if self.seeks.is_empty() || self.seeks.windows(2).any(|w| w[0].distance >= w[1].distance) {
            return Err("the seek curve must have points in ascending order of distance");
        }
        let long = Nanos::from_secs(10);
        if self.seeks.iter().any(|s| s.time > long) || self.turn > long || self.flush > long {
            return Err("no seek, turn or flush takes longer than 10 s");
        }
        if !(self.write_ratio > 0.0 && self.write_ratio <= WRITE_RATIO_MAX)
            || self.queue_depth == 0
            || self.capacity.0 == 0
        {
            return Err("write ratio (0 to 4), queue depth and capacity must be above zero");
        }
        Ok(())
    }

    /// Sustained sequential read rate at `position`, bytes per second; never zero.
    ///
    /// Linear between the middles of the measured zones, constant before the first and after the last: a drive has more
    /// zones than we measure and we cannot know where they step, so the line halves the error a staircase would have.
    /// A position beyond the disk (also `u64::MAX`, unknown) has the rate of the last, slowest zone.
    #[must_use]
    pub fn rate_at(&self, position: u64) -> u64 {
        let (below, above) = self.around(position);
        let rate = match (below, above) {
            (Some((p0, r0)), Some((p1, r1))) => {
                let (span, step) = (u128::from(p1 - p0), u128::from(position - p0));
                let sum = u128::from(r0) * (span - step) + u128::from(r1) * step;
                u64::try_from(sum / span).unwrap_or(u64::MAX)
            }
            (Some((_, rate)), None) | (None, Some((_, rate))) => rate,
            (None, None) => 1,
        };
        rate.max(1)
    }

    /// Mean time until the first byte of a request that starts `distance` bytes from the end of the last one (either
    /// way). By the square root of the distance between measured points, which is how an arm accelerates; a distance
    /// below the first or beyond the last point takes that point's time.
    #[must_use]
    pub fn access_time(&self, distance: u64) -> Nanos {
        let above = self.seeks.partition_point(|s| s.distance.0 <= distance);
        let Some(high) = self.seeks.get(above) else {
            return self.seeks.last().map_or(Nanos::ZERO, |s| s.time);
        };
        let Some(low) = above.checked_sub(1).and_then(|i| self.seeks.get(i)) else {
            return high.time;
        };
        let root = |b: u64| (b as f64).sqrt();
        let share = (root(distance) - root(low.distance.0)) / (root(high.distance.0) - root(low.distance.0));
        // Measured points may descend by noise: interpolate with the sign.
        let time = low.time.as_secs_f64() + share * (high.time.as_secs_f64() - low.time.as_secs_f64());
        Nanos::from_secs_f64(time)
    }

    /// Time for `bytes` to pass under the head from `position` on, across zones.
    #[must_use]
    pub fn transfer_time(&self, position: u64, bytes: u64) -> Nanos {
        let end = position.saturating_add(bytes);
        let mut at = position;
        let mut seconds = 0.0;
        while at < end {
            let stop = self.around(at).1.map_or(end, |(middle, _)| middle.min(end));
            seconds += self.straight_seconds(at, stop);
            at = stop;
        }
        // Bytes beyond the largest position are charged too, at the last rate.
        let beyond = bytes - (end - position);
        seconds += beyond as f64 / self.rate_at(end) as f64;
        Nanos::from_secs_f64(seconds)
    }

    /// The number of requests that the drive accesses at the same time: a head makes one access after the other.
    #[must_use]
    pub fn parallel_requests(&self) -> f64 {
        if self.rotational { 1.0 } else { f64::from(self.queue_depth.max(1)) }
    }

    /// Seconds for writing the bytes that are read in this time.
    pub(crate) fn write_seconds(&self, read_seconds: f64) -> f64 {
        read_seconds / self.write_ratio.max(WRITE_RATIO_MIN)
    }

    /// The most that `seeks` requests with this time of transfer in all take, when they are served in one sweep from
    /// wherever the head is: as many equal seeks over the whole disk, and one seek back. Seek curves are concave, so no
    /// other places cost more (Oyang). A drive without a head serves several at once.
    #[must_use]
    pub fn sweep_seconds(&self, seeks: f64, transfer: f64) -> f64 {
        self.sweep_seconds_within(self.capacity.0, seeks, transfer)
    }

    /// The same of requests that all lie within a `span` of bytes: equal seeks over that, and one to get there.
    #[must_use]
    pub fn sweep_seconds_within(&self, span: u64, seeks: f64, transfer: f64) -> f64 {
        if seeks <= 0.0 {
            return 0.0;
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a distance on the disk, rounded")]
        let access = |distance: f64| self.access_time(distance as u64).as_secs_f64();
        let hop = access(span.min(self.capacity.0) as f64 / seeks.max(1.0));
        let back = (access(self.capacity.0 as f64) - hop).max(0.0);
        transfer + (seeks * hop + back) / self.parallel_requests()
    }

    /// The integral of 1/rate from `from` to `to`, between which the rate is a straight line. Simpson's rule: exact to
    /// 0.2 % even where the rate falls by half, without a logarithm (which may differ between machines).
    fn straight_seconds(&self, from: u64, to: u64) -> f64 {
        let slowness = |position| 1.0 / self.rate_at(position) as f64;
        let bytes = to - from;
        let [first, middle, last] = SIMPSON;
        bytes as f64 * (first * slowness(from) + middle * slowness(from + bytes / 2) + last * slowness(to))
            / SIMPSON_SUM
    }

    /// The zone middles (position, rate) at or below `position` and above it.
    fn around(&self, position: u64) -> (Option<Middle>, Option<Middle>) {
        let middle = |i: usize| {
            let start = self.zones[i].start.0;
            let end = self.zones.get(i + 1).map_or(self.capacity.0, |z| z.start.0);
            start + end.saturating_sub(start) / 2
        };
        // The zone that holds `position` decides which two middles lie around it.
        let zone = self.zones.partition_point(|z| z.start.0 <= position).saturating_sub(1);
        if self.zones.is_empty() {
            return (None, None);
        }
        let (below, above) =
            if position < middle(zone) { (zone.checked_sub(1), Some(zone)) } else { (Some(zone), Some(zone + 1)) };
        let point = |i: usize| self.zones.get(i).map(|z| (middle(i), z.bytes_per_second));
        (below.and_then(point), above.and_then(point))
    }
}

/// The middle of a zone and its rate.
type Middle = (u64, u64);

/// From `start` up to the next zone's start, data passes under the head at this rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zone {
    /// First byte of the zone.
    pub start: ByteCount,
    /// Sustained sequential read rate, bytes per second; never zero.
    pub bytes_per_second: u64,
}

/// One point of the seek curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeekPoint {
    /// Distance between the end of one request and the start of the next.
    pub distance: ByteCount,
    /// Mean time until the first byte.
    pub time: Nanos,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn straight() -> DiskProfile {
        DiskProfile {
            capacity: ByteCount(1000),
            zones: vec![
                Zone { start: ByteCount(0), bytes_per_second: 200 },
                Zone { start: ByteCount(400), bytes_per_second: 100 },
            ],
            seeks: vec![
                SeekPoint { distance: ByteCount(100), time: Nanos::from_millis(4) },
                SeekPoint { distance: ByteCount(400), time: Nanos::from_millis(8) },
            ],
            ..DiskProfile::spindle_default()
        }
    }

    #[test]
    fn rates_are_linear_between_middles_and_flat_outside() {
        let p = straight();
        // Middles: 200 (rate 200) and 700 (rate 100).
        assert_eq!([0, 200, 450, 700, 999, u64::MAX].map(|x| p.rate_at(x)), [200, 200, 150, 100, 100, 100]);
        assert_eq!(DiskProfile::flash_default().rate_at(123_456_789), 300_000_000);
    }

    #[test]
    fn access_goes_by_the_root_and_saturates() {
        let p = straight();
        assert_eq!([0, 99, 100, 400, u64::MAX].map(|d| p.access_time(d).0 / 1_000_000), [4, 4, 4, 8, 8]);
        // Half way between the roots 10 and 20 lies the distance 15² = 225.
        assert_eq!(p.access_time(225), Nanos::from_millis(6));
    }

    #[test]
    fn transfer_crosses_zones() {
        let p = straight();
        assert_eq!(p.transfer_time(0, 200), Nanos::from_secs(1));
        assert_eq!(p.transfer_time(800, 100), Nanos::from_secs(1));
        assert_eq!(p.transfer_time(0, 0), Nanos::ZERO);
        // Unknown positions cost as much as the slowest zone.
        assert_eq!(p.transfer_time(u64::MAX, 100), Nanos::from_secs(1));

        let mut fine = p.scaled_to(ByteCount(1000 * 1_000_000));
        fine.zones.iter_mut().for_each(|z| z.bytes_per_second *= 1_000_000);
        let seconds = |from_mb: u64, mb: u64| fine.transfer_time(from_mb * 1_000_000, mb * 1_000_000).as_secs_f64();
        // From 200 to 700 the rate falls from 200 to 100 in a line: 500 / 100 × ln 2 seconds.
        let exact = 5.0 * std::f64::consts::LN_2;
        assert!((seconds(200, 500) - exact).abs() < 0.003 * exact);
        let whole = seconds(0, 1000);
        assert!((whole - seconds(0, 333) - seconds(333, 667)).abs() < 0.003 * whole);
    }

    #[test]
    fn the_assumed_spindle_pays_for_the_distance() {
        let p = DiskProfile::spindle_default();
        let hop = |megabytes: u64| p.access_time(ByteCount::from_megabytes(megabytes).0).0 / 1_000_000;
        assert_eq!([2, 1_000, 10_000, 1_000_000].map(hop), [8, 9, 11, 28], "a full stroke costs 28 ms, a short hop 9");
        let small = p.scaled_to(ByteCount::from_megabytes(250_000));
        assert_eq!(
            small.access_time(268 * 1024).0 / 1_000_000,
            6,
            "and no hop of a few hundred KiB costs a full stroke"
        );
    }

    #[test]
    fn defaults_hold_their_promises_at_any_size() {
        for capacity in [1, 4096, 1 << 30, 1 << 44, u64::MAX] {
            for profile in [DiskProfile::spindle_default(), DiskProfile::flash_default()] {
                assert_eq!(profile.scaled_to(ByteCount(capacity)).check(), Ok(()));
            }
        }
    }

    #[test]
    fn broken_profiles_are_refused() {
        let broken: [fn(&mut DiskProfile); 5] = [
            |p| p.zones.clear(),
            |p| p.zones[0].bytes_per_second = 0,
            |p| p.zones.reverse(),
            |p| p.seeks.reverse(),
            |p| p.write_ratio = f64::NAN,
        ];
        for break_it in broken {
            let mut profile = DiskProfile::spindle_default();
            break_it(&mut profile);
            assert!(profile.check().is_err());
        }
    }

    #[test]
    fn a_broken_profile_predicts_without_panic() {
        let mut p = straight();
        p.zones[0].bytes_per_second = 0;
        assert_eq!(p.rate_at(0), 1);
        p.zones.clear();
        p.seeks.clear();
        assert_eq!((p.rate_at(5), p.access_time(5)), (1, Nanos::ZERO));
        assert_eq!(p.transfer_time(0, 3), Nanos::from_secs(3));
    }
}
