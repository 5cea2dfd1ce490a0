//! Scenario of a seed: the machine, the demand, and the faults.
//!
//! Promise: every run is described by a [`Scenario`]; [`Scenario::draw`] makes one from a seed alone. Each seed also
//! draws *which* kinds of trouble there are, often none (swarm testing: Groce et al., ISSTA 2012), since a fault that is
//! always there hides the behaviour without it.

use dataplane::FLASH_ROUND_TICKS;
use schedule::profile::DiskProfile;
use units::{BitRate, Nanos};

use crate::camera::Camera;
use crate::drive::{DriveProfile, Parameters};
use crate::load::{
    ContentLoad, Fault, FaultAt, Load, Popularity, RecordingLoad, SegmentLayout, SegmentViewers, UploadLoad,
};
use crate::random::Random;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const MS: fn(u64) -> Nanos = Nanos::from_millis;
const SECS: fn(u64) -> Nanos = Nanos::from_secs;
/// As the plane is configured by default.
const STALL_MAX: Nanos = Nanos::from_secs(30);

/// One disk of the machine.
#[derive(Debug, Clone, PartialEq)]
pub struct DiskSetup {
    /// Kind of the drive.
    pub parameters: Parameters,
    /// Profile that admission receives; `None`: the result of [`measure`](crate::measure()).
    pub profile: Option<DiskProfile>,
    /// How many times slower it is than it was when it was measured; 1.0: it obeys its profile.
    pub slower: f64,
}

/// One run.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// The seed.
    pub seed: u64,
    /// The disks.
    pub disks: Vec<DiskSetup>,
    /// Chunks of the arena.
    pub chunks: u32,
    /// Cycle and tick of the plane.
    pub cycle: Nanos,
    /// A whole part of the cycle.
    pub tick: Nanos,
    /// A whole number of cycles.
    pub round: Nanos,
    /// Share of disk time best-effort work may count on.
    pub be_share: f64,
    /// True if mirrored contents are promised time on all disks that have a copy.
    pub survive_disk_loss: bool,
    /// Longest time for which a stream keeps its reservation while its client takes nothing.
    pub stall_max: Nanos,
    /// The link's speed.
    pub link: BitRate,
    /// The demand.
    pub load: Load,
    /// Faults of the run.
    pub faults: Vec<FaultAt>,
    /// Time in which faults may happen.
    pub safety: Nanos,
    /// Time without faults after it, until the requests end.
    pub liveness: Nanos,
    /// Processor time per request of the plane.
    pub request_cost: Nanos,
    /// Longest usual delay of the plane's thread.
    pub wake_max: Nanos,
    /// Chance that a read brings fewer bytes than asked.
    pub short_read: f64,
}

impl Scenario {
    /// The canary, a run that must break [`Law::EveryDeadline`](crate::Law::EveryDeadline): if it broke no law, the laws
    /// would not be watching. The disk is four times slower than its profile for admission, and it is flash: of a spinning disk
    /// the plane notices that and ends streams before one is late (docs/decisions/0025).
    #[must_use]
    pub fn canary() -> Self {
        let mut scenario = Self::steady(1, DriveProfile::SsdSata, GIB, BitRate(25_000_000), 100);
        scenario.disks[0].slower = 4.0;
        scenario.load.arrivals = MS(5);
        scenario
    }

