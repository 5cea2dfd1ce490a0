//! The settings of a data plane.

use schedule::admission::rounds::WRITE_ROUNDS;
use schedule::profile::DiskProfile;
use units::{Nanos, limits};

/// Ticks in a round of a drive without a head: a disk gets requests every tick, and a read may be late by a few. Chosen.
pub const FLASH_ROUND_TICKS: u64 = 5;

/// Settings of a plane. All derived limits follow from these.
#[derive(Debug, Clone, Copy)]
pub struct PlaneConfig {
    /// Fraction of a cycle at which sockets are fed; 50 ms by default.
    pub tick: Nanos,
    /// Round of a spinning disk; flash gets requests at every tick.
    pub round: Nanos,
    /// Share of disk time best-effort work keeps, 0.0 … 0.9.
    pub be_share: f64,
    /// Streams of one content share its reads, and this share of the disk time of all of them is kept for those that
    /// then need their own. `None`: each reads for itself.
    pub sharing: Option<f64>,
    /// Streams of contents with copies on several disks are promised time on each of these, so that any one may fail.
    /// Otherwise they are promised time only on the disks that are read while all of them work, and a stream that finds
    /// no time elsewhere when one fails loses its reservation.
    pub survive_disk_loss: bool,
    /// A client that takes nothing for this time gives its reservation back; a best-effort delivery ends.
    pub stall_max: Nanos,
    /// A read that takes longer marks its disk as failing.
    pub io_deadline: Nanos,
    /// The time to first byte: a guaranteed stream that would start later is refused at once, and one of which nothing was sent for
    /// as long after all. hls.js gives up itself after 10 s (its default), ExoPlayer after 8 s; the forecast is a bound, and in a herd
    /// the last one waited for 5 to 8.6 s (decision 0007).
    pub first_byte_max: Nanos,
    /// Pages that no stream read for this time are not kept in memory, which is then given back.
    pub memory_lull: Nanos,
    /// Streams at once, at most `limits::STREAMS_MAX`.
    pub streams_max: usize,
}

impl Default for PlaneConfig {
    fn default() -> Self {
        Self {
            tick: Nanos::from_millis(50),
            round: Nanos::from_secs(1),
            be_share: 0.1,
            sharing: Some(0.1),
            survive_disk_loss: true,
            stall_max: Nanos::from_secs(30),
            io_deadline: Nanos::from_secs(5),
            first_byte_max: Nanos::from_secs(10),
            memory_lull: Nanos::from_secs(60),
            streams_max: limits::STREAMS_MAX,
        }
    }
}

impl PlaneConfig {
    /// The round in which this disk gets requests: admission and the disk's own schedule must mean the same.
    #[must_use]
    pub fn round_of(&self, profile: &DiskProfile) -> Nanos {
        if profile.rotational { self.round } else { self.tick.saturating_mul(FLASH_ROUND_TICKS) }
    }

    /// No recording is durable sooner, on any disk: a block is gathered in a round and written in the next ones.
    #[must_use]
    pub fn recording_durable_min(&self) -> Nanos {
        self.round.max(self.tick.saturating_mul(FLASH_ROUND_TICKS)).saturating_mul(1 + WRITE_ROUNDS)
    }
}
