//! The settings of a data plane.

use schedule::admission::rounds::WRITE_ROUNDS;
use schedule::profile::DiskProfile;
use units::{Nanos, limits};

/// Ticks in a round of a flash drive: the drive gets requests every tick, and a read may be late by a few ticks. Chosen.
pub const FLASH_ROUND_TICKS: u64 = 5;

/// Settings of a plane. All derived limits follow from these.
#[derive(Debug, Clone, Copy)]
pub struct PlaneConfig {
    /// Fraction of a cycle at which sockets are fed; 50 ms by default.
    pub tick: Nanos,
    /// Round of a spinning disk; flash gets requests at every tick.
    pub round: Nanos,
    /// Share of disk time kept for best-effort work, 0.0 … 0.9.
    pub be_share: f64,
    /// Streams of one content share its reads. Of the disk time that all followers would need, this share is held in reserve
    /// for followers that have to read for themselves. `None`: each stream reads for itself.
    pub sharing: Option<f64>,
    /// True: a stream of a content with several copies is promised time on the disks of all copies, so that any one disk may
    /// fail. False: it is promised time only on the disks that are read while all work; if one fails and the others have no
    /// time left, the stream loses its reservation.
    pub survive_disk_loss: bool,
    /// A client that takes nothing for this time gives its reservation back; a best-effort delivery ends.
    pub stall_max: Nanos,
    /// A read that takes longer marks its disk as failing.
    pub io_deadline: Nanos,
    /// Longest time to first byte. A guaranteed stream whose forecast start is later is refused at once; a stream that has sent
    /// no byte after this time is refused then. hls.js gives up after 10 s (its default), ExoPlayer after 8 s. The forecast is
    /// an upper bound; of many streams that started at once, the last waited for 5 to 8.6 s (decision 0007).
    pub first_byte_max: Nanos,
    /// Memory of pages that no stream read for this time is given back.
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
    /// The round of this disk: admission and the disk's schedule must use the same one.
    #[must_use]
    pub fn round_of(&self, profile: &DiskProfile) -> Nanos {
        if profile.rotational { self.round } else { self.tick.saturating_mul(FLASH_ROUND_TICKS) }
    }

    /// The shortest time to durable bytes of a recording, on any disk: a block is gathered in one round and written in the next rounds.
    #[must_use]
    pub fn recording_durable_min(&self) -> Nanos {
        self.round.max(self.tick.saturating_mul(FLASH_ROUND_TICKS)).saturating_mul(1 + WRITE_ROUNDS)
    }
}
