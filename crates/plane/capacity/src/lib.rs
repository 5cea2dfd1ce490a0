//! Number of streams that a machine carries: streams are admitted, by the admission of the server, until one is refused.
//!
//! Not here: measuring disks (`device`), running the streams that were counted (`isocast plan`).

mod cameras;

pub use cameras::{EXAMPLE_CAMERA_RATE, PlannedCameras, PlannedRecorder, recordings_carried};

use clap::ValueEnum;
use dataplane::{BEST_EFFORT_PAGES_SHARE, PlaneConfig};
use schedule::admission::{Admission, AdmissionRequest, AdmissionSettings, RequestedContent, Resource};
use schedule::disk::best_effort::DIRTY_BYTES_WORTH;
use schedule::profile::DiskProfile;
use units::limits::CACHE_PAGE_BYTES;
use units::{BitRate, ByteCount, DiskId, LinkId, Nanos, ReservationId, limits, real};

/// The unit of a volume, unless its maker chose another.
const UNIT_BYTES: f64 = 8_388_608.0;

/// Streams of `rate` that a disk carries with this memory, if the share `be_share` of its time is kept for best effort.
#[must_use]
pub fn streams_carried(disk: &DiskProfile, memory: ByteCount, be_share: f64, rate: BitRate) -> Carried {
    let disks = vec![disk.clone()];
    // The link is set too wide to be the limit.
    let net = BitRate(u64::MAX / 16);
    let (layout, survives_disk_loss) = (PlannedLayout::Span, true);
    let uploads = BitRate(0);
    let machine = PlannedMachine { disks, layout, survives_disk_loss, memory, net, uploads, be_share: Some(be_share) };
    machine.carries(&[rate])
}

/// The shortest time after which a recording is durable, with the default rounds of a server.
#[must_use]
pub fn recording_durable_min() -> Nanos {
    PlaneConfig::default().recording_durable_min()
}

/// Placement of contents on several disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PlannedLayout {
    /// Each content on one disk, as in folders.
    Span,
    /// Each content on all disks in turn, in units of a volume, also if there is one disk only.
    Stripe,
    /// Each content in two copies: the first in the outer halves of all disks, the second in the inner halves.
    Mirror,
}

/// A machine.
#[derive(Debug, Clone)]
pub struct PlannedMachine {
    /// Its disks.
    pub disks: Vec<DiskProfile>,
    /// Placement of contents on the disks.
    pub layout: PlannedLayout,
    /// Mirror only: admitted streams keep their disk time if any one disk fails.
    pub survives_disk_loss: bool,
    /// Memory for blocks.
    pub memory: ByteCount,
    /// Bits per second that the network carries.
    pub net: BitRate,
    /// Total rate of uploads; zero: none.
    pub uploads: BitRate,
    /// Share of disk time for uploads; `None`: the share that `uploads` needs.
    pub be_share: Option<f64>,
}

/// Load that a machine carries before the first refusal.
#[derive(Debug, Clone)]
pub struct Carried {
    /// Number of streams before the first refusal.
    pub streams: u32,
    /// The resource that is short for one more.
    pub limited_by: &'static str,
    /// Block size for each rate, bytes.
    pub blocks: Vec<u64>,
    /// Promised share of each disk's time.
    pub disk_share: Vec<f64>,
    /// Bytes for blocks.
    pub memory_used: u64,
}

impl PlannedMachine {
    /// The same machine with one more disk like its first.
    #[must_use]
    pub fn with_one_more_disk(&self) -> Self {
        let mut more = self.clone();
        more.disks.extend(self.disks.first().cloned());
        more
    }

    /// The same machine with this memory for blocks.
    #[must_use]
    pub fn with_memory(&self, memory: ByteCount) -> Self {
        Self { memory, ..self.clone() }
    }

    /// Share of disk time that the uploads need: the transfer of their bytes, a seek for each run, and a flush with its seeks
    /// each time the bound of dirty bytes is reached.
    #[must_use]
    pub fn be_share(&self) -> f64 {
        if let Some(share) = self.be_share {
            return share;
        }
        self.seconds_per_upload_byte() * real(self.uploads.bytes_per_second()) / real(self.disks.len() as u64)
    }

    /// The rate that uploads always have with that share, bytes per second over all disks.
    #[must_use]
    pub fn upload_floor(&self) -> f64 {
        self.be_share() / self.seconds_per_upload_byte() * real(self.disks.len() as u64)
    }

    /// Disk time for one uploaded byte on the slowest disk, seconds.
    fn seconds_per_upload_byte(&self) -> f64 {
        let of = |disk: &DiskProfile| {
            let rate = real(disk.rate_at(disk.capacity.0 / 2)) * disk.write_ratio;
            let seek = disk.access_time(disk.capacity.0 / 3).as_secs_f64();
            1.0 / rate
                + seek / real(limits::RUN_BYTES_MAX)
                + (disk.flush.as_secs_f64() + 2.0 * seek) / real(DIRTY_BYTES_WORTH)
        };
        self.disks.iter().map(of).fold(f64::MIN_POSITIVE, f64::max)
    }

    /// Admits streams of these rates in turn until one is refused, each on the next disk (or on all disks) at the next position.
    #[must_use]
    pub fn carries(&self, rates: &[BitRate]) -> Carried {
        self.carries_with(self.admission(), rates)
    }