    /// A machine with one disk, streams that all read different contents from all over it, and nothing else.
    #[must_use]
    pub fn steady(seed: u64, profile: DriveProfile, memory_bytes: u64, rate: BitRate, streams: u32) -> Self {
        let load = Load {
            contents: ContentLoad {
                per_disk: streams.max(1) * 2,
                popularity: Popularity::Even,
                bytes: (4 * GIB, 5 * GIB),
                fragments_max: 1,
                mirrored: false,
                buffered_share: 0.0,
            },
            rates: vec![rate],
            arrivals: MS(500),
            streams_max: usize::try_from(streams).unwrap_or(usize::MAX),
            viewing: (SECS(600), SECS(1200)),
            burst_max: Nanos::ZERO,
            best_effort_share: 0.0,
            ranges_share: 0.0,
            hold_share: 0.0,
            stop_share: 0.0,
            seeks: Nanos::ZERO,
            pauses: Nanos::ZERO,
            slow_share: 0.0,
            pause_share: 0.0,
            vanish_share: 0.0,
            reset_share: 0.0,
            uploads: UploadLoad {
                uploaders: 0,
                bytes: (10_000_000, 10_000_000),
                rate: BitRate(1_000_000_000),
                gap: Nanos::ZERO,
            },
            recordings: RecordingLoad {
                apart: Nanos::ZERO,
                rates: vec![rate],
                cameras: vec![Camera::Steady],
                recorded: 0,
                copies: 0,
                side_by_side: false,
                durable: SECS(10),
            },
            probes: Nanos::ZERO,
            segments: Vec::new(),
        };
        Self {
            seed,
            disks: vec![DiskSetup { parameters: Parameters::of(profile), profile: None, slower: 1.0 }],
            chunks: u32::try_from(memory_bytes / MIB).unwrap_or(u32::MAX),
            cycle: MS(250),
            tick: MS(50),
            round: SECS(1),
            be_share: 0.0,
            survive_disk_loss: true,
            stall_max: STALL_MAX,
            link: BitRate(100_000_000_000),
            load,
            faults: Vec::new(),
            safety: SECS(60),
            liveness: Nanos::ZERO,
            request_cost: Nanos::from_micros(2),
            wake_max: Nanos::from_micros(100),
            short_read: 0.0,
        }
    }

    /// The run of a seed.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let disks = random.between(1, 3);
        let profiles = [DriveProfile::Desktop, DriveProfile::T7k250, DriveProfile::Surveillance, DriveProfile::SsdSata];
        let disks: Vec<DiskSetup> = (0..disks)
            .map(|_| DiskSetup { parameters: Parameters::of(*random.pick(&profiles)), profile: None, slower: 1.0 })
            .collect();
        let cycle = *random.pick(&[MS(250), MS(250), MS(256), MS(100), MS(500)]);
        let tick = Nanos(cycle.0 / random.pick(&[1, 2, 4, 5, 8, 10]));
        let rates: Vec<BitRate> = (0..random.between(1, 3))
            .map(|_| {
                BitRate(*random.pick(&[400_000, 2_000_000, 5_000_000, 8_800_000, 8_800_000, 25_000_000, 60_000_000]))
            })
            .collect();
        let safety = SECS(random.between(15, 60));
        let load = draw_load(&mut random, rates);
        let mut scenario = Self {
            seed,
            chunks: u32::try_from(*random.pick(&[64, 256, 512, 1024, 2048])).unwrap_or(64),
            cycle,
            tick,
            round: cycle.saturating_mul((SECS(1).0 / cycle.0).max(1)),
            be_share: *random.pick(&[0.0, 0.05, 0.1, 0.2, 0.3]),
            survive_disk_loss: true,
            stall_max: STALL_MAX,
            link: BitRate(*random.pick(&[1_000_000_000, 10_000_000_000, 100_000_000_000])),
            load,
            faults: Vec::new(),
            safety,
            liveness: SECS(random.between(10, 30)),
            request_cost: Nanos(random.between(300, 3000)),
            wake_max: Nanos::from_micros(random.between(20, 1000)),
            short_read: if random.chance(0.2) { 0.02 } else { 0.0 },
            disks,
        };
        let longest = scenario.round.max(scenario.tick.saturating_mul(FLASH_ROUND_TICKS));
        scenario.load.recordings.durable = scenario.load.recordings.durable.max(longest.saturating_mul(3));
        if random.chance(0.6) {
            scenario.faults = draw_faults(&mut random, scenario.disks.len(), safety);
        }
        scenario
    }

    /// The run of a seed with viewers of segments, without faults: no admitted session falls behind, whatever its films are, and however many
    /// viewers the disks refuse.
    #[must_use]
    pub fn draw_viewers(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let profiles = [DriveProfile::Desktop, DriveProfile::Desktop, DriveProfile::T7k250, DriveProfile::Surveillance];
        let rate = BitRate(*random.pick(&[2_000_000, 5_000_000, 8_800_000, 8_800_000, 16_000_000]));
        let mut scenario = Self::steady(seed, *random.pick(&profiles), 3 * GIB, rate, 0);
        let disks = usize::try_from(random.between(1, 2)).unwrap_or(1);
        scenario.disks = vec![scenario.disks[0].clone(); disks];
        // A viewer that finds blocks of others in the buffers has its share back from that of best effort.
        scenario.be_share = *random.pick(&[0.05, 0.1, 0.1, 0.2]);
        scenario.wake_max = Nanos::from_micros(random.between(20, 1000));
        (scenario.safety, scenario.liveness) = (Nanos::ZERO, SECS(random.between(40, 75)));
        // Up to half as many again as disks of about 100 MB/s carry.
        let most = 120 * disks as u64 * 8_800_000 / rate.0;
        let viewers = u32::try_from(random.between(1, most.max(1))).unwrap_or(1);
        scenario.load.segments = vec![draw_segments(&mut random, viewers, rate, disks)];
        if random.chance(0.4) {
            scenario.load.uploads.uploaders = u32::try_from(random.between(1, 3)).unwrap_or(1);
            scenario.load.uploads.bytes = (1, random.between(1, 20 * MIB));
        }
        scenario
    }
}

