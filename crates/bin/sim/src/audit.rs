//! Looks at everything that runs, twice a second and at every send: is anybody late, ahead, starved or forgotten?

use schedule::admission::WIRE_OVERHEAD;
use schedule::pace::LAG_MAX;
use units::{BitRate, Nanos};

use crate::laws::Law;
use crate::ledger::{DeliveryLife, LedgerEntry};
use crate::world::{IDLE_AUDITS, World};

/// Longest time from an order to end until the end.
const END_MAX: Nanos = Nanos::from_secs(5);
/// A disk may be idle beside waiting work for this share of the time of [`IDLE_AUDITS`] audits, four seconds: a job that is not
/// expected to be over in time waits for the next round, and none is expected to take longer than half of one. The most that
/// 10,000 seeds show is 0.17.
const IDLE_SHARE_MAX: f64 = 0.25;

impl World {
    /// A send to this stream is about to take effect, or time has passed: is it on time?
    pub(crate) fn judge_lateness(&mut self, stream: u64) {
        let grace = self.control.tick_span().saturating_mul(2);
        let Some(record) = self.streams.get_mut(&stream) else { return };
        let Some(late) = record.lateness(self.now) else { return };
        let late = record.unexcused(late, self.now, &self.plane_delays, grace);
        let allowed = self.control.lateness_max(record.requested.burst_bytes);
        if late <= allowed || record.excuses.stopped {
            return;
        }
        if record.excuses.unreserved {
            let first = !std::mem::replace(&mut record.late_after_pause, true);
            self.control.tally.late_after_pause += u64::from(first);
        }
        if !record.may_always_be_late() {
            let what =
                format!("stream {stream} is {late} late, {allowed} allowed ({} bytes sent)", record.payload_bytes);
            self.laws.broke(Law::EveryDeadline, self.now, what);
        }
    }

    /// The plane reports that a stream's bytes were so late: had it an excuse at the time they were due? Reports of bytes due
    /// before the control side last read its reports may have waited there.
    pub(crate) fn judge_miss(&mut self, stream: u64, late: Nanos) {
        let since = self.now.saturating_sub(late);
        let Some(record) = self.streams.get(&stream).filter(|_| since >= self.control.reports_read) else { return };
        if !record.may_miss(since, &self.plane_delays) && !record.excuses.stopped {
            self.laws.broke(Law::EveryDeadline, self.now, format!("stream {stream} missed a tick, by {late}"));
        }
    }

    /// A send took effect: is the stream too far ahead?
    pub(crate) fn judge_ahead(&mut self, stream: u64) {
        let Some(record) = self.streams.get_mut(&stream) else { return };
        let Some(rate) = record.requested.rate else { return };
        let allowed = rate.bytes_in(self.control.ahead_max()) + 4096;
        let ahead = record.ahead(self.now);
        if ahead > allowed {
            let what = format!("stream {stream} is {ahead} bytes ahead of its rate and burst, {allowed} allowed");
            self.laws.broke(Law::BoundedCatchUp, self.now, what);
        }
        let second = record.second_bytes(self.now);
        // Its own second, the bytes it may be behind, and its burst: one that lost its reservation gets these as fast as its link
        // has room.
        let most = rate.bytes_in(LAG_MAX.saturating_add(Nanos::from_secs(1))) + record.requested.burst_bytes;
        if second > most + allowed {
            let what = format!("stream {stream} got {second} bytes in a second at {rate}");
            self.laws.broke(Law::BoundedCatchUp, self.now, what);
        }
    }

    pub(crate) fn audit(&mut self, period: Nanos) {
        let running: Vec<u64> = self.streams.keys().copied().collect();
        for stream in running {
            self.judge_lateness(stream);
            self.judge_forgotten(stream);
            if let Some(record) = self.streams.remove(&stream) {
                self.judge_start(&record);
                self.streams.insert(stream, record);
            }
        }
        self.judge_shed(period);
        let left = self.payload_rate().0.saturating_sub(self.promised_rate().0);
        self.plane_delays.make_up(BitRate(left).bytes_in(period));
        for disk in 0..self.disks.len() {
            self.audit_disk(disk, period);
        }
    }

    /// The rates of all guaranteed streams that run.
    pub(crate) fn promised_rate(&self) -> BitRate {
        let running = self.streams.values().filter(|stream| stream.life == DeliveryLife::Started);
        BitRate(running.filter_map(|stream| stream.requested.rate).map(|rate| rate.0).sum())
    }

    /// The payload that the link carries.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a rate")]
    fn payload_rate(&self) -> BitRate {
        BitRate((self.settings.link.0 as f64 / WIRE_OVERHEAD) as u64)
    }

