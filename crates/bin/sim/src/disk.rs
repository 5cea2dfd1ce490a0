//! A disk of the world: a drive, its requests in flight, and the owner of each.
//!
//! Not here: how long a drive takes and how it fails (`drive`).

use std::ops::Range;

use units::Nanos;

use crate::drive::{CommandEnd, CommandOutcome, Drive, DriveRequest, FaultRange, Op};

/// Time between two commands that take longer.
const SPIKE_PERIOD: Nanos = Nanos::from_secs(1);

/// All that is wrong with a disk.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DiskFaults {
    /// Factor by which everything takes longer.
    pub(crate) slower: f64,
    /// Time by which one command in each second takes longer.
    pub(crate) spike: Nanos,
    /// It does not answer.
    pub(crate) hangs: bool,
    /// Ranges that cannot be read or written.
    pub(crate) bad: Vec<FaultRange>,
    /// It gives other bytes there than were written.
    pub(crate) lies: Range<u64>,
}

impl Default for DiskFaults {
    fn default() -> Self {
        Self { slower: 1.0, spike: Nanos::ZERO, hangs: false, bad: Vec::new(), lies: 0..0 }
    }
}

/// A drive and the requests it has.
#[derive(Debug)]
pub(crate) struct SimDisk {
    drive: Drive,
    faults: DiskFaults,
    in_flight: Vec<DriveRequest>,
    completions: Vec<CommandEnd>,
    /// Time of the next call that the drive needs: computed once, and read often.
    due: Option<Nanos>,
    spent: Spent,
    spent_until: Nanos,
}

/// Time of a disk, by its use.
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

    /// Time spent since `before`.
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
            faults: DiskFaults::default(),
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

    /// Time of the next completion, or of the next call that the drive needs.
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        self.due
    }

    /// Appends the requests completed by `now`.
    pub(crate) fn advance(&mut self, now: Nanos, served: &mut Vec<ServedRequest>) {
        self.spend(now);
        self.drive.complete(now, &mut self.completions);
        for completion in self.completions.drain(..) {
            let place = self.in_flight.iter().position(|r| r.tag == completion.tag);
            let request = self.in_flight.swap_remove(place.expect("a drive ends only requests it was given"));
            served.push(ServedRequest { request, ok: completion.outcome == CommandOutcome::Ok });
        }
        self.due = self.drive.next_wakeup();
    }

    /// Its time until `now`, by use.
    pub(crate) fn spent(&mut self, now: Nanos) -> Spent {
        self.spend(now);
        self.spent
    }

    fn spend(&mut self, now: Nanos) {
        *self.spent.place(&self.in_flight) += now.saturating_sub(self.spent_until);
        self.spent_until = self.spent_until.max(now);
    }

    /// True if one of these parts, each a position and bytes, brings other bytes than were written.
    pub(crate) fn lies(&self, parts: &[(u64, u64)]) -> bool {
        parts.iter().any(|(from, bytes)| *from < self.faults.lies.end && self.faults.lies.start < from + bytes)
    }

    /// These are its faults from now on, and no others.
    pub(crate) fn set_faults(&mut self, faults: DiskFaults, now: Nanos) {
        let before = std::mem::replace(&mut self.faults, faults);
        let DiskFaults { slower, spike, hangs, bad, lies: _ } = &self.faults;
        if *bad != before.bad {
            self.drive.clear_faults();
            bad.iter().for_each(|range| self.drive.add_fault(*range));
        }
        if *spike != before.spike {
            self.drive.set_spike(*spike, SPIKE_PERIOD, now);
        }
        if (*slower - before.slower).abs() > 0.0 {
            self.drive.set_slow(*slower, now);
        }
        match (before.hangs, *hangs) {
            (false, true) => self.drive.hang(now),
            (true, false) => self.drive.revive(now),
            _ => {}
        }
        self.due = self.drive.next_wakeup();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::{DriveProfile, FaultKind, Op, Parameters};

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
    fn each_submitted_request_ends_once() {
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
        disk.set_faults(DiskFaults { hangs: true, ..DiskFaults::default() }, MS(0));
        disk.submit(read(1, 5 << 30), MS(1));
        assert_eq!(run(&mut disk, MS(10_000)), []);
        disk.set_faults(DiskFaults::default(), MS(10_000));
        assert_eq!(run(&mut disk, MS(10_100)), [(1, true)]);
        let bad = vec![FaultRange { start: 5 << 30, bytes: 4096, kind: FaultKind::Both, delay: MS(50) }];
        disk.set_faults(DiskFaults { bad, ..DiskFaults::default() }, MS(10_100));
        disk.submit(read(2, 5 << 30), MS(11_000));
        assert_eq!(run(&mut disk, MS(12_000)), [(2, false)]);
        disk.set_faults(DiskFaults::default(), MS(12_000));
        disk.submit(read(3, 5 << 30), MS(12_000));
        assert_eq!(run(&mut disk, MS(13_000)), [(3, true)]);
    }
}