fn draw_segments(random: &mut Random, viewers: u32, rate: BitRate, disks: usize) -> SegmentViewers {
    // More than about 16 MB is no block, but a stream.
    let seconds = random.between(1, 10).min(120_000_000 / rate.0);
    let (segment, shares) = (SECS(seconds), random.chance(0.25));
    SegmentViewers {
        apart: MS(random.between(100, 400)),
        films: if shares { u32::try_from(random.between(1, viewers.into())).unwrap_or(1) } else { viewers },
        film: SECS(random.between(60, 600)),
        rate,
        segment,
        smallest: if random.chance(0.5) { 1.0 } else { 0.3 + 0.7 * random.fraction() },
        layout: if random.chance(0.3) { SegmentLayout::Ranges } else { SegmentLayout::Files },
        striped: disks > 1 && random.chance(0.5),
        sound: random.chance(0.3).then_some(BitRate(128_000)),
        ahead: SECS(random.between(seconds, 50)),
        way_max: MS(random.between(1, 250)),
        // Viewers of one film whose requests drift apart may be refused on a full disk.
        open_max: if shares { Nanos::ZERO } else { MS(random.between(0, seconds * 1000 / 5)) },
        pauses: if random.chance(0.2) { SECS(random.between(10, 60)) } else { Nanos::ZERO },
        seeks: if random.chance(0.3) { SECS(random.between(10, 60)) } else { Nanos::ZERO },
        ..SegmentViewers::of_hls(viewers)
    }
}

