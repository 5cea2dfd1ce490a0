//! Check of a request: its demand, the resource that is short, and the rate that would be granted.

use super::disk_table::WRITE_ROUNDS;
use super::*;

/// A content or range that lasts no longer at its rate is read in one block, if its stream may hold all of it. Chosen: segments
/// of HLS and DASH last up to 10 s, and their sizes scatter by half.
const BLOCK_MAX: Nanos = Nanos::from_secs(15);
/// Share of the core's time that may be promised. Chosen.
const PROCESSOR_SHARE_MAX: f64 = 0.9;
/// Below this load the core's cost per bit is not known well enough to refuse any stream. Chosen.
const PROCESSOR_SHARE_KNOWN: f64 = 0.5;
/// A longer block is worth its memory if it lets a disk carry so many times more streams. Decision 0007, varied.
const BLOCK_GAIN_MIN: f64 = 1.02;
/// Lower rates are not offered, in bits per second. Chosen.
const OFFERED_MIN: u64 = 1_000;
/// The share of a round that is left when a start is tried that has waited for this round. Chosen.
const STARTS_WITH: f64 = 0.9;

impl Admission {
    /// The resource that is short for requests to the disks of one content, or else the demand of the first and the buffers
    /// that all need.
    ///
    /// # Errors
    /// The resource that is short.
    pub fn check(&self, requests: &[AdmissionRequest]) -> Result<(DiskDemand, u64), Resource> {
        self.check_at(requests, requests[0].rate)
    }

    /// The same, with the rate that would be granted.
    pub(super) fn check_alone(&self, requests: &[AdmissionRequest]) -> Result<(DiskDemand, u64), Refusal> {
        self.check(requests).map_err(|resource| self.refusal(resource, requests))
    }

    /// The same for a stream that another one of its content reads for.
    pub(super) fn check_sharing(&self, requests: &[AdmissionRequest]) -> Result<(DiskDemand, u64), Refusal> {
        let request = &requests[0];
        self.check_sending(request, 1).map_err(|resource| self.refusal(resource, requests))?;
        let demand = self.demand(request);
        let pages = self.pages_of_sharer(request, &demand);
        if !self.buffers.fits(request.content, 0, pages) {
            return Err(self.refusal(Resource::Memory, requests));
        }
        if demand.is_spread() && !self.keeps_reserve(request, &demand) {
            return Err(self.refusal(Resource::Disk(request.disk), requests));
        }
        Ok((demand, pages))
    }

    /// The same at another rate.
    fn check_at(&self, requests: &[AdmissionRequest], rate: BitRate) -> Result<(DiskDemand, u64), Resource> {
        let at_rate = |request: &AdmissionRequest| AdmissionRequest { rate, ..*request };
        self.check_sending(&at_rate(&requests[0]), requests.len())?;
        self.check_reading(requests.iter().map(at_rate), self.sharing_reserve)
    }

    /// The same for reading alone, with this share of the disk time kept for those that share reads now.
    pub(super) fn check_reading(
        &self,
        mut requests: impl Iterator<Item = AdmissionRequest>,
        reserve: f64,
    ) -> Result<(DiskDemand, u64), Resource> {
        let first = requests.next().expect("a content lies somewhere");
        let demand = self.check_disk(&first, reserve)?;
        requests.try_for_each(|further| self.check_disk(&further, reserve).map(drop))?;
        Ok((demand, self.check_pages(&first, &demand, 0)?))
    }

    /// Pages of a reservation that holds `instead` pages of its content already.
    fn check_pages(&self, request: &AdmissionRequest, demand: &DiskDemand, instead: u64) -> Result<u64, Resource> {
        let pages = self.pages_for(request, demand);
        if self.buffers.fits(request.content, instead, pages) { Ok(pages) } else { Err(Resource::Memory) }
    }

    /// The same for a stream that shared another's reads, with `instead` pages of its own. A session of whole contents takes from the share
    /// of best-effort work too, and new ones find that time promised; beyond that a read would make blocks of others late.
    pub(super) fn check_reading_again(
        &self,
        requests: &[AdmissionRequest],
        instead: u64,
    ) -> Result<(DiskDemand, u64), Resource> {
        let demand = self.demand(&requests[0]);
        for request in requests {
            if !demand.is_spread() {
                self.check_disk(request, 0.0)?;
            } else if !self.disk(request.disk).table.fits_instead(&self.demand(request), None) {
                return Err(Resource::Disk(request.disk));
            }
        }
        Ok((demand, self.check_pages(&requests[0], &demand, instead)?))
    }

    /// The same for one disk's time.
    pub(super) fn check_disk(&self, request: &AdmissionRequest, reserve: f64) -> Result<DiskDemand, Resource> {
        let demand = self.demand(request);
        let disk = self.disk(request.disk);
        let kept = f64::from(disk.sharing) * reserve;
        if !disk.table.fits(&demand, 1.0 + kept) || !(demand.writes() || self.starts(request, &demand, 0)) {
            return Err(Resource::Disk(request.disk));
        }
        Ok(demand)
    }

