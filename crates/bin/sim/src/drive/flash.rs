//! A flash drive: one server with an occupancy per request, and a fixed latency on top.

use units::Nanos;

use super::faults::Spike;
use super::{DriveRequest, DriveStats, DueList, Op, Parameters};

#[derive(Debug)]
pub(crate) struct Flash {
    parameters: Parameters,
    free_at: Nanos,
    pub(crate) stats: DriveStats,
    pub(crate) spike: Spike,
}

impl Flash {
    pub(crate) fn new(parameters: &Parameters) -> Self {
        Self {
            parameters: parameters.clone(),
            free_at: Nanos::ZERO,
            stats: DriveStats::default(),
            spike: Spike::default(),
        }
    }

    pub(crate) fn submit(&mut self, request: DriveRequest, fault: Option<Nanos>, now: Nanos, due: &mut DueList) {
        let p = &self.parameters;
        let (iops, rate, latency) = match request.op {
            Op::Read => (p.iops_read, p.rate_read, p.latency_read),
            Op::Write | Op::WriteThrough => (p.iops_write, p.rate_write, p.latency_write),
            Op::Flush => {
                self.stats.flushes += 1;
                due.push(request.tag, self.free_at.max(now).saturating_add(p.flush), false);
                return;
            }
            Op::Discard => {
                due.push(request.tag, now.saturating_add(p.hovh), false);
                return;
            }
        };
        let occupancy = Nanos((1_000_000_000 / iops).max(request.bytes.saturating_mul(1_000_000_000) / rate));
        let start = self.free_at.max(now);
        let extra = self.spike.due(start).saturating_add(fault.unwrap_or(Nanos::ZERO));
        self.free_at = start.saturating_add(occupancy).saturating_add(extra);
        self.stats.media_ops += 1;
        self.stats.transfer_time += occupancy;
        if !matches!(request.op, Op::Read) {
            self.stats.write_time += occupancy;
        }
        due.push(request.tag, self.free_at.saturating_add(latency), fault.is_some());
    }

    pub(crate) fn power_off(&mut self, now: Nanos) {
        self.free_at = now;
    }
}
