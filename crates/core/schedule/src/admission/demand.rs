//! Demand of a request on one disk: the blocks that it reads or writes, their cost, its buffers, and its start.
//!
//! Promise: depends on the request, the disk's profile and the memory only, not on the present promises. Not here: the check
//! for room (`resources`, `disk_table`).

use units::limits::CACHE_PAGE_BYTES;
use units::{BitRate, Nanos, limits};

use super::demand_load::{DemandKind, DiskDemand};
use super::disk_table::DiskTable;
use super::rounds::{LOOKAHEAD_ROUNDS, SLOTS, WRITE_ROUNDS};
use super::start_cost::{StartConditions, StartCost};
use super::{AdmissionRequest, f64_of};

/// Longest playing time, at its rate, of a content or range that is read in one block (if it also fits into its stream's
/// window). Chosen: segments of HLS and DASH last up to 10 s, and their sizes scatter by half.
const BLOCK_MAX: Nanos = Nanos::from_secs(15);
/// A block of twice the length is chosen if a disk then carries more streams by this factor. Decision 0007, varied.
const BLOCK_GAIN_MIN: f64 = 1.02;

/// One disk, as admission sees it.
#[derive(Debug)]
pub(super) struct AdmissionDisk {
    pub(super) table: DiskTable,
    /// Number of followers, which take no time of the disk.
    pub(super) sharing: u32,
}

impl AdmissionDisk {
    /// The demand of a stream on this disk, with the period (and so the block) at which disk and memory carry most such
    /// streams; `memory` is in pages. A seek costs as much as 1–2 MiB of transfer, so longer blocks are better while they fit
    /// into memory.
    pub(super) fn demand(&self, request: &AdmissionRequest, memory: u64) -> DiskDemand {
        let table = &self.table;
        if let Some(period) = request.written_every {
            return demand_at(request, table, period);
        }
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
        debug_assert!(best.period == 1 || block_bytes(request, table, best.period) <= limits::BLOCK_BYTES_MAX);
        best
    }

    /// Buffers of a stream, in pages.
    pub(super) fn pages_for(&self, request: &AdmissionRequest, demand: &DiskDemand) -> u64 {
        if demand.writes() {
            return 0; // a recording's buffers are the store's
        }
        self.pages_with(request, demand, 0)
    }

    /// Buffers of a stream with a start burst, in pages.
    pub(super) fn pages_with(&self, request: &AdmissionRequest, demand: &DiskDemand, burst_bytes: u64) -> u64 {
        let window = self.window_bytes(request, demand).saturating_add(burst_bytes);
        window.min(request.length.saturating_add(CACHE_PAGE_BYTES)).div_ceil(CACHE_PAGE_BYTES) + 1
    }

    /// Buffers of a follower, in pages: it holds a content of one block whole, and nothing of another content.
    pub(super) fn pages_of_sharer(&self, request: &AdmissionRequest, demand: &DiskDemand) -> u64 {
        if demand.is_spread() { self.pages_for(request, demand) } else { 0 }
    }

    /// Bytes that the stream may hold.
    pub(super) fn window_bytes(&self, request: &AdmissionRequest, demand: &DiskDemand) -> u64 {
        if demand.is_spread() {
            return request.length;
        }
        window_bytes(request.rate, self.table.round(), demand.period)
    }

    /// True if a stream whose regular demand fits could also start at any time: its first read fills the look-ahead, for which
    /// there may be no round with room.
    pub(super) fn starts(&self, request: &AdmissionRequest, demand: &DiskDemand, burst_bytes: u64) -> bool {
        let conditions = StartConditions { payload_bytes: request.length, ..StartConditions::idle(0) };
        self.table.starts_at_any_time(demand, &self.start_of(request, burst_bytes, &conditions))
    }

    /// The cost of a stream's start.
    pub(super) fn start_of(
        &self,
        request: &AdmissionRequest,
        burst_bytes: u64,
        conditions: &StartConditions,
    ) -> StartCost {
        let round = self.table.round();
        StartCost {
            conditions: *conditions,
            transfer_per_round: request.transfer_seconds(request.rate.bytes_in(round)),
            burst_transfer: request.transfer_seconds(burst_bytes),
            payload_transfer: request.transfer_seconds(conditions.payload_bytes),
        }
    }
}

/// Bytes that a stream may hold: its block, the look-ahead, and the bytes of the round in which the block is read.
#[must_use]
pub fn window_bytes(rate: BitRate, round: Nanos, period: u32) -> u64 {
    rate.bytes_in(round.saturating_mul(u64::from(period) + LOOKAHEAD_ROUNDS))
}

fn block_bytes(request: &AdmissionRequest, table: &DiskTable, period: u32) -> u64 {
    request.rate.bytes_in(table.round().saturating_mul(u64::from(period)))
}

/// The demand of a session that reads contents of this length one after the other, each in one block: every content costs a
/// seek. Contents shorter than a round (initialization segments, keys) count as one per round.
fn spread_demand(request: &AdmissionRequest, table: &DiskTable) -> DiskDemand {
    let round = table.round();
    let (transfer, _) = one_block(request, request.rate.bytes_in(round));
    let (_, seeks) = one_block(request, request.length);
    DiskDemand { period: 1, transfer, seeks: seeks / request.rounds_played(round).max(1.0), kind: DemandKind::Spread }
}

/// Seconds of transfer, and seeks, of a block of this number of bytes.
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

/// Rounds for which a recording gathers a block: the longest period with blocks of at most `block_bytes_max` in which each byte
/// becomes durable within `durable`.
#[must_use]
pub fn write_period(rate: BitRate, round: Nanos, durable: Nanos, block_bytes_max: u64) -> u32 {
    let fits = |period: &u32| {
        let rounds = u64::from(*period);
        let block = rate.bytes_in(round.saturating_mul(rounds));
        round.saturating_mul(rounds + WRITE_ROUNDS) <= durable && block <= block_bytes_max.min(limits::BLOCK_BYTES_MAX)
    };
    let periods = std::iter::successors(Some(2), |period: &u32| Some(2 * period));
    let period = periods.take_while(|period| *period as usize <= SLOTS && fits(period)).last().unwrap_or(1);
    debug_assert!(period.is_power_of_two(), "its rounds come again in the table");
    period
}

/// Number of such streams that the disk and `memory` pages would carry.
fn carried(request: &AdmissionRequest, table: &DiskTable, demand: &DiskDemand, memory: u64) -> f64 {
    let busy = table.seconds_among_others(demand.transfer, demand.seeks) / f64::from(demand.period);
    let by_disk = table.round().as_secs_f64() / busy;
    let each = window_bytes(request.rate, table.round(), demand.period).div_ceil(CACHE_PAGE_BYTES) + 1;
    // Each disk of a content on several disks has a share of the stream and of its memory.
    by_disk.min((f64_of(memory) / (f64_of(each) * request.disk_share)).floor())
}
