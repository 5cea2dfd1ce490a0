//! Faults come and go; this module decides which streams they excuse, so that a law is relaxed only for the streams of a fault.

use units::Nanos;

use crate::contents::SimContent;
use crate::course::Course;
use crate::disk::DiskFaults;
use crate::disk_side::DiskSide;
use crate::drive::{FaultKind, FaultRange};
use crate::events::ControlAction;
use crate::ledger::{Ledger, RequestedDelivery};
use crate::load::{Fault, FaultAt, MARGIN_SHARE, RECOVERY, SHARE_MEAN};
use crate::log::LogKind;

/// The faults of a run.
#[derive(Debug)]
pub(crate) struct RunFaults {
    all: Vec<FaultAt>,
    /// Those that are on now, and which tenth of its disk each of them spoils, if it spoils one.
    on: Vec<usize>,
    tenths: Vec<u64>,
    /// Every content lies on all disks.
    mirrored: bool,
    /// Until when a disk's faults excuse its streams.
    excused: Vec<Nanos>,
    /// Until when new deliveries are excused on each disk: its slowdown is not known yet, and their start is promised from its
    /// known speed.
    newcomers_excused: Vec<Nanos>,
    /// Until when more than one copy of a mirrored unit may be missing, or a disk is slow.
    mirror_excused: Nanos,
}

impl RunFaults {
    pub(crate) fn new(all: Vec<FaultAt>, disks: usize, mirrored: bool) -> Self {
        Self {
            on: Vec::new(),
            tenths: vec![0; all.len()],
            all,
            mirrored,
            excused: vec![Nanos::ZERO; disks],
            newcomers_excused: vec![Nanos::ZERO; disks],
            mirror_excused: Nanos::ZERO,
        }
    }

    /// Schedules all of them.
    pub(crate) fn schedule(&self, course: &mut Course) {
        for (index, fault) in self.all.iter().enumerate() {
            course.act_in(fault.at, ControlAction::FaultBegins(index));
        }
    }

    /// This fault is on from now on.
    pub(crate) fn begin(&mut self, index: usize, course: &mut Course) -> FaultAt {
        let begun @ FaultAt { lasts, fault, .. } = self.all[index];
        course.log(LogKind::Fault, index as u64, 1, || format!("{fault:?} for {lasts}"));
        self.on.push(index);
        if matches!(fault, Fault::BadSectors { .. } | Fault::Lies { .. }) {
            self.tenths[index] = course.demand().below(9);
        }
        course.act_in(lasts, ControlAction::FaultEnds(index));
        begun
    }

    /// It is over.
    pub(crate) fn end(&mut self, index: usize, course: &mut Course) -> Fault {
        let fault = self.all[index].fault;
        course.log(LogKind::Fault, index as u64, 0, || format!("{fault:?} is over"));
        self.on.retain(|other| *other != index);
        fault
    }

    /// Gives a disk all its faults that are on, whichever of them has begun or ended.
    pub(crate) fn apply(&self, disk: usize, side: &mut DiskSide, now: Nanos) {
        let mut all = DiskFaults::default();
        let bad = |start, bytes, micros| FaultRange {
            start,
            bytes,
            kind: FaultKind::Both,
            delay: Nanos::from_micros(micros),
        };
        for &index in self.on.iter().filter(|index| self.all[**index].fault.drive() == Some(disk)) {
            let tenth = side.tenth(self.tenths[index]);
            match self.all[index].fault {
                Fault::BadSectors { .. } => all.bad.push(bad(tenth.start, tenth.end - tenth.start, 50_000)),
                Fault::Lies { .. } => all.lies = tenth,
                Fault::Dead { .. } => all.bad.push(bad(0, side.capacity(), 100)),
                Fault::Hang { .. } => all.hangs = true,
                Fault::Slow { factor, .. } => all.slower = all.slower.max(factor),
                Fault::Spikes { extra, .. } => all.spike = all.spike.max(extra),
                Fault::PlaneLate | Fault::ReportsFull | Fault::Truncate { .. } | Fault::Rewrite { .. } => {}
            }
        }
        side.set_faults(all, now);
    }

    /// A fault of a disk has begun: excuses its streams until it is over and made up for. A mirror's streams are excused only if the
    /// disk is slow, or another disk is excused too. `promised`: the share of its time in which the disk kept its promises lately.
    pub(crate) fn excuse(
        &mut self,
        disk: usize,
        FaultAt { lasts, fault, .. }: FaultAt,
        promised: f64,
        now: Nanos,
        ledger: &mut Ledger,
    ) {
        let until = now.saturating_add(lasts).saturating_add(RECOVERY);
        let on_disk = |stream: &RequestedDelivery| usize::from(stream.disk.0) == disk;
        // A disk that is slower, but has time to spare.
        if matches!(fault, Fault::Slow { factor, .. } if factor * promised <= MARGIN_SHARE) {
            self.newcomers_excused[disk] = self.newcomers_excused[disk].max(until);
            // Reads for new streams are not in that mean yet.
            ledger.excuse_disk(until, |stream| on_disk(stream) && now.saturating_sub(stream.at) < SHARE_MEAN);
            return;
        }
        let only_one = self.excused.iter().enumerate().all(|(other, excused)| other == disk || *excused <= now);
        self.excused[disk] = self.excused[disk].max(until);
        if self.mirrored {
            if only_one && !matches!(fault, Fault::Slow { .. } | Fault::Spikes { .. }) {
                return;
            }
            self.mirror_excused = self.mirror_excused.max(until);
        }
        ledger.excuse_disk(until, |stream| self.mirrored || on_disk(stream));
    }

    /// True while a disk's faults excuse its streams.
    pub(crate) fn disk_is_excused(&self, disk: usize, now: Nanos) -> bool {
        self.excused[disk] > now
    }

    /// Until when a new delivery of a content is excused.
    pub(crate) fn excused_until(&self, content: &SimContent) -> Nanos {
        let disk = usize::from(content.disk.0);
        if content.is_mirrored() { self.mirror_excused } else { self.excused[disk].max(self.newcomers_excused[disk]) }
    }
}