    /// Whether one more session that shares reads leaves enough of the disk's time for all of those that do.
    pub(super) fn keeps_reserve(&self, request: &AdmissionRequest, demand: &DiskDemand) -> bool {
        let disk = self.disk(request.disk);
        disk.table.fits(demand, f64::from(disk.sharing + 1) * self.sharing_reserve)
    }

    /// The resource that is short for sending, and for so many entries.
    pub(super) fn check_sending(&self, request: &AdmissionRequest, entries: usize) -> Result<(), Resource> {
        self.check_entries(entries)?;
        let link = &self.links[usize::from(request.link.0)];
        if wire(link.reserved + request.rate.0) > link.capacity.0 {
            return Err(Resource::Network(request.link));
        }
        if self.processor_share > PROCESSOR_SHARE_KNOWN && self.processor_promised > 0 {
            // The cost per bit is that of the bits that were promised when the load was measured. Were it divided by the
            // promises of now, each stream that leaves would make all others dearer until the next measurement, and a
            // stream that fits would be refused.
            let per_bit = self.processor_share / f64_of(self.processor_promised);
            let grown = per_bit * f64_of(self.promised + request.rate.0);
            if grown > PROCESSOR_SHARE_MAX {
                return Err(Resource::Processor);
            }
        }
        Ok(())
    }

    /// Whether a stream of this demand, which fits in the long run, could also start: its first read fills the
    /// look-ahead, which no round may have room for.
    pub(super) fn starts(&self, request: &AdmissionRequest, demand: &DiskDemand, burst_bytes: u64) -> bool {
        let conditions =
            StartConditions { remaining: STARTS_WITH, payload_bytes: request.length, ..StartConditions::idle(0) };
        self.disk(request.disk).table.starts(demand, &self.start_of(request, burst_bytes, &conditions))
    }

    /// How a stream of this request starts.
    pub(super) fn start_of(
        &self,
        request: &AdmissionRequest,
        burst_bytes: u64,
        conditions: &StartConditions,
    ) -> StartCost {
        let round = self.disk(request.disk).table.round();
        StartCost {
            conditions: *conditions,
            transfer_per_round: request.transfer_seconds(request.rate.bytes_in(round)),
            burst_transfer: request.transfer_seconds(burst_bytes),
            payload_transfer: request.transfer_seconds(conditions.payload_bytes),
        }
    }

    fn refusal(&self, resource: Resource, requests: &[AdmissionRequest]) -> Refusal {
        Refusal { resource, grantable: self.grantable(requests) }
    }

    /// The highest rate below the requests' that would be admitted now, to three digits. Each step halves the range, so a rate of
    /// 40 Gbit/s takes 36 checks: a refusal with its offer takes 0.04 to 0.1 ms of the plane's thread on a full disk (release build,
    /// two shared processors with a load of ten), a five hundredth of a tick at most; of a content on 16 full disks 2.4 ms (36 checks,
    /// beside a build).
    fn grantable(&self, requests: &[AdmissionRequest]) -> BitRate {
        let (mut yes, mut no) = (0, requests[0].rate.0);
        while three_digits(yes + (no - yes) / 2) > yes {
            // Exactly the rate that will be offered is checked: a lower one may be read in blocks of another length,
            // and be refused.
            let rate = three_digits(yes + (no - yes) / 2);
            if self.check_at(requests, BitRate(rate)).is_ok() {
                yes = rate;
            } else {
                no = rate;
            }
        }
        BitRate(yes)
    }

    /// The block a stream of this rate reads on this disk: the longest period at which as many such streams as the disk
    /// can carry still find memory. A seek costs as much as 1–2 MiB of transfer, so longer is better while it fits.
    pub(super) fn demand(&self, request: &AdmissionRequest) -> DiskDemand {
        let table = &self.disk(request.disk).table;
        if let Some(period) = request.written_every {
            return demand_at(request, table, period);
        }
        let memory = self.buffers.pages() / u64::try_from(self.disks.len().max(1)).unwrap_or(1);
        let mut best = demand_at(request, table, 1);
        let mut most = carried(request, table, &best, memory);
        let mut period = 2;
        while period as usize <= SLOTS {
            let demand = demand_at(request, table, period);
            let count = carried(request, table, &demand, memory);
            if block_bytes(request, table, period) > limits::BLOCK_BYTES_MAX || count < most * BLOCK_GAIN_MIN {
                break;
            }
            (best, most) = (demand, count);
            period *= 2;
        }
        let window = window_bytes(request.rate, table.round(), best.period);
        let lasts = request.rate.time_for(request.length);
        let is_block = request.length <= window && lasts <= BLOCK_MAX;
        if is_block && table.profile().rotational {
            best = spread_demand(request, table);
        }
        best
    }

    pub(super) fn pages_for(&self, request: &AdmissionRequest, demand: &DiskDemand) -> u64 {
        if demand.writes() {
            return 0; // a recording's buffers are the store's
        }
        self.pages_with(request, demand, 0)
    }