    /// A delivery that ended because its disk was too slow was younger than those that continue; checked when the others of the
    /// same moment have come back. Not compared: sessions, as their reservation is older than the delivery, and viewers of one
    /// content, as they end together.
    fn judge_shed(&mut self, period: Nanos) {
        let (now, streams) = (self.now, &self.streams);
        let viewers =
            |stream: &LedgerEntry| streams.values().filter(|s| s.requested.version == stream.requested.version).count();
        let mut found = None;
        self.control.shed.retain(|shed| {
            if now.saturating_sub(shed.at) < period {
                return true;
            }
            let younger = streams.range(shed.stream.0 + 1..).map(|(_, stream)| stream).find(|stream| {
                stream.requested.disk == shed.disk
                    && stream.started_at.is_some_and(|started| started < shed.at)
                    && stream.needs_disk()
                    && !stream.requested.continues
                    && !stream.client_is_excused(now)
                    && !stream.excuses.unreserved
                    && viewers(stream) == 1
            });
            let what = |stream: &LedgerEntry| format!("{:?} ended and {:?} goes on", shed.stream, stream.requested.id);
            found = found.take().or_else(|| younger.map(what));
            false
        });
        if let Some(what) = found {
            self.laws.broke(Law::YoungestFirst, now, what);
        }
    }

    /// Checks that its first byte, or its refusal, came in time; at the end of a delivery, and while it waits. A delivery asked
    /// for before the control side last read its reports has an excuse: the answer may wait there.
    pub(crate) fn judge_start(&mut self, record: &LedgerEntry) {
        let excused = record.may_start_late(self.now) || record.excuses.stopped;
        if excused || self.reports_closed || record.requested.at < self.control.reports_read {
            return;
        }
        let waited = record.waited(self.now, &self.plane_delays);
        if waited > self.control.first_byte_max {
            let what = format!("stream {}: {waited} without a byte or a no", record.requested.id.0);
            self.laws.broke(Law::StartsInTime, self.now, what);
        }
    }

    /// A delivery that got the order to end does end.
    fn judge_forgotten(&mut self, stream: u64) {
        let record = &self.streams[&stream];
        let world_delays = self.reports_closed || self.plane_delay > Nanos::ZERO;
        let asked = record.stopped_at.map(|at| self.now.saturating_sub(at));
        if !world_delays && asked.is_some_and(|waited| waited > END_MAX) {
            self.laws.broke(Law::EveryEndHasAReason, self.now, format!("stream {stream} did not stop on request"));
        }
    }

    /// Keeps the mean of which share of its time a disk reads and records, of the last seconds.
    fn note_promised(&mut self, disk: usize, period: Nanos) {
        let reading = self.disks[disk].spent(self.now).reading;
        let promised = reading.saturating_add(self.stores[disk].recording_time());
        let (share, before) = &mut self.promised_share[disk];
        let now = promised.saturating_sub(*before).as_secs_f64() / period.as_secs_f64();
        (*share, *before) = (*share * 0.8 + now * 0.2, promised);
    }

    fn audit_disk(&mut self, disk: usize, period: Nanos) {
        let faulty = self.control.disk_is_excused(disk, self.now);
        let waits = self.stores[disk].best_effort_waits();
        let since = self.control.best_effort_waits(disk, waits && !faulty, self.now, self.grants_made[disk]);
        let sums = &mut self.idle_beside_work[disk];
        let idle = sums.iter().fold(Nanos::ZERO, |sum, idle| sum.saturating_add(*idle));
        let span = period.saturating_mul(IDLE_AUDITS as u64);
        if faulty {
            sums.fill(Nanos::ZERO);
        }
        sums.rotate_left(1);
        sums[IDLE_AUDITS - 1] = Nanos::ZERO;
        self.note_promised(disk, period);
        if faulty {
            self.stores[disk].forget_overflow();
            return;
        }
        let waited = since.map_or(Nanos::ZERO, |since| self.now.saturating_sub(since));
        let wait_max = (self.control.be_share > 0.0).then(|| self.control.best_effort_wait_max());
        let tally = &mut self.control.tally;
        tally.idle_beside_work_max = tally.idle_beside_work_max.max(idle);
        if let Some(wait_max) = wait_max {
            tally.best_effort_wait_max = tally.best_effort_wait_max.max(waited);
            if waited > wait_max {
                self.laws.broke(Law::BestEffortLives, self.now, format!("disk {disk}: no grant since {since:?}"));
            }
        }
        if idle.as_secs_f64() > span.as_secs_f64() * IDLE_SHARE_MAX {
            let what = format!("disk {disk} was idle for {idle} of {span} beside work");
            self.laws.broke(Law::NeverIdle, self.now, what);
        }
        let overflow = self.stores[disk].overflow_max();
        if overflow > 0 {
            self.laws.broke(Law::RecordingInTime, self.now, format!("disk {disk}: {overflow} bytes beyond the buffer"));
        }
        let (at_risk, too_much) = self.stores[disk].at_risk_max();
        self.control.tally.at_risk_max = self.control.tally.at_risk_max.max(at_risk);
        if too_much > Nanos::ZERO {
            let what = format!("disk {disk}: {at_risk} of a recording were not durable, {too_much} too much");
            self.laws.broke(Law::DurableInTime, self.now, what);
        }
    }
}
