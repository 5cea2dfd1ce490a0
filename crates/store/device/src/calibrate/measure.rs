//! The measurement: the choice of places to read, and the figures from the times.
//!
//! Promise: reads only; positions depend on nothing but the seed, the capacity and (for when to stop) the clock; a few
//! unreadable places are passed over.
//!
//! A drive's read buffer must not answer for the disk: nothing is read twice, short distances go backwards (a drive
//! reads ahead, not behind), and a sequential run's first megabytes are not counted.

use std::ops::ControlFlow;

use schedule::profile::{DiskProfile, SeekPoint, Zone};
use units::{ByteCount, Nanos};

use super::disk::{InTurn, Readable, TOO_LITTLE};
use super::{CalibrationProgress, Options, Watcher};

const MIB: u64 = 1 << 20;
const SECTOR: u64 = 4096;
/// Measured zones: a whole number of steps and a half at each end, so that the ends are met within 1/64 of the disk.
const ZONES: u64 = 17;
/// Least capacity: smaller disks and sets of files give too few figures.
const CAPACITY_MIN: u64 = 64 * MIB;
/// Sequential reads of 1 MiB before the counted ones: they take the seek, and the data in the drive's buffer.
const RUN_LEAD: u64 = 2;
/// Counted reads of a run: several tracks, so that the track switches average out.
const RUN_READS: u64 = 16;
const RUN_READS_MIN: u64 = 4;
const RUN_BYTES: u64 = (RUN_LEAD + RUN_READS) * MIB;
/// Longest time of a run, once there are [`RUN_READS_MIN`].
const RUN_TIME_MAX: Nanos = Nanos::from_millis(180);
/// Reads in flight at a time, as the `queue_depth` of a spindle's profile.
const SPINDLE_DEPTH: u64 = 2;
/// A read of a run that takes this multiple of the median waited for another program's: track switches, retries of the head and
/// a drive that reads ahead stay below.
const HELD_UP: u64 = 4;
/// Most further readings of zones that are slower than one further inside.
const REREADS_MAX: u32 = 3;
/// Samples of one distance in one round, and the least and most rounds.
const ROUND_SAMPLES: usize = 8;
const ROUNDS_MIN: u32 = 2;
const ROUNDS_MAX: u32 = 12;
/// A random read that takes longer than this has waited for an arm; flash, and drives behind memory, answer sooner.
const SPINDLE_LATENCY_MIN: Nanos = Nanos::from_micros(2500);
/// No disk answers sooner than this: the answer came from memory.
const LATENCY_MIN: Nanos = Nanos::from_micros(4);
/// Turns of drives on the market, in revolutions per minute.
const RPM: [u64; 7] = [4200, 5400, 5700, 5900, 7200, 10_000, 15_000];
/// Unreadable places after which the disk is given up.
const FAILURES_MAX: u32 = 8;
/// The figures are not the disk's own if others made more than one request in this number.
const OTHERS_SHARE: u64 = 10;
/// Flash: requests in flight, and how long bandwidth is measured at least.
const FLASH_DEPTH: u32 = 8;
const FLASH_TIME: Nanos = Nanos::from_millis(700);

/// A profile, and the notes to show with it.
#[derive(Debug)]
pub(crate) struct MeasuredProfile {
    pub(crate) profile: DiskProfile,
    pub(crate) notes: Vec<String>,
    /// True if other programs used the disk so heavily that it can do more than this.
    pub(crate) disturbed: bool,
}

/// Reason that there is no profile.
#[derive(Debug)]
pub(crate) enum NoProfile {
    Cancelled,
    /// The reason in words.
    Unusable(String),
}

/// A sequential run.
struct SequentialRun {
    /// Bytes per second.
    rate: f64,
    /// True if another program used the disk, or the machine slept, meanwhile.
    held_up: bool,
}

/// One disk being measured.
pub(crate) struct Measurement<'a, R: Readable> {
    disk: &'a mut R,
    options: Options,
    watch: Watcher<'a>,
    random: SplitMix64,
    started: Nanos,
    failures: u32,
    notes: Vec<String>,
    /// Requests made here, and by others meanwhile.
    own_requests: u64,
    others: u64,
}

