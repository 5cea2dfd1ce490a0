//! The cyclic disk scheduler: which request one disk serves next.
//!
//! Seed 001 §4.2 (figures 6 and 7): two queues and three phases. In the *real-time* phase the blocks of admitted
//! streams are read in one sweep; when none is left, the *best-effort* phase serves uploads and bulk reads piece by
//! piece, looking at the clock after each, until the next round begins; with nothing to do the disk is *idle*. Beyond
//! the paper: deadlines are known, so a best-effort window may go on over the end of its round, or open inside the
//! real-time phase when its share is overdue, while every deadline still holds (`window`); a flush is a best-effort
//! operation with a learned cost.
//!
//! Promise: no best-effort work delays a real-time request past its deadline by the costs known; best-effort work gets
//! its share. Not here: reading and writing (the plane and the store thread do it), admission. See decisions/0007.

pub mod best_effort;
pub mod cost;
mod fifo;
pub mod health;
pub mod real_time;
mod window;
mod work;

use units::{Nanos, limits};

use crate::cycle::Grid;
use crate::profile::DiskProfile;
use best_effort::{BeChoice, BeQueue, BeWork, Commit, Owner};
use cost::{CostModel, Settle};
pub use fifo::FIFO_BYTES_MAX;
use real_time::{RtKey, RtQueue, RtRequest};
use window::Windows;

/// A store thread's job, as the schedule knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobKey(pub u64);

/// How a disk is scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discipline {
    /// As this module describes.
    Cyclic,
    /// For comparison (seed 001 §5.2): one queue in order of arrival, writes uncut up to [`FIFO_BYTES_MAX`].
    Fifo,
}

/// A grant that took no longer was not used: less than a drive's least flush.
const UNUSED_MAX: Nanos = Nanos::from_micros(20);

/// Pieces of a best-effort read, issued together.
const READ_PIECES: u32 = 2;

/// Settings of one disk's schedule.
#[derive(Debug, Clone, Copy)]
pub struct DiskSettings {
    /// Cyclic, or FIFO for comparison.
    pub discipline: Discipline,
    /// The rounds in which streams read.
    pub rounds: Grid,
    /// Share of disk time best-effort work gets when it wants it, 0.0 … 0.9.
    pub be_share: f64,
}

/// What the disk should do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Issue at most `bytes_max` bytes of this stream's next data, then call [`DiskSchedule::issued`].
    Read {
        /// Slot of the stream.
        slot: u32,
        /// At most this many bytes.
        bytes_max: u64,
        /// True for a guaranteed stream.
        real_time: bool,
    },
    /// Hand the store thread a grant; [`DiskSchedule::grant_done`] must follow.
    Grant {
        /// The job.
        job: JobKey,
        /// At most this many bytes (writes).
        bytes_max: u64,
        /// No piece begins later.
        until: Nanos,
    },
    /// Nothing before a completion or the next wake-up.
    Wait,
}

/// The three phases of seed 001, figure 7.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Phase {
    /// Blocks of admitted streams.
    RealTime,
    /// Uploads, copies, bulk reads.
    BestEffort,
    /// Nothing to do.
    #[default]
    Idle,
}

/// Counters and sums, incremented here and rendered elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Time spent in each phase: real-time, best-effort, idle.
    pub phase_nanos: [u64; 3],
    /// Bytes read for guaranteed streams.
    pub rt_bytes: u64,
    /// Bytes read or written without a deadline, and recordings.
    pub be_bytes: u64,
    /// Commits granted.
    pub commits: u64,
    /// Best-effort windows opened inside the real-time phase because their share was overdue.
    pub forced_windows: u64,
}

/// What is out at the store thread.
#[derive(Debug, Clone, Copy)]
struct Outstanding {
    job: JobKey,
    kind: GrantKind,
    since: Nanos,
    /// Where the head will be.
    position: u64,
}

/// How the next thing to do in a window is chosen.
type Pick = fn(&mut BeQueue, Nanos, Nanos, u64, &CostModel) -> Option<BeChoice>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GrantKind {
    Write,
    RealTimeWrite { deadline: Nanos },
    Probe,
    Commit(Settle),
}

/// The scheduler of one disk.
#[derive(Debug)]
pub struct DiskSchedule {
    settings: DiskSettings,
    cost: CostModel,
    rt: RtQueue,
    be: BeQueue,
    reads_in_flight: u32,
    /// What the read issued last should take, and the one before it.
    last_read: Nanos,
    read_before: Nanos,
    grant: Option<Outstanding>,
    head: u64,
    windows: Windows,
    phase: Phase,
    phase_since: Nanos,
    /// Arrival order for the FIFO comparison.
    arrivals: Vec<Owner>,
    stats: Stats,
}

