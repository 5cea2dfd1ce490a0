//! The schedule of a disk: the choice of its next step.
//!
//! Reads that are due are kept by the quarter of a round of their deadlines; *slack* is the time for which all of them can wait. The head
//! continues with the next read in its sweep while the reads due earlier can wait for that, else with those due first. Work that is not
//! due is a *job*: a batch of writes with its flush, a bulk read, a probe. A job runs if it takes no longer than the slack: when no read
//! waits, or when the *budget* of best effort has saved its time. Recordings' blocks that are due are written in one sweep with one
//! commit, as soon as the reads due before them can wait for that.
//!
//! Promise: no job delays a read past its deadline by the costs known; jobs get their share. Not here: reading and writing
//! (the plane and the store thread do it), admission. See docs/decisions/0007.

pub mod best_effort;
mod budget;
pub mod cost;
pub mod due_writes;
pub mod health;
pub mod real_time;
pub mod slack;
pub mod step;
mod work;

use units::{JobId, Nanos, limits};

use crate::admission::rounds::LOOKAHEAD_ROUNDS;
use crate::cycle::Grid;
use crate::profile::DiskProfile;
use best_effort::{BeChoice, BeQueue, BeWork, Commit, JobsAllowed, WorkOwner};
use budget::DiskBudget;
use cost::{CostModel, SyncScope};
use due_writes::{DueWrite, DueWrites};
use real_time::{ReadKind, RtQueue, RtRequest};
use slack::{Buckets, Slack};
use step::{IssuedRead, Phase, ScheduleStats, Step};

/// Pieces of a best-effort read, issued together. With a single one, a drive without a cache loses a revolution after
/// each: measured on the emulated drives.
const READ_PIECES: u32 = 2;
/// Pieces of best-effort reads in flight at a spindle while no stream waits: the drive orders those in its queue by its rotation, too, and a SATA drive's
/// queue holds 32 (NCQ). Decision 0007, table of constants.
pub const BULK_PIECES: u32 = 32;
/// Best effort owes at most one part in this number of a round after jobs that took longer than expected. With half of one, uploads waited
/// for 6.5 s under viewers of segments, for their reads always wait (decision 0060, simulated).
pub const DEBT_PART: u64 = 4;
/// Best effort saves time for one part in this number of a round, or for its dearest job. Chosen.
pub const SAVED_PART: u64 = 2;
/// Rounds that are kept for delays that no model foresees: half of one. Follows from [`crate::admission::rounds::CARRY_MAX`].
const KEPT_ROUNDS: f64 = 0.5;

/// Settings of one disk's schedule.
#[derive(Debug, Clone, Copy)]
pub struct DiskSettings {
    /// The rounds in which streams read.
    pub rounds: Grid,
    /// Share of disk time best-effort work gets when it wants it, 0.0 … 0.9.
    pub be_share: f64,
}

/// The grant that is out at the store thread.
#[derive(Debug, Clone, Copy)]
struct Outstanding {
    kind: GrantKind,
    since: Nanos,
    /// Of a job, while reads waited.
    paid: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GrantKind {
    /// From `position` on.
    Write {
        position: u64,
    },
    Probe,
    Commit(SyncScope),
}

/// The scheduler of one disk.
#[derive(Debug)]
pub struct DiskSchedule {
    settings: DiskSettings,
    cost: CostModel,
    rt: RtQueue,
    writes: DueWrites,
    be: BeQueue,
    reads_in_flight: u32,
    busy_until: Nanos,
    grant: Option<Outstanding>,
    head: u64,
    budget: DiskBudget,
    /// How long after the end of the present round jobs may still use the disk.
    job_overrun: Nanos,
    /// The job that the budget covers: by when it shall run, and how long it may take.
    covered: Option<(Nanos, Nanos)>,
    phase: Phase,
    phase_since: Nanos,
    stats: ScheduleStats,
}

impl DiskSchedule {
    /// A schedule for a disk with this profile, idle at `now`.
    #[must_use]
    pub fn new(settings: DiskSettings, profile: DiskProfile, now: Nanos) -> Self {
        let sweeps = profile.rotational;
        let cost = CostModel::new(profile, settings.rounds.period());
        let owners = limits::STREAMS_MAX + limits::UPLOADS_MAX;
        Self {
            settings,
            cost,
            rt: RtQueue::new(sweeps),
            writes: DueWrites::new(limits::UPLOADS_MAX),
            be: BeQueue::new(owners),
            reads_in_flight: 0,
            busy_until: now,
            grant: None,
            head: 0,
            budget: DiskBudget::new(settings.be_share),
            job_overrun: Nanos::MAX,
            covered: None,
            phase: Phase::Idle,
            phase_since: now,
            stats: ScheduleStats::default(),
        }
    }