impl<'a, R: Readable> Measurement<'a, R> {
    pub(crate) fn new(disk: &'a mut R, options: Options, watch: Watcher<'a>) -> Self {
        let started = disk.now();
        let random = SplitMix64(options.seed);
        Self { disk, options, watch, random, started, failures: 0, notes: Vec::new(), own_requests: 0, others: 0 }
    }

    /// The profile of a whole device.
    pub(crate) fn device(mut self, kernel_rotational: Option<bool>) -> Result<MeasuredProfile, NoProfile> {
        let latency = self.first_look()?;
        let profile = if self.is_spindle(latency, kernel_rotational) { self.spindle()? } else { self.flash()? };
        Ok(self.measured(profile))
    }

    /// The profile of a disk of `capacity` from files somewhere on it.
    pub(crate) fn files(
        mut self,
        kernel_rotational: Option<bool>,
        capacity: ByteCount,
    ) -> Result<MeasuredProfile, NoProfile> {
        let latency = self.first_look()?;
        let mut profile =
            if self.is_spindle(latency, kernel_rotational) { self.spindle_by_files(latency)? } else { self.flash()? };
        profile = profile.scaled_to(ByteCount(capacity.0.max(1)));
        Ok(self.measured(profile))
    }

    fn measured(mut self, profile: DiskProfile) -> MeasuredProfile {
        self.others += self.disk.others();
        let disturbed = self.others * OTHERS_SHARE > self.own_requests;
        if disturbed {
            let (others, asked) = (self.others, self.own_requests);
            self.notes.push(format!(
                "something else used the disk while it was measured ({others} requests beside {asked}): it can do more than these figures say"
            ));
        }
        MeasuredProfile { profile, notes: self.notes, disturbed }
    }

    /// Median time of a random small read.
    fn first_look(&mut self) -> Result<Nanos, NoProfile> {
        let capacity = self.disk.capacity();
        if capacity < CAPACITY_MIN {
            return Err(NoProfile::Unusable(TOO_LITTLE.to_owned()));
        }
        let mut times = Vec::new();
        for _ in 0..24 {
            self.tell("first look", 0)?;
            let position = self.random.below(capacity - SECTOR);
            times.extend(self.read(position, SECTOR)?);
        }
        times.sort_unstable();
        let median = times[times.len() / 2];
        if median < LATENCY_MIN {
            return Err(NoProfile::Unusable("its reads are answered from memory".to_owned()));
        }
        Ok(median)
    }

    fn is_spindle(&mut self, latency: Nanos, kernel: Option<bool>) -> bool {
        let spindle = latency >= SPINDLE_LATENCY_MIN;
        if kernel.is_some_and(|k| k != spindle) {
            let (says, is) = if spindle { ("flash", "a spinning disk") } else { ("a spinning disk", "flash") };
            self.notes
                .push(format!("the kernel calls it {says}, but it answers like {is} (a random read takes {latency})"));
        }
        spindle
    }

    fn spindle(&mut self) -> Result<DiskProfile, NoProfile> {
        let capacity = self.disk.capacity();
        let zones = self.zones()?;
        let turn = self.turn(zones[0].bytes_per_second)?;
        let seeks = self.seeks()?;
        let assumed = DiskProfile::spindle_default();
        self.notes.push(format!("the time of a flush is assumed ({}) until one is observed", assumed.flush));
        Ok(DiskProfile { rotational: true, capacity: ByteCount(capacity), zones, seeks, turn, ..assumed })
    }