fn draw_load(random: &mut Random, rates: Vec<BitRate>) -> Load {
    // Each kind of trouble is there in some seeds only.
    let share = |random: &mut Random, most: f64| if random.chance(0.4) { random.fraction() * most } else { 0.0 };
    let upload_bytes = random.between(MIB, 20 * MIB);
    let mut load = Load {
        contents: ContentLoad {
            per_disk: u32::try_from(random.between(1, 60)).unwrap_or(1),
            popularity: if random.chance(0.3) { Popularity::Zipf } else { Popularity::Favourites },
            bytes: (random.between(1, 64 * MIB), random.between(64 * MIB, 2 * GIB)),
            fragments_max: if random.chance(0.3) { random.between(2, 20) } else { 1 },
            mirrored: false,
            buffered_share: share(random, 0.5),
        },
        rates,
        arrivals: Nanos::from_micros(random.between(50_000, 1_500_000)),
        streams_max: usize::try_from(random.between(1, 150)).unwrap_or(1),
        viewing: (MS(random.between(1, 3000)), SECS(random.between(4, 40))),
        burst_max: if random.chance(0.5) { MS(random.between(1, 4000)) } else { Nanos::ZERO },
        best_effort_share: share(random, 0.3),
        ranges_share: share(random, 0.5),
        hold_share: share(random, 0.5),
        stop_share: share(random, 0.3),
        seeks: if random.chance(0.3) { MS(random.between(100, 5000)) } else { Nanos::ZERO },
        pauses: if random.chance(0.3) { MS(random.between(500, 10_000)) } else { Nanos::ZERO },
        slow_share: share(random, 0.1),
        pause_share: share(random, 0.2),
        vanish_share: share(random, 0.05),
        reset_share: share(random, 0.2),
        uploads: UploadLoad {
            uploaders: if random.chance(0.5) { u32::try_from(random.between(1, 4)).unwrap_or(1) } else { 0 },
            bytes: (random.between(1, upload_bytes), upload_bytes),
            rate: BitRate(*random.pick(&[8_000_000, 100_000_000, 1_000_000_000])),
            gap: MS(random.between(0, 2000)),
        },
        recordings: RecordingLoad {
            apart: if random.chance(0.3) { MS(random.between(2000, 20_000)) } else { Nanos::ZERO },
            rates: vec![BitRate(*random.pick(&[4_000_000, 8_800_000, 25_000_000]))],
            cameras: Camera::ALL.to_vec(),
            recorded: 0,
            copies: 0,
            side_by_side: false,
            durable: SECS(10),
        },
        probes: if random.chance(0.4) { MS(random.between(200, 5000)) } else { Nanos::ZERO },
        segments: Vec::new(),
    };
    if load.recordings.apart > Nanos::ZERO {
        load.recordings.rates.extend([BitRate(100_000), BitRate(500_000)]);
        load.recordings.recorded =
            if random.chance(0.3) { u32::try_from(random.between(1, 20)).unwrap_or(1) } else { 0 };
        load.recordings.durable = SECS(*random.pick(&[3, 5, 10, 10, 20, 60]));
        load.recordings.side_by_side = random.chance(0.5);
        load.recordings.copies = *random.pick(&[0, 0, 1, 2]);
    }
    load
}

fn draw_faults(random: &mut Random, disks: usize, safety: Nanos) -> Vec<FaultAt> {
    (0..random.between(1, 6))
        .map(|_| {
            let disk = usize::try_from(random.below(disks as u64)).unwrap_or(0);
            let lasts = MS(random.between(10, 10_000));
            let (fault, lasts) = match random.below(8) {
                0 => (Fault::BadSectors { disk }, lasts),
                1 => (Fault::Hang { disk }, lasts),
                2 => (Fault::Slow { disk, factor: 1.0 + 2.0 * random.fraction() }, lasts),
                3 => (Fault::Spikes { disk, extra: MS(random.between(5, 400)) }, lasts),
                4 => (Fault::ReportsFull, MS(random.between(10, 3000))),
                5 if (lasts.0 / 1_000_000).is_multiple_of(2) => (Fault::Truncate { disk }, MS(1)),
                5 => (Fault::Rewrite { disk }, MS(1)),
                _ => (Fault::PlaneLate, MS(random.between(1, 200))),
            };
            FaultAt { at: random.span(SECS(1), safety.saturating_sub(lasts).max(SECS(2))), lasts, fault }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_draws_the_same_and_every_draw_is_possible() {
        let mut faulty = 0;
        for seed in 0..300 {
            let scenario = Scenario::draw(seed);
            assert_eq!(scenario, Scenario::draw(seed));
            assert!(scenario.load.contents.bytes.0 <= scenario.load.contents.bytes.1);
            assert!(scenario.load.viewing.0 <= scenario.load.viewing.1);
            assert!(scenario.cycle.0.is_multiple_of(scenario.tick.0), "{:?} {:?}", scenario.cycle, scenario.tick);
            assert!(scenario.round.0.is_multiple_of(scenario.cycle.0));
            assert!(scenario.faults.iter().all(|f| f.at.saturating_add(f.lasts) <= scenario.safety));
            faulty += usize::from(!scenario.faults.is_empty());
        }
        assert!((100..250).contains(&faulty), "faults in some seeds, none in others: {faulty}");
    }
}
