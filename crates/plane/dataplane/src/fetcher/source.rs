//! Sources: the disks that contents are read from, each with its schedule, its rounds, its health, and the streams listed at it.
//!
//! Promise: a content is listed at the best of its disks, and read from the better of two copies. Not here: choice of the next read
//! (`schedule::disk`), the streams' wants (`read_ahead`), the fate of the streams of a disk that fails (`failing`, `slower`).

use std::ops::{Index, IndexMut};

use content::layout::ContentLayout;
use schedule::admission::start_cost::StartConditions;
use schedule::cycle::Grid;
use schedule::disk::best_effort::{BeWork, Commit, WorkOwner};
use schedule::disk::due_writes::DueWrite;
use schedule::disk::health::{DiskCondition, Health};
use schedule::disk::{DiskSchedule, DiskSettings};
use schedule::profile::DiskProfile;
use storage::grant::{GrantDone, Offer, StoreWork, WorkClass};
use units::{DiskFault, DiskId, JobId, Nanos};

use super::READS_MAX;
use super::read_op::ReadOp;
use super::speed::Speed;
use crate::config::PlaneConfig;
use crate::context::{PlaneContext, ppm};
use crate::control::Event;
use crate::gauges::Gauges;
use crate::message::ToAdmitter;
use crate::port::{Completion, Io};

/// All of them, by their numbers.
#[derive(Debug)]
pub(super) struct Sources(Vec<Source>);

/// One disk.
#[derive(Debug)]
pub(super) struct Source {
    id: DiskId,
    pub(super) schedule: DiskSchedule,
    pub(super) health: Health,
    /// Slots of the streams that read from it.
    pub(super) streams: Vec<u32>,
    /// Slots of the streams that wait for their first bytes, in the order in which they came.
    pub(super) starting: Vec<u32>,
    /// Reads that failed on another disk and are to be made from this one's copy.
    pub(super) retries: Vec<u32>,
    /// The level of slowdown reported last.
    pub(super) speed: Speed,
    /// Streams that ended because of it and are not reported yet.
    pub(super) shed: u64,
    rounds: Grid,
    /// The round of the blocks requested last.
    round: u64,
    spins: bool,
    last_completion: Nanos,
}