    /// Sequential rates over the disk. They only fall from the outer edge inwards, so a rise is noise and is evened
    /// out; a place slower than one further inside is read again, elsewhere in its zone: another program used the disk.
    fn zones(&mut self) -> Result<Vec<Zone>, NoProfile> {
        let capacity = self.disk.capacity();
        let zones = ZONES.min(capacity / CAPACITY_MIN).max(1);
        let starts: Vec<u64> = (0..zones).map(|i| zone_start(i, zones, capacity)).collect();
        let mut rates = Vec::new();
        for i in 0..zones {
            self.tell("reading rates", 50 + u32::try_from(300 * i / zones).unwrap_or(0))?;
            rates.push(self.zone_rate(i, zones)?);
        }
        for _ in 0..REREADS_MAX {
            let mut faster_inside = 0.0_f64;
            for i in (0..rates.len()).rev() {
                if rates[i] < faster_inside * 0.96 {
                    rates[i] = rates[i].max(self.zone_rate(u64::try_from(i).unwrap_or(0), zones)?);
                }
                faster_inside = faster_inside.max(rates[i]);
            }
        }
        let falling: Vec<f64> = rates.iter().map(|r| -r).collect();
        let rates = ascending(&falling, &vec![1.0; falling.len()]);
        let zone =
            |(start, rate): (&u64, &f64)| Zone { start: ByteCount(*start), bytes_per_second: whole(-rate).max(1) };
        Ok(starts.iter().zip(&rates).map(zone).collect())
    }

    /// Bytes per second in the middle of zone `i` of `zones`: of the first run that nothing held up, or the best of a few.
    fn zone_rate(&mut self, i: u64, zones: u64) -> Result<f64, NoProfile> {
        let capacity = self.disk.capacity();
        let (start, end) = (zone_start(i, zones, capacity), zone_start(i + 1, zones, capacity));
        let mut best: Option<f64> = None;
        for _ in 0..4 {
            let jitter = self.random.below((end - start) / 16 + 1);
            let first = (start + (end - start) / 2 + jitter).saturating_sub(RUN_BYTES / 2).min(capacity - RUN_BYTES);
            let Some(run) = self.run(first)? else { continue };
            best = Some(best.map_or(run.rate, |best| best.max(run.rate)));
            if !run.held_up {
                break;
            }
        }
        best.ok_or_else(|| NoProfile::Unusable(format!("it cannot be read around byte {start}")))
    }

    /// A sequential run; `None` if a part of it cannot be read. It has as many reads in flight as reads of streams'
    /// blocks have: a drive that does not read ahead loses a turn between two reads that come one by one.
    fn run(&mut self, first: u64) -> Result<Option<SequentialRun>, NoProfile> {
        let first = first / MIB * MIB;
        let positions: Vec<u64> = (0..RUN_LEAD + RUN_READS).map(|read| first + read * MIB).collect();
        let count = |reads: u64| usize::try_from(reads).unwrap_or(usize::MAX);
        let run = InTurn {
            bytes: MIB,
            depth: count(SPINDLE_DEPTH),
            least: count(RUN_LEAD + RUN_READS_MIN),
            until: self.disk.now().saturating_add(RUN_TIME_MAX),
        };
        let there = match self.disk.read_run(&positions, run) {
            Ok(there) => there,
            Err(error) => return self.failed(&error).map(|()| None),
        };
        self.own_requests += u64::try_from(there.len()).unwrap_or(u64::MAX);
        let counted = &there[count(RUN_LEAD - 1)..];
        let mut times: Vec<Nanos> = counted.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
        let time: Nanos = times.iter().fold(Nanos::ZERO, |sum, time| sum.saturating_add(*time));
        let bytes = times.len() as f64 * MIB as f64;
        times.sort_unstable();
        let (median, slowest) = (times[times.len() / 2], times[times.len() - 1]);
        let rate = bytes / time.as_secs_f64().max(1e-9);
        Ok(Some(SequentialRun { rate, held_up: slowest > median.saturating_mul(HELD_UP) }))
    }

