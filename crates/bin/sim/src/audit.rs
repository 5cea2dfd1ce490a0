//! Audit of a disk, twice a second: is it idle beside work, is best effort starved, are recordings written and durable in time?

use units::Nanos;

use crate::bounds::PlaneBounds;
use crate::course::Course;
use crate::laws::Law;
use crate::store_thread::StoreThread;

/// Number of audits over which the time of disks idle beside work is summed.
const IDLE_AUDITS: usize = 8;
/// A disk may be idle beside waiting work for this share of the time of [`IDLE_AUDITS`] audits, four seconds: a job that is not
/// expected to be over in time waits for the next round, and none is expected to take longer than half of one. The most that
/// 10,000 seeds show is 0.17.
const IDLE_SHARE_MAX: f64 = 0.25;

/// Figures of disks without a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskTally {
    /// Longest that best-effort work waited for a grant while its share was not zero.
    pub best_effort_wait_max: Nanos,
    /// Longest that a disk was idle beside waiting work, of four seconds.
    pub idle_beside_work_max: Nanos,
    /// Most bytes of a recording that were not durable, beyond those that its camera is ahead of its rate, as time at its rate.
    pub at_risk_max: Nanos,
}

impl DiskTally {
    /// This and another disk's.
    #[must_use]
    pub(crate) fn and(&self, other: &Self) -> Self {
        Self {
            best_effort_wait_max: self.best_effort_wait_max.max(other.best_effort_wait_max),
            idle_beside_work_max: self.idle_beside_work_max.max(other.idle_beside_work_max),
            at_risk_max: self.at_risk_max.max(other.at_risk_max),
        }
    }
}

/// The audit of one disk.
#[derive(Debug)]
pub(crate) struct DiskAudit {
    disk: usize,
    bounds: PlaneBounds,
    /// Grants of best-effort work so far.
    grants: u64,
    /// Since when such work has waited without a grant, and the grants before.
    waits: Option<(Nanos, u64)>,
    /// The share of its time in which the disk kept its promises lately, reads and recordings, and the sum at the last audit.
    promised_share: f64,
    promised: Nanos,
    /// Time it was idle while best-effort work waited, between the last audits and since.
    idle: [Nanos; IDLE_AUDITS],
    tally: DiskTally,
}

impl DiskAudit {
    pub(crate) fn new(disk: usize, bounds: PlaneBounds) -> Self {
        Self {
            disk,
            bounds,
            grants: 0,
            waits: None,
            promised_share: 0.0,
            promised: Nanos::ZERO,
            idle: [Nanos::ZERO; IDLE_AUDITS],
            tally: DiskTally::default(),
        }
    }

    pub(crate) fn tally(&self) -> DiskTally {
        self.tally
    }

    /// Best-effort work that waited is granted.
    pub(crate) fn granted(&mut self) {
        self.grants += 1;
    }

    /// The disk was idle beside work for so long.
    pub(crate) fn was_idle_beside_work(&mut self, span: Nanos) {
        let last = &mut self.idle[IDLE_AUDITS - 1];
        *last = last.saturating_add(span);
    }

    pub(crate) fn promised_share(&self) -> f64 {
        self.promised_share
    }

    /// Keeps the mean of which share of its time the disk kept its promises, of the last seconds; `promised`: that time so far.
    pub(crate) fn note_promised(&mut self, promised: Nanos, period: Nanos) {
        let before = std::mem::replace(&mut self.promised, promised);
        let now = promised.saturating_sub(before).as_secs_f64() / period.as_secs_f64();
        self.promised_share = self.promised_share * 0.8 + now * 0.2;
    }

    /// Judges the last `period`; while a fault of the disk excuses it, effects of that are forgotten.
    pub(crate) fn judge(&mut self, store: &mut StoreThread, period: Nanos, excused: bool, course: &mut Course) {
        let (disk, now) = (self.disk, course.now());
        self.waits = match self.waits {
            _ if excused || !store.best_effort_waits() => None,
            Some((since, before)) if before == self.grants => Some((since, before)),
            _ => Some((now, self.grants)),
        };
        let idle = self.idle.iter().fold(Nanos::ZERO, |sum, idle| sum.saturating_add(*idle));
        if excused {
            self.idle.fill(Nanos::ZERO);
            store.forget_overflow();
            return;
        }
        self.idle.rotate_left(1);
        self.idle[IDLE_AUDITS - 1] = Nanos::ZERO;
        self.tally.idle_beside_work_max = self.tally.idle_beside_work_max.max(idle);
        if let Some(wait_max) = self.bounds.best_effort_wait_max()
            && let Some((since, _)) = self.waits
        {
            let waited = now.saturating_sub(since);
            self.tally.best_effort_wait_max = self.tally.best_effort_wait_max.max(waited);
            if waited > wait_max {
                course.broke(Law::BestEffortLives, format!("disk {disk}: no grant since {since}"));
            }
        }
        let span = period.saturating_mul(IDLE_AUDITS as u64);
        if idle.as_secs_f64() > span.as_secs_f64() * IDLE_SHARE_MAX {
            course.broke(Law::NeverIdle, format!("disk {disk} was idle for {idle} of {span} beside work"));
        }
        let overflow = store.overflow_max();
        if overflow > 0 {
            course.broke(Law::RecordingInTime, format!("disk {disk}: {overflow} bytes beyond the buffer"));
        }
        let (at_risk, too_much) = store.at_risk_max();
        self.tally.at_risk_max = self.tally.at_risk_max.max(at_risk);
        if too_much > Nanos::ZERO {
            let what = format!("disk {disk}: {at_risk} of a recording were not durable, {too_much} too much");
            course.broke(Law::DurableInTime, what);
        }
    }
}
