//! A disk of the world: a drive, what is in flight on it, and whose each request is.
//!
//! Not here: how long a drive takes and how it fails (`drive`).

use units::Nanos;

use crate::drive::{CommandEnd, CommandOutcome, Drive, DriveRequest, FaultKind, FaultRange, Op};

/// A drive and the requests it has.
#[derive(Debug)]
pub(crate) struct SimDisk {
    drive: Drive,
    in_flight: Vec<DriveRequest>,
    completions: Vec<CommandEnd>,
    /// When the drive wants to be asked again: it is told once, and asked often.
    due: Option<Nanos>,
    spent: Spent,
    spent_until: Nanos,
}

/// What a disk's time went to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    /// A read was out.
    pub reading: Nanos,
    /// No read was out, but a write.
    pub writing: Nanos,
    /// Only a flush was out.
    pub flushing: Nanos,
    /// Nothing was out.
    pub idle: Nanos,
}

impl Spent {
    fn place(&mut self, in_flight: &[DriveRequest]) -> &mut Nanos {
        let any = |of: fn(Op) -> bool| in_flight.iter().any(|request| of(request.op));
        match () {
            () if any(|op| op == Op::Read) => &mut self.reading,
            () if any(|op| op != Op::Flush) => &mut self.writing,
            () if in_flight.is_empty() => &mut self.idle,
            () => &mut self.flushing,
        }
    }

    /// This and another disk's.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            reading: self.reading.saturating_add(other.reading),
            writing: self.writing.saturating_add(other.writing),
            flushing: self.flushing.saturating_add(other.flushing),
            idle: self.idle.saturating_add(other.idle),
        }
    }

    /// All of it.
    #[must_use]
    pub fn total(&self) -> Nanos {
        self.reading.saturating_add(self.writing).saturating_add(self.flushing).saturating_add(self.idle)
    }

    /// What was spent since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            reading: self.reading.saturating_sub(before.reading),
            writing: self.writing.saturating_sub(before.writing),
            flushing: self.flushing.saturating_sub(before.flushing),
            idle: self.idle.saturating_sub(before.idle),
        }
    }
}

/// A request that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServedRequest {
    pub(crate) request: DriveRequest,
    pub(crate) ok: bool,
}

impl SimDisk {
    pub(crate) fn new(drive: Drive) -> Self {
        Self {
            drive,
            in_flight: Vec::new(),
            completions: Vec::new(),
            due: None,
            spent: Spent::default(),
            spent_until: Nanos::ZERO,
        }
    }

    pub(crate) fn submit(&mut self, request: DriveRequest, now: Nanos) {
        self.spend(now);
        self.in_flight.push(request);
        self.drive.submit(request, now);
        self.due = self.drive.next_wakeup();
    }

    /// Requests not over.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// When something will be over, or the drive wants to be asked.
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        self.due
    }

    /// Appends what is over by `now`.
    pub(crate) fn advance(&mut self, now: Nanos, served: &mut Vec<ServedRequest>) {
        self.spend(now);
        self.drive.complete(now, &mut self.completions);
        for completion in self.completions.drain(..) {
            let place = self.in_flight.iter().position(|r| r.tag == completion.tag);
            let request = self.in_flight.swap_remove(place.expect("a drive ends only what it was given"));
            served.push(ServedRequest { request, ok: completion.outcome == CommandOutcome::Ok });
        }
        self.due = self.drive.next_wakeup();
    }

    /// What its time until `now` went to.
    pub(crate) fn spent(&mut self, now: Nanos) -> Spent {
        self.spend(now);
        self.spent
    }

    fn spend(&mut self, now: Nanos) {
        *self.spent.place(&self.in_flight) += now.saturating_sub(self.spent_until);
        self.spent_until = self.spent_until.max(now);
    }

    /// From now on everything takes `factor` times as long.
    pub(crate) fn slow(&mut self, factor: f64, now: Nanos) {
        self.drive.set_slow(factor, now);
        self.due = self.drive.next_wakeup();
    }

    /// It does not answer any more.
    pub(crate) fn hang(&mut self, now: Nanos) {
        self.drive.hang(now);
        self.due = None;
    }

    /// Every `period`, a command takes `extra` longer; zero `extra`: no more.
    pub(crate) fn spike(&mut self, extra: Nanos, period: Nanos, now: Nanos) {
        self.drive.set_spike(extra, period, now);
    }

    /// Reads and writes of these bytes fail, each after `delay`.
    pub(crate) fn spoil(&mut self, start: u64, bytes: u64, delay: Nanos) {
        self.drive.add_fault(FaultRange { start, bytes, kind: FaultKind::Both, delay });
    }

    /// Everything is as it should be again.
    pub(crate) fn heal(&mut self, now: Nanos) {
        self.drive.clear_faults();
        self.drive.set_spike(Nanos::ZERO, Nanos::ZERO, now);
        self.drive.set_slow(1.0, now);
        if !self.drive.is_on() {
            self.drive.revive(now);
        }
        self.due = self.drive.next_wakeup();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::{DriveProfile, Op, Parameters};

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    fn disk() -> SimDisk {
        SimDisk::new(Drive::new(Parameters::of(DriveProfile::Desktop), 1).expect("a profile is consistent"))
    }

    fn read(tag: u64, offset: u64) -> DriveRequest {
        DriveRequest { tag, op: Op::Read, offset, bytes: 1 << 20 }
    }

    fn run(disk: &mut SimDisk, until: Nanos) -> Vec<(u64, bool)> {
        let mut served = Vec::new();
        while let Some(at) = disk.next_event().filter(|at| *at <= until) {
            disk.advance(at, &mut served);
        }
        served.iter().map(|s| (s.request.tag, s.ok)).collect()
    }

    #[test]
    fn what_is_submitted_ends_once() {
        let mut disk = disk();
        disk.submit(read(1, 5 << 30), MS(0));
        disk.submit(read(2, 9 << 30), MS(0));
        assert_eq!(disk.in_flight(), 2);
        let mut ends = run(&mut disk, MS(100));
        ends.sort_unstable();
        assert_eq!(ends, [(1, true), (2, true)]);
        assert_eq!(disk.in_flight(), 0);
    }

    #[test]
    fn a_silent_disk_answers_when_it_is_healed_and_bad_bytes_err() {
        let mut disk = disk();
        disk.hang(MS(0));
        disk.submit(read(1, 5 << 30), MS(1));
        assert_eq!(run(&mut disk, MS(10_000)), []);
        disk.heal(MS(10_000));
        assert_eq!(run(&mut disk, MS(10_100)), [(1, true)]);
        disk.spoil(5 << 30, 4096, MS(50));
        disk.submit(read(2, 5 << 30), MS(11_000));
        assert_eq!(run(&mut disk, MS(12_000)), [(2, false)]);
        disk.heal(MS(12_000));
        disk.submit(read(3, 5 << 30), MS(12_000));
        assert_eq!(run(&mut disk, MS(13_000)), [(3, true)]);
    }
}