    /// The rotation period. Reading backwards in small steps `s`, each sector has just passed when its read begins, so
    /// it comes a turn later less the time that `s` takes: turn = time + s / rate. A drive that keeps the sectors
    /// before answers at once; then longer steps are tried.
    fn turn(&mut self, outer_rate: u64) -> Result<Nanos, NoProfile> {
        let capacity = self.disk.capacity();
        for step in [4 * SECTOR, 16 * SECTOR, 64 * SECTOR] {
            self.tell("rotation", 350)?;
            let mut at = capacity / 64 + self.random.below(capacity / 128);
            let mut times = Vec::new();
            for _ in 0..25 {
                at -= step;
                times.extend(self.read(at, SECTOR)?);
            }
            times.sort_unstable();
            let median = times[times.len() / 2];
            if median > Nanos::from_micros(1800) {
                return Ok(named_turn(median.saturating_add(Nanos::from_secs_f64(step as f64 / outer_rate as f64))));
            }
        }
        self.notes.push(
            "the rotation could not be measured (the drive answers from its buffer); 7200 rpm is assumed".to_owned(),
        );
        Ok(turn_of(7200))
    }

    /// The seek curve, in rounds over all distances, so that a disturbance spreads and time can run out anywhere.
    fn seeks(&mut self) -> Result<Vec<SeekPoint>, NoProfile> {
        let distances = distances(self.disk.capacity());
        let mut samples = vec![Vec::new(); distances.len()];
        let begun = self.elapsed();
        let time_max = self.options.time_max;
        for round in 0..ROUNDS_MAX {
            for (distance, times) in distances.iter().zip(&mut samples) {
                let share = per_mille(self.elapsed().saturating_sub(begun), time_max.saturating_sub(begun));
                self.tell("seeks", 350 + share * 65 / 100)?;
                self.walk(*distance, times)?;
            }
            let round_time = Nanos(self.elapsed().saturating_sub(begun).0 / u64::from(round + 1));
            if round + 1 >= ROUNDS_MIN && self.elapsed().saturating_add(round_time) > time_max {
                break;
            }
        }
        let means: Vec<f64> = samples.iter_mut().map(|times| trimmed_mean(times)).collect();
        let weights: Vec<f64> = samples.iter().map(|times| times.len() as f64).collect();
        let times = ascending(&means, &weights);
        // A request that continues at the end of the last one waits for nothing: its time is all in the zone's rate.
        let still = SeekPoint { distance: ByteCount(0), time: Nanos::ZERO };
        let point = |(d, t): (&u64, &f64)| SeekPoint { distance: ByteCount(*d), time: Nanos::from_secs_f64(*t) };
        Ok(std::iter::once(still).chain(distances.iter().zip(&times).map(point)).collect())
    }

    /// One round of one distance: a walk of small reads that far apart. It goes down the disk and starts again at a new
    /// place where it cannot; distances too long for that go up and down.
    fn walk(&mut self, distance: u64, times: &mut Vec<Nanos>) -> Result<(), NoProfile> {
        let end = self.disk.capacity() - SECTOR;
        let mut at = None;
        let mut taken = 0;
        // Twice as many reads as samples: that is enough also for walks that start again.
        for _ in 0..2 * ROUND_SAMPLES + 4 {
            // Off the exact distance by up to a fiftieth either way: other tracks, other angles, never the same sector.
            let step = distance - distance / 50 + self.random.below(distance / 25 + 1);
            let next = at.and_then(|at: u64| match at.checked_sub(step) {
                Some(next) => Some(next),
                None if distance > end / 8 => Some(at + step).filter(|next| *next <= end),
                None => None,
            });
            let Some(next) = next else {
                // A long distance must find room above.
                let room = if distance > end / 8 { end.saturating_sub(distance / 50 * 51) } else { end };
                let start = self.random.below(room.max(1));
                at = self.read(start, SECTOR)?.map(|_| start / SECTOR * SECTOR);
                continue;
            };
            let time = self.read(next, SECTOR)?;
            at = time.map(|_| next / SECTOR * SECTOR);
            times.extend(time);
            taken += usize::from(time.is_some());
            if taken == ROUND_SAMPLES {
                break;
            }
        }
        Ok(())
    }