impl DiskSchedule {
    /// A schedule for a disk with this profile, idle at `now`.
    #[must_use]
    pub fn new(settings: DiskSettings, profile: DiskProfile, now: Nanos) -> Self {
        let sweeps = profile.rotational;
        let mut cost = CostModel::new(profile);
        cost.limit_commit(Nanos(settings.rounds.period().0 / 2));
        let owners = limits::STREAMS_MAX + limits::UPLOADS_MAX;
        Self {
            settings,
            cost,
            rt: RtQueue::new(sweeps),
            be: BeQueue::new(owners),
            reads_in_flight: 0,
            last_read: Nanos::ZERO,
            read_before: Nanos::ZERO,
            grant: None,
            head: 0,
            windows: Windows::new(sweeps, now),
            phase: Phase::Idle,
            phase_since: now,
            arrivals: Vec::with_capacity(2 * owners),
            stats: Stats::default(),
        }
    }

    /// A stream (or recording) wants real-time service; replaces its earlier request.
    pub fn put_real_time(&mut self, request: RtRequest) {
        let owner = match request.key {
            RtKey::Stream(slot) => Owner::Stream(slot),
            RtKey::Job(job) => Owner::Job(job),
        };
        self.arrive(owner);
        self.rt.put(request);
    }

    /// Somebody wants best-effort service; replaces its earlier request.
    pub fn put_best_effort(&mut self, work: BeWork) {
        let owner = match work {
            BeWork::Read { slot, .. } => Owner::Stream(slot),
            BeWork::Write { job, .. } | BeWork::Probe { job, .. } => Owner::Job(job),
        };
        self.arrive(owner);
        self.be.put(work);
    }

    /// The store thread would commit.
    pub fn put_commit(&mut self, commit: Commit) {
        self.arrive(Owner::Job(commit.job));
        self.be.put_commit(commit);
    }

    /// Forgets everything this owner wants.
    pub fn remove(&mut self, owner: Owner) {
        self.arrivals.retain(|other| *other != owner);
        self.be.remove(owner);
        let read = self.rt.remove(match owner {
            Owner::Stream(slot) => RtKey::Stream(slot),
            Owner::Job(job) => RtKey::Job(job),
        });
        if read {
            self.rt.find_nothing();
        }
    }

    /// What to do now. Call until it says [`Step::Wait`].
    pub fn next(&mut self, now: Nanos) -> Step {
        let step = match self.settings.discipline {
            Discipline::Cyclic => self.next_cyclic(now),
            Discipline::Fifo => self.next_fifo(now),
        };
        if step == Step::Wait && self.reads_in_flight == 0 && self.grant.is_none() {
            self.enter(Phase::Idle, now);
        }
        step
    }

    /// After [`Step::Read`]: `bytes` were issued from `position` (zero: all there was to issue came from buffers).
    /// The request's remainder is `bytes_left` at `next_position`.
    pub fn issued(&mut self, slot: u32, issued: Issued, now: Nanos) {
        let owner = Owner::Stream(slot);
        if issued.real_time {
            self.rt.advance(RtKey::Stream(slot), issued.advanced_bytes, issued.next_position);
            self.enter(Phase::RealTime, now);
            self.stats.rt_bytes += issued.bytes;
        } else {
            self.be.advance(owner, issued.advanced_bytes, issued.next_position);
            self.enter(Phase::BestEffort, now);
            self.stats.be_bytes += issued.bytes;
        }
        if issued.bytes > 0 {
            self.reads_in_flight += issued.requests;
            self.read_before = self.last_read;
            self.last_read = self.cost.read(self.head, issued.position, issued.bytes);
            self.head = issued.position.saturating_add(issued.bytes);
        }
        self.forget_arrival_if_served(owner);
    }

    /// The next `bytes` that a stream wants were in the buffers: what is left of its request lies at `next_position`.
    pub fn found(&mut self, slot: u32, bytes: u64, next_position: u64) {
        self.rt.pass(RtKey::Stream(slot), bytes, next_position);
        self.forget_arrival_if_served(Owner::Stream(slot));
    }

    /// One read completed. `took` is the time the disk spent on it alone and `predicted` what the profile says;
    /// both zero if it tells nothing (errors).
    pub fn read_done(&mut self, predicted: Nanos, took: Nanos, real_time: bool) {
        self.reads_in_flight = self.reads_in_flight.checked_sub(1).expect("a read was in flight");
        self.cost.observe_read(predicted, took);
        // Deliveries do not use up the share of a store thread's work that starves behind them.
        if !real_time && !self.be.starves() {
            self.pay(took);
        }
    }

