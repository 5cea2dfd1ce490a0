//! Time of uploads during streams: compared with a lone writer, each of its uploads durable when the next one begins.

use sim::drive::DriveProfile;
use sim::{Calm, Scenario, Trace};
use units::{BitRate, Nanos};

const SECS: fn(u64) -> Nanos = Nanos::from_secs;

/// A drive, the plane's settings, and its load.
#[derive(Clone, Copy)]
struct Case {
    drive: DriveProfile,
    memory_bytes: u64,
    round: Nanos,
    streams: u32,
    writers: u32,
}

impl Case {
    /// The disk's work in a minute, when all streams had begun.
    fn run(self, seed: u64) -> Calm {
        let streams = self.streams;
        let mut scenario = Scenario::steady(seed, self.drive, self.memory_bytes, BitRate(8_800_000), streams);
        scenario.round = self.round;
        scenario.be_share = 0.1;
        scenario.load.uploads.uploaders = self.writers;
        scenario.load.uploads.rate = BitRate(8_000_000_000);
        scenario.load.arrivals = Nanos::from_millis(500);
        (scenario.safety, scenario.liveness) = (SECS(60), SECS(60));
        scenario.load.viewing = (SECS(130), SECS(130));
        let report = sim::run(&scenario, Trace::Off);
        assert_eq!(report.broken, None, "seed {seed}");
        assert_eq!(report.tally.deliveries.excused_misses, 0, "seed {seed}: nobody has an excuse here");
        assert!(
            report.tally.deliveries.running_max + 1 >= u64::from(streams),
            "seed {seed}: all that the disk carries run"
        );
        report.tally.calm
    }

    /// Bytes uploaded per second, and the share of the time in which the disk read.
    fn rates(self, seed: u64) -> (f64, f64) {
        let calm = self.run(seed);
        let seconds = calm.spent.total().as_secs_f64();
        #[allow(clippy::cast_precision_loss, reason = "a ratio")]
        let bytes = calm.writes.upload_bytes as f64;
        (bytes / seconds, calm.spent.reading.as_secs_f64() / seconds)
    }

    /// Rate of uploads, as a share of that of a lone writer in the time that the same streams without uploads leave.
    fn share_of_possible(self, seed: u64) -> f64 {
        let (lone, _) = Self { streams: 0, writers: 1, ..self }.rates(seed);
        let (_, reading) = Self { writers: 0, ..self }.rates(seed);
        let (beside, _) = self.rates(seed);
        assert!(lone > 20e6 && reading > 0.5, "seed {seed}: a busy disk, {lone} bytes a second alone");
        beside / (lone * (1.0 - reading))
    }
}

#[test]
fn a_writer_beside_a_full_disk_gets_3_quarters_of_the_rest() {
    let (drive, memory_bytes, round) = (DriveProfile::Desktop, 3 << 30, SECS(1));
    let full = Case { drive, memory_bytes, round, streams: 91, writers: 1 };
    let share = full.share_of_possible(1);
    assert!(share >= 0.75, "{share:.2} of what a lone writer would get");
}

#[test]
fn many_writers_in_short_rounds_get_3_quarters_of_the_rest() {
    let (drive, memory_bytes, round) = (DriveProfile::T7k250, 256 << 20, Nanos::from_millis(250));
    let short = Case { drive, memory_bytes, round, streams: 28, writers: 16 };
    for seed in [1, 2] {
        let share = short.share_of_possible(seed);
        assert!(share >= 0.75, "seed {seed}: {share:.2} of what a lone writer would get");
    }
}