    /// Measures a spindle through files. Their positions are not known here: the profile has one rate (a low one of
    /// those found), and the usual shape of a seek curve, stretched to the average that was found.
    fn spindle_by_files(&mut self, latency: Nanos) -> Result<DiskProfile, NoProfile> {
        let capacity = self.disk.capacity();
        let mut rates = Vec::new();
        for i in 0..16 {
            self.tell("reading rates", 100 + 50 * i)?;
            let first = self.random.below(capacity.saturating_sub(RUN_BYTES) + 1);
            rates.extend(self.run(first)?.map(|run| whole(run.rate)));
        }
        rates.sort_unstable();
        let Some(low) = rates.get(rates.len() / 8) else {
            return Err(NoProfile::Unusable("its files cannot be read".to_owned()));
        };
        let mut assumed = DiskProfile::spindle_default();
        let third = assumed.access_time(assumed.capacity.0 / 3).as_secs_f64();
        for point in &mut assumed.seeks {
            point.time = Nanos::from_secs_f64(point.time.as_secs_f64() * (latency.as_secs_f64() / third).max(1.0));
        }
        assumed.zones = vec![Zone { start: ByteCount(0), bytes_per_second: (*low).max(1) }];
        self.notes.push("zones, seek distances, rotation and flush are assumed; give the server the right to read the block device for better figures".to_owned());
        Ok(assumed)
    }

    /// Latency one at a time, bandwidth with several in flight, both at random places as streams read.
    fn flash(&mut self) -> Result<DiskProfile, NoProfile> {
        let capacity = self.disk.capacity();
        let mut times = Vec::new();
        for i in 0..128 {
            self.tell("latency", 50 + 2 * i)?;
            let position = self.random.below(capacity - SECTOR);
            times.extend(self.read(position, SECTOR)?);
        }
        if times.is_empty() {
            return Err(NoProfile::Unusable("it cannot be read".to_owned()));
        }
        let latency = Nanos::from_secs_f64(trimmed_mean(&mut times));
        let (mut bytes, mut time) = (0, Nanos::ZERO);
        while time < FLASH_TIME {
            self.tell("bandwidth", 350 + per_mille(time, FLASH_TIME) * 65 / 100)?;
            let positions: Vec<u64> = (0..32).map(|_| self.random.below(capacity - MIB) / MIB * MIB).collect();
            let depth = usize::try_from(FLASH_DEPTH).unwrap_or(8);
            self.own_requests += 32;
            match self.disk.read_many(&positions, MIB, depth) {
                Ok(taken) => {
                    time = time.saturating_add(taken.max(Nanos(1)));
                    bytes += 32 * MIB;
                }
                Err(error) => self.failed(&error)?,
            }
        }
        let assumed = DiskProfile::flash_default();
        self.notes.push(format!(
            "the write rate (half the read rate) and the time of a flush ({}) are assumed until observed; blocks never written read faster than others",
            assumed.flush
        ));
        Ok(DiskProfile {
            capacity: ByteCount(capacity),
            zones: vec![Zone {
                start: ByteCount(0),
                bytes_per_second: whole(bytes as f64 / time.as_secs_f64()).max(1),
            }],
            seeks: vec![SeekPoint { distance: ByteCount(0), time: latency }],
            queue_depth: FLASH_DEPTH,
            ..assumed
        })
    }

    /// One read at an aligned position; `None` if it failed and may.
    fn read(&mut self, position: u64, bytes: u64) -> Result<Option<Nanos>, NoProfile> {
        self.own_requests += 1;
        match self.disk.read(position / SECTOR * SECTOR, bytes) {
            Ok(time) => Ok(Some(time)),
            Err(error) => self.failed(&error).map(|()| None),
        }
    }

    fn failed(&mut self, error: &std::io::Error) -> Result<(), NoProfile> {
        self.failures += 1;
        if self.failures == 1 {
            self.notes.push(format!("at least one place could not be read: {error}; look at the drive's health"));
        }
        if self.failures > FAILURES_MAX { Err(NoProfile::Unusable(format!("reading failed: {error}"))) } else { Ok(()) }
    }