    /// The store thread used up its grant. For a recording's, the deadline it had.
    pub fn grant_done(&mut self, bytes: u64, started: Nanos, ended: Nanos) -> Option<Nanos> {
        let grant = self.grant.take()?;
        let took = ended.saturating_sub(started.max(grant.since));
        self.pay(took);
        match grant.kind {
            GrantKind::Write | GrantKind::RealTimeWrite { .. } => {
                self.stats.be_bytes += bytes;
                self.cost.wrote(grant.position, bytes, took);
                self.be.wrote(bytes);
                self.head = grant.position.saturating_add(bytes);
            }
            // A grant that came too late, or found nothing to do, was handed back unused.
            GrantKind::Commit(what) if took > UNUSED_MAX => self.cost.settled(what, took),
            GrantKind::Commit(_) | GrantKind::Probe => {}
        }
        match grant.kind {
            GrantKind::RealTimeWrite { deadline } => Some(deadline),
            GrantKind::Write | GrantKind::Probe | GrantKind::Commit(_) => None,
        }
    }

    /// When [`DiskSchedule::next`] should be asked again if nothing happens before.
    #[must_use]
    pub fn next_wakeup(&self, now: Nanos) -> Option<Nanos> {
        let waiting = !self.rt.is_empty() || !self.be.is_empty();
        let busy = self.reads_in_flight > 0 || self.grant.is_some();
        if !waiting || busy {
            return None;
        }
        let rounds = &self.settings.rounds;
        Some(rounds.start_of(rounds.index_at(now) + 1))
    }

    /// What a read of `bytes` at `position` should take on this disk by its profile, with the head where it is.
    #[must_use]
    pub fn predicted_read(&self, position: u64, bytes: u64) -> Nanos {
        self.cost.predicted_read(self.head, position, bytes)
    }

    /// The cost model: what admission counts with.
    #[must_use]
    pub const fn cost(&self) -> &CostModel {
        &self.cost
    }

    /// Counters.
    #[must_use]
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The phase it is in.
    #[must_use]
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// Requests waiting: real-time and best-effort.
    #[must_use]
    pub fn queued(&self) -> (usize, usize) {
        (self.rt.len(), self.be.len())
    }

    /// Disk time the waiting real-time requests need, in seconds, at a guess from their number and bytes.
    #[must_use]
    pub fn queued_seconds(&self) -> f64 {
        let profile = self.cost.profile();
        let hop = profile.access_time(profile.capacity.0 / 8).as_secs_f64();
        let (requests, bytes) = self.rt.to_read();
        let transfer = profile.transfer_time(self.head, bytes).as_secs_f64();
        #[allow(clippy::cast_precision_loss, reason = "an estimate")]
        let seeks = requests as f64 * hop;
        (transfer + seeks) * self.cost.slowdown()
    }

    /// Whether a stream whose clock began to run now would have its next byte by `deadline`. Not while a store thread
    /// has the head: how long it keeps it is only expected.
    #[must_use]
    pub fn can_promise(&self, slot: u32, deadline: Nanos, now: Nanos) -> bool {
        let Some(request) = self.rt.find(RtKey::Stream(slot)) else { return true };
        if self.grant.is_some() && self.cost.profile().rotational {
            return false;
        }
        // A drive may serve the later of two reads first. If that was this stream's, another's is still out, and from
        // there is a way back (simulator, seed 1896).
        let overtook = self.reads_in_flight > 0 && self.rt.serves(request.key);
        let other = if overtook { self.read_before } else { Nanos::ZERO };
        // A drive with a dirty cache empties it among the reads: a read may wait for all of it (simulator, seed 5845).
        let dirty = if self.cost.profile().rotational { self.be.settling(&self.cost) } else { Nanos::ZERO };
        let free_at = self.free_at(now).saturating_add(other).saturating_add(dirty).max(self.lent_until());
        self.rt.can_promise(request, deadline, free_at, self.head, &self.cost)
    }

    /// A stream's clock began to run: what it still wants is due then, not when it was asked for, and promised from now
    /// on. Left a start, it gave way to every promise and ran dry (simulator, seed 7329: the first bytes were in the
    /// buffers already).
    pub fn promise(&mut self, slot: u32, deadline: Nanos) {
        if let Some(request) = self.rt.find(RtKey::Stream(slot)).copied() {
            self.rt.put(RtRequest { deadline, starting: false, ..request });
        }
    }

    fn next_cyclic(&mut self, now: Nanos) -> Step {
        self.accrue(now);
        if self.grant.is_some() {
            return Step::Wait;
        }
        if let Some(step) = self.window_goes_on(now) {
            return step;
        }
        if !self.rt.is_empty() {
            return self.lent_window(now).unwrap_or_else(|| self.real_time_step(now));
        }
        if self.reads_in_flight > 0 && self.cost.profile().rotational && self.phase == Phase::RealTime {
            return Step::Wait; // the sweep's last reads are still out
        }
        self.quiet_window(now)
    }

