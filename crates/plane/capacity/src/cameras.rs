//! Cameras that a machine records: admission reserves for each, with its rounds in the time tables, until it refuses one.
//!
//! Not here: the streams that the same disks carry (`PlannedMachine::carries`), room on the disks for a number of days (`isocast plan`).

use dataplane::PlaneConfig;
use dataplane::control::RecordingPlace;
use schedule::admission::rounds::WRITE_ROUNDS;
use schedule::admission::{Admission, AdmissionRequest, write_period};
use schedule::profile::DiskProfile;
use units::{BitRate, ByteCount, Nanos, limits};

use super::{Carried, PlannedLayout, PlannedMachine, name, place, position, real};

/// Recordings are counted in these: a camera in 1080p.
pub const EXAMPLE_CAMERA_RATE: BitRate = BitRate(4_000_000);

/// Cameras, and the promise to each.
#[derive(Debug, Clone, Copy)]
pub struct PlannedCameras {
    /// At most this number.
    pub count: u32,
    /// Of each.
    pub rate: BitRate,
    /// Bytes received from a camera are durable after this time.
    pub durable: Nanos,
    /// Memory for the blocks of all.
    pub memory: ByteCount,
}

/// Recordings of a machine, and the streams that it carries with them.
#[derive(Debug, Clone)]
pub struct PlannedRecorder {
    /// Cameras before the first refusal.
    pub cameras: u32,
    /// The resource that is short for one more; none if there are no more.
    pub limited_by: Option<&'static str>,
    /// The streams that run with them.
    pub beside: Carried,
}

/// Number of these cameras that a disk records, without the share of its time that is kept for best effort.
#[must_use]
pub fn recordings_carried(disk: &DiskProfile, be_share: f64, cameras: PlannedCameras) -> u32 {
    let machine = PlannedMachine {
        disks: vec![disk.clone()],
        layout: PlannedLayout::Span,
        survives_disk_loss: true,
        memory: ByteCount(0),
        // No link is the limit here.
        net: BitRate(u64::MAX / 16),
        uploads: BitRate(0),
        be_share: Some(be_share),
    };
    machine.record(&mut machine.admission(), cameras).0
}

impl PlannedMachine {
    /// Records cameras until one is refused, then admits streams of these rates in turn.
    #[must_use]
    pub fn records(&self, cameras: PlannedCameras, rates: &[BitRate]) -> PlannedRecorder {
        let mut admission = self.admission();
        let (count, limited_by) = self.record(&mut admission, cameras);
        PlannedRecorder { cameras: count, limited_by, beside: self.carries_with(admission, rates) }
    }

    fn record(&self, admission: &mut Admission, cameras: PlannedCameras) -> (u32, Option<&'static str>) {
        let mut chunks_left = cameras.memory.0 / limits::CHUNK_BYTES;
        for nth in 0..cameras.count {
            match self.record_one(admission, cameras, (nth, chunks_left)) {
                Ok(chunks) => chunks_left -= chunks,
                Err(short) => return (nth, Some(short)),
            }
        }
        (cameras.count, None)
    }

    /// On the first disk from the next on that has room, or on all. Gives the chunks of memory that it takes.
    fn record_one(
        &self,
        admission: &mut Admission,
        cameras: PlannedCameras,
        (nth, chunks_left): (u32, u64),
    ) -> Result<u64, &'static str> {
        let (count, camera) = (self.disks.len(), usize::try_from(nth).unwrap_or(0));
        let share = |copies: f64| vec![((0..count).collect(), copies / real(count as u64))];
        let choices: Vec<(Vec<usize>, f64)> = match self.layout {
            PlannedLayout::Span => (0..count).map(|more| (vec![(camera + more) % count], 1.0)).collect(),
            PlannedLayout::Stripe => share(1.0),
            PlannedLayout::Mirror => share(2.0),
        };
        let round = PlaneConfig::default().round_of(&self.disks[0]);
        let block_bytes_max = chunks_left.saturating_mul(limits::CHUNK_BYTES) / limits::RECORDING_BLOCK_PART;
        let period = write_period(cameras.rate, round, cameras.durable, block_bytes_max);
        let (within, between) = (round.saturating_mul(WRITE_ROUNDS), round.saturating_mul(period.into()));
        let chunks = RecordingPlace { first: Nanos::ZERO, period: between, within }.chunks(cameras.rate);
        if chunks > chunks_left {
            return Err("memory of recordings");
        }
        let mut short = name(schedule::admission::Resource::Table);
        for (disks, disk_share) in choices {
            let request = |disk: &usize| AdmissionRequest {
                disk_share,
                length: 0,
                written_every: Some(period),
                // Of all the disk, as in the server before it knows where the recording lies.
                ..self.request_at(*disk, 1.0, cameras.rate)
            };
            let requests: Vec<AdmissionRequest> = disks.iter().map(request).collect();
            match admission.reserve(&requests) {
                Ok(id) if admission.place_writes(id, 0).is_some() => {
                    // Recordings come to lie all over their disks, and are charged by that.
                    for request in &requests {
                        let capacity = self.disks[usize::from(request.disk.0)].capacity.0;
                        admission.move_writes(id, request.disk, position(capacity, place(nth)));
                    }
                    return Ok(chunks);
                }
                Ok(id) => {
                    admission.release(id);
                    short = "disk time";
                }
                Err(refused) => short = name(refused.resource),
            }
        }
        Err(short)
    }
}