    fn elapsed(&self) -> Nanos {
        self.disk.now().saturating_sub(self.started)
    }

    /// Reports the progress, between any two kinds of reads, so that others' requests can be distinguished from them.
    fn tell(&mut self, step: &'static str, permille: u32) -> Result<(), NoProfile> {
        self.others += self.disk.others();
        match (self.watch)(CalibrationProgress { step, permille }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(NoProfile::Cancelled),
        }
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): enough chance for choosing places, the same on every machine.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0 up to `bound` (exclusive; 0 gives 0).
    fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.next()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }
}

/// Zone `i` of `zones`: all equally long but the first and last, which are half as long, so that their middles lie near
/// the edges of the disk.
fn zone_start(i: u64, zones: u64, capacity: u64) -> u64 {
    let halves = match i {
        0 => 0,
        _ if i >= zones => 2 * (zones - 1).max(1),
        _ => 2 * i - 1,
    };
    let all = u128::from(2 * (zones - 1).max(1));
    let start = u128::from(capacity) * u128::from(halves) / all;
    u64::try_from(start).unwrap_or(u64::MAX)
}

/// Distances of the seek curve: from neighbouring tracks to nearly all of the disk.
fn distances(capacity: u64) -> Vec<u64> {
    let near = [2 * MIB, 16 * MIB, 128 * MIB];
    let far = [(1, 256), (1, 64), (1, 16), (1, 6), (1, 3), (5, 9), (7, 9), (22, 25)];
    let far = far.map(|(part, of)| u64::try_from(u128::from(capacity) * part / of).unwrap_or(u64::MAX));
    let mut all: Vec<u64> = near.into_iter().filter(|d| *d < capacity / 300).chain(far).collect();
    all.retain(|d| *d >= 2 * MIB);
    all
}

fn turn_of(rpm: u64) -> Nanos {
    Nanos(60_000_000_000 / rpm)
}

/// The turn of a drive on the market if one is within 2 %, else the measured one.
fn named_turn(measured: Nanos) -> Nanos {
    let off = |turn: Nanos| turn.0.abs_diff(measured.0);
    let nearest = RPM.map(turn_of).into_iter().min_by_key(|turn| off(*turn)).unwrap_or(measured);
    if off(nearest) * 50 <= nearest.0 { nearest } else { measured }
}

/// Mean in seconds without the times above four times the median (retries, others' requests).
fn trimmed_mean(times: &mut [Nanos]) -> f64 {
    times.sort_unstable();
    let Some(median) = times.get(times.len() / 2).copied() else { return 0.0 };
    let kept: Vec<f64> = times.iter().filter(|t| **t <= median.saturating_mul(4)).map(|t| t.as_secs_f64()).collect();
    kept.iter().sum::<f64>() / kept.len() as f64
}

/// The ascending sequence nearest to `values` in the least-squares sense: neighbours that fall are pooled.
fn ascending(values: &[f64], weights: &[f64]) -> Vec<f64> {
    let mut pools: Vec<(f64, f64, usize)> = Vec::new();
    for (value, weight) in values.iter().zip(weights) {
        let mut pool = (*value, weight.max(1e-9), 1);
        while let Some(last) = pools.last().copied().filter(|last| last.0 > pool.0) {
            pools.pop();
            let weight = last.1 + pool.1;
            pool = ((last.0 * last.1 + pool.0 * pool.1) / weight, weight, last.2 + pool.2);
        }
        pools.push(pool);
    }
    pools.into_iter().flat_map(|(value, _, count)| std::iter::repeat_n(value, count)).collect()
}

fn per_mille(part: Nanos, whole: Nanos) -> u32 {
    let share = u128::from(part.0) * 1000 / u128::from(whole.0.max(1));
    u32::try_from(share).unwrap_or(1000).min(1000)
}

/// Rounded to the nearest whole number; NaN becomes 0.
fn whole(value: f64) -> u64 {
    Nanos::from_secs_f64(value / 1e9).0
}