    fn real_time_step(&mut self, now: Nanos) -> Step {
        if self.reads_in_flight >= self.cost.profile().queue_depth {
            return Step::Wait;
        }
        let Some(request) = self.rt.pick(self.free_at(now), self.head, &self.cost) else { return Step::Wait };
        match request.key {
            RtKey::Stream(slot) => {
                self.enter(Phase::RealTime, now);
                Step::Read { slot, bytes_max: request.bytes.min(limits::CHUNK_BYTES), real_time: true }
            }
            RtKey::Job(job) => {
                if self.reads_in_flight > 0 && self.cost.profile().rotational {
                    return Step::Wait;
                }
                self.enter(Phase::RealTime, now);
                self.rt.remove(request.key);
                self.hand_out(job, GrantKind::RealTimeWrite { deadline: request.deadline }, request.position, now);
                Step::Grant { job, bytes_max: request.bytes.min(limits::RUN_BYTES_MAX), until: Nanos::MAX }
            }
        }
    }

    fn best_effort_step(&mut self, now: Nanos, end: Nanos) -> Step {
        self.best_effort_choice(now, end, BeQueue::pick)
    }

    fn best_effort_choice(&mut self, now: Nanos, end: Nanos, pick: Pick) -> Step {
        // A read comes in two pieces, both in flight at once: with one, a drive without a cache loses a turn after each.
        if self.reads_in_flight + READ_PIECES > self.cost.profile().queue_depth.max(READ_PIECES) {
            return Step::Wait;
        }
        let Some(choice) = pick(&mut self.be, now, end, self.head, &self.cost) else { return Step::Wait };
        let exclusive = !matches!(choice, BeChoice::Read { .. });
        if exclusive && self.reads_in_flight > 0 && self.cost.profile().rotational {
            return Step::Wait;
        }
        self.enter(Phase::BestEffort, now);
        match choice {
            BeChoice::Read { slot, bytes } => Step::Read { slot, bytes_max: bytes, real_time: false },
            BeChoice::Write { job, bytes } => {
                let position = self.position_of(job);
                self.be.advance(Owner::Job(job), bytes, position.saturating_add(bytes));
                self.hand_out(job, GrantKind::Write, position, now);
                Step::Grant { job, bytes_max: bytes, until: end }
            }
            BeChoice::Probe { job } => {
                self.be.advance(Owner::Job(job), 0, 0);
                self.hand_out(job, GrantKind::Probe, self.head, now);
                Step::Grant { job, bytes_max: 0, until: end }
            }
            BeChoice::Commit { job, settles } => {
                self.be.commit_granted();
                self.stats.commits += 1;
                self.hand_out(job, GrantKind::Commit(settles), self.head, now);
                Step::Grant { job, bytes_max: 0, until: end }
            }
        }
    }

    /// When the read that is out should be over: what is chosen now is served behind it. Left out of the test whether
    /// deadlines hold, it cost one 10 ms (simulator, seed 1803).
    fn free_at(&self, now: Nanos) -> Nanos {
        if self.reads_in_flight > 0 { now.saturating_add(self.last_read) } else { now }
    }

    const fn phase_index(&self) -> usize {
        match self.phase {
            Phase::RealTime => 0,
            Phase::BestEffort => 1,
            Phase::Idle => 2,
        }
    }

    fn hand_out(&mut self, job: JobKey, kind: GrantKind, position: u64, now: Nanos) {
        debug_assert!(self.grant.is_none(), "one grant at a time");
        self.windows.granted_at = now;
        self.grant = Some(Outstanding { job, kind, since: now, position });
    }

    fn position_of(&self, job: JobKey) -> u64 {
        self.be.position_of(job).or_else(|| self.rt.find(RtKey::Job(job)).map(|r| r.position)).unwrap_or(self.head)
    }

    /// The job a grant is out for.
    #[must_use]
    pub fn granted(&self) -> Option<JobKey> {
        self.grant.map(|grant| grant.job)
    }

    /// When the outstanding grant was handed out.
    #[must_use]
    pub fn granted_since(&self) -> Option<Nanos> {
        self.grant.map(|grant| grant.since)
    }
}

/// What the plane did with a [`Step::Read`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Issued {
    /// As in the step.
    pub real_time: bool,
    /// Position of the first byte read from the disk.
    pub position: u64,
    /// Bytes asked from the disk (zero if they were in the buffers already).
    pub bytes: u64,
    /// Requests that went to the disk: each is answered by one [`DiskSchedule::read_done`].
    pub requests: u32,
    /// By how much the stream's request shrank: bytes read, and bytes found in the buffers.
    pub advanced_bytes: u64,
    /// Where the stream's next byte lies.
    pub next_position: u64,
}
