//! A drive in virtual time, read like a block device, and a profile measured that way.
//!
//! Promise: the profile that admission receives of a simulated disk comes from reading it, never from the model's parameters;
//! so the errors of measuring are part of every run. Not here: the calibration of real disks (the `device` crate), which
//! `isocast plan` runs on a [`VirtualDisk`].

use schedule::profile::{DiskProfile, SeekPoint, Zone};
use units::{ByteCount, Nanos};

use crate::drive::{CommandEnd, Drive, DriveRequest, Op};
use crate::random::Random;

const MIB: u64 = 1 << 20;
/// Zones measured, and small reads per distance.
const ZONES: u64 = 16;
const SAMPLES: u64 = 48;
const RUN_BYTES: u64 = 24 * MIB;

/// A drive and a clock that jumps to the next event.
#[derive(Debug)]
pub struct VirtualDisk {
    drive: Drive,
    now: Nanos,
    tag: u64,
    over: Vec<CommandEnd>,
}

impl VirtualDisk {
    /// A drive at rest.
    #[must_use]
    pub fn new(drive: Drive) -> Self {
        Self { drive, now: Nanos::ZERO, tag: 0, over: Vec::new() }
    }

    /// Bytes of the device.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.drive.parameters().size
    }

    /// Virtual time.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Reads and waits: how long it took.
    pub fn read(&mut self, position: u64, bytes: u64) -> Nanos {
        self.read_many(&[position], bytes, 1)
    }

    /// Reads `bytes` at each position, `depth` of them in flight: how long all took.
    pub fn read_many(&mut self, positions: &[u64], bytes: u64, depth: usize) -> Nanos {
        let begun = self.now;
        self.read_run(positions, bytes, depth, |_, _| true);
        self.now.saturating_sub(begun)
    }

    /// The same, and the time at which each was there; none is asked for once `goes_on` returns false, given their number and
    /// the time.
    pub fn read_run(
        &mut self,
        positions: &[u64],
        bytes: u64,
        depth: usize,
        goes_on: impl Fn(usize, Nanos) -> bool,
    ) -> Vec<Nanos> {
        let mut there = Vec::with_capacity(positions.len());
        let mut asked = 0;
        loop {
            while asked - there.len() < depth.max(1) && goes_on(asked, self.now) {
                let Some(&offset) = positions.get(asked) else { break };
                self.tag += 1;
                self.drive.submit(DriveRequest { tag: self.tag, op: Op::Read, offset, bytes }, self.now);
                asked += 1;
            }
            if asked == there.len() {
                return there;
            }
            self.now = self.drive.next_wakeup().expect("a drive with requests does something").max(self.now);
            self.drive.complete(self.now, &mut self.over);
            there.extend(self.over.drain(..).map(|_| self.now));
        }
    }
}

/// The profile of a drive at rest, measured by reading it.
#[must_use]
pub fn measure(drive: Drive) -> DiskProfile {
    let mut disk = VirtualDisk::new(drive);
    let mut random = Random::new(1);
    let spindle = mean_access(&mut disk, &mut random, None) > Nanos::from_micros(2500);
    if spindle { measure_spindle(&mut disk, &mut random) } else { measure_flash(&mut disk, &mut random) }
}

fn measure_spindle(disk: &mut VirtualDisk, random: &mut Random) -> DiskProfile {
    let capacity = disk.capacity();
    let zones = (0..ZONES).map(|zone| {
        let start = capacity / ZONES * zone;
        let middle = (start + capacity / ZONES / 2 - RUN_BYTES) / MIB * MIB;
        disk.read(middle, 4 * MIB);
        let time = (4..RUN_BYTES / MIB).fold(Nanos::ZERO, |sum, step| sum + disk.read(middle + step * MIB, MIB));
        let bytes_per_second = per_second(RUN_BYTES - 4 * MIB, time);
        Zone { start: ByteCount(start), bytes_per_second }
    });
    let zones = zones.collect();
    let distances = [4 * MIB, 64 * MIB, capacity / 256, capacity / 64, capacity / 16, capacity / 6, capacity / 3];
    let distances = distances.into_iter().chain([capacity / 9 * 5, capacity / 9 * 8]);
    let mut seeks = vec![SeekPoint { distance: ByteCount(0), time: Nanos::ZERO }];
    for distance in distances {
        // A longer seek is never quicker: a measurement to the contrary is noise.
        let time = mean_access(disk, random, Some(distance)).max(seeks.last().expect("one is there").time);
        seeks.push(SeekPoint { distance: ByteCount(distance), time });
    }
    DiskProfile { capacity: ByteCount(capacity), zones, seeks, ..DiskProfile::spindle_default() }
}