    /// The same with a start burst.
    pub(super) fn pages_with(&self, request: &AdmissionRequest, demand: &DiskDemand, burst_bytes: u64) -> u64 {
        let window = self.window_bytes(request, demand).saturating_add(burst_bytes);
        window.min(request.length.saturating_add(CACHE_PAGE_BYTES)).div_ceil(CACHE_PAGE_BYTES) + 1
    }

    /// Buffers of a stream that another one reads for: of a content that is one block it holds all itself.
    pub(super) fn pages_of_sharer(&self, request: &AdmissionRequest, demand: &DiskDemand) -> u64 {
        if demand.is_spread() { self.pages_for(request, demand) } else { 0 }
    }

    pub(super) fn window_bytes(&self, request: &AdmissionRequest, demand: &DiskDemand) -> u64 {
        if demand.is_spread() {
            return request.length;
        }
        window_bytes(request.rate, self.disk(request.disk).table.round(), demand.period)
    }
}

/// Bytes a stream may hold: its block, the look-ahead, and the round in which it is read.
#[must_use]
pub fn window_bytes(rate: BitRate, round: Nanos, period: u32) -> u64 {
    rate.bytes_in(round.saturating_mul(u64::from(period) + LOOKAHEAD_ROUNDS))
}

fn block_bytes(request: &AdmissionRequest, table: &DiskTable, period: u32) -> u64 {
    request.rate.bytes_in(table.round().saturating_mul(u64::from(period)))
}

/// The demand of a session that reads contents of this length, each in one block, one after the other: every content has a seek
/// of its own. Contents shorter than a round (initialization segments, keys) come no more often than once in a round.
fn spread_demand(request: &AdmissionRequest, table: &DiskTable) -> DiskDemand {
    let round = table.round();
    let (transfer, _) = one_block(request, request.rate.bytes_in(round));
    let (_, seeks) = one_block(request, request.length);
    DiskDemand { period: 1, transfer, seeks: seeks / request.rounds_played(round).max(1.0), kind: DemandKind::Spread }
}

/// Seconds of transfer, and seeks, of a block of so many bytes.
pub(super) fn one_block(request: &AdmissionRequest, bytes: u64) -> (f64, f64) {
    let seeks = 1.0 + request.fragments_per_byte * f64_of(bytes);
    (request.disk_share * request.transfer_seconds(bytes), request.disk_share * seeks)
}

pub(super) fn demand_at(request: &AdmissionRequest, table: &DiskTable, period: u32) -> DiskDemand {
    let block = block_bytes(request, table, period);
    let (transfer, seeks) = one_block(request, block);
    if request.written_every.is_none() {
        return DiskDemand { period, transfer, seeks, kind: DemandKind::Reads };
    }
    let transfer = table.profile().write_seconds(transfer) + table.stroke_seconds();
    DiskDemand { period, transfer, seeks, kind: DemandKind::Writes }
}

/// Rounds for which a recording gathers a block: the longest period with which no byte is older than `durable` when it is, with
/// blocks of at most `block_bytes_max`.
#[must_use]
pub fn write_period(rate: BitRate, round: Nanos, durable: Nanos, block_bytes_max: u64) -> u32 {
    let fits = |period: &u32| {
        let rounds = u64::from(*period);
        let block = rate.bytes_in(round.saturating_mul(rounds));
        round.saturating_mul(rounds + WRITE_ROUNDS) <= durable && block <= block_bytes_max.min(limits::BLOCK_BYTES_MAX)
    };
    let periods = std::iter::successors(Some(2), |period: &u32| Some(2 * period));
    periods.take_while(|period| *period as usize <= SLOTS && fits(period)).last().unwrap_or(1)
}

/// How many such streams a disk and this many pages would carry.
fn carried(request: &AdmissionRequest, table: &DiskTable, demand: &DiskDemand, memory: u64) -> f64 {
    let busy = table.seconds_among_others(demand.transfer, demand.seeks) / f64::from(demand.period);
    let by_disk = table.round().as_secs_f64() / busy;
    let each = window_bytes(request.rate, table.round(), demand.period).div_ceil(CACHE_PAGE_BYTES) + 1;
    // If a content lies on several disks, each of them has a share of the stream and of its memory.
    by_disk.min((f64_of(memory) / (f64_of(each) * request.disk_share)).floor())
}

/// Rounded down to three digits.
fn three_digits(rate: u64) -> u64 {
    let unit = 10u64.pow(rate.checked_ilog10().unwrap_or(0).saturating_sub(2));
    if rate < OFFERED_MIN { 0 } else { rate / unit * unit }
}

pub(super) fn wire(payload: u64) -> u64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and far below 2^53")]
    let bits = (f64_of(payload) * WIRE_OVERHEAD) as u64;
    bits
}

#[allow(clippy::cast_precision_loss, reason = "costs are estimates")]
pub(super) fn f64_of(count: u64) -> f64 {
    count as f64
}