impl Sources {
    pub(super) fn new(config: &PlaneConfig, profiles: Vec<DiskProfile>, now: Nanos) -> Self {
        let ids = (0u16..).map(DiskId);
        Self(ids.zip(profiles).map(|(id, profile)| Source::new(id, config, profile, now)).collect())
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Source> {
        self.0.iter_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Source> {
        self.0.iter()
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = DiskId> + use<> {
        (0..u16::try_from(self.0.len()).expect("within limits")).map(DiskId)
    }

    pub(super) fn get_mut(&mut self, disk: DiskId) -> Option<&mut Source> {
        self.0.get_mut(usize::from(disk.0))
    }

    /// The disk at which the streams of a content are listed, all at the same.
    pub(super) fn home(&self, layout: &ContentLayout) -> Option<DiskId> {
        layout.best_disk(|_| true, |disk| self.reluctance(disk))
    }

    /// How much a disk is to be avoided where another one has the same bytes.
    pub(super) fn reluctance(&self, disk: DiskId) -> u8 {
        self[disk].health.condition().reluctance()
    }

    /// Reads of deliveries without a reservation that all disks have.
    pub(super) fn bulk_reads(&self) -> usize {
        self.0.iter().map(|disk| disk.schedule.bulk_reads()).sum()
    }

    /// A store thread has work for its disk, or has more or less of it.
    pub(super) fn offered(&mut self, offer: Offer) {
        let Some(disk) = self.get_mut(offer.disk) else { return };
        let job = offer.job;
        match (offer.work, offer.class) {
            (StoreWork::Write { bytes: 0, .. }, _) => {}
            (StoreWork::Write { bytes, position }, WorkClass::RealTime { deadline, .. }) => {
                disk.schedule.put_write(DueWrite { job, position, bytes, deadline });
            }
            (StoreWork::Write { bytes, position }, WorkClass::BestEffort) => {
                disk.schedule.put_job(BeWork::Write { job, position, bytes });
            }
            (StoreWork::Probe { reads, bytes }, _) => disk.schedule.put_job(BeWork::Probe { job, reads, bytes }),
            (StoreWork::Commit { dirty_bytes, awaited }, _) => {
                disk.schedule.put_commit(Commit { job, dirty_bytes, awaited });
            }
        }
    }

    /// A stream that is listed at one disk is listed at another.
    pub(super) fn move_stream(&mut self, slot: u32, from: DiskId, to: DiskId) {
        type List = fn(&mut Source) -> &mut Vec<u32>;
        let lists: [List; 2] = [|source| &mut source.streams, |source| &mut source.starting];
        for list in lists {
            if let Some(at) = list(&mut self[from]).iter().position(|&other| other == slot) {
                list(&mut self[from]).remove(at);
                list(&mut self[to]).push(slot);
            }
        }
    }

    /// A store thread has no work of this number for a disk any more.
    pub(super) fn withdraw(&mut self, disk: DiskId, job: JobId) {
        if let Some(disk) = self.get_mut(disk) {
            disk.schedule.remove(WorkOwner::Job(job));
        }
    }
}

impl Index<DiskId> for Sources {
    type Output = Source;

    fn index(&self, disk: DiskId) -> &Source {
        &self.0[usize::from(disk.0)]
    }
}

impl IndexMut<DiskId> for Sources {
    fn index_mut(&mut self, disk: DiskId) -> &mut Source {
        &mut self.0[usize::from(disk.0)]
    }
}

impl Source {
    fn new(id: DiskId, config: &PlaneConfig, profile: DiskProfile, now: Nanos) -> Self {
        let spins = profile.rotational;
        let rounds = Grid::new(now, config.round_of(&profile));
        let settings = DiskSettings { rounds, be_share: config.be_share };
        Self {
            id,
            schedule: DiskSchedule::new(settings, profile, now),
            health: Health::default(),
            streams: Vec::with_capacity(config.streams_max),
            starting: Vec::with_capacity(config.streams_max),
            retries: Vec::with_capacity(READS_MAX),
            speed: Speed::default(),
            shed: 0,
            rounds,
            round: 0,
            spins,
            last_completion: now,
        }
    }

    pub(super) const fn spins(&self) -> bool {
        self.spins
    }

    pub(super) const fn rounds(&self) -> &Grid {
        &self.rounds
    }

    /// True if nothing reads or writes it.
    pub(super) fn is_idle(&self) -> bool {
        let lists = [&self.streams, &self.starting, &self.retries];
        lists.iter().all(|list| list.is_empty()) && self.schedule.is_idle()
    }

    /// Gives it, idle, another profile and its round; gives the old one.
    pub(super) fn replace_profile(&mut self, profile: DiskProfile, round: Nanos, now: Nanos) -> DiskProfile {
        self.rounds = self.rounds.with_period(round);
        (self.round, self.spins) = (self.rounds.index_at(now), profile.rotational);
        self.schedule.replace_profile(profile, self.rounds)
    }

    /// The round that begins now, once, if it answers.
    pub(super) fn next_round(&mut self, now: Nanos) -> Option<u64> {
        let round = self.rounds.index_at(now);
        if round <= self.round || self.health.is_hung() {
            return None;
        }
        debug_assert!(self.rounds.start_of(round) <= now, "a round begins in time");
        self.round = round;
        Some(round)
    }

    /// The conditions that a start would meet now.
    pub(super) fn start_conditions(&self, now: Nanos) -> StartConditions {
        let round = self.rounds.index_at(now);
        let left = self.rounds.start_of(round + 1).saturating_sub(now);
        let remaining = left.as_secs_f64() / self.rounds.period().as_secs_f64();
        StartConditions { remaining, queued_seconds: self.schedule.queued_seconds(now), ..StartConditions::idle(round) }
    }

    /// True if no read of it has ended for longer than `limit`.
    pub(super) fn is_quiet(&self, limit: Nanos, now: Nanos) -> bool {
        now.saturating_sub(self.last_completion) > limit
    }

    /// True if a grant of it is out for longer than `limit`.
    pub(super) fn grant_is_out(&self, limit: Nanos, now: Nanos) -> bool {
        self.schedule.granted_since().is_some_and(|since| now.saturating_sub(since) > limit)
    }

    /// True if it has lost enough time to make regular reads late even at the speed of its profile from now on.
    pub(super) fn is_behind(&self, now: Nanos) -> bool {
        self.spins && !self.health.is_hung() && self.schedule.is_behind(now)
    }

    /// A read ended; a time of zero was not predicted. True if the disk's condition has changed.
    pub(super) fn read_done(&mut self, read: &ReadOp, completion: Completion, gauges: &Gauges) -> bool {
        let ok = completion.result.is_ok();
        let took = completion.at.saturating_sub(read.issued.max(self.last_completion));
        self.last_completion = completion.at;
        self.schedule.read_done(if ok { read.predicted } else { Nanos::ZERO }, took, read.real_time);
        let answers_again = self.health.answered();
        let changed = if ok { self.health.succeeded() } else { self.read_failed(read, completion.at, gauges) };
        answers_again || changed
    }

    /// A read failed, or brought other bytes than the disk was given. True if the disk's condition has changed.
    pub(super) fn read_failed(&mut self, read: &ReadOp, at: Nanos, gauges: &Gauges) -> bool {
        gauges.disks[usize::from(read.disk.0)].errors.add(1);
        self.health.read_failed(read.place, at)
    }

    /// A grant ended. True if the disk's condition has changed.
    pub(super) fn grant_done(&mut self, done: &GrantDone) -> bool {
        self.schedule.grant_done(done.bytes, done.started, done.ended);
        // The grant itself may have hung, with no read out to show by its answer that the disk is back.
        let answers_again = self.health.answered();
        let changed = if done.ok { self.health.succeeded() } else { self.health.write_failed(done.ended) };
        changed || answers_again
    }

    /// Reports its condition from now on to the admitter, the gauges and the log of events. One on trial is shown as erring.
    pub(super) fn tell_condition<I: Io>(&self, context: &mut PlaneContext<I>) {
        let (disk, condition) = (self.id, self.health.condition());
        context.tell_admitter(ToAdmitter::Condition { disk, condition });
        let fault = match condition {
            DiskCondition::Hung => Some(DiskFault::Hung),
            DiskCondition::Good if !self.health.is_on_trial() => None,
            _ => Some(DiskFault::Erring),
        };
        let gauges = &context.gauges.disks[usize::from(disk.0)];
        if gauges.fault() != fault {
            gauges.set_fault(fault);
            context.tell(match fault {
                None => Event::DiskRecovered { disk },
                Some(fault) => Event::DiskFailing { disk, hung: fault == DiskFault::Hung },
            });
        }
    }

    /// Applies the speed of the disk to admission, best effort and streams.
    pub(super) fn follow_speed<I: Io>(&mut self, context: &mut PlaneContext<I>) {
        let (disk, factor) = (self.id, self.schedule.cost().slowdown());
        context.gauges.disks[usize::from(disk.0)].slowdown_ppm.set(ppm(factor));
        let ended = std::mem::take(&mut self.shed);
        if ended > 0 {
            context.tell(Event::DiskOverloaded { disk, factor, ended });
        }
        let before = self.speed;
        self.speed = before.after(factor);
        if self.speed > before {
            context.tell(Event::DiskSlower { disk, factor });
        } else if self.speed < before {
            context.tell(Event::DiskFaster { disk, factor });
        }
        context.tell_admitter(ToAdmitter::Speed { disk, factor, is_behind: self.is_behind(context.now) });
    }

    /// Number of streams that end because the disk is too slow.
    pub(super) fn streams_shed<I: Io>(&mut self, ended: u64, context: &mut PlaneContext<I>) {
        let (disk, factor) = (self.id, self.schedule.cost().slowdown());
        context.gauges.disks[usize::from(disk.0)].shed_streams.add(ended);
        self.shed += ended;
        context.tell_admitter(ToAdmitter::Speed { disk, factor, is_behind: true });
    }

    pub(super) fn publish(&self, gauges: &Gauges) {
        let gauges = &gauges.disks[usize::from(self.id.0)];
        let stats = *self.schedule.stats();
        gauges.phase_nanos.iter().zip(stats.phase_nanos).for_each(|(gauge, nanos)| gauge.set(nanos));
        gauges.rt_bytes.set(stats.rt_bytes);
        gauges.be_bytes.set(stats.be_bytes);
        gauges.commits.set(stats.commits);
        let (rt, be) = self.schedule.queued();
        gauges.rt_queued.set(rt as u64);
        gauges.be_queued.set(be as u64);
        gauges.streams.set(self.streams.len() as u64);
    }
}