    /// True if nothing waits for the disk and nothing is under way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let waits = !self.rt.is_empty() || !self.writes.is_empty() || !self.be.is_empty();
        !waits && self.reads_in_flight == 0 && self.grant.is_none()
    }

    /// Gives an idle disk another profile and its rounds; gives the old one. The counts continue.
    pub fn replace_profile(&mut self, profile: DiskProfile, rounds: Grid) -> DiskProfile {
        assert!(self.is_idle(), "work under way is counted by the profile under which it began");
        self.settings.rounds = rounds;
        self.rt.set_sweeps(profile.rotational);
        (self.job_overrun, self.covered) = (Nanos::MAX, None);
        self.cost.replace_profile(profile, rounds.period())
    }

    /// A stream wants to read; replaces its earlier request.
    pub fn put_read(&mut self, request: RtRequest) {
        // A start was given room in the coming rounds, as any block is.
        let ahead = self.settings.rounds.period().saturating_mul(LOOKAHEAD_ROUNDS);
        let late = request.kind == ReadKind::Start && self.cost.profile().rotational;
        let deadline = request.deadline.saturating_add(if late { ahead } else { Nanos::ZERO });
        self.rt.put(RtRequest { deadline, ..request });
    }

    /// Something else is to be done; replaces its owner's earlier request.
    pub fn put_job(&mut self, work: BeWork) {
        if let WorkOwner::Job(job) = work.owner() {
            self.writes.remove(job);
        }
        self.be.put(work);
        debug_assert!(self.jobs_wait_once(), "a grant answers one offer of a job");
    }

    /// A recording has something of its block ready; replaces its earlier request.
    pub fn put_write(&mut self, write: DueWrite) {
        self.be.remove(WorkOwner::Job(write.job));
        self.writes.put(write);
        debug_assert!(self.jobs_wait_once(), "a grant answers one offer of a job");
    }

    fn jobs_wait_once(&self) -> bool {
        self.writes.jobs().all(|job| !self.be.wants(WorkOwner::Job(job)))
    }

    /// The store thread would commit.
    pub fn put_commit(&mut self, commit: Commit) {
        self.be.put_commit(commit);
    }

    /// Forgets everything this owner wants.
    pub fn remove(&mut self, owner: WorkOwner) {
        self.be.remove(owner);
        match owner {
            WorkOwner::Stream(slot) => self.rt.remove(slot),
            WorkOwner::Job(job) => self.writes.remove(job),
        }
    }

    /// Chooses the next action. Call until it returns [`Step::Wait`].
    pub fn next(&mut self, now: Nanos) -> Step {
        self.elapse(now);
        let step = self.next_step(now);
        if step == Step::Wait && self.reads_in_flight == 0 && self.grant.is_none() {
            self.enter(Phase::Idle, now);
        }
        step
    }

    /// After [`Step::Read`]: `bytes` were issued from `position` (zero: all there was to issue came from buffers).
    /// The request's remainder is `bytes_left` at `next_position`.
    pub fn issued(&mut self, slot: u32, issued: IssuedRead, now: Nanos) {
        if issued.real_time {
            self.rt.advance(slot, issued.advanced_bytes, issued.next_position);
            self.enter(Phase::RealTime, now);
            self.stats.rt_bytes += issued.bytes;
        } else {
            self.be.advance(WorkOwner::Stream(slot), issued.advanced_bytes, issued.next_position);
            self.enter(Phase::BestEffort, now);
            self.stats.be_bytes += issued.bytes;
        }
        if issued.bytes > 0 {
            self.begin_reads(issued.position, issued.bytes, issued.requests, now);
        }
    }