    /// As [`Self::carries`], beside the reservations of `admission`.
    fn carries_with(&self, mut admission: Admission, rates: &[BitRate]) -> Carried {
        let mut held: Vec<(usize, ReservationId)> = Vec::new();
        let mut places = vec![0u32; self.disks.len()];
        let limited_by = loop {
            let nth = held.len();
            let rate = rates[nth % rates.len()];
            let reserved = match self.layout {
                PlannedLayout::Span => self.reserve_on_one(&mut admission, &mut places, nth, rate),
                PlannedLayout::Stripe | PlannedLayout::Mirror => self.reserve_on_all(&mut admission, nth, rate),
            };
            match reserved {
                Ok(id) => held.push((nth % rates.len(), id)),
                Err(short) => break name(short),
            }
        };
        let block = |which: usize| {
            let id = held.iter().find(|(w, _)| *w == which)?.1;
            let period = admission.period(id)?;
            let round = PlaneConfig::default().round_of(&self.disks[0]);
            Some(rates[which].bytes_in(round.saturating_mul(u64::from(period))))
        };
        let disks = (0u16..).take(self.disks.len());
        Carried {
            streams: u32::try_from(held.len()).unwrap_or(u32::MAX),
            limited_by,
            blocks: (0..rates.len()).map(|which| block(which).unwrap_or(0)).collect(),
            disk_share: disks.map(|disk| admission.table(DiskId(disk)).promised_share()).collect(),
            memory_used: admission.memory().0 * CACHE_PAGE_BYTES,
        }
    }

    /// Reserves on the first disk with room, from disk `nth` on.
    fn reserve_on_one(
        &self,
        admission: &mut Admission,
        places: &mut [u32],
        nth: usize,
        rate: BitRate,
    ) -> Result<ReservationId, Resource> {
        let mut last = Resource::Table;
        for disk in (0..self.disks.len()).map(|more| (nth + more) % self.disks.len()) {
            match admission.reserve(&[self.request(disk, places[disk], rate)]) {
                Ok(id) => {
                    places[disk] += 1;
                    return Ok(id);
                }
                Err(refused) => last = refused.resource,
            }
        }
        Err(last)
    }

    /// Reserves a share on every disk, as the data plane does for a content on all disks (decision 0034).
    fn reserve_on_all(&self, admission: &mut Admission, nth: usize, rate: BitRate) -> Result<ReservationId, Resource> {
        let share = 1.0 / real(self.disks.len() as u64);
        let fraction = place(u32::try_from(nth).unwrap_or(u32::MAX));
        let (share, fraction) = match (self.layout, self.survives_disk_loss) {
            (PlannedLayout::Mirror, true) => ((2.0 * share).min(1.0), (1.0 + fraction) / 2.0),
            (PlannedLayout::Mirror, false) => (share, fraction / 2.0),
            (PlannedLayout::Span | PlannedLayout::Stripe, _) => (share, fraction),
        };
        // Each unit is a fragment of its own.
        let fragments_per_byte = 1.0 / UNIT_BYTES;
        let request =
            |disk| AdmissionRequest { disk_share: share, fragments_per_byte, ..self.request_at(disk, fraction, rate) };
        let requests: Vec<_> = (0..self.disks.len()).map(request).collect();
        admission.reserve(&requests).map_err(|refused| refused.resource)
    }

    /// The machine's admission, without reservations.
    #[must_use]
    pub fn admission(&self) -> Admission {
        let pages = self.memory.0 / limits::CHUNK_BYTES * (limits::CHUNK_BYTES / CACHE_PAGE_BYTES);
        let settings = AdmissionSettings {
            reservations_max: limits::STREAMS_MAX * self.disks.len(),
            pages: pages - pages / u64::from(BEST_EFFORT_PAGES_SHARE),
            be_share: self.be_share(),
            sharing_reserve: 0.0,
            first_byte_max: PlaneConfig::default().first_byte_max,
        };
        let disks = self.disks.iter().map(|disk| (disk.clone(), PlaneConfig::default().round_of(disk))).collect();
        Admission::new(&settings, disks, &[self.net])
    }

    /// The request of a stream of a long content at the `nth` position.
    fn request(&self, disk: usize, nth: u32, rate: BitRate) -> AdmissionRequest {
        self.request_at(disk, place(nth), rate)
    }

    /// The request of a stream of a long content at this fraction of the disk.
    #[must_use]
    pub fn request_at(&self, disk: usize, fraction: f64, rate: BitRate) -> AdmissionRequest {
        let profile = &self.disks[disk];
        let position = position(profile.capacity.0, fraction);
        AdmissionRequest {
            disk: DiskId(u16::try_from(disk).unwrap_or(0)),
            link: LinkId(0),
            rate,
            zone_bytes_per_second: profile.rate_at(position),
            disk_share: 1.0,
            fragments_per_byte: 0.0,
            length: u64::MAX,
            content: RequestedContent::ALONE,
            written_every: None,
        }
    }
}

/// The byte at this fraction of a disk.
fn position(capacity: u64, fraction: f64) -> u64 {
    Nanos::from_secs_f64(fraction * real(capacity) / 1e9).0
}

/// The `nth` position as a fraction of a disk: multiples of the golden ratio fill the disk evenly.
fn place(nth: u32) -> f64 {
    (f64::from(nth) * 0.618_033_988_75).fract()
}

fn name(resource: Resource) -> &'static str {
    match resource {
        Resource::Disk(_) => "disk time",
        Resource::Network(_) => "network",
        Resource::Memory => "memory",
        Resource::Processor => "processor",
        Resource::Table => "delivery table",
        Resource::DiskFailing(_) | Resource::Draining => unreachable!("no reservation is refused for it"),
    }
}