fn measure_flash(disk: &mut VirtualDisk, random: &mut Random) -> DiskProfile {
    let capacity = disk.capacity();
    let latency = mean_access(disk, random, None);
    let positions: Vec<u64> = (0..256).map(|_| random.below(capacity / MIB) * MIB).collect();
    let time = disk.read_many(&positions, MIB, 8);
    let zones = vec![Zone { start: ByteCount(0), bytes_per_second: per_second(256 * MIB, time) }];
    let seeks = vec![SeekPoint { distance: ByteCount(0), time: latency }];
    DiskProfile { capacity: ByteCount(capacity), zones, seeks, ..DiskProfile::flash_default() }
}

/// Mean time of small reads so far apart, going down the disk (drives read ahead, not behind); anywhere if `None`.
fn mean_access(disk: &mut VirtualDisk, random: &mut Random, distance: Option<u64>) -> Nanos {
    let capacity = disk.capacity() - 4096;
    let mut at = random.below(capacity);
    let mut sum = Nanos::ZERO;
    let mut count = 0;
    while count < SAMPLES {
        let next = match distance {
            None => Some(random.below(capacity)),
            Some(distance) => at.checked_sub(distance + random.below(distance / 50)),
        };
        let counts = next.is_some();
        at = next.unwrap_or_else(|| capacity - random.below(capacity / 16));
        let time = disk.read(at / 4096 * 4096, 4096);
        if counts {
            sum += time;
            count += 1;
        }
    }
    Nanos(sum.0 / SAMPLES)
}

fn per_second(bytes: u64, time: Nanos) -> u64 {
    let rate = u128::from(bytes) * 1_000_000_000 / u128::from(time.0.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::{DriveProfile, Parameters};

    fn measured(profile: DriveProfile) -> (DiskProfile, Parameters) {
        let parameters = Parameters::of(profile);
        (measure(Drive::new(parameters.clone(), 3).expect("consistent")), parameters)
    }

    #[test]
    fn a_spindle_is_measured_within_a_few_per_cent() {
        for profile in [DriveProfile::Desktop, DriveProfile::T7k250, DriveProfile::Surveillance] {
            let (measured, parameters) = measured(profile);
            measured.check().expect("a whole profile");
            assert!(measured.rotational);
            let truth = Drive::new(parameters.clone(), 3).expect("consistent");
            for sixteenth in [0, 1, 4, 8, 12, 15] {
                let position = parameters.size / 16 * sixteenth + parameters.size / 40;
                let (rate, expected) = (measured.rate_at(position), truth.rate_at(position));
                assert!(rate.abs_diff(expected) * 18 < expected, "{profile:?} {sixteenth}/16: {rate}, not {expected}");
            }
            // Seek and half a revolution over a third of the stroke: about the average of random places.
            let third = measured.access_time(parameters.size / 3).0;
            let expected = parameters.avg.0 + parameters.turn().0 / 2;
            assert!(third.abs_diff(expected) * 6 < expected, "{profile:?}: {third}, not about {expected}");
        }
    }

    #[test]
    fn a_flash_drive_is_measured_as_flash() {
        let (measured, parameters) = measured(DriveProfile::SsdSata);
        assert!(!measured.rotational);
        let rate = measured.rate_at(0);
        assert!(rate.abs_diff(parameters.rate_read) * 10 < parameters.rate_read, "{rate}");
    }
}