    /// True if a read may be issued now that this schedule did not choose: a read that failed on another disk.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.grant.is_none() && self.reads_in_flight < self.cost.profile().queue_depth
    }

    /// `requests` for these bytes from `position` on went to the disk.
    pub fn begin_reads(&mut self, position: u64, bytes: u64, requests: u32, now: Nanos) {
        assert!(requests > 0 && bytes > 0, "a read has bytes");
        debug_assert!(self.grant.is_none(), "a disk serves reads or a grant");
        self.reads_in_flight += requests;
        let takes = self.cost.read(self.head, position, bytes);
        self.busy_until = self.busy_until.max(now).saturating_add(takes);
        self.head = position.saturating_add(bytes);
    }

    /// True if this stream wants something of the disk.
    #[must_use]
    pub fn wants(&self, slot: u32) -> bool {
        self.rt.find(slot).is_some() || self.be.wants(WorkOwner::Stream(slot))
    }

    /// Most that best effort owes.
    const fn debt_max(&self) -> Nanos {
        Nanos(self.settings.rounds.period().0 / DEBT_PART)
    }

    /// One read completed. `took` is the time the disk spent on it alone and `predicted` the time by the profile; both
    /// zero if the read shows nothing (errors).
    pub fn read_done(&mut self, predicted: Nanos, took: Nanos, real_time: bool) {
        self.reads_in_flight = self.reads_in_flight.checked_sub(1).expect("a read was in flight");
        self.cost.observe_read(predicted, took);
        if !real_time && !self.rt.is_empty() {
            self.budget.pay(took, self.debt_max());
        }
    }

    /// The store thread used up its grant.
    pub fn grant_done(&mut self, bytes: u64, started: Nanos, ended: Nanos) {
        let Some(grant) = self.grant.take() else { return };
        let took = ended.saturating_sub(started.max(grant.since));
        if grant.paid {
            self.budget.pay(took, self.debt_max());
        }
        match grant.kind {
            GrantKind::Write { position } => {
                debug_assert!(bytes <= limits::RUN_BYTES_MAX, "a thread writes no more than it was granted");
                self.stats.be_bytes += bytes;
                self.cost.wrote(position, bytes, took);
                self.be.wrote(bytes);
                self.head = position.saturating_add(bytes);
            }
            // A grant that came too late, or found nothing to do, is handed back at once.
            GrantKind::Commit(what) if took > Nanos::ZERO => self.cost.sync_took(what, took),
            GrantKind::Commit(_) | GrantKind::Probe => {}
        }
    }

    /// When [`DiskSchedule::next`] should be called again if nothing happens before.
    #[must_use]
    pub fn next_wakeup(&self, now: Nanos) -> Option<Nanos> {
        let waiting = !self.rt.is_empty() || !self.writes.is_empty() || !self.be.is_empty();
        let busy = self.reads_in_flight > 0 || self.grant.is_some();
        if !waiting || busy {
            return None;
        }
        let rounds = &self.settings.rounds;
        Some(rounds.start_of(rounds.index_at(now) + 1))
    }

    /// The time that a read of `bytes` at `position` should take on this disk by its profile, with the head where it
    /// is.
    #[must_use]
    pub fn predicted_read(&self, position: u64, bytes: u64) -> Nanos {
        self.cost.predicted_read(self.head, position, bytes)
    }

    /// The cost model, with which admission counts.
    #[must_use]
    pub const fn cost(&self) -> &CostModel {
        &self.cost
    }

    /// Counters.
    #[must_use]
    pub const fn stats(&self) -> &ScheduleStats {
        &self.stats
    }

    /// Requests waiting: real-time and best-effort.
    #[must_use]
    pub fn queued(&self) -> (usize, usize) {
        (self.rt.len(), self.be.len())
    }

    /// How many bulk reads wait.
    #[must_use]
    pub fn bulk_reads(&self) -> usize {
        self.be.reads()
    }

    /// The earliest time from `least` on at which a further read of this size may be due: with everything that waits in time, or behind
    /// all of it.
    #[must_use]
    pub fn room_for(&self, (position, bytes): (u64, u64), least: Nanos, now: Nanos) -> Nanos {
        let profile = self.cost.profile();
        let transfer = profile.transfer_time(position, bytes).as_secs_f64();
        let seconds = profile.sweep_seconds(1.0, transfer) * self.cost.slowdown();
        self.slack_of_reads(None, now).room_for(seconds, least)
    }

    /// Disk time that everything due needs at most, in seconds, without the blocks of sessions that read whole contents: the time
    /// table keeps time for those in every round.
    #[must_use]
    pub fn queued_seconds(&self, now: Nanos) -> f64 {
        let mut buckets = Buckets::new(self.settings.rounds, now);
        self.rt.fill_placed(&mut buckets, &self.cost);
        self.writes.fill(&mut buckets, &self.cost);
        let mut slack = buckets.slack(now, self.cost.profile(), self.cost.slowdown());
        if let Some((deadline, price)) = self.covered {
            slack.keep(deadline, price);
        }
        slack.work() + self.writes.begun_seconds(&self.cost)
    }

    /// Sets for how long after the end of the present round jobs may still use the disk when no read waits: for as long as the
    /// bytes last that streams have read ahead beyond the needs of the coming rounds
    /// ([`crate::admission::disk_table::DiskTable::carry_headroom`]). Before anything is promised there is no limit.
    pub fn set_carry_headroom(&mut self, headroom: Nanos) {
        self.job_overrun = headroom;
    }

    /// Best-effort jobs get such a share of the disk's time from now on when they want it, 0.0 … 0.9.
    pub const fn set_be_share(&mut self, share: f64) {
        self.budget.set_share(share);
    }

    /// True if the disk has lost half a round against its profile, and the regular reads that wait could not all be
    /// there half a round before their time, were it as fast as its profile from now on: half a round is kept for
    /// delays that no model foresees. Neither the slowdown that was learned nor the number of starts makes this true,
    /// only reads that took longer and others that waited for them.
    #[must_use]
    pub fn is_behind(&self, now: Nanos) -> bool {
        let kept = self.settings.rounds.period().as_secs_f64() * KEPT_ROUNDS;
        let mut buckets = Buckets::near(self.settings.rounds, now);
        self.rt.fill_regular(&mut buckets, &self.cost);
        self.cost.lost_seconds() >= kept && buckets.slack(now, self.cost.profile(), 1.0).least() < kept
    }

    /// Whether a stream, or a follower that shares its reads, would have its next byte by `deadline` if its clock began to run
    /// now. Not while a grant is out: how long the store thread needs for it is only an estimate.
    #[must_use]
    pub fn can_promise(&self, slot: u32, deadline: Nanos, now: Nanos) -> bool {
        let Some(request) = self.rt.find(slot).filter(|_| self.cost.profile().rotational) else { return true };
        let deadline = request.promised(deadline);
        self.grant.is_none() && self.slack_of_reads(Some((slot, deadline)), now).from(deadline) >= 0.0
    }

    /// A stream's clock began to run: from now on its next byte is promised by `deadline`, whatever was requested
    /// before.
    pub fn promise(&mut self, slot: u32, deadline: Nanos) {
        self.rt.promise(slot, deadline);
    }

    /// The time for which the due work can wait. The request of `instead`, if one is named, counts as due at that time.
    fn slack(&self, instead: Option<(u32, Nanos)>, now: Nanos) -> Slack {
        let mut buckets = Buckets::new(self.settings.rounds, now);
        self.rt.fill(&mut buckets, instead, &self.cost);
        self.slack_with_writes(buckets, now)
    }

    /// The same without the blocks of sessions that read whole contents.
    fn slack_of_placed(&self, now: Nanos) -> Slack {
        let mut buckets = Buckets::new(self.settings.rounds, now);
        self.rt.fill_placed(&mut buckets, &self.cost);
        self.slack_with_writes(buckets, now)
    }

    /// The same, of these reads.
    fn slack_with_writes(&self, mut buckets: Buckets, now: Nanos) -> Slack {
        self.writes.fill(&mut buckets, &self.cost);
        let before = if self.writes.has_begun() {
            // Nothing comes between a batch that has begun and its commit.
            Nanos::from_secs_f64(self.writes.begun_seconds(&self.cost))
        } else {
            // A drive with a dirty cache empties it among the reads: a read may wait for all of it.
            if self.cost.profile().rotational { self.be.settling(&self.cost) } else { Nanos::ZERO }
        };
        buckets.slack(self.free_at(now).saturating_add(before), self.cost.profile(), self.cost.slowdown())
    }

    /// The same for reads, which must leave enough time for the job that the budget covers.
    fn slack_of_reads(&self, instead: Option<(u32, Nanos)>, now: Nanos) -> Slack {
        let mut slack = self.slack(instead, now);
        if let Some((deadline, price)) = self.covered {
            slack.keep(deadline, price);
        }
        slack
    }

    /// When the reads that are out should be over.
    fn free_at(&self, now: Nanos) -> Nanos {
        if self.reads_in_flight > 0 { self.busy_until.max(now) } else { now }
    }

    fn next_step(&mut self, now: Nanos) -> Step {
        if self.grant.is_some() {
            return Step::Wait;
        }
        let mut slack = self.slack(None, now);
        if self.may_write(&slack) {
            return self.write_step(now);
        }
        if let Some(step) = self.job_step(&slack, now) {
            return step;
        }
        if let Some((deadline, price)) = self.covered {
            slack.keep(deadline, price);
        }
        self.read_step(&slack, now)
    }

    /// True if the batch of due writes has begun, or can: as soon as the requests due before it, starts too, can wait for all of
    /// it, and when it is due itself.
    fn may_write(&self, slack: &Slack) -> bool {
        if self.writes.has_begun() {
            return true;
        }
        let Some(deadline) = self.writes.first_deadline() else { return false };
        let kept = self.covered.filter(|(by, _)| *by < deadline).map_or(0.0, |(_, price)| price.as_secs_f64());
        let can_wait = self.writes.seconds(&self.cost) + kept <= slack.before(deadline);
        slack.is_due(deadline) || can_wait && !self.rt.has_start()
    }

    /// The next step of the batch of due writes.
    fn write_step(&mut self, now: Nanos) -> Step {
        if self.cost.profile().rotational && self.reads_in_flight > 0 {
            return Step::Wait;
        }
        if let Some(write) = self.writes.pick(self.head) {
            self.writes.granted(&write);
            let DueWrite { job, position, bytes, .. } = write;
            return self.grant(job, bytes, GrantKind::Write { position }, Nanos::MAX, now);
        }
        self.writes.settled();
        match self.be.offered_commit() {
            Some(Commit { job, .. }) => {
                self.commit_granted();
                self.grant(job, 0, GrantKind::Commit(SyncScope::Journal), Nanos::MAX, now)
            }
            // All of it was withdrawn.
            None => self.next_step(now),
        }
    }

    /// The next step of a job, if it is time for one.
    fn job_step(&mut self, slack: &Slack, now: Nanos) -> Option<Step> {
        let head = self.head;
        let spins = self.cost.profile().rotational;
        if self.rt.is_empty() {
            if spins && self.reads_in_flight > 0 && self.phase == Phase::RealTime {
                return Some(Step::Wait); // the sweep's last reads are still out
            }
            let rounds = &self.settings.rounds;
            let end = rounds.start_of(rounds.index_at(now) + 1).saturating_add(self.job_overrun);
            let limit = end.saturating_sub(self.free_at(now)).min(nanos(slack.least()));
            if let Some(choice) = self.be.pick(JobsAllowed::Anything, limit, head, &self.cost) {
                let pieces = if spins { BULK_PIECES } else { READ_PIECES };
                return Some(self.begin_job(choice, pieces, now.saturating_add(limit), now));
            }
        } else if spins && self.be.is_dirty() {
            let limit = nanos(slack.least());
            let allowed = JobsAllowed::Batch { grows: !self.rt.has_start() };
            if let Some(choice) = self.be.pick(allowed, limit, head, &self.cost) {
                return Some(self.begin_job(choice, READ_PIECES, now.saturating_add(limit), now));
            }
        }
        // Blocks of sessions that are due later leave it its time, which is promised as theirs is.
        let (deadline, price) = self.covered?;
        let limit = nanos(slack.before(deadline).min(self.slack_of_placed(now).least())).min(price);
        let choice = self.be.pick(JobsAllowed::Front, limit, head, &self.cost)?;
        Some(self.begin_job(choice, READ_PIECES, now.saturating_add(limit), now))
    }

    /// Begins a job; reads only if no more `pieces` are in flight then.
    fn begin_job(&mut self, choice: BeChoice, pieces: u32, until: Nanos, now: Nanos) -> Step {
        let spins = self.cost.profile().rotational;
        let (job, bytes_max, kind) = match choice {
            BeChoice::Read { slot, bytes } => {
                // A read is made in two pieces that are in flight at once: with a single one, a drive without a cache
                // loses a revolution after each.
                if self.reads_in_flight + READ_PIECES > self.cost.profile().queue_depth.max(pieces) {
                    return Step::Wait;
                }
                self.enter(Phase::BestEffort, now);
                return Step::Read { slot, bytes_max: bytes, real_time: false };
            }
            _ if spins && self.reads_in_flight > 0 => return Step::Wait,
            BeChoice::Write { job, position, bytes } => {
                self.be.advance(WorkOwner::Job(job), bytes, position.saturating_add(bytes));
                (job, bytes, GrantKind::Write { position })
            }
            BeChoice::Probe { job } => {
                self.be.advance(WorkOwner::Job(job), 0, 0);
                (job, 0, GrantKind::Probe)
            }
            BeChoice::Commit { job, scope } => {
                self.commit_granted();
                (job, 0, GrantKind::Commit(scope))
            }
        };
        let step = self.grant(job, bytes_max, kind, until, now);
        let reads_wait = !self.rt.is_empty();
        self.grant.iter_mut().for_each(|grant| grant.paid = reads_wait);
        step
    }

    fn commit_granted(&mut self) {
        self.be.commit_granted();
        self.stats.commits += 1;
    }

    fn grant(&mut self, job: JobId, bytes_max: u64, kind: GrantKind, until: Nanos, now: Nanos) -> Step {
        assert!(self.grant.is_none(), "one grant at a time");
        let spins = self.cost.profile().rotational;
        debug_assert!(!spins || self.reads_in_flight == 0, "a head serves reads or a grant");
        self.enter(Phase::BestEffort, now);
        self.grant = Some(Outstanding { kind, since: now, paid: false });
        Step::Grant { job, bytes_max, until }
    }

    fn read_step(&mut self, slack: &Slack, now: Nanos) -> Step {
        if self.reads_in_flight >= self.cost.profile().queue_depth {
            return Step::Wait;
        }
        let Some(request) = self.rt.pick(slack, self.head, &self.cost) else {
            // No read can go before the writes that are due.
            return if self.writes.is_empty() { Step::Wait } else { self.write_step(now) };
        };
        self.enter(Phase::RealTime, now);
        Step::Read { slot: request.slot, bytes_max: request.bytes.min(limits::CHUNK_BYTES), real_time: true }
    }

    /// Time has passed: jobs that wait have earned their share, and may have a deadline by now.
    fn elapse(&mut self, now: Nanos) {
        let elapsed = now.saturating_sub(self.phase_since);
        self.stats.phase_nanos[self.phase as usize] += elapsed.0;
        self.phase_since = self.phase_since.max(now);
        self.covered = None;
        if self.be.is_empty() {
            return;
        }
        let saved = Nanos(self.settings.rounds.period().0 / SAVED_PART);
        let price = self.be.price(saved, self.head, &self.cost);
        self.budget.earn(elapsed, saved.max(price));
        let ahead = self.settings.rounds.period().saturating_mul(LOOKAHEAD_ROUNDS);
        self.covered = self.budget.cover(price, now.saturating_add(ahead)).map(|deadline| (deadline, price));
        debug_assert!(
            self.covered.is_none_or(|(by, _)| by <= now.saturating_add(ahead)),
            "a deadline moves no further"
        );
    }

    fn enter(&mut self, phase: Phase, now: Nanos) {
        if self.phase != phase {
            self.elapse(now);
            self.phase = phase;
        }
    }

    /// When the outstanding grant was handed out.
    #[must_use]
    pub fn granted_since(&self) -> Option<Nanos> {
        self.grant.map(|grant| grant.since)
    }
}

/// So many seconds; none if they are negative.
fn nanos(seconds: f64) -> Nanos {
    if seconds.is_finite() { Nanos::from_secs_f64(seconds.max(0.0)) } else { Nanos::MAX }
}
